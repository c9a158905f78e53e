//! Where the stack's bytes live: in the programs' own FIFOs. Received payload is copied straight
//! into one, and what is sent is peeked straight from one.

mod fifo_blocks;
mod fifo_plan;
mod grant;
mod pass;
mod rx;
mod stamps;
mod tx;

pub use fifo_blocks::FifoBlocks;
pub use fifo_plan::{FifoPlan, Sizes};
pub use grant::Progress;
pub use pass::{Liar, pass};
pub use rx::{FifoRx, RxFifo};
pub use stamps::SentAt;
pub use tx::{FifoTx, TxFifo};
