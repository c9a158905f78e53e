//! A ring of messages from one producer to one consumer.

use crate::Hostile;
use crate::atomic::Ordering;
use crate::layout::{Message, RingHead};
use crate::words::{Bytes, Words};

#[cfg(not(loom))]
use crate::memory::{Segment, ShmError};

#[cfg(all(test, not(loom)))]
mod tests;

/// The most slots of a ring.
pub const MAX_SLOTS: u32 = 1 << 20;

const SLOT: u32 = size_of::<Message>() as u32;

/// The ring is full. Also said of a ring whose consumer wrote an impossible position: it gets no
/// more messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the ring is full")]
pub struct Full;

/// Words and slots of a ring.
#[cfg_attr(loom, derive(Clone))]
struct RingMem {
    head: Words<RingHead>,
    bytes: Bytes,
    slots: u32,
}

impl RingMem {
    /// The ring at `offset`: its head, and the slots behind it.
    #[cfg(not(loom))]
    fn new(memory: &std::sync::Arc<Segment>, offset: u32, slots: u32) -> Result<RingMem, ShmError> {
        if !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(ShmError::Capacity { capacity: slots, limit: slots });
        }
        let head = memory.words(offset)?;
        // In a segment of at most 2^31 bytes that holds the head, this is no overflow.
        let bytes = Bytes::new(memory, offset + size_of::<RingHead>() as u32, slots * SLOT)?;
        Ok(RingMem { head, bytes, slots })
    }

    /// A ring of the model checker's.
    #[cfg(loom)]
    fn modelled(slots: u32) -> RingMem {
        RingMem { head: Words::modelled(), bytes: Bytes::modelled(slots * SLOT), slots }
    }
}

/// Bytes that a ring takes: its head and its slots.
pub const fn ring_len(slots: u32) -> u32 {
    size_of::<RingHead>() as u32 + slots * SLOT
}

/// The end that puts messages in. Its position is its own, and begins at 0.
pub struct RingProducer {
    mem: RingMem,
    tail: u32,
    head_seen: u32,
}

impl RingProducer {
    /// The ring of `slots` messages whose head is at `offset`.
    #[cfg(not(loom))]
    pub fn new(
        memory: &std::sync::Arc<Segment>,
        offset: u32,
        slots: u32,
    ) -> Result<RingProducer, ShmError> {
        Ok(RingProducer { mem: RingMem::new(memory, offset, slots)?, tail: 0, head_seen: 0 })
    }

    /// Puts a message in. The consumer may be asleep: see [`crate::sleep::is_asleep`].
    pub fn push(&mut self, message: Message) -> Result<(), Full> {
        if self.tail.wrapping_sub(self.head_seen) >= self.mem.slots {
            self.look()?;
        }
        let [first, second]: [u64; 2] = zerocopy::transmute!(message);
        // Positions count messages modulo 2^32, slots are a power of two: the product modulo 2^32
        // still names the slot.
        let at = self.tail.wrapping_mul(SLOT);
        self.mem.bytes.write_word(at, first);
        self.mem.bytes.write_word(at.wrapping_add(8), second);
        self.tail = self.tail.wrapping_add(1);
        self.mem.head.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    fn look(&mut self) -> Result<(), Full> {
        let head = self.mem.head.head.load(Ordering::Acquire);
        let taken = head.wrapping_sub(self.head_seen);
        if taken == 0 || taken > self.tail.wrapping_sub(self.head_seen) {
            return Err(Full);
        }
        self.head_seen = head;
        Ok(())
    }
}

/// The end that takes messages out. Its position is its own, and begins at 0.
pub struct RingConsumer {
    mem: RingMem,
    head: u32,
    tail_seen: u32,
}

impl RingConsumer {
    /// The ring of `slots` messages whose head is at `offset`.
    #[cfg(not(loom))]
    pub fn new(
        memory: &std::sync::Arc<Segment>,
        offset: u32,
        slots: u32,
    ) -> Result<RingConsumer, ShmError> {
        Ok(RingConsumer { mem: RingMem::new(memory, offset, slots)?, head: 0, tail_seen: 0 })
    }

    /// Takes the next message out, if there is one.
    pub fn pop(&mut self) -> Result<Option<Message>, Hostile> {
        if self.head == self.tail_seen && !self.look()? {
            return Ok(None);
        }
        let at = self.head.wrapping_mul(SLOT);
        let words = [self.mem.bytes.read_word(at), self.mem.bytes.read_word(at.wrapping_add(8))];
        self.head = self.head.wrapping_add(1);
        self.mem.head.head.store(self.head, Ordering::Release);
        Ok(Some(zerocopy::transmute!(words)))
    }

    /// Whether there is no message now. An impossible position counts as a message:
    /// [`RingConsumer::pop`] says what is wrong.
    pub fn is_empty(&self) -> bool {
        self.mem.head.tail.load(Ordering::Acquire) == self.head
    }

    fn look(&mut self) -> Result<bool, Hostile> {
        let tail = self.mem.head.tail.load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        if waiting > self.mem.slots {
            return Err(Hostile);
        }
        self.tail_seen = tail;
        Ok(waiting > 0)
    }
}

/// Both ends of a ring of the model checker's.
#[cfg(loom)]
pub(crate) fn modelled(slots: u32) -> (RingProducer, RingConsumer) {
    let mem = RingMem::modelled(slots);
    (
        RingProducer { mem: mem.clone(), tail: 0, head_seen: 0 },
        RingConsumer { mem, head: 0, tail_seen: 0 },
    )
}
