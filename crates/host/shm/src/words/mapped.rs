//! Words and bytes in a mapped segment.

use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::{io, slice};

use crate::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::fault::copy;
use crate::layout::{FifoHead, HostHead, QueuePairHead, RingHead, SessionHead, WorkerWord};
use crate::memory::{Segment, ShmError};

/// A type that may lie in memory which others write.
///
/// # Safety
/// Every byte of the type belongs to an atomic, and any value of the bytes is a value of the type.
pub unsafe trait Shared {}

// SAFETY: atomics only, without padding; the assertions in `layout` add the sizes up.
unsafe impl Shared for HostHead {}
// SAFETY: as above.
unsafe impl Shared for WorkerWord {}
// SAFETY: as above.
unsafe impl Shared for QueuePairHead {}
// SAFETY: as above.
unsafe impl Shared for RingHead {}
// SAFETY: as above.
unsafe impl Shared for FifoHead {}
// SAFETY: as above.
unsafe impl Shared for SessionHead {}

/// Words of the type `T` somewhere in a segment, which lives as long as they are used.
pub struct Words<T> {
    words: NonNull<T>,
    memory: Arc<Segment>,
}

// SAFETY: gives out `&T` only, and `T` is made of atomics.
unsafe impl<T: Shared> Send for Words<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Words<T> {}

impl<T: Shared> Words<T> {
    pub(crate) fn new(memory: &Arc<Segment>, offset: u32) -> Result<Words<T>, ShmError> {
        let words = memory.at(offset, size_of::<T>(), align_of::<T>())?.cast();
        Ok(Words { words, memory: memory.clone() })
    }
}

impl<T> Clone for Words<T> {
    fn clone(&self) -> Words<T> {
        Words { words: self.words, memory: self.memory.clone() }
    }
}

impl<T: Shared> Deref for Words<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `Segment::at` checked bounds and alignment, `memory` keeps it mapped, and any
        // bytes are a `T` of atomics.
        unsafe { self.words.as_ref() }
    }
}

/// Bytes in a segment, used in a circle: position `p` lies at `p % capacity`. The capacity is a
/// power of two, at least 8.
#[derive(Clone)]
pub(crate) struct Bytes {
    base: NonNull<u8>,
    mask: u32,
    _memory: Arc<Segment>,
}

