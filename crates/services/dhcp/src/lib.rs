//! A DHCPv4 client (RFC 2131, RFC 2132), and one of DHCPv6 ([`v6`]), that is driven by its owner: packets and times go in,
//! packets and leases come out.
//!
//! It reads no clock and opens no socket. [`Client::poll`] says what is to be done next,
//! [`Client::receive`] takes what came, and [`Client::deadline`] tells when to ask again.

#![forbid(unsafe_code)]

mod client;
mod lease;
mod message;
pub mod v6;

pub use client::{Action, Client, Dropped, Lost, Phase, Target};
pub use lease::Lease;
pub use message::{CLIENT_PORT, Malformed, SERVER_PORT};
