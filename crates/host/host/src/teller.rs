//! Who tells a host how an interface is to be configured.

/// Of both, the first counts more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Teller {
    /// A DHCP server.
    Dhcp,
    /// A router.
    Router,
}

impl Teller {
    /// Both of them.
    pub(crate) const ALL: [Teller; 2] = [Teller::Dhcp, Teller::Router];
}
