//! `clearway reflect` and `clearway pktgen`: with one another over TAP devices on a bridge, and
//! each alone; `clearway wire` between two kernels.

mod guard;
mod links;
#[path = "../common/netns.rs"]
mod netns;
mod usage;
mod wire;
mod world;
