//! TCP (RFC 9293): the table of flows, the three phases of a connection's life, and what joins them.

mod ack;
mod api;
mod state;

pub use api::{ConnectSpec, ListenSpec, Phase, TcpInfo};
pub use state::State;
