//! TCP (RFC 9293): the table of flows, the three phases of a connection's life, and what joins them.

mod ack;
mod api;
mod cc;
mod cookie;
mod isn;
mod loss;
mod nagle;
mod options;
mod ranges;
mod reasm;
mod recovery;
mod rtt;
mod sack;
mod span;
mod state;
mod window;

pub use api::{ConnectSpec, ListenSpec, Phase, TcpInfo};
pub use state::State;
