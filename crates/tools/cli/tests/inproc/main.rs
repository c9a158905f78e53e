//! Unmodified programs that have the stack inside of their own process (`clearway run --inproc`),
//! over a TAP interface, with the kernel at the other end. Each test has a network namespace of its
//! own.

#[path = "../common/netns.rs"]
mod netns;

mod clients;
mod servers;
mod usage;
mod world;
