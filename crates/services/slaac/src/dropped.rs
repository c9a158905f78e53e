//! Why something that a router said was dropped: each has one name, and is counted under it.

/// What was dropped, and why. The rest of its advertisement is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// The whole advertisement: its source is no link-local address (RFC 4861 6.1.2).
    NotLinkLocal,
    /// A prefix that nobody can have an address in: link-local, multicast, of a length beyond 128.
    BadPrefix,
    /// A prefix to form addresses from, and its length leaves no room for an identifier of 64 bits
    /// (RFC 4862 5.5.3 d).
    BadPrefixLength,
    /// An address would be preferred for longer than it is valid (RFC 4862 5.5.3 c).
    BadLifetimes,
    /// An address would be valid for less than two hours, and has longer (RFC 4862 5.5.3 e).
    ShortLifetime,
    /// An MTU below 1280, or above what the port has.
    BadMtu,
    /// A route to what is no place, or with a preference that is reserved (RFC 4191 2.3).
    BadRoute,
    /// A server of names that is no host.
    BadServer,
    /// A route or servers of names whose length does not fit.
    BadOption,
    /// No more addresses.
    AddressesFull,
    /// No more default routers.
    RoutersFull,
    /// No more prefixes on the link.
    PrefixesFull,
    /// No more routes.
    RoutesFull,
    /// No more servers of names.
    ServersFull,
}

impl Dropped {
    /// All of them.
    pub const ALL: [Dropped; 14] = [
        Dropped::NotLinkLocal,
        Dropped::BadPrefix,
        Dropped::BadPrefixLength,
        Dropped::BadLifetimes,
        Dropped::ShortLifetime,
        Dropped::BadMtu,
        Dropped::BadRoute,
        Dropped::BadServer,
        Dropped::BadOption,
        Dropped::AddressesFull,
        Dropped::RoutersFull,
        Dropped::PrefixesFull,
        Dropped::RoutesFull,
        Dropped::ServersFull,
    ];

    /// The name that it is counted under.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::NotLinkLocal => "ra-not-link-local",
            Dropped::BadPrefix => "ra-bad-prefix",
            Dropped::BadPrefixLength => "ra-bad-prefix-length",
            Dropped::BadLifetimes => "ra-bad-lifetimes",
            Dropped::ShortLifetime => "ra-short-lifetime",
            Dropped::BadMtu => "ra-bad-mtu",
            Dropped::BadRoute => "ra-bad-route",
            Dropped::BadServer => "ra-bad-dns",
            Dropped::BadOption => "ra-bad-option",
            Dropped::AddressesFull => "ra-addresses-full",
            Dropped::RoutersFull => "ra-routers-full",
            Dropped::PrefixesFull => "ra-prefixes-full",
            Dropped::RoutesFull => "ra-routes-full",
            Dropped::ServersFull => "ra-dns-full",
        }
    }
}
