//! Every header in its own file, `check` and `emit` side by side; checksums; sequence numbers; a one-line text form of every packet.
//!
//! A `check` is the only constructor of a view, so whoever holds a view holds bytes that were looked at.

#![no_std]
#![forbid(unsafe_code)]

pub mod addr;
pub mod seq;

pub use addr::{Addr, Cidr, Endpoint};
pub use seq::Seq;
