//! What host and program share: memory that either side may write at any moment, and the words they
//! speak over the attach socket.
//!
//! Everything here is safe to call whatever the other side does. Positions that matter are kept
//! privately; a position of the other side is read once, checked, and refused with [`Hostile`] when
//! it is impossible. No reference is formed to bytes that the other side may write, but as atomics:
//! words are such, bytes are when they are sent from where they lie, and everything else is copied
//! through raw pointers.
//!
//! All system calls that a process makes go through `rustix` without libc, or through libc's
//! `syscall`, so that nothing here calls a function that a preloaded library stands in for. The
//! host alone uses `getsockopt` and `setsockopt`.

mod additive;
mod atomic;
pub mod attach_socket;
mod described;
#[cfg(not(loom))]
pub mod fault;
pub mod fifo;
pub mod layout;
#[cfg(all(loom, test))]
mod loom_models;
mod pass;
pub mod record;
pub mod ring;
pub mod sleep;
mod words;

#[cfg(not(loom))]
pub mod activation;
#[cfg(not(loom))]
pub mod host;
#[cfg(not(loom))]
mod in_place;
#[cfg(not(loom))]
pub mod in_process;
#[cfg(not(loom))]
pub mod interrupt;
#[cfg(not(loom))]
pub mod lock;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod notifier;
#[cfg(not(loom))]
pub mod paths;
#[cfg(not(loom))]
pub mod socket;
#[cfg(not(loom))]
pub mod wait;

pub use fifo::{Consumer, FifoMem, Producer};
pub use ring::{Full, RingConsumer, RingProducer};
pub use words::Words;

#[cfg(not(loom))]
pub use host::{HostPage, HostView};
#[cfg(not(loom))]
pub use memory::{Segment, ShmError};
#[cfg(not(loom))]
pub use notifier::{Notifier, NotifierSet, RemoteNotifier};

/// The other side wrote something impossible. What was read is not to be used, and the other side
/// not to be served any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other side of the shared memory wrote something impossible")]
pub struct Hostile;

/// The words of a session.
pub type SessionView = Words<layout::SessionHead>;

/// The words of a queue pair.
pub type QueuePairView = Words<layout::QueuePairHead>;
