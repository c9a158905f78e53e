//! Two devices joined in memory by a cable, for tests and benches: what one sends the other
//! receives.

use std::cell::RefCell;
use std::rc::Rc;

use clearway_base::Instant;
use clearway_pkt::{Burst, Offloads, PoolBuf, Segmentation, TxMeta};

use crate::device::max_frame;
use crate::frame_queue::{FrameQueue, Room, meta_on_arrival};
use crate::{DevCounters, DevError, Facts, FramePool, Mac, Receive, Transmit, TxDrop};

/// What the two ends of a pair are like.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    /// The longest IP packet, in bytes.
    pub mtu: usize,
    /// The Ethernet addresses of the two ends; None for a link of bare IP packets.
    pub macs: Option<[Mac; 2]>,
    /// What both ends claim to do. With segmentation, a large frame crosses whole, and the receiver
    /// is told the segment size.
    pub offloads: Offloads,
    /// Frames on their way in one direction at most.
    pub limit: usize,
}

impl Default for PairConfig {
    /// Ethernet with an MTU of 1,500 bytes and no offloads.
    fn default() -> PairConfig {
        let macs = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
        PairConfig { mtu: 1_500, macs: Some(macs), offloads: Offloads::default(), limit: 1_024 }
    }
}

/// One end of a pair. Both ends stay on one thread.
///
/// Nothing is lost on the way: when the cable is full, or the pool is empty, `reserve` says so.
pub struct PairEnd {
    config: PairConfig,
    side: usize,
    frame_queues: Rc<RefCell<[FrameQueue; 2]>>,
    pool: FramePool,
    room: Room,
    counters: DevCounters,
}

/// Two joined ends, with their frames in `pool`.
pub fn pair(config: PairConfig, pool: &FramePool) -> (PairEnd, PairEnd) {
    let frame_queues =
        Rc::new(RefCell::new([FrameQueue::new(config.limit), FrameQueue::new(config.limit)]));
    let end = |side| PairEnd {
        config,
        side,
        frame_queues: Rc::clone(&frame_queues),
        pool: pool.clone(),
        room: Room::default(),
        counters: DevCounters::default(),
    };
    (end(0), end(1))
}

impl PairEnd {
    fn longest(&self, segmentation: Segmentation) -> usize {
        let link = max_frame(self.config.mtu, self.config.macs.is_some());
        match segmentation {
            Segmentation::None => link,
            _ => link.max(self.config.offloads.max_segmented_frame as usize),
        }
    }
}

impl Receive for PairEnd {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        self.frame_queues.borrow_mut()[self.side].drain(burst, &mut self.counters);
        Ok(())
    }
}

impl Transmit for PairEnd {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        let longest = self.longest(Segmentation::Tcp(0));
        if len > longest || self.frame_queues.borrow()[1 - self.side].is_full() {
            return None;
        }
        self.room.reserve(len, &self.pool)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        if len > self.longest(meta.segmentation) {
            return self.counters.drop_tx(TxDrop::TooLong);
        }
        match self.room.commit(len, &self.pool) {
            Some(buf) => {
                self.counters.sent(len);
                let meta = meta_on_arrival(&meta, self.config.offloads.trusted_link);
                self.frame_queues.borrow_mut()[1 - self.side].push(buf, meta);
            }
            None => self.counters.drop_tx(TxDrop::BadRequest),
        }
    }

    fn reserved(&self) -> &[u8] {
        self.room.written()
    }
}

impl Facts for PairEnd {
    fn offloads(&self) -> Offloads {
        self.config.offloads
    }

    fn mtu(&self) -> usize {
        self.config.mtu
    }

    fn mac(&self) -> Option<Mac> {
        self.config.macs.map(|macs| macs[self.side])
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }

    fn next_deadline(&self) -> Instant {
        if self.frame_queues.borrow()[self.side].is_empty() {
            Instant::NEVER
        } else {
            Instant::ZERO
        }
    }
}

#[cfg(test)]
mod tests;
