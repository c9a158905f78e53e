//! The protocol core: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, UDP and TCP, driven by the caller.
//!
//! Three verbs drive it: [`Stack::ingest`] takes packets, [`Stack::expire`] looks at timers, [`Stack::emit`] sends.
//! The first two only *mark* what has to be done; only the third sends. The core reads no clock, opens no socket,
//! starts no thread and allocates nothing after it was built.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
pub mod counters;
pub mod error;
pub mod event;
pub mod limits;
pub mod store;

