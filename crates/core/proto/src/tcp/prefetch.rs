//! What is asked of memory before it is needed, when connections are so many that their records lie
//! far from the processor.
//!
//! A record has eight cache lines, and each of them costs as much as a hundred instructions when it
//! has to come from memory. Those of a burst, or of the next ones in a line, can come at the same
//! time when they are asked for together. While all records lie near, asking costs more than it
//! saves.

use clearway_hint as hint;

use super::Tcp;
use super::table::AHEAD;
use crate::flow::{FlowKey, FlowRef, FlowV4};
use crate::store::{Env, TxStore};

/// So many records lie in the caches that belong to one core: 480 KB of them.
const NEAR: u32 = 1_024;

impl<E: Env> Tcp<E> {
    /// Whether records lie far away.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        self.open.len() > NEAR
    }

    /// The keyed hash of a flow's name.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        self.flows.hash(key)
    }

    /// As [`Tcp::hash`], of a flow of IPv4.
    #[inline(always)]
    pub(crate) fn hash_v4(&self, name: &FlowV4) -> u64 {
        self.flows.hash_v4(name)
    }

    /// The flow of this hash will be looked up.
    #[inline(always)]
    pub(crate) fn prefetch_flow(&self, hash: u64) {
        self.flows.prefetch(hash);
    }

    /// As [`Tcp::lookup`], when the hash is known.
    #[inline(always)]
    pub(crate) fn lookup_hash(&self, hash: u64) -> FlowRef {
        self.flows.candidate(hash)
    }

    /// As [`Tcp::prefetch`], with all of an open connection's record.
    #[inline(always)]
    pub(crate) fn prefetch_far(&self, flow: FlowRef) {
        if flow.is_open() {
            return self.prefetch_record(flow.index());
        }
        self.prefetch(flow);
    }

    /// The record of this open connection will be read and written.
    #[inline(always)]
    pub(super) fn prefetch_record(&self, index: u32) {
        hint::prefetch_all_at(self.open.entries(), index as usize);
    }

    /// What the open connection at `flow` has sent will be given back, or sent again. Reads its
    /// record.
    #[inline(always)]
    pub(crate) fn prefetch_sent(&self, flow: FlowRef) {
        if flow.is_open() {
            self.prefetch_queue(flow.index());
        }
    }

    #[inline(always)]
    fn prefetch_queue(&self, index: u32) {
        if let Some(c) = self.open.by_index(index) {
            self.pools.tx.prefetch(&c.tx);
        }
    }

    /// The first ones that want a turn of emit will have it.
    #[inline(never)]
    pub(super) fn prefetch_first(&self) {
        let indices = (0..AHEAD).filter_map(|n| self.ready.ahead(n));
        indices.clone().for_each(|index| self.prefetch_record(index));
        indices.take(AHEAD as usize / 2).for_each(|index| self.prefetch_queue(index));
    }

    /// One of them is about to be served: asks for the record of one that comes later, and for the
    /// bytes of one that comes sooner, whose record is here.
    #[inline(always)]
    pub(super) fn prefetch_ready(&self) {
        if let Some(index) = self.ready.ahead(AHEAD) {
            self.prefetch_record(index);
        }
        if let Some(index) = self.ready.ahead(AHEAD / 2) {
            self.prefetch_queue(index);
        }
    }
}
