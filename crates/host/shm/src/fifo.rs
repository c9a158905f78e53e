//! A FIFO of bytes from one producer to one consumer.
//!
//! ```text
//!            head                     tail
//!   consumed │ published, not consumed │ free, perhaps written ahead │  limit
//! ```
//!
//! Each end keeps its own position privately and writes it to shared memory for the other. The
//! other's position is read at most once in a call, and must have moved forward by no more than
//! there was to move: else the call ends with [`Hostile`], nothing changes, and the FIFO can still
//! be used safely.
//!
//! Position `p` lies at `p - origin` modulo the capacity. Whenever the producer finds the FIFO
//! empty it moves the origin to where it goes on, so that a conversation of small messages uses the
//! same few pages over and over. The origin stands still while anything is in the FIFO: the
//! consumer reads it when it sees the first bytes after it had none. An origin that is a lie makes
//! its reader take the wrong bytes out of the same memory, and nothing else.
//!
//! The consumer lends the producer so much room, the limit at most, and may take back what is not
//! used yet ([`Consumer::lend`]).

use std::io::{IoSlice, IoSliceMut};

use crate::Hostile;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::layout::FifoHead;
use crate::words::{Bytes, Words};

#[cfg(not(loom))]
use rustix::thread::futex::{self, Flags, Timespec};

#[cfg(not(loom))]
use crate::attach_socket::FifoPlace;
#[cfg(not(loom))]
use crate::memory::{Segment, ShmError};

#[cfg(all(test, not(loom)))]
mod tests;

/// The smallest FIFO, so that a record of words fits in without special cases.
pub const MIN_CAPACITY: u32 = 64;

/// The largest FIFO: differences of positions stay far from where they are ambiguous.
pub const MAX_CAPACITY: u32 = 1 << 30;

/// Bytes in front of a FIFO's memory that a producer goes through without looking whether it may
/// begin anew: one page.
const NEAR: u32 = 4096;

/// What `withheld` is while the consumer gives memory back: nothing is lent, however much is free.
const GIVING_BACK: u32 = u32::MAX;

/// Where a FIFO lies: its words and its bytes, checked once.
#[derive(Clone)]
pub struct FifoMem {
    pub(crate) head: Words<FifoHead>,
    pub(crate) bytes: Bytes,
    capacity: u32,
    limit: u32,
}

impl FifoMem {
    /// The FIFO at `place`, with its words in the segment `head` and its bytes in the segment
    /// `data`.
    #[cfg(not(loom))]
    pub fn new(
        head: &std::sync::Arc<Segment>,
        data: &std::sync::Arc<Segment>,
        place: &FifoPlace,
    ) -> Result<FifoMem, ShmError> {
        let &FifoPlace { capacity, limit, .. } = place;
        let sizes_fit = capacity.is_power_of_two()
            && (MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity)
            && (1..=capacity).contains(&limit);
        if !sizes_fit {
            return Err(ShmError::Capacity { capacity, limit });
        }
        let bytes = Bytes::new(data, place.data.offset, capacity)?;
        Ok(FifoMem { head: head.words(place.head.offset)?, bytes, capacity, limit })
    }

    /// A FIFO of the model checker's.
    #[cfg(loom)]
    pub(crate) fn modelled(capacity: u32) -> FifoMem {
        FifoMem {
            head: Words::modelled(),
            bytes: Bytes::modelled(capacity),
            capacity,
            limit: capacity,
        }
    }

    /// Makes the FIFO empty and both positions 0, before either end is used.
    pub fn clear(&self) {
        let head = &self.head;
        for word in [&head.tail, &head.kicked, &head.head, &head.want_room] {
            word.store(0, Ordering::Release);
        }
        for word in
            [&head.urgent, &head.urgents, &head.urgent_taken, &head.urgent_passed, &head.more]
        {
            word.store(0, Ordering::Release);
        }
        for word in [&head.origin, &head.writing, &head.withheld, &head.drained] {
            word.store(0, Ordering::Release);
        }
    }

    /// The FIFO's words.
    pub fn head(&self) -> &FifoHead {
        &self.head
    }

    /// How many bytes may be in it.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many bytes may be in it now, as far as the consumer lends room: nothing while it gives
    /// memory back.
    pub fn lent(&self) -> u32 {
        self.limit.saturating_sub(self.head.withheld.load(Ordering::Acquire))
    }

