//! The loopback device: what the stack sends comes back to it.

use clearway_base::Instant;
use clearway_pkt::{Burst, Offloads, PoolBuf, TxMeta};

use crate::device::{MAX_IP_PACKET, MIN_MTU};
use crate::frame_queue::{FrameQueue, Room, meta_on_arrival};
use crate::{DevCounters, DevError, Facts, FramePool, Mac, Receive, Transmit, TxDrop};

/// Frames that wait in a loopback device at most.
pub const LOOPBACK_LIMIT: usize = 1_024;

/// Bytes that wait in a loopback device at which it takes no more until they are received. What is
/// sent in one turn is copied out again in the next, and the pool hands out first what came back
/// last: with four packets of 64 KiB on their way the copies stay in the second-level cache of the
/// core, of which this is a quarter on a small one (1 MiB).
pub const LOOPBACK_BYTES: usize = 256 << 10;

/// A link from the stack to itself. It carries bare IP packets; nothing makes or looks at transport
/// checksums, and nothing is cut: whatever its MTU, packets of up to 65,535 bytes that stand for
/// several segments cross whole, with the segments' size beside them.
///
/// It never loses a frame: when it is full, or the pool is empty, `reserve` says so and the stack
/// keeps what it wanted to send.
pub struct Loopback {
    pool: FramePool,
    mtu: usize,
    frame_queue: FrameQueue,
    room: Room,
    counters: DevCounters,
}

impl Loopback {
    /// A loopback device with its frames in `pool`.
    pub fn new(pool: FramePool) -> Loopback {
        Loopback::with_mtu(pool, MAX_IP_PACKET)
    }

    /// The same with an MTU of its own, in bytes of IP packet; 65,535 is the most.
    pub fn with_mtu(pool: FramePool, mtu: usize) -> Loopback {
        Loopback { mtu: mtu.min(MAX_IP_PACKET), ..Loopback::with_limit(pool, LOOPBACK_LIMIT) }
    }

    /// The same with at most `limit` frames on their way.
    pub fn with_limit(pool: FramePool, limit: usize) -> Loopback {
        let frame_queue = FrameQueue::new(limit).with_byte_limit(LOOPBACK_BYTES);
        let (room, counters) = (Room::default(), DevCounters::default());
        Loopback { pool, mtu: MAX_IP_PACKET, frame_queue, room, counters }
    }
}

impl Receive for Loopback {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        self.frame_queue.drain(burst, &mut self.counters);
        Ok(())
    }
}

impl Transmit for Loopback {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frame_queue.is_full() || len > MAX_IP_PACKET {
            return None;
        }
        self.room.reserve(len, &self.pool)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        match self.room.commit(len, &self.pool) {
            Some(buf) => {
                self.counters.sent(len);
                self.frame_queue.push(buf, meta_on_arrival(&meta, true));
            }
            None => self.counters.drop_tx(TxDrop::BadRequest),
        }
    }

    fn reserved(&self) -> &[u8] {
        self.room.written()
    }
}

impl Facts for Loopback {
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
        self.mtu
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        if !(MIN_MTU..=MAX_IP_PACKET).contains(&mtu) {
            let what = format!("an MTU of {mtu} bytes cannot be");
            return Err(DevError::new("loop", what, "Give one from 576 to 65535"));
        }
        self.mtu = mtu;
        Ok(())
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }

    fn next_deadline(&self) -> Instant {
        if self.frame_queue.is_empty() { Instant::NEVER } else { Instant::ZERO }
    }
}

#[cfg(test)]
mod tests;
