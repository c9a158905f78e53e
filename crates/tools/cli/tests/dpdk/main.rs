//! The `clearway` binary over the drivers of DPDK that need no card. Each end of a link is a
//! process of its own.

#![cfg(feature = "dpdk")]

mod ends;
mod errors;
mod frames;
mod host;
mod kernel;
mod links;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/preload.rs"]
mod preload;
mod world;
