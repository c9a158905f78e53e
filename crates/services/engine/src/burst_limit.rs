//! How many packets a polling core takes at a time, so that its answers leave early.
//!
//! Where a client has a few requests under way and asks again when it is answered, all of them come
//! as one burst. A server that takes them all answers them all at the end of its turn; then its
//! client works while it waits, and the other way round: each is idle for half of the time. Taken
//! in two halves, the first is answered while the second waits, and both sides work at once.
//!
//! So what came between two moments without packets, a *train*, says how many to take next time:
//! half of it. A train that is longer than two bursts has been cut already.

use clearway_pkt::BURST;

/// Fewer are not worth a turn.
const LEAST: usize = 4;

/// A train that is longer than this keeps the core busy anyway.
const LONGEST_TRAIN: usize = 2 * BURST;

/// Packets of one port in one turn at most.
#[derive(Debug)]
pub(crate) struct BurstLimit {
    limit: usize,
    train: usize,
}

impl BurstLimit {
    pub(crate) fn new() -> BurstLimit {
        BurstLimit { limit: BURST, train: 0 }
    }

    #[inline]
    pub(crate) fn get(&self) -> usize {
        self.limit
    }

    /// A turn brought so many packets.
    #[inline]
    pub(crate) fn turn(&mut self, packets: usize) {
        if packets > 0 {
            self.train = self.train.saturating_add(packets);
        } else if self.train > 0 {
            self.limit = match self.train {
                ..=LONGEST_TRAIN => (self.train / 2).clamp(LEAST, BURST),
                _ => BURST,
            };
            self.train = 0;
        }
    }
}

#[cfg(test)]
mod tests;
