//! `clearway reflect` and `clearway pktgen`: with one another over TAP devices on a bridge, and each alone.

mod guard;
mod links;
#[path = "../common/netns.rs"]
mod netns;
mod usage;
mod world;
