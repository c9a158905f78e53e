//! Every kind of port behind one name and one type.
//!
//! [`open`] turns the ports that a user named into [`Unwrapped`] ones, a queue for each core, which
//! may be sent to the threads that will use them; [`Unwrapped::into_port`] makes the device there.
//! What a user asks to go round each port (a capture, faults) is in [`Wrap`].

#![forbid(unsafe_code)]

pub mod dpdk;
mod error;
pub mod guard;
mod open;
mod port;

pub use clearway_tap::{NetnsId, add_host_address, within};
pub use error::PortError;
pub use open::{CaptureTo, Unwrapped, Wrap, describe, open, open_one, open_queues, try_open};
pub use port::Port;
