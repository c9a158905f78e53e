//! Words that every layer shares: time as a value, typed handles, slabs, rings, lists, the timer
//! wheel, seeded numbers, a keyed hash, a histogram.
//!
//! Nothing here knows what a packet is, and nothing here can read a clock: an [`Instant`] is handed
//! in by whoever owns one. Every container takes its capacity when it is built and allocates then
//! and never again; memory that is reserved but not yet used is not touched, so a table sized for a
//! million entries costs address space until the entries come.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod handle;
pub mod histogram;
pub mod line;
pub mod list;
pub mod map;
pub mod ring;
pub mod rng;
pub mod sip;
pub mod slab;
pub mod time;
pub mod wheel;

pub use handle::Handle;
pub use histogram::Histogram;
pub use line::{Line, Place};
pub use list::{Link, Links, List};
pub use map::{FlowMap, MapFull};
pub use ring::{ByteRing, Ring};
pub use rng::Rng;
pub use slab::Slab;
pub use time::{Duration, Instant};
pub use wheel::Wheel;
