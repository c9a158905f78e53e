//! Several stacks with the same addresses, one for each queue of a port: whose is a packet that belongs to nobody here?
//!
//! A device brings a flow to a queue by a hash that nobody tells us, and the answer to what one stack began may come to another. So stacks share out the
//! source ports of what they begin, and a packet for a port of another one, which no connection, listener or socket here takes, is not
//! refused but kept for whoever drives the stacks to hand over.

use alloc::vec::Vec;

use clearway_pkt::{BURST, RxMeta};

use crate::ports::Share;
use crate::stack::Stack;
use crate::store::Env;

/// A packet that belongs to another stack.
#[derive(Debug)]
pub struct Stray<B> {
    /// The index of the stack that it belongs to, if it belongs to any.
    pub owner: usize,
    /// What came with it.
    pub meta: RxMeta,
    /// The whole frame.
    pub buf: B,
}

/// Those of a burst that nobody has taken away yet.
pub(crate) struct Strays<B> {
    kept: Vec<Stray<B>>,
    /// Somebody takes them.
    wanted: bool,
}

impl<B> Strays<B> {
    pub(crate) fn new() -> Strays<B> {
        Strays { kept: Vec::with_capacity(BURST), wanted: false }
    }

    /// Whether another one may be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.wanted && self.kept.len() < self.kept.capacity()
    }

    pub(crate) fn keep(&mut self, owner: u16, meta: RxMeta, buf: B) {
        self.kept.push(Stray { owner: owner.into(), meta, buf });
    }
}

impl<E: Env> Stack<E> {
    /// This is the stack `index` of `of` that have the same addresses: what it begins outside comes from ports that are its own.
    pub fn share_ports(&mut self, index: u16, of: u16) {
        let share = Share { index, of };
        self.tcp.set_share(share);
        self.udp.set_share(share);
    }

    /// Whether it began anything whose answer may come to another stack.
    #[inline]
    pub fn reaches_out(&self) -> bool {
        self.tcp.reaches_out() || self.udp.reaches_out()
    }

    /// From now on packets that belong to another stack are kept for [`Stack::next_stray`], or refused as any that belong to nobody.
    #[inline]
    pub fn keep_strays(&mut self, wanted: bool) {
        self.strays.wanted = wanted;
    }

    /// A packet of the last burst that belongs to another stack.
    #[inline]
    pub fn next_stray(&mut self) -> Option<Stray<E::Buf>> {
        self.strays.kept.pop()
    }
}

#[cfg(test)]
mod tests;
