//! A C caller's buffers as Rust's.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};

use libc::iovec;
use smallvec::SmallVec;

use crate::errno::{Answer, fail};
use crate::given;

/// Buffers of one call at most (UIO_MAXIOV).
const MOST: usize = 1024;

/// Bytes of one call at most (MAX_RW_COUNT); what is beyond is left for the next.
const LONGEST: usize = 0x7fff_f000;

/// Buffers that are kept on the stack.
const FEW: usize = 8;

/// Buffers to read from.
pub(crate) type Sources<'a> = SmallVec<[IoSlice<'a>; FEW]>;

/// Buffers to write to.
pub(crate) type Targets<'a> = SmallVec<[IoSliceMut<'a>; FEW]>;

/// A slice is not at null, where there are no bytes either; nor are there any at 1.
fn nowhere(buf: *const c_void) -> *const c_void {
    if buf.is_null() { std::ptr::without_provenance(1) } else { buf }
}

/// One buffer to read from.
///
/// # Safety
/// `buf` is null or points to `len` readable bytes, for `'a`.
pub(crate) unsafe fn source<'a>(buf: *const c_void, len: usize) -> Answer<IoSlice<'a>> {
    given::possible(buf, len.min(LONGEST))?;
    if len == 0 {
        return Ok(IoSlice::new(&[]));
    }
    // SAFETY: the caller's, or who copies from it finds that it is not there.
    Ok(IoSlice::new(unsafe { std::slice::from_raw_parts(nowhere(buf).cast(), len.min(LONGEST)) }))
}

/// One buffer to write to.
///
/// # Safety
/// `buf` is null or points to `len` writable bytes, for `'a`.
pub(crate) unsafe fn target<'a>(buf: *mut c_void, len: usize) -> Answer<IoSliceMut<'a>> {
    given::possible(buf, len.min(LONGEST))?;
    if len == 0 {
        return Ok(IoSliceMut::new(&mut []));
    }
    let buf = nowhere(buf).cast_mut().cast();
    // SAFETY: the caller's, or who copies to it finds that it is not there. What lies there may
    // never have been written: the client only writes to it.
    Ok(IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(buf, len.min(LONGEST)) }))
}

/// The buffers of a `writev`; `too_many` is how this call refuses more than there may be.
///
/// # Safety
/// `iov` is null or points to `count` vectors, each of which names readable bytes, for `'a`.
pub(crate) unsafe fn sources<'a>(
    iov: *const iovec,
    count: usize,
    too_many: c_int,
) -> Answer<Sources<'a>> {
    // SAFETY: the caller's.
    unsafe { each(iov, count, too_many) }?
        // SAFETY: each names readable bytes.
        .map(|(base, len)| unsafe { source(base.cast_const(), len) })
        .collect()
}

/// The buffers of a `readv`.
///
/// # Safety
/// `iov` is null or points to `count` vectors, each of which names writable bytes, for `'a`.
pub(crate) unsafe fn targets<'a>(
    iov: *const iovec,
    count: usize,
    too_many: c_int,
) -> Answer<Targets<'a>> {
    // SAFETY: the caller's.
    unsafe { each(iov, count, too_many) }?
        // SAFETY: each names writable bytes.
        .map(|(base, len)| unsafe { target(base, len) })
        .collect()
}

/// Base and length of each vector, the lengths cut so that all together stay below the limit.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn each<'a>(
    iov: *const iovec,
    count: usize,
    too_many: c_int,
) -> Answer<impl Iterator<Item = (*mut c_void, usize)> + 'a> {
    if count > MOST {
        return fail(too_many);
    }
    given::readable(iov.cast(), count * size_of::<iovec>())?;
    let vectors: &[iovec] = match count {
        0 => &[],
        // SAFETY: not null, as was seen above, so the caller's.
        _ => unsafe { std::slice::from_raw_parts(iov, count) },
    };
    if vectors.iter().any(|vector| isize::try_from(vector.iov_len).is_err()) {
        return fail(libc::EINVAL);
    }
    let mut left = LONGEST;
    Ok(vectors.iter().map(move |vector| {
        let len = vector.iov_len.min(left);
        left -= len;
        (vector.iov_base, len)
    }))
}
