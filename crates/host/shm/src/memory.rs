//! Memory that two processes map: a memfd whose size is sealed, so that neither can take pages away
//! from under the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::words::{Shared, Words};
use crate::{QueuePairView, SessionView};

/// The longest segment, so that every place in one is named by 32 bits.
pub const MAX_SEGMENT: usize = 1 << 31;

/// Why memory could not be mapped, or a place in it not be used.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// The kernel said no.
    #[error("the memory could not be mapped")]
    Io(#[from] io::Error),
    /// The file is not as long as was said.
    #[error("the memory is {is} bytes long instead of {said}")]
    Size {
        /// Bytes that were announced.
        said: usize,
        /// Bytes that the file has.
        is: u64,
    },
    /// The file could still be made shorter, which would kill whoever touches it.
    #[error("the memory's size is not sealed")]
    Unsealed,
    /// A place lies outside of the segment or is not aligned.
    #[error(
        "{len} bytes at {offset} do not lie in a segment of {segment} bytes, or not as they must"
    )]
    Place {
        /// Where it should begin.
        offset: u32,
        /// How many bytes.
        len: usize,
        /// The segment's bytes.
        segment: usize,
    },
    /// Sizes that make no FIFO or ring.
    #[error("{capacity} is no capacity, or {limit} no limit of it")]
    Capacity {
        /// Bytes or slots.
        capacity: u32,
        /// How many of them may be used.
        limit: u32,
    },
    /// The memory begins with other words than ours, or those of another version.
    #[error("this is not memory of this version of Clearway")]
    Version,
}

/// One mapped memfd. Unmapped when the last user is gone.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    #[cfg(test)]
    on_heap: bool,
}

// SAFETY: a piece of address space; what lies in it is reached through atomics and copies only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// New zeroed memory of `len` bytes that who gets the descriptor may read and write.
    pub fn create(name: &str, len: usize) -> io::Result<(Segment, OwnedFd)> {
        create(name, len, SealFlags::empty())
    }

    /// New zeroed memory of `len` bytes that only this process writes: who gets the descriptor can
    /// map it for reading only.
    pub fn create_for_readers(name: &str, len: usize) -> io::Result<(Segment, OwnedFd)> {
        create(name, len, SealFlags::FUTURE_WRITE)
    }

    /// Maps memory of another process, `len` bytes of it.
    pub fn map(fd: BorrowedFd<'_>, len: usize) -> Result<Segment, ShmError> {
        check(fd, len)?;
        Ok(map(fd, len, true)?)
    }

    /// Maps memory of another process for reading only.
    pub fn map_read_only(fd: BorrowedFd<'_>, len: usize) -> Result<Segment, ShmError> {
        check(fd, len)?;
        Ok(map(fd, len, false)?)
    }

    /// How many bytes.
    #[allow(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The words of a queue pair, which are at its beginning.
    pub fn queue_pair(self: &Arc<Self>) -> Result<QueuePairView, ShmError> {
        self.words(0)
    }

    /// The words of the session at `offset`.
    pub fn session(self: &Arc<Self>, offset: u32) -> Result<SessionView, ShmError> {
        self.words(offset)
    }

    /// Gives the pages of these bytes back to the system; they read as zero from then on. Both
    /// numbers are multiples of the page size.
    pub fn give_back(&self, offset: u32, len: usize) -> io::Result<()> {
        let inside = offset as usize <= self.len && len <= self.len - offset as usize;
        if !inside || !self.writable {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if len == 0 {
            return Ok(());
        }
        // SAFETY: inside of the mapping, whose bytes may change at any time anyway.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().add(offset as usize).cast(),
                len,
                Advice::LinuxRemove,
            )
        }?;
        Ok(())
    }

    /// Words of the type `T` at `offset`; refused in memory that cannot be written.
    pub(crate) fn words<T: Shared>(self: &Arc<Self>, offset: u32) -> Result<Words<T>, ShmError> {
        match self.writable {
            true => Words::new(self, offset),
            false => Err(ShmError::Io(io::ErrorKind::PermissionDenied.into())),
        }
    }

    /// Where `len` bytes at `offset` lie, aligned to `align`.
    pub(crate) fn at(
        &self,
        offset: u32,
        len: usize,
        align: usize,
    ) -> Result<NonNull<u8>, ShmError> {
        let start = offset as usize;
        if start > self.len || len > self.len - start || start % align != 0 {
            return Err(ShmError::Place { offset, len, segment: self.len });
        }
        // SAFETY: inside of the mapping.
        Ok(unsafe { self.base.add(start) })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.on_heap {
            return heap::free(self);
        }
        // SAFETY: the mapping is ours, and nothing points into it any more: views hold an `Arc` of
        // the segment.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Seals that keep the size as it is.
const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn create(name: &str, len: usize, more: SealFlags) -> io::Result<(Segment, OwnedFd)> {
    if len == 0 || len > MAX_SEGMENT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        fd => fd?,
    };
    rustix::fs::ftruncate(&fd, len as u64)?;
    let segment = map(fd.as_fd(), len, true)?;
    rustix::fs::fcntl_add_seals(&fd, SIZE | SealFlags::SEAL | more)?;
    Ok((segment, fd))
}

fn check(fd: BorrowedFd<'_>, said: usize) -> Result<(), ShmError> {
    let is = rustix::fs::fstat(fd).map_err(io::Error::from)?.st_size as u64;
    if is != said as u64 || said == 0 || said > MAX_SEGMENT {
        return Err(ShmError::Size { said, is });
    }
    match rustix::fs::fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(SIZE) => Ok(()),
        _ => Err(ShmError::Unsealed),
    }
}

fn map(fd: BorrowedFd<'_>, len: usize, writable: bool) -> io::Result<Segment> {
    let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    // SAFETY: a mapping of its own, at an address that the kernel chooses.
    let base =
        unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
    let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(Segment {
        base,
        len,
        writable,
        #[cfg(test)]
        on_heap: false,
    })
}

#[cfg(test)]
mod heap;
#[cfg(test)]
mod tests;
