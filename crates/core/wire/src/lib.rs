//! Every header in its own file, `check` and `emit` side by side; checksums; sequence numbers; a
//! one-line text form of every packet.
//!
//! A `check` is the only constructor of a view, so whoever holds a view holds bytes that were
//! looked at.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod addr;
pub mod arp;
mod bytes;
pub mod checksum;
pub mod eth;
pub mod group;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod malformed;
pub mod mld;
pub mod ndp;
pub mod pretty;
pub mod seq;
pub mod tcp;
pub mod udp;

pub use addr::{Addr, Cidr, Endpoint};
pub use checksum::Sum;
pub use eth::{EtherType, Mac};
pub use ip::{Ecn, Proto};
pub use malformed::Malformed;
pub use seq::Seq;
pub use tcp::{Flags, SackBlocks, Segment, TcpOptions};
