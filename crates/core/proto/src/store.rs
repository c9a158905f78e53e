//! Where bytes live. The state machine speaks of ranges of sequence space only; what a range holds
//! is behind these two traits.
//!
//! A store is one object per stack, an arena; what it keeps per connection is a small `Queue`
//! inside the connection. An idle connection's queue holds nothing of the arena.

mod arena;
pub mod chain;
pub mod lending;
pub mod ring;
mod traits;

pub use chain::{ChainQueue, ChainRx, Pots};
pub use ring::{RingRx, RingTx, RxQueue, TxQueue};
pub use traits::{Env, Minimum, RxStore, TxStore};
