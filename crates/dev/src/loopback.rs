//! The loopback device: what the stack sends comes back to it.

use std::os::fd::BorrowedFd;

use clearway_base::Instant;
use clearway_pkt::{Burst, Offloads, PoolBuf, TxMeta};

use crate::device::MAX_IP_PACKET;
use crate::lane::{Lane, Room, meta_on_arrival};
use crate::{Dev, DevCounters, DevError, FramePool, Mac, TxDrop};

/// Frames that wait in a loopback device at most. With packets of 64 KiB the pool is the tighter bound.
pub const LOOPBACK_LIMIT: usize = 1_024;

/// A link from the stack to itself. It carries bare IP packets of up to 65,535 bytes; nothing makes or looks at transport checksums.
///
/// It never loses a frame: when it is full, or the pool is empty, `reserve` says so and the stack keeps what it wanted to send.
pub struct Loopback {
    pool: FramePool,
    lane: Lane,
    room: Room,
    counters: DevCounters,
}

impl Loopback {
    /// A loopback device with its frames in `pool`.
    pub fn new(pool: FramePool) -> Loopback {
        Loopback::with_limit(pool, LOOPBACK_LIMIT)
    }

    /// The same with at most `limit` frames on their way.
    pub fn with_limit(pool: FramePool, limit: usize) -> Loopback {
        Loopback { pool, lane: Lane::new(limit), room: Room::default(), counters: DevCounters::default() }
    }
}

impl Dev for Loopback {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        self.lane.drain(burst, &mut self.counters);
        Ok(())
    }

    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.lane.is_full() || len > MAX_IP_PACKET {
            return None;
        }
        self.room.reserve(len, &self.pool)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        match self.room.commit(len, &self.pool) {
            Some(buf) => {
                self.counters.sent(len);
                self.lane.push(buf, meta_on_arrival(&meta, true));
            }
            None => self.counters.drop_tx(TxDrop::BadRequest),
        }
    }

    fn flush(&mut self) {}

    fn offloads(&self) -> Offloads {
        Offloads {
            tx_checksum: true,
            trusted_link: true,
            tso4: true,
            tso6: true,
            uso: true,
            max_segmented_frame: MAX_IP_PACKET as u32,
        }
    }

    fn mtu(&self) -> usize {
        MAX_IP_PACKET
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn must_poll(&self) -> bool {
        false
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }

    fn next_deadline(&self) -> Instant {
        if self.lane.is_empty() { Instant::NEVER } else { Instant::ZERO }
    }
}

#[cfg(test)]
mod tests;
