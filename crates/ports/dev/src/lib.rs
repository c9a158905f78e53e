//! Devices: what a stack receives from and sends to.
//!
//! [`Dev`] is the whole of what a device must do. Beside it stand the devices that need no hardware
//! (loopback, pair, a capture file played back) and the wrappers that fit round any device. Real
//! ports live in crates of their own (`clearway-tap`); [`PortSpec`] is how all of them are named on
//! a command line.

#![forbid(unsafe_code)]

pub mod absent;
pub mod counters;
pub mod device;
pub mod error;
pub mod fault;
pub mod filter;
mod frame_queue;
pub mod frames;
pub mod gso;
pub mod headers;
mod layout;
pub mod loopback;
pub mod pair;
pub mod pcap;
pub mod rules;
pub mod spec;
mod staging;
#[cfg(test)]
mod test_frames;

pub use absent::Absent;
pub use counters::{DevCounters, RxDrop, TxDrop};
pub use device::{Dev, DriverBuffers, Facts, Mac, Receive, Transmit};
pub use error::DevError;
pub use fault::{Fault, FaultCounts, FaultSpec, Impairment, JitterShape};
pub use filter::{Expression, FilterError, FrameFilter};
pub use frames::{BufferSource, FramePool, PoolBudget};
pub use gso::{Cut, CutError, Gso};
pub use headers::{Headers, Part};
pub use loopback::Loopback;
pub use pair::{PairConfig, PairEnd, pair};
pub use pcap::{Capture, PcapReader, PcapWriter, Replay, Trace, TraceFrame, TraceSpec, Traced};
pub use rules::{Action, Rule, RuleError, Rules, Way};
pub use spec::{DpdkSpec, PortSpec, SpecError, TapMode, TapSpec, XdpMode, XdpSpec};