    /// The same for a process, which waits while the consumer gives memory back: that takes a moment
    /// and is no reason to tell a program that there is no room. None: it took too long.
    fn lent_soon(&self) -> Option<u32> {
        let mut brief = BriefWait::default();
        loop {
            let withheld = self.head.withheld.load(Ordering::Acquire);
            if withheld != GIVING_BACK {
                return Some(self.limit.saturating_sub(withheld));
            }
            if !brief.wait(&self.head.withheld) {
                return None;
            }
        }
    }

    /// How many bytes may be in it, for a process that is asked whether it may write: see
    /// [`Producer::begin`].
    pub fn lent_to_process(&self) -> u32 {
        self.lent_soon().unwrap_or(0)
    }
}

/// Waits for a word of the worker's to be another than [`GIVING_BACK`], which it is within
/// microseconds, unless the worker gets no processor.
#[derive(Default)]
struct BriefWait {
    #[cfg(not(loom))]
    looks: u32,
}

#[cfg(not(loom))]
impl BriefWait {
    /// Looks before the thread sleeps.
    const SPINS: u32 = 200;

    /// How often it sleeps at most, and how long, for nobody wakes it: a second altogether.
    const SLEEPS: u32 = 2000;
    const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

    /// Waits a little. False: it has waited long enough.
    #[cold]
    fn wait(&mut self, word: &AtomicU32) -> bool {
        self.looks += 1;
        if self.looks <= Self::SPINS {
            std::hint::spin_loop();
        } else {
            // One of the few calls that a confined process is left with.
            let _ = futex::wait(word, Flags::empty(), GIVING_BACK, Some(&Self::SLEEP));
        }
        self.looks <= Self::SPINS + Self::SLEEPS
    }
}

#[cfg(loom)]
impl BriefWait {
    /// The model's other threads go on.
    fn wait(&mut self, _word: &AtomicU32) -> bool {
        loom::thread::yield_now();
        true
    }
}

/// The end that puts bytes in.
pub struct Producer {
    pub(crate) mem: FifoMem,
    pub(crate) tail: u32,
    head_seen: u32,
    lent_seen: u32,
    origin: u32,
    /// Bytes behind the tail up to the last one that was written ahead.
    ahead: u32,
    /// Since it began to write there was something lent, so its memory stays until it ends.
    has_memory: bool,
    faulted: bool,
}

impl Producer {
    /// Where it goes on: bytes that were ever put in, modulo 2^32.
    pub fn position(&self) -> u32 {
        self.tail
    }

    /// The producer of a FIFO that is empty and new.
    pub fn new(mem: FifoMem) -> Producer {
        let lent_seen = mem.lent();
        Producer {
            mem,
            tail: 0,
            head_seen: 0,
            lent_seen,
            origin: 0,
            ahead: 0,
            has_memory: false,
            faulted: false,
        }
    }

    /// Goes on where the last producer stopped, as the shared memory says. For ends that several
    /// threads or processes use, under a lock.
    pub fn resume(mem: FifoMem) -> Result<Producer, Hostile> {
        let mut producer = Producer::new(mem);
        producer.refresh()?;
        Ok(producer)
    }