// SAFETY: the memory is shared with other processes anyway; everything below copies through raw
// pointers and never keeps a reference.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn new(
        memory: &Arc<Segment>,
        offset: u32,
        capacity: u32,
    ) -> Result<Bytes, ShmError> {
        let base = memory.at(offset, capacity as usize, align_of::<u64>())?;
        Ok(Bytes { base, mask: capacity - 1, _memory: memory.clone() })
    }

    /// How many of `len` bytes at `position` lie before the end of the memory, and where they
    /// begin.
    fn split(&self, position: u32, len: usize) -> (NonNull<u8>, usize) {
        assert!(len <= self.mask as usize + 1, "more than the memory holds");
        let start = (position & self.mask) as usize;
        let first = len.min(self.mask as usize + 1 - start);
        // SAFETY: `start` is below the capacity.
        (unsafe { self.base.add(start) }, first)
    }

    /// Copies `source` to `position`. False: it is not there ([`crate::fault`]).
    ///
    /// Other processes are outside of what the compiler reasons about, as devices are. What a race
    /// can do is mix old and new bytes in the copy, and those who copy bear any bytes.
    pub(crate) fn write(&self, position: u32, source: &[u8]) -> bool {
        let (start, first) = self.split(position, source.len());
        let (front, back) = source.split_at(first);
        // SAFETY: `split` keeps both parts inside the memory, the second one at its beginning;
        // private memory does not overlap it.
        unsafe {
            copy(front.as_ptr(), start.as_ptr(), front.len())
                && (back.is_empty() || copy(back.as_ptr(), self.base.as_ptr(), back.len()))
        }
    }

    /// Copies from `position` to `out`. False: that is not there.
    pub(crate) fn read(&self, position: u32, out: &mut [u8]) -> bool {
        let (start, first) = self.split(position, out.len());
        let (front, back) = out.split_at_mut(first);
        // SAFETY: as in `write`.
        unsafe {
            copy(start.as_ptr(), front.as_mut_ptr(), front.len())
                && (back.is_empty() || copy(self.base.as_ptr(), back.as_mut_ptr(), back.len()))
        }
    }

    /// The `len` bytes at `position` where they lie: those up to the end of the memory, and those
    /// from its beginning.
    pub(crate) fn shared(&self, position: u32, len: usize) -> [&[AtomicU8]; 2] {
        let (start, first) = self.split(position, len);
        // SAFETY: `split` keeps both parts inside the memory, which stays mapped as long as `self`
        // is there; any bytes are atomics of bytes.
        unsafe {
            [
                slice::from_raw_parts(start.as_ptr().cast(), first),
                slice::from_raw_parts(self.base.as_ptr().cast(), len - first),
            ]
        }
    }

    /// Has the kernel copy bytes of a file, those from its byte `at` on, to `position`: `len` at
    /// most. Answers how many.
    pub(crate) fn read_file(
        &self,
        position: u32,
        len: usize,
        file: i32,
        at: u64,
    ) -> io::Result<usize> {
        let (start, first) = self.split(position, len);
        let got = read_at(file, start, first, at)?;
        if got < first || first == len {
            return Ok(got);
        }
        // What is there already counts, whatever comes of the rest.
        Ok(got + read_at(file, self.base, len - first, at + first as u64).unwrap_or(0))
    }

    /// Copies `len` bytes at `position` to `to_position` of other memory.
    pub(crate) fn copy_to(
        &self,
        mut position: u32,
        to: &Bytes,
        mut to_position: u32,
        mut len: usize,
    ) {
        while len > 0 {
            let ((from, first), (dest, room)) =
                (self.split(position, len), to.split(to_position, len));
            let piece = first.min(room);
            // SAFETY: `split` keeps the piece inside of either memory. Whether the two lie over
            // each other does not matter to this copy.
            unsafe { copy_over(from.as_ptr(), dest.as_ptr(), piece) };
            // A piece is no longer than the memory, whose length is a u32.
            position = position.wrapping_add(piece as u32);
            to_position = to_position.wrapping_add(piece as u32);
            len -= piece;
        }
    }

    fn word(&self, position: u32) -> &AtomicU64 {
        let start = (position & self.mask & !7) as usize;
        // SAFETY: a multiple of 8 below a capacity that is one too; `new` checked the alignment;
        // the reference is to an atomic.
        unsafe { self.base.add(start).cast().as_ref() }
    }

    /// Stores a word at `position`, a multiple of 8.
    pub(crate) fn write_word(&self, position: u32, word: u64) {
        self.word(position).store(word, Ordering::Relaxed);
    }

    /// The word at `position`, read exactly once: what is decided by it is decided by one value.
    pub(crate) fn read_word(&self, position: u32) -> u64 {
        self.word(position).load(Ordering::Relaxed)
    }
}

/// A plain copy between two places that other processes may write meanwhile, and that may be one
/// place.
///
/// # Safety
/// As [`ptr::copy`].
#[inline(never)]
unsafe fn copy_over(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe { ptr::copy(from, to, len) }
}

/// By the system call itself, so that no thread is cancelled in it.
fn read_at(file: i32, into: NonNull<u8>, len: usize, at: u64) -> io::Result<usize> {
    loop {
        // SAFETY: callers name memory of that length, which nobody here has a reference to but as
        // atomics; the kernel writes it as another process would.
        let got = unsafe { libc::syscall(libc::SYS_pread64, file, into.as_ptr(), len, at) };
        match usize::try_from(got) {
            Ok(got) => return Ok(got),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
