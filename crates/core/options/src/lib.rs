//! Socket options and the values of TCP_INFO, each declared once.
//!
//! - [`SocketOptions`] holds the values that the host has to know of a socket. Each field has a
//!   number that never changes, so that host and client library may be of different versions: what
//!   one does not know it skips, what is not told has its default.
//! - [`SocketOption`] is an option by Linux's name, level and number, with what becomes of it: the
//!   field that it sets, and in which bounds. The preloaded library, the script runner, the plug-in
//!   of packetdrill and the table in `docs/preload.md` read it.
//! - [`Info`] holds the values of TCP_INFO, and [`InfoField`] tells where each lies in Linux's
//!   `struct tcp_info`.
//!
//! A new option is a line of the first table, where the host has to know it, and one of the second.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod info;
pub mod stamping;
mod table;
mod values;

pub use info::{BBR_INFO_LEN, INFO_LEN, Info, InfoField};
pub use table::{Errno, Going, How, Level, OPTIONS, SocketOption};
pub use values::{
    Congestion, Field, PMTU_DISC_DO, PMTU_DISC_INTERFACE, PMTU_DISC_PROBE, SocketOptions,
};
