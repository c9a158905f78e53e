//! Stateless address autoconfiguration of an IPv6 interface (RFC 4862) and the host's side of router
//! discovery (RFC 4861 6.3), driven by its owner: router advertisements and times go in, addresses
//! and routes come out.
//!
//! It reads no clock and opens no socket. [`Client::poll`] says what is to be done next,
//! [`Client::receive`] takes what a router said, and [`Client::deadline`] tells when to ask again.

#![forbid(unsafe_code)]

mod address;
mod client;
mod dropped;
mod identifier;
pub mod limits;
mod router;

pub use address::{Address, Phase};
pub use client::{Action, Client, Server, Setup, Way};
pub use dropped::Dropped;
pub use router::Router;
