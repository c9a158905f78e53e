//! Words that every layer shares: time as a value, typed handles, slabs, rings, lists, the timer wheel, seeded numbers.
//!
//! Nothing here knows what a packet is, and nothing here can read a clock: an [`Instant`] is handed in by whoever owns one.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod time;

pub use time::{Duration, Instant};
