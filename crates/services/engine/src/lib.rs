//! The turn of one core: read the clock, take packets from the ports, look at timers, let the
//! application act, send.
//!
//! One thread runs one [`Engine`] with its own clock, ports, stack and application, and shares
//! nothing with the others on the packet path. [`Team`] starts and stops them and collects their
//! figures.
//!
//! # Several cores on one port
//!
//! A port with several queues gives each core one. Linux keeps a flow on the queue on which it last
//! saw the flow answered, and chooses by a hash of both endpoints before that, the same for both
//! directions; since a connection that a peer opens is answered on the queue that brought its SYN,
//! it stays there. What has no flow or another one (ARP replies, NDP advertisements, ICMP errors)
//! may come to any core, and is copied to all; see `core_queues.rs`. A request for our Ethernet
//! address, or an echo, is answered by the core that gets it.

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

mod adaptive_spin;
pub mod app;
mod burst_limit;
pub mod clock;
mod core_queues;
pub mod cores;
pub mod env;
pub mod error;
pub mod inspect;
pub mod mode;
pub mod ports;
pub mod stages;
pub mod talk;
pub mod team;
pub mod turn;
pub mod turn_times;
pub mod wait;

pub use app::App;
pub use clock::{Clock, Time};
pub use cores::Cores;
pub use env::{Memory, Stores};
pub use error::EngineError;
pub use inspect::{Inspect, Verdict};
pub use mode::Mode;
pub use ports::{OnDeviceError, PortInfo, PortOptions};
pub use stages::{NoProbe, OnDemandProbe, Probe, Stage, StageCycles, StageProbe};
pub use talk::{Ended, Io, Next, Service, Source, Talks};
pub use team::{CoreReport, Seat, Team};
pub use turn::{Engine, Step, Turn};
pub use turn_times::TurnTimes;
pub use wait::Notifier;