    /// What [`Producer::resume`] does, for a producer that others may have used since.
    pub fn refresh(&mut self) -> Result<(), Hostile> {
        let tail = self.mem.head.tail.load(Ordering::Acquire);
        let head = self.mem.head.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) > self.mem.capacity {
            return Err(Hostile);
        }
        if tail != self.tail {
            // What we wrote ahead, and did not publish before somebody else went on, is nobody's.
            self.ahead = 0;
        }
        (self.tail, self.head_seen) = (tail, head);
        (self.origin, self.lent_seen) =
            (self.mem.head.origin.load(Ordering::Acquire), self.mem.lent());
        Ok(())
    }

    /// From now until [`Producer::end_write`] the memory is written: the consumer does not give it
    /// back. Look at the FIFO after this, not before.
    pub fn begin_write(&self) {
        self.mem.head.writing.store(1, Ordering::Relaxed);
        // Either the consumer's fence comes later and it sees this word, or ours does and we see
        // that nothing is lent.
        fence(Ordering::SeqCst);
    }

    /// What [`Producer::begin_write`] and [`Producer::refresh`] do, for a process: where the
    /// consumer gives memory back just now, it waits until that is over.
    pub fn begin(&mut self) -> Result<(), Hostile> {
        self.begin_write();
        let lent = self.mem.lent_soon();
        self.refresh()?;
        if let Some(lent) = lent {
            // It saw, or will see, that we write. Should it withhold everything by now, then for
            // nothing.
            (self.lent_seen, self.has_memory) = (lent, true);
        }
        Ok(())
    }

    /// What was to be written is written.
    pub fn end_write(&mut self) {
        self.has_memory = false;
        self.mem.head.writing.store(0, Ordering::Release);
    }

    /// Where in the memory the byte `at` bytes behind the tail lies.
    pub fn offset(&self, at: u32) -> u32 {
        self.tail.wrapping_add(at).wrapping_sub(self.origin) & (self.mem.capacity - 1)
    }

    /// Bytes behind the tail up to the last one that was written ahead.
    pub fn ahead(&self) -> u32 {
        self.ahead
    }

    /// The FIFO.
    pub fn mem(&self) -> &FifoMem {
        &self.mem
    }

    /// From now on so many bytes may be in it, at most its capacity. What is already in it stays.
    pub fn set_limit(&mut self, limit: u32) {
        self.mem.limit = limit.clamp(1, self.mem.capacity);
    }

    /// How many bytes were published and not consumed.
    #[allow(
        clippy::len_without_is_empty,
        reason = "it must look at shared memory, which can be wrong"
    )]
    pub fn len(&mut self) -> Result<u32, Hostile> {
        self.look()?;
        Ok(self.used())
    }

    /// How many bytes may be written.
    pub fn room(&mut self) -> Result<u32, Hostile> {
        self.look()?;
        Ok(self.known_room())
    }

    /// Copies as many bytes as there is room for, and publishes them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Hostile> {
        let len = self.write_ahead(0, bytes)?;
        self.publish(len);
        Ok(len as usize)
    }

    /// Copies as many bytes of `parts` behind each other as there is room for, and publishes them
    /// at once.
    pub fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Hostile> {
        let mut written = 0;
        for part in parts {
            let len = self.write_ahead(written, part)?;
            written += len;
            if (len as usize) < part.len() {
                break;
            }
        }
        self.publish(written);
        Ok(written as usize)
    }

    /// Copies bytes to `at` bytes behind the tail, as many as there is room for, and publishes
    /// nothing. When `bytes` are not there it writes nothing, and what was written ahead before is
    /// not to be published either ([`Producer::faulted`]).
    pub fn write_ahead(&mut self, at: u32, bytes: &[u8]) -> Result<u32, Hostile> {
        let wanted = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let len = self.begin_ahead(at, wanted)?;
        if !self.mem.bytes.write(self.offset(at), &bytes[..len as usize]) {
            return Ok(self.fault());
        }
        self.note_ahead(if len > 0 { at + len } else { 0 });
        Ok(len)
    }

    #[cold]
    fn fault(&mut self) -> u32 {
        self.ahead = 0;
        self.faulted = true;
        0
    }

    /// Whether bytes were not there that should have been written ([`crate::fault`]), since this
    /// was asked last.
    pub fn faulted(&mut self) -> bool {
        std::mem::take(&mut self.faulted)
    }

    /// So many bytes are about to be written at `at` bytes behind the tail: answers for how many of
    /// them there is room.
    pub(crate) fn begin_ahead(&mut self, at: u32, wanted: u32) -> Result<u32, Hostile> {
        let room = self.room_for(at.saturating_add(wanted))?.saturating_sub(at);
        let len = wanted.min(room);
        if at == 0 && self.used() > 0 && self.offset(0).saturating_add(len) > NEAR {
            // Perhaps it is empty by now, and no further memory need be touched.
            self.look()?;
        }
        self.begin_anew();
        Ok(len)
    }

    /// So many bytes behind the tail were written, or are about to be.
    pub(crate) fn note_ahead(&mut self, len: u32) {
        self.ahead = self.ahead.max(len);
    }

    /// In a FIFO with nothing in it the next byte lies in front again.
    pub(crate) fn begin_anew(&mut self) {
        if self.tail == self.head_seen && self.ahead == 0 && self.tail != self.origin {
            self.origin = self.tail;
            // Before the tail moves: who sees bytes sees where they lie.
            self.mem.head.origin.store(self.origin, Ordering::Release);
        }
    }

    /// The next `len` bytes behind the tail, all of them written ahead, become the consumer's.
    pub fn publish(&mut self, len: u32) {
        debug_assert!(
            len <= self.mem.capacity - self.used(),
            "only what was written can be published"
        );
        if len > 0 {
            self.tail = self.tail.wrapping_add(len);
            self.ahead = self.ahead.saturating_sub(len);
            // Release: who sees the position sees the bytes.
            self.mem.head.tail.store(self.tail, Ordering::Release);
        }
    }

    /// Whether more bytes are published right after the next ones, so that the consumer may wait
    /// for them. Call before those are published. Who says that there are has to publish some and
    /// to look at [`Producer::kick`] then.
    pub fn say_more(&self, more: bool) {
        let more = u32::from(more);
        // The producer's own line: nobody else writes it.
        if self.mem.head.more.load(Ordering::Relaxed) != more {
            self.mem.head.more.store(more, Ordering::Relaxed);
        }
    }

    /// Urgent data ends `ahead` bytes behind the tail. Call before they are published.
    pub fn mark_urgent(&self, ahead: u32) {
        self.mem.head.urgent.store(self.tail.wrapping_add(ahead), Ordering::Release);
        // The first mark is number 1; after four thousand million of them a 0 would look like none.
        let next = self.mem.head.urgents.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.mem.head.urgents.store(next, Ordering::Release);
    }

    /// After publishing: true when the consumer must be sent a message, because it has looked since
    /// the last one.
    pub fn kick(&self) -> bool {
        // Both sides exchange this word. Either the consumer's exchange comes later, and sees the
        // bytes that were published before ours, or ours comes later, and sees its 0.
        self.mem.head.kicked.swap(1, Ordering::AcqRel) == 0
    }

    /// Asks to be told of room. [`Producer::room`] must be looked at once more afterwards, before
    /// waiting.
    pub fn ask_room(&self) {
        // As in `kick`, with the roles exchanged.
        self.mem.head.want_room.swap(1, Ordering::AcqRel);
    }

    /// The consumer let go when nothing was there that it had not taken out.
    pub fn was_drained(&self) -> bool {
        self.mem.head.drained.load(Ordering::Acquire) != 0
    }

    /// What is known to be free; looks at the consumer's position only when that is less than
    /// `wanted`.
    pub(crate) fn room_for(&mut self, wanted: u32) -> Result<u32, Hostile> {
        if self.known_room() < wanted {
            self.look()?;
        }
        Ok(self.known_room())
    }

    fn used(&self) -> u32 {
        self.tail.wrapping_sub(self.head_seen)
    }

    fn known_room(&self) -> u32 {
        self.mem.limit.min(self.lent_seen).saturating_sub(self.used())
    }

    fn look(&mut self) -> Result<(), Hostile> {
        // Acquire: the consumer's reads of bytes come before ours are written over them.
        let head = self.mem.head.head.load(Ordering::Acquire);
        if head.wrapping_sub(self.head_seen) > self.used() {
            return Err(Hostile);
        }
        self.head_seen = head;
        let withheld = self.mem.head.withheld.load(Ordering::Acquire);
        if withheld != GIVING_BACK || !self.has_memory {
            self.lent_seen = self.mem.limit.saturating_sub(withheld);
        }
        Ok(())
    }
}

