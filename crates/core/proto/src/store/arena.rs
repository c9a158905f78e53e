//! Equal chunks of memory, reserved at start, from which queues take and to which they return.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of a cache line, of nearly every processor.
const LINE: usize = 64;

/// No chunk.
pub(super) const NONE: u32 = u32::MAX;

/// The chunks, of two sizes: large ones that are lent, and small ones of which there is one for
/// each queue. Pages that no queue ever touched cost nothing: the memory comes zeroed from the
/// system, and chunks that were never used are handed out only when no used one is free.
///
/// A small chunk stands for the end of a large one: it holds the bytes that would be the last of
/// that. So the place of a byte in its chunk follows from its position in the stream whatever the
/// size, and a queue that begins in a small chunk goes on in large ones. Chunks are named by where
/// they, or the large ones they stand for, would begin, in units of small ones:
///
/// ```text
///   | large            | large            | … | small | small | small | …
///   |<- chunk_len  --->|                      |<----->| small_len
///   name 0             name chunk_len/small_len
/// ```
pub(super) struct Arena {
    bytes: Box<[u8]>,
    /// Where the first chunk begins: at a cache line, so that what is short lies in one.
    first: usize,
    /// For a chunk in use, the next one of its queue; for a free one, the next free one of its
    /// size.
    next: Box<[u32]>,
    /// The free chunks of each size.
    free_small: u32,
    free_large: u32,
    /// Chunks from here on were never used, and where they end.
    fresh_small: u32,
    fresh_large: u32,
    end_small: u32,
    end_large: u32,
    /// Large chunks that are free.
    available: u32,
    /// Where the first byte of a small chunk lies in the large one that it stands for.
    small_at: u32,
    /// Large chunks in all.
    large: u32,
    /// The name of the last large chunk, and one more; small ones have larger names.
    names_of_large: u32,
    chunk_len: u32,
    small_len: u32,
}

impl Arena {
    /// `chunks` chunks of `chunk_len` bytes, rounded up to a power of two, all of them lent.
    pub(super) fn new(chunks: u32, chunk_len: u32) -> Arena {
        let chunk_len = chunk_len.clamp(16, 1 << 24).next_power_of_two();
        Arena::with_small(chunks, chunk_len, 0, chunk_len)
    }

    /// The same, with `small` chunks of `small_len` bytes besides, which is rounded up to a power
    /// of two as well and no more than `chunk_len`.
    pub(super) fn with_small(chunks: u32, chunk_len: u32, small: u32, small_len: u32) -> Arena {
        let chunk_len = chunk_len.clamp(16, 1 << 24).next_power_of_two();
        let small_len = small_len.clamp(16, chunk_len).next_power_of_two();
        let steps = chunk_len / small_len;
        // A small chunk's name lies `steps - 1` before its place, so there are as many places
        // before the first one.
        let places = (chunks * steps).max(steps - 1);
        let first_small = places - (steps - 1);
        let spare = if small_len as usize >= LINE { LINE - 1 } else { 0 };
        let bytes =
            vec![0; (places + small) as usize * small_len as usize + spare].into_boxed_slice();
        Arena {
            first: bytes.as_ptr().align_offset(LINE).min(spare),
            bytes,
            next: vec![0; (places + small) as usize].into_boxed_slice(),
            free_small: NONE,
            free_large: NONE,
            fresh_small: first_small,
            fresh_large: 0,
            end_small: first_small + small,
            end_large: chunks * steps,
            available: chunks,
            small_at: chunk_len - small_len,
            large: chunks,
            names_of_large: if chunks == 0 { 0 } else { (chunks - 1) * steps + 1 },
            chunk_len,
            small_len,
        }
    }

    /// Large chunks that are free.
    pub(super) fn available(&self) -> u32 {
        self.available
    }

    /// Whether a small chunk is free.
    pub(super) fn has_small(&self) -> bool {
        self.free_small != NONE || self.fresh_small < self.end_small
    }

    /// Large chunks in all.
    pub(super) fn capacity(&self) -> u32 {
        self.large
    }

    /// Bytes of a large chunk.
    #[inline]
    pub(super) fn chunk_len(&self) -> u32 {
        self.chunk_len
    }

    /// Where the first byte of a small chunk lies in the large one that it stands for.
    #[inline(always)]
    pub(super) fn small_at(&self) -> u32 {
        self.small_at
    }

    /// Bytes of a small one.
    #[inline]
    pub(super) fn small_len(&self) -> u32 {
        self.small_len
    }

