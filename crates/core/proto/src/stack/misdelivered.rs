//! Several stacks with the same addresses, one for each queue of a port: whose is a packet that
//! belongs to nobody here?
//!
//! A device brings a flow to a queue by a hash that nobody tells us, and the answer to what one
//! stack began may come to another. So stacks share out the source ports of what they begin, and a
//! packet for a port of another one, which no connection, listener or socket here takes, is not
//! refused but kept for whoever drives the stacks to hand over.

use alloc::vec::Vec;

use clearway_pkt::{BURST, RxMeta};

/// A packet that belongs to another stack.
#[derive(Debug)]
pub struct MisdeliveredPacket<B> {
    /// The index of the stack that it belongs to, if it belongs to any.
    pub owner: usize,
    /// What came with it.
    pub meta: RxMeta,
    /// The whole frame.
    pub buf: B,
}

/// Those of a burst that nobody has taken away yet.
pub(crate) struct Misdelivered<B> {
    pub(super) kept: Vec<MisdeliveredPacket<B>>,
    /// Somebody takes them.
    pub(super) wanted: bool,
}

impl<B> Misdelivered<B> {
    pub(crate) fn new() -> Misdelivered<B> {
        Misdelivered { kept: Vec::with_capacity(BURST), wanted: false }
    }

    /// Whether another one may be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.wanted && self.kept.len() < self.kept.capacity()
    }

    /// Keeps a packet for the stack `owner`.
    pub(crate) fn keep(&mut self, owner: u16, meta: RxMeta, buf: B) {
        self.kept.push(MisdeliveredPacket { owner: owner.into(), meta, buf });
    }
}
