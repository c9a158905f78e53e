//! The control plane: what commands do to the host.
//!
//! Whoever gives commands (the startup script, the control socket) shares one [`Control`], and
//! commands are carried out one after the other. What must be the same on every worker is done on
//! each, and undone everywhere when one of them refuses.

mod begin;
mod clear;
mod dhcp;
mod dhcpv6;
mod drain;
mod interfaces;
mod keeper;
mod lost;
mod mode;
mod packets;
mod plane;
mod reload;
mod routes;
mod save;
mod server;
mod slaac;
mod taps;

pub use keeper::LeaseKeeper;
pub use lost::PortWatch;
pub use plane::{Control, MAX_DEPTH, MetricsFormat, OnDrain, OnReload, classic_metrics};
pub use server::{ControlSocket, socket_beside};
