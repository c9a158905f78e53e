//! The atomics of the processor, or those of the model checker.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// A word that nobody uses. An atomic as well: the other side may write it, and a reference to the
/// words around it must not promise that it stays.
#[cfg(not(loom))]
pub(crate) type Reserved = AtomicU32;
/// The model checker need not follow it.
#[cfg(loom)]
pub(crate) type Reserved = u32;
