//! Typed access to shared memory: words that are atomics, and plain bytes that are only ever
//! copied.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub use mapped::Words;
#[cfg(not(loom))]
pub(crate) use mapped::{Bytes, Shared};
#[cfg(loom)]
pub(crate) use modelled::Bytes;
#[cfg(loom)]
pub use modelled::Words;
