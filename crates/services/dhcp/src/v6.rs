//! A DHCPv6 client (RFC 8415) for one address and what goes with it, driven by its owner as
//! [`crate::Client`] is: messages and times go in, messages, addresses and servers of names come
//! out.
//!
//! Whether there is anything to ask a server for is said by routers: [`Client::want`].

mod client;
mod lease;
mod message;

use clearway_wire::Addr;

pub use client::{Action, Client, Dropped, Lost, Phase, Wanted};
pub use lease::Lease;
pub use message::Malformed;

/// The port of servers (RFC 8415 7.2).
pub const SERVER_PORT: u16 = 547;
/// The port of clients.
pub const CLIENT_PORT: u16 = 546;

/// All servers and relays of a link (RFC 8415 7.1).
pub const SERVERS: Addr = Addr::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2]);
