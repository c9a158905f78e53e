//! A deterministic world of stacks and bad links, replayed by seed.
//!
//! A [`World`] holds hosts, each a whole stack with an application that acts a part, and links that
//! lose, double, reorder, damage, delay and swallow frames by rules. Time is virtual and jumps from
//! one event to the next. All chance comes from one seed, so that a run can be had again exactly.
//! What must hold is checked at every step and at the end; see `docs/simulation.md`.

pub mod actor;
pub mod buf;
pub mod checks;
pub mod coalesce;
pub mod conditions;
pub mod datagrams;
pub mod export;
pub mod frame;
pub mod host;
pub mod link;
pub mod nic;
pub mod observe;
pub mod pcap;
pub mod recorder;
pub mod report;
pub mod run;
pub mod scenario;
pub mod spans;
pub mod stage;
pub mod stores;
pub mod stream;
pub mod talk;
pub mod world;

pub use world::{Failure, World};