/// The end that takes bytes out.
pub struct Consumer {
    pub(crate) mem: FifoMem,
    pub(crate) head: u32,
    tail_seen: u32,
    origin: u32,
    lent: u32,
    faulted: bool,
}

impl Consumer {
    /// Where it goes on: bytes that were ever taken out, modulo 2^32.
    pub fn position(&self) -> u32 {
        self.head
    }

    /// The consumer of a FIFO that is empty and new.
    pub fn new(mem: FifoMem) -> Consumer {
        Consumer { lent: mem.limit, mem, head: 0, tail_seen: 0, origin: 0, faulted: false }
    }

    /// Goes on where the last consumer stopped, as the shared memory says. For ends that several
    /// threads or processes use, under a lock.
    pub fn resume(mem: FifoMem) -> Result<Consumer, Hostile> {
        let mut consumer = Consumer::new(mem);
        consumer.refresh()?;
        Ok(consumer)
    }

    /// What [`Consumer::resume`] does, for a consumer that others may have used since.
    pub fn refresh(&mut self) -> Result<(), Hostile> {
        let head = self.mem.head.head.load(Ordering::Acquire);
        let tail = self.mem.head.tail.load(Ordering::Acquire);
        if tail.wrapping_sub(head) > self.mem.capacity {
            return Err(Hostile);
        }
        (self.head, self.tail_seen) = (head, tail);
        self.origin = self.mem.head.origin.load(Ordering::Acquire);
        Ok(())
    }

    /// The FIFO.
    pub fn mem(&self) -> &FifoMem {
        &self.mem
    }