    /// Whether `chunk` is a large one; [`NONE`] is not.
    #[inline(always)]
    pub(super) fn is_large(&self, chunk: u32) -> bool {
        chunk < self.names_of_large
    }

    /// `chunk`, if it is one, will be read, written or given back soon.
    #[inline]
    pub(super) fn prefetch(&self, chunk: u32) {
        clearway_hint::prefetch_slice_at(&self.bytes, self.start(chunk));
        clearway_hint::prefetch_slice_at(&self.next, chunk as usize);
    }

    /// A large chunk, followed by none.
    pub(super) fn take(&mut self) -> Option<u32> {
        let chunk = match self.free_large {
            NONE if self.fresh_large < self.end_large => {
                let chunk = self.fresh_large;
                self.fresh_large += self.chunk_len / self.small_len;
                chunk
            }
            NONE => return None,
            chunk => chunk,
        };
        let next = core::mem::replace(self.next.get_mut(chunk as usize)?, NONE);
        if chunk == self.free_large {
            self.free_large = next;
        }
        self.available -= 1;
        Some(chunk)
    }

    /// A small chunk, followed by none.
    #[inline(always)]
    pub(super) fn take_small(&mut self) -> Option<u32> {
        let chunk = self.free_small;
        // NONE lies beyond the end: one question says both whether there is a free one and where
        // its neighbour is written.
        let Some(next) = self.next.get_mut(chunk as usize) else { return self.take_fresh() };
        self.free_small = core::mem::replace(next, NONE);
        Some(chunk)
    }

    #[cold]
    #[inline(never)]
    fn take_fresh(&mut self) -> Option<u32> {
        let chunk = self.fresh_small;
        if chunk >= self.end_small {
            return None;
        }
        *self.next.get_mut(chunk as usize)? = NONE;
        self.fresh_small += 1;
        Some(chunk)
    }

    /// `chunk` belongs to nobody any more; returns the one that followed it.
    #[inline(always)]
    pub(super) fn give(&mut self, chunk: u32) -> u32 {
        if self.is_large(chunk) {
            return self.give_large(chunk);
        }
        let next = core::mem::replace(&mut self.next[chunk as usize], self.free_small);
        self.free_small = chunk;
        next
    }

    #[inline(never)]
    fn give_large(&mut self, chunk: u32) -> u32 {
        let next = core::mem::replace(&mut self.next[chunk as usize], self.free_large);
        self.free_large = chunk;
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

    /// Where the bytes of `chunk`, or of the large one that it stands for, begin; far outside for
    /// no chunk.
    #[inline(always)]
    fn start(&self, chunk: u32) -> usize {
        (chunk as usize).wrapping_mul(self.small_len as usize).wrapping_add(self.first)
    }

    /// The bytes of `chunk` from its byte `at` on; of a small one, those before its own are never
    /// asked for.
    #[inline]
    pub(super) fn chunk_from(&self, chunk: u32, at: usize) -> &[u8] {
        let start = self.start(chunk);
        &self.bytes[start + at..start + self.chunk_len as usize]
    }

    /// `len` bytes of `chunk` from its byte `at` on; None when they are not all in it.
    #[inline(always)]
    pub(super) fn part(&self, chunk: u32, at: usize, len: usize) -> Option<&[u8]> {
        let start = self.start(chunk).wrapping_add(at);
        if at + len > self.chunk_len as usize {
            None
        } else {
            self.bytes.get(start..start.wrapping_add(len))
        }
    }

    /// As [`Arena::part`], to be written.
    #[inline(always)]
    pub(super) fn part_mut(&mut self, chunk: u32, at: usize, len: usize) -> Option<&mut [u8]> {
        let start = self.start(chunk).wrapping_add(at);
        if at + len > self.chunk_len as usize {
            None
        } else {
            self.bytes.get_mut(start..start.wrapping_add(len))
        }
    }

    /// The first `len` bytes of a small chunk, to be written.
    #[inline(always)]
    pub(super) fn small_mut(&mut self, chunk: u32, len: usize) -> Option<&mut [u8]> {
        let start = self.start(chunk).wrapping_add(self.small_at as usize);
        self.bytes.get_mut(start..start.wrapping_add(len))
    }

    /// As [`Arena::chunk_from`], to be written.
    #[inline]
    pub(super) fn chunk_from_mut(&mut self, chunk: u32, at: usize) -> &mut [u8] {
        let start = self.start(chunk);
        &mut self.bytes[start + at..start + self.chunk_len as usize]
    }
}
