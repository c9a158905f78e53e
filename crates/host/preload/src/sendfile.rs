//! sendfile and splice with a socket of Clearway on one side. Into a stream a file is read to where
//! its bytes are sent from; the others go through a buffer of ours.

use std::ffi::{c_int, c_long, c_uint};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use clearway_client::Errno;
use libc::{off_t, size_t, ssize_t};

use crate::errno::{Answer, blocking, check, fail};
use crate::export::{Inside, interpose};
use crate::given;
use crate::object::{Ours, TABLE, ours};
use crate::signals::held;
use crate::transfer::{self, recv_into, send_from};

/// Bytes that are moved at once.
const CHUNK: usize = 64 * 1024;

interpose! {
    /// `sendfile(2)`
    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t,
        if TABLE.has(out) || TABLE.has(from) => inside(out, from, offset, count);

    /// `splice(2)`
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: size_t,
        flags: c_uint) -> ssize_t, if TABLE.has(from) || TABLE.has(to) => {
        splice_inside(from, from_at, to, to_at, len, flags)
    };
}

/// `sendfile` by the name that programs with 64-bit file offsets call it.
///
/// # Safety
/// As for `sendfile(2)`.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller keeps to what `sendfile` asks.
    unsafe { sendfile(out, from, offset, count) }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> Inside<ssize_t> {
    if ours(from).is_some() {
        // Linux takes only what has pages for the source, which a socket has not.
        return Some(fail(libc::EINVAL));
    }
    let mine = ours(out)?;
    if !offset.is_null() {
        if let Err(errno) = given::writable(offset.cast(), size_of::<off_t>()) {
            return Some(Err(errno));
        }
    }
    // SAFETY: null, or the caller's.
    Some(send_file(&mine, from, unsafe { offset.as_mut() }, count))
}

fn send_file(
    mine: &Ours,
    from: c_int,
    offset: Option<&mut off_t>,
    count: size_t,
) -> Answer<ssize_t> {
    let start = match &offset {
        Some(offset) => **offset,
        // SAFETY: asks where the file stands.
        None => match check(unsafe { libc::lseek(from, 0, libc::SEEK_CUR) } as ssize_t) {
            Err(Errno(libc::ESPIPE)) => return fail(libc::EINVAL),
            at => at? as off_t,
        },
    };
    if start < 0 {
        return fail(libc::EINVAL);
    }
    let sent = if mine.is_stream() {
        transfer::send_file(mine, from, start as u64, count)?
    } else {
        send_in_datagrams(mine, from, start, count)?
    };
    let end = start + sent as off_t;
    match offset {
        Some(offset) => *offset = end,
        // SAFETY: moves the file on by what was sent.
        None => drop(check(unsafe { libc::lseek(from, end, libc::SEEK_SET) } as ssize_t)?),
    }
    Ok(sent as ssize_t)
}

/// Linux makes datagrams of a file, too.
fn send_in_datagrams(mine: &Ours, from: c_int, start: off_t, count: size_t) -> Answer<usize> {
    let mut buffer = vec![0; CHUNK.min(count)];
    let mut sent = 0;
    while sent < count {
        let want = CHUNK.min(count - sent);
        let done = match read_at(from, &mut buffer[..want], start + sent as off_t) {
            Ok(0) => return Ok(sent),
            Ok(got) => send_from(mine, &[IoSlice::new(&buffer[..got])], 0, None),
            Err(errno) => Err(errno),
        };
        match done {
            Ok(now) => sent += now as usize,
            Err(errno) if sent == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// By the system call, so that no thread is cancelled in the midst of our own frames.
fn read_at(fd: c_int, into: &mut [u8], at: off_t) -> Answer<usize> {
    // SAFETY: the buffer is that long.
    let got = unsafe { libc::syscall(libc::SYS_pread64, fd, into.as_mut_ptr(), into.len(), at) };
    check(got as ssize_t).map(|got| got as usize)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn splice_inside(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: size_t,
    flags: c_uint,
) -> Inside<ssize_t> {
    let (source, sink) = (ours(from), ours(to));
    if source.is_none() && sink.is_none() {
        return None;
    }
    if source.is_some() && sink.is_some() {
        // One side has to be a pipe.
        return Some(fail(libc::EINVAL));
    }
    // A place in a pipe is ESPIPE, one in a socket EINVAL.
    let placed = if source.is_some() { (to_at, from_at) } else { (from_at, to_at) };
    if !placed.0.is_null() {
        return Some(fail(libc::ESPIPE));
    }
    if !placed.1.is_null() {
        return Some(fail(libc::EINVAL));
    }
    match (source, sink) {
        (Some(mine), _) => Some(to_pipe(&mine, to, len.min(CHUNK), flags)),
        (_, Some(mine)) => Some(from_pipe(from, &mine, len.min(CHUNK), flags)),
        (None, None) => None,
    }
}

/// A pipe of our own: end to read from, end to write to. It holds a chunk.
fn own_pipe() -> Answer<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: makes two descriptors, which nobody else knows yet.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok(ends.map(|fd| OwnedFd::from_raw_fd(fd)))
    }
}

/// Looks at what there is, gives the pipe as much of it as it takes, and only then takes that much.
/// As on Linux, `flags` are for the pipe, and the socket blocks as it is set to.
fn to_pipe(mine: &Ours, pipe: c_int, len: size_t, flags: c_uint) -> Answer<ssize_t> {
    let mut buffer = vec![0; len];
    let seen = recv_into(mine, &mut [IoSliceMut::new(&mut buffer)], libc::MSG_PEEK)?.len;
    if seen == 0 {
        return Ok(0);
    }
    let [out, into] = own_pipe()?;
    // SAFETY: so many bytes are readable.
    let filled = check(unsafe {
        libc::syscall(libc::SYS_write, into.as_raw_fd(), buffer.as_ptr(), seen) as ssize_t
    })?;
    let words = [out.as_raw_fd().into(), 0, pipe.into(), 0, filled as c_long, flags.into()];
    // SAFETY: moves bytes from pipe to pipe.
    let moved = blocking(|| unsafe { held::wait(libc::SYS_splice, words) }, || false)?;
    // This does not block, and is no place to be cancelled at: the pipe has the bytes.
    let taken = mine
        .socket
        .recv(&mut [IoSliceMut::new(&mut buffer[..moved as usize])], libc::MSG_DONTWAIT)?;
    Ok(taken.len as ssize_t)
}

/// A copy of what the pipe holds is sent; only as much as was sent is then taken from the pipe.
fn from_pipe(pipe: c_int, mine: &Ours, len: size_t, flags: c_uint) -> Answer<ssize_t> {
    let [out, into] = own_pipe()?;
    let words = [pipe.into(), into.as_raw_fd().into(), len as c_long, flags.into(), 0, 0];
    // SAFETY: copies from pipe to pipe; EINVAL when the program's is none, as Linux says.
    let copied = blocking(|| unsafe { held::wait(libc::SYS_tee, words) }, || false)? as usize;
    if copied == 0 {
        return Ok(0);
    }
    let mut buffer = vec![0; copied];
    // SAFETY: so many bytes are writable, and our pipe holds them.
    let held =
        check(
            unsafe { libc::syscall(libc::SYS_read, out.as_raw_fd(), buffer.as_mut_ptr(), copied) }
                as ssize_t,
        )? as usize;
    let sent = send_from(mine, &[IoSlice::new(&buffer[..held])], 0, None)? as usize;
    // SAFETY: so many bytes are writable, and the pipe holds them still.
    check(unsafe { libc::syscall(libc::SYS_read, pipe, buffer.as_mut_ptr(), sent) } as ssize_t)
}
