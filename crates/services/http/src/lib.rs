//! A small HTTP/1.1 server (RFC 9110, RFC 9112) that runs inside the engine's turn.
//!
//! [`request`] reads heads, [`server`] decides what a request gets, [`session`] leads one
//! connection's conversation over any [`clearway_engine::Io`], and `service` joins them: [`Server`]
//! is a [`clearway_engine::Service`]. A request that arrives in one segment is parsed where it lies
//! and answered with one send of bytes that exist already.

#![forbid(unsafe_code)]

pub mod body;
pub mod config;
pub mod files;
pub mod page;
pub mod request;
pub mod server;
mod service;
pub mod session;
pub mod stats;
pub mod target;
pub mod transfer;

pub use config::{Config, Timeouts};
pub use server::Server;
pub use session::Session;
pub use stats::Stats;
