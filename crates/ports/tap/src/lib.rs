//! Linux TUN/TAP ports with the virtio-net header: checksums are left undone, and packets of up to
//! 64 KiB cross whole, both ways.
//!
//! [`open`] attaches to an interface, or makes one, and gives as many queues as were asked for.
//! Each is moved to its thread and becomes a device there ([`TapFd::into_queue`]). The kernel
//! brings a flow's packets to the queue that last sent one of that flow.

#![cfg(target_os = "linux")]

mod address;
mod netns;
mod open;
mod queue;
mod sys;
mod vnet;

pub use netns::{NetnsId, within};
pub use open::{TapFd, add_host_address, bring_up, exists, open};
pub use queue::TapQueue;
