//! What the stores know of a connection before it is there: the FIFOs that its owner has made, or
//! whose memory to take them from.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::fifo_blocks::FifoBlocks;
use crate::memory::Memory;

/// How large the FIFOs of a new connection shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes to receive.
    pub rx: u32,
    /// Bytes to send.
    pub tx: u32,
    /// When bytes come is noted from the first one on.
    pub notes_arrivals: bool,
}

// A plan lives from connect to the first packet, or as long as its listener: too few of them for
// their size to matter.
#[allow(clippy::large_enum_variant)]
enum Plan {
    /// The connection that a process begins.
    Ready { rx: Option<FifoBlocks>, tx: Option<FifoBlocks> },
    /// Connections that a listener will accept.
    Listener { memory: Memory, sizes: Sizes },
}

/// Plans by their owners' words. The sessions write it, and both stores read it; clones are the
/// same FIFO plan.
#[derive(Clone, Default)]
pub struct FifoPlan(Rc<RefCell<HashMap<u64, Plan>>>);

#[cfg(test)]
impl FifoPlan {
    /// For a listener whose word is `token`, and whose connections have FIFOs of so many bytes.
    pub(super) fn of_test(token: u64, fifo: u32) -> FifoPlan {
        let plan = FifoPlan::default();
        plan.listen(token, Memory::of_test(), Sizes { rx: fifo, tx: fifo, notes_arrivals: false });
        plan
    }
}

impl FifoPlan {
    /// The next connection of this word gets these.
    pub fn prepare(&self, token: u64, rx: FifoBlocks, tx: FifoBlocks) {
        self.0.borrow_mut().insert(token, Plan::Ready { rx: Some(rx), tx: Some(tx) });
    }

    /// Connections of this word, however many, get FIFOs from this memory.
    pub fn listen(&self, token: u64, memory: Memory, sizes: Sizes) {
        self.0.borrow_mut().insert(token, Plan::Listener { memory, sizes });
    }

    /// Forgets a word.
    pub fn forget(&self, token: u64) {
        let gone = self.0.borrow_mut().remove(&token);
        drop(gone);
    }

    pub(super) fn rx(&self, token: u64) -> Option<FifoBlocks> {
        match self.0.borrow_mut().get_mut(&token)? {
            Plan::Ready { rx, .. } => rx.take(),
            Plan::Listener { memory, sizes } => FifoBlocks::take(memory, sizes.rx),
        }
    }

    /// Where the times of a new connection's bytes are noted from the first one on, if they are.
    pub(super) fn arrivals(&self, token: u64) -> Option<Memory> {
        match self.0.borrow().get(&token)? {
            Plan::Listener { memory, sizes } if sizes.notes_arrivals => Some(memory.clone()),
            _ => None,
        }
    }

    pub(super) fn tx(&self, token: u64) -> Option<FifoBlocks> {
        match self.0.borrow_mut().get_mut(&token)? {
            Plan::Ready { tx, .. } => tx.take(),
            Plan::Listener { memory, sizes } => FifoBlocks::take(memory, sizes.tx),
        }
    }
}
