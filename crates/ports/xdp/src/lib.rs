//! Interfaces of the Linux kernel through AF_XDP sockets: frames come and go over rings in memory
//! that the kernel shares with us, past its own protocol stack (Linux
//! `Documentation/networking/af_xdp.rst`).
//!
//! [`open`] attaches a program of six instructions to the interface, which hands the frames of each
//! of our queues to the socket of that queue, and gives an end for each core. Each is moved to its
//! thread and becomes a device there: [`XdpFd::into_queue`] one whose received frames stay where
//! the kernel put them, [`XdpFd::into_port`] one that copies them into the thread's frame buffers.
//! With the last of them the program is gone from the interface, also when the process is killed.

#![cfg(target_os = "linux")]

mod checksum;
mod explain;
mod interface;
mod open;
mod port;
mod program;
mod queue;
mod ring;
mod socket;
mod sys;
mod umem;

pub use open::{XdpFd, open};
pub use port::XdpPort;
pub use queue::XdpQueue;
pub use umem::{Umem, XdpBuf};
