//! Packet buffers: the owned buffer, the burst, what a device says about a received packet and what
//! it is asked about a sent one, the transmit sink, and a preallocated pool.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod buf;
pub mod burst;
pub mod meta;
pub mod pool;
pub mod sink;

pub use buf::Buf;
pub use burst::{BURST, Burst};
pub use meta::{Checksum, Iface, Offloads, RxMeta, Segmentation, TxMeta};
pub use pool::{Pool, PoolBuf};
pub use sink::{MAX_PIECES, Piece, Sink};