    /// How many bytes can be read.
    #[allow(
        clippy::len_without_is_empty,
        reason = "it must look at shared memory, which can be wrong"
    )]
    pub fn len(&mut self) -> Result<u32, Hostile> {
        self.look()?;
        Ok(self.known_len())
    }

    /// Copies bytes from `at` bytes behind the head, as many as there are, and consumes nothing.
    /// 0 when `out` is not there ([`Consumer::faulted`]).
    pub fn peek(&mut self, at: u32, out: &mut [u8]) -> Result<usize, Hostile> {
        let wanted = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let there = self.len_for(at.saturating_add(wanted))?.saturating_sub(at);
        let len = wanted.min(there) as usize;
        if self.mem.bytes.read(self.offset(at), &mut out[..len]) {
            return Ok(len);
        }
        self.faulted = true;
        Ok(0)
    }

    /// Whether memory was not there that should have been filled ([`crate::fault`]), since this was
    /// asked last.
    pub fn faulted(&mut self) -> bool {
        std::mem::take(&mut self.faulted)
    }

    /// How many bytes were there at the last look, less those that were consumed since.
    pub fn known(&self) -> u32 {
        self.known_len()
    }

    /// Where in the memory the byte `at` bytes behind the head lies.
    pub fn offset(&self, at: u32) -> u32 {
        self.head.wrapping_add(at).wrapping_sub(self.origin) & (self.mem.capacity - 1)
    }

    /// From now on so many bytes may be in it, the limit at most. What is already in it stays.
    pub fn lend(&mut self, bytes: u32) {
        self.lent = bytes.min(self.mem.limit);
        // Release: memory that was given back before is not written before.
        self.mem.head.withheld.store(self.mem.limit - self.lent, Ordering::Release);
    }

    /// How much was lent last.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Lends nothing for the moment. True: nobody writes either, so that what is not in the FIFO
    /// may be given back to the system. [`Consumer::lend`] must follow, and
    /// [`Consumer::room_wanted`].
    pub fn withhold(&self) -> bool {
        self.mem.head.withheld.store(GIVING_BACK, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.mem.head.writing.load(Ordering::Acquire) == 0
    }

    /// Gives up the first `len` bytes, or all when there are less.
    pub fn consume(&mut self, len: u32) {
        let len = len.min(self.known_len());
        if len > 0 {
            self.head = self.head.wrapping_add(len);
            // Release: our reads come before the producer writes over the bytes.
            self.mem.head.head.store(self.head, Ordering::Release);
        }
    }

    /// Copies as many bytes as there are, and consumes them.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, Hostile> {
        let len = self.peek(0, out)?;
        self.consume(len as u32);
        Ok(len)
    }

    /// Fills `parts` one after the other with as many bytes as there are, and consumes them at
    /// once.
    pub fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Hostile> {
        let mut read = 0;
        for part in parts {
            let len = self.peek(read, part)?;
            read += len as u32;
            if len < part.len() {
                break;
            }
        }
        self.consume(read);
        Ok(read as usize)
    }

    /// Whether the producer was in the midst of writing when it published what [`Consumer::len`]
    /// saw last, or is by now: then it publishes more at once.
    pub fn more_follows(&self) -> bool {
        self.mem.head.more.load(Ordering::Relaxed) != 0
    }

    /// From now on the producer sends a message again when it publishes. [`Consumer::len`] must be
    /// looked at afterwards.
    pub fn attend(&self) {
        self.mem.head.kicked.swap(0, Ordering::AcqRel);
    }

    /// After consuming: true when at least so many bytes are free and the producer must be sent a
    /// message, because it asked for one.
    pub fn room_wanted(&self, at_least_free: u32) -> bool {
        let free = self.lent.saturating_sub(self.known_len());
        free >= at_least_free && self.mem.head.want_room.swap(0, Ordering::AcqRel) != 0
    }

    /// What is known to be there; looks at the producer's position only when that is less than
    /// `wanted`.
    pub(crate) fn len_for(&mut self, wanted: u32) -> Result<u32, Hostile> {
        if self.known_len() < wanted {
            self.look()?;
        }
        Ok(self.known_len())
    }

    fn known_len(&self) -> u32 {
        self.tail_seen.wrapping_sub(self.head)
    }

    fn look(&mut self) -> Result<(), Hostile> {
        // Acquire: who sees the position sees the bytes.
        let tail = self.mem.head.tail.load(Ordering::Acquire);
        let grown = tail.wrapping_sub(self.tail_seen);
        // In this order there is no overflow: what is known is at most the capacity.
        if grown > self.mem.capacity - self.known_len() {
            return Err(Hostile);
        }
        if grown > 0 && self.known_len() == 0 {
            // It stands still from when the producer published the first of these bytes until it
            // sees that we consumed the last one.
            self.origin = self.mem.head.origin.load(Ordering::Acquire);
        }
        self.tail_seen = tail;
        Ok(())
    }
}
