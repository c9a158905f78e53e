//! What C hands over: pointers that may be null, lengths that may be wrong, structs that may not be
//! aligned.

use core::mem::size_of;
use core::slice;

use crate::status::clw_status;

/// A copy of what a pointer leads to, wherever it is aligned.
///
/// # Safety
/// `pointer` is null or leads to a `T`.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, clw_status> {
    if pointer.is_null() { Err(clw_status::CLW_NULL) } else { Ok(pointer.read_unaligned()) }
}

/// The same where null stands for something.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_or<T: Copy>(pointer: *const T) -> Option<T> {
    read(pointer).ok()
}

/// Refuses a null pointer to where an answer is to be put, before anything is changed.
pub(crate) fn is_there<T>(pointer: *const T) -> Result<(), clw_status> {
    if pointer.is_null() { Err(clw_status::CLW_NULL) } else { Ok(()) }
}

/// Puts an answer where the caller wants it; nowhere when that is null.
///
/// # Safety
/// `pointer` is null or leads to room for a `T`.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        pointer.write_unaligned(value);
    }
}

/// The items at a pointer. Null will do when there are none.
///
/// # Safety
/// `pointer` is null or leads to `count` items that nobody writes while `'a` lasts.
pub(crate) unsafe fn items<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], clw_status> {
    check(pointer, count)?;
    Ok(if count == 0 { &[] } else { slice::from_raw_parts(pointer, count) })
}

/// The same, to be written.
///
/// # Safety
/// `pointer` is null or leads to `count` items that nobody else reads or writes while `'a` lasts.
pub(crate) unsafe fn items_mut<'a, T>(
    pointer: *mut T,
    count: usize,
) -> Result<&'a mut [T], clw_status> {
    check(pointer, count)?;
    Ok(if count == 0 { &mut [] } else { slice::from_raw_parts_mut(pointer, count) })
}

fn check<T>(pointer: *const T, count: usize) -> Result<(), clw_status> {
    if count == 0 {
        return Ok(());
    }
    is_there(pointer)?;
    // No object of the language is longer; and items are asked for where they can be.
    let is_too_long =
        count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize);
    if is_too_long || !pointer.is_aligned() { Err(clw_status::CLW_INVALID) } else { Ok(()) }
}

/// A text of the caller's, which ends with a zero byte within `most` bytes.
///
/// # Safety
/// `pointer` is null or leads to bytes up to a zero byte, or to `most` bytes, that nobody writes
/// while `'a` lasts.
pub(crate) unsafe fn text<'a>(
    pointer: *const core::ffi::c_char,
    most: usize,
) -> Result<&'a str, clw_status> {
    is_there(pointer)?;
    let bytes = pointer.cast::<u8>();
    let len = (0..most).find(|&at| *bytes.add(at) == 0).ok_or(clw_status::CLW_TOO_LONG)?;
    core::str::from_utf8(slice::from_raw_parts(bytes, len)).map_err(|_| clw_status::CLW_INVALID)
}
