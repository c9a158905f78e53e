//! A small HTTP/1.1 server (RFC 9110, RFC 9112) that runs inside the engine's turn.
//!
//! [`request`] reads heads, [`server`] decides what a request gets, [`session`] leads one connection's conversation over any
//! [`clearway_engine::Io`]. [`Server`] is a [`clearway_engine::Service`]. A request that arrives in one segment is parsed where it lies
//! and answered with one send of bytes that exist already.

#![forbid(unsafe_code)]

pub mod body;
pub mod files;
pub mod page;
pub mod request;
pub mod server;
pub mod session;
pub mod target;

pub use server::{Config, Server, Stats};
pub use session::{Session, Timeouts};
