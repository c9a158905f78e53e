//! Equal chunks of memory, reserved at start, from which queues take and to which they return.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of a cache line, of nearly every processor.
const LINE: usize = 64;

/// No chunk.
pub(super) const NONE: u32 = u32::MAX;

/// The chunks. Pages that no queue ever touched cost nothing: the memory comes zeroed from the system, and chunks that were never used are
/// handed out only when no used one is free.
pub(super) struct Arena {
    bytes: Box<[u8]>,
    /// Where the first chunk begins: at a cache line, so that what is short lies in one.
    first: usize,
    /// For a chunk in use, the next one of its queue; for a free one, the next free one.
    next: Box<[u32]>,
    free: u32,
    /// Chunks from here on were never used.
    fresh: u32,
    available: u32,
    chunk_len: u32,
}

impl Arena {
    /// `chunks` chunks of `chunk_len` bytes, rounded up to a power of two.
    pub(super) fn new(chunks: u32, chunk_len: u32) -> Arena {
        let chunk_len = chunk_len.clamp(16, 1 << 24).next_power_of_two();
        let spare = if chunk_len as usize >= LINE { LINE - 1 } else { 0 };
        let bytes = vec![0; chunks as usize * chunk_len as usize + spare].into_boxed_slice();
        Arena {
            first: bytes.as_ptr().align_offset(LINE).min(spare),
            bytes,
            next: vec![0; chunks as usize].into_boxed_slice(),
            free: NONE,
            fresh: 0,
            available: chunks,
            chunk_len,
        }
    }

    /// Chunks that are free.
    pub(super) fn available(&self) -> u32 {
        self.available
    }

    /// Chunks in all.
    pub(super) fn capacity(&self) -> u32 {
        self.next.len() as u32
    }

    /// Bytes of one chunk.
    #[inline]
    pub(super) fn chunk_len(&self) -> u32 {
        self.chunk_len
    }

    /// `chunk`, if it is one, will be read, written or given back soon.
    #[inline]
    pub(super) fn prefetch(&self, chunk: u32) {
        clearway_hint::prefetch_slice_at(&self.bytes, self.start(chunk));
        clearway_hint::prefetch_slice_at(&self.next, chunk as usize);
    }

    /// A chunk, followed by none.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        let chunk = self.free;
        // NONE lies beyond the end: one question says both whether there is a free one and where its neighbour is written.
        let Some(next) = self.next.get_mut(chunk as usize) else { return self.take_fresh() };
        self.free = core::mem::replace(next, NONE);
        self.available -= 1;
        Some(chunk)
    }

    #[cold]
    #[inline(never)]
    fn take_fresh(&mut self) -> Option<u32> {
        let chunk = self.fresh;
        *self.next.get_mut(chunk as usize)? = NONE;
        self.fresh += 1;
        self.available -= 1;
        Some(chunk)
    }

    /// `chunk` belongs to nobody any more; returns the one that followed it.
    #[inline(always)]
    pub(super) fn give(&mut self, chunk: u32) -> u32 {
        let next = self.next[chunk as usize];
        self.next[chunk as usize] = self.free;
        self.free = chunk;
        self.available += 1;
        next
    }

    /// The chunk that follows `chunk` in its queue.
    #[inline]
    pub(super) fn next(&self, chunk: u32) -> u32 {
        self.next[chunk as usize]
    }

    /// Makes `next` the follower of `chunk`.
    #[inline]
    pub(super) fn link(&mut self, chunk: u32, next: u32) {
        self.next[chunk as usize] = next;
    }

    /// Where the bytes of `chunk` begin; far outside for no chunk.
    #[inline(always)]
    fn start(&self, chunk: u32) -> usize {
        (chunk as usize).wrapping_mul(self.chunk_len as usize).wrapping_add(self.first)
    }

    /// The bytes of `chunk`.
    #[inline]
    pub(super) fn chunk(&self, chunk: u32) -> &[u8] {
        let at = self.start(chunk);
        &self.bytes[at..at + self.chunk_len as usize]
    }

    /// `len` bytes of `chunk` from its byte `at` on; None when they are not all in it.
    #[inline(always)]
    pub(super) fn part(&self, chunk: u32, at: usize, len: usize) -> Option<&[u8]> {
        let start = self.start(chunk).wrapping_add(at);
        if at + len > self.chunk_len as usize { None } else { self.bytes.get(start..start.wrapping_add(len)) }
    }

    /// As [`Arena::part`], to be written.
    #[inline(always)]
    pub(super) fn part_mut(&mut self, chunk: u32, at: usize, len: usize) -> Option<&mut [u8]> {
        let start = self.start(chunk).wrapping_add(at);
        if at + len > self.chunk_len as usize { None } else { self.bytes.get_mut(start..start.wrapping_add(len)) }
    }

    /// The bytes of `chunk`, to be written.
    #[inline]
    pub(super) fn chunk_mut(&mut self, chunk: u32) -> &mut [u8] {
        let at = self.start(chunk);
        &mut self.bytes[at..at + self.chunk_len as usize]
    }
}
