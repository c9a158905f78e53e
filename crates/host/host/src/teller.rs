//! Who tells a host how an interface is to be configured.

/// Of two, the first counts more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Teller {
    /// A DHCP server.
    Dhcp,
    /// A router.
    Router,
}
