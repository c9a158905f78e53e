//! What a program names by pointers. It may not be there, or not be the program's to write: that is
//! EFAULT, as from the kernel.
//!
//! Buffers are not asked about beforehand: who copies to or from them finds out. Everything else is
//! asked about before it is touched. So it is once the process has a socket
//! ([`crate::signals::faults`]); before, a fault is the program's end.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use clearway_client::fault;

use crate::errno::{Answer, fail};
use crate::signals::faults;

/// No memory of a program lies at this address, or above.
#[cfg(target_pointer_width = "64")]
const END: usize = if cfg!(target_arch = "x86_64") { (1 << 47) - 4096 } else { 1 << 52 };

/// All of it lies where memory of programs may be. The kernel asks that even of nothing.
fn is_possible(at: *const c_void, len: usize) -> bool {
    at.addr().checked_add(len).is_some_and(|end| end <= END)
}

/// Whether a buffer may be there, for who finds out by copying.
pub(crate) fn possible(at: *const c_void, len: usize) -> Answer<()> {
    let is_known = is_possible(at, len) && (len == 0 || !at.is_null() || faults::are_caught());
    if is_known { Ok(()) } else { fail(libc::EFAULT) }
}

/// Whether so many bytes may be read.
pub(crate) fn readable(at: *const c_void, len: usize) -> Answer<()> {
    // SAFETY: a fault is recovered from.
    looked_at(at, len, || unsafe { fault::may_read(at, len) })
}

/// Whether so many bytes may be written.
pub(crate) fn writable(at: *mut c_void, len: usize) -> Answer<()> {
    // SAFETY: as above.
    looked_at(at, len, || unsafe { fault::may_write(at, len) })
}

/// What a look at the bytes says, where one can be taken.
fn looked_at(at: *const c_void, len: usize, look: impl FnOnce() -> bool) -> Answer<()> {
    let is_there = len == 0 || !at.is_null() && (!faults::may_be_caught() || look());
    if is_possible(at, len) && is_there { Ok(()) } else { fail(libc::EFAULT) }
}

/// What lies there, aligned or not.
///
/// # Safety
/// Any bytes are a `T`, and it is null or there, or faults are caught.
pub(crate) unsafe fn read<T: Copy>(at: *const T) -> Answer<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the place is ours, and that of the program may be missing.
    let is_read = is_possible(at.cast(), size_of::<T>())
        && !at.is_null()
        && unsafe { fault::copy(at.cast(), value.as_mut_ptr().cast(), size_of::<T>()) };
    // SAFETY: all of its bytes were copied, and any are a value.
    if is_read { Ok(unsafe { value.assume_init() }) } else { fail(libc::EFAULT) }
}

/// Writes bytes there.
///
/// # Safety
/// It is null or there, or faults are caught.
pub(crate) unsafe fn write(at: *mut c_void, bytes: &[u8]) -> Answer<()> {
    let is_written = is_possible(at, bytes.len())
        && (bytes.is_empty() || !at.is_null())
        // SAFETY: the bytes are ours, and the program's place may be missing.
        && unsafe { fault::copy(bytes.as_ptr(), at.cast(), bytes.len()) };
    if is_written { Ok(()) } else { fail(libc::EFAULT) }
}
