//! The stack for C programs: `libclearway` and `clearway.h`.
//!
//! Two layers. The *bare* one is the core itself: the program hands packets in, asks for timers,
//! lets packets out, with its own buffers, clock and loop. The *easy* one (feature `easy`) runs the
//! engine over ports that are named, and calls the program back.
//!
//! This crate is a thin skin: it checks pointers, lengths and numbers, turns them into the core's
//! types, and turns the core's answers into one list of status codes. A panic of the stack ends the
//! process, since it must not unwind into C.

#![cfg_attr(not(any(feature = "easy", test)), no_std)]
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the whole body of such a function rests on the one promise of its C caller"
)]

extern crate alloc;

#[cfg(not(any(feature = "easy", test)))]
mod alone;
pub mod buf;
pub mod config;
pub mod count;
#[cfg(feature = "easy")]
pub mod easy;
pub mod memory;
pub mod net;
pub mod stack;
pub mod status;
pub mod tcp;
pub mod types;
pub mod udp;
mod verbs;

#[cfg(test)]
mod tests;
