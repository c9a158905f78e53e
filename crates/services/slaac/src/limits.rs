//! Every bound of an interface that is configured by routers, in one place. What comes beyond one
//! is dropped under a name of its own ([`crate::Dropped`]), and what is there already stays.

/// Addresses, the link-local one not counted (Linux's `max_addresses` is 16 too).
pub const ADDRESSES: usize = 16;
/// Default routers.
pub const ROUTERS: usize = 8;
/// Prefixes that are on the link.
pub const PREFIXES: usize = 16;
/// Routes that are more specific than a default route (RFC 4191).
pub const ROUTES: usize = 16;
/// Servers of names (RFC 8106 5.3.1 asks for three at least).
pub const DNS: usize = 8;
