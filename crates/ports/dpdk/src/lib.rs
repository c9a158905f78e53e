//! DPDK's poll-mode drivers as ports.
//!
//! DPDK is started once per process, from our own options, when the first port is opened. A port is
//! any device that one of its drivers knows: shared memory between two programs (memif, vhost,
//! virtio-user), an interface of the kernel (af_packet, af_xdp, tap), a file (pcap), or a network
//! card.
//!
//! Everything that is `unsafe` is in `sys`; behind it is a small shim in C that speaks plain
//! structs, a burst at a time.

mod eal;
mod explain;
mod open;
mod queue;
mod steer;
mod sys;
mod wake;

pub use eal::{memory, version};
pub use open::{DpdkFd, Share, open};
pub use queue::DpdkQueue;
