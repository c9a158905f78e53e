//! Measurements of systems side by side.
//!
//! A [`Scenario`] names systems and points. [`run`] measures each system at each point, one after
//! the other, several rounds, and notes how far the cores were from each other each time; what
//! comes out is a [`Report`]. [`text`], [`html`] and [`compare`] show reports.
//!
//! Everything that is measured runs in processes of its own: this crate starts them, waits, reads
//! what they print, and ends them.

#![forbid(unsafe_code)]

mod answering;
pub mod compare;
pub mod html;
mod iperf;
mod links;
pub mod machine;
mod namespace;
mod need;
mod numbers;
mod place;
pub mod placement;
mod plot;
mod process;
pub mod report;
mod runner;
mod scenario;
mod scenarios;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod text;
mod world;

pub use need::{Facts, Need};
pub use numbers::span;
pub use process::Stopped;
pub use report::Report;
pub use runner::{Watch, left_out_line, run};
pub use scenario::{Measured, Scenario, System, all, find, needs};
pub use world::{External, Options, World};

/// A moment in UTC, as it stands in reports: seconds after 1970 began.
pub fn utc(seconds: u64) -> String {
    machine::utc(seconds)
}
