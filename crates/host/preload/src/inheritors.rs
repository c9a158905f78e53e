//! Sockets that `exec` brought along. The new program knows nothing of them but their descriptors;
//! what these are is asked of the host before `main` begins.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use clearway_client::{Errno, Kind, cookie, may_be_session_fd};

use crate::export::guarded;
use crate::object::{self, Object, Ours, TABLE};
use crate::options::Extra;
use crate::table::Held;
use crate::{process, secure, signals, start, undecided};

/// Runs before `main`, and before constructors of libraries that need this one.
// SAFETY: a function that takes what the loader gives it, in the section of such functions.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = inherit;

/// Takes up the sockets of Clearway among the descriptors that are open.
extern "C" fn inherit() {
    guarded(|| {
        let errno = crate::errno::get();
        signals::find_real();
        secure::become_effective();
        start::remember();
        // Later a fork may come while another thread is about to do so.
        process::watch_forks();
        let mut known = HashMap::new();
        for fd in open_descriptors() {
            // SAFETY: it was open just now, and nothing else runs yet.
            let session_fd = unsafe { BorrowedFd::borrow_raw(fd) };
            if !may_be_session_fd(session_fd) {
                if let Some(held) = undecided::object_of(session_fd) {
                    object::put(fd, Some(held));
                }
                continue;
            }
            let Some(cookie) = cookie(session_fd) else { continue };
            if let Some(held) = known.get(&cookie) {
                object::put(fd, Option::clone(held));
                continue;
            }
            // Before `main` there is no other program that this process could be of.
            let held = object_of(session_fd).unwrap_or_default();
            object::put(fd, held.clone());
            known.insert(cookie, held);
        }
        crate::errno::set(errno);
    });
}

/// The socket of Clearway whose session fd this is, when it is one of this program's, or this
/// process is not yet a part of any. None: it is no session fd.
///
/// # Errors
/// It is a socket of another program's.
pub(crate) fn object_of(session_fd: BorrowedFd<'_>) -> Result<Option<Held<Object>>, Errno> {
    process::watch_forks();
    let Some(client) = process::host_of(session_fd) else { return Ok(None) };
    let socket = client.inherit_session_fd(session_fd)?;
    Ok(socket.map(|socket| {
        // Whether it was told so by who had it before is not known.
        let mut extra = Extra::default();
        extra.broadcast = socket.kind() == Kind::Datagram;
        TABLE.make(Object::Ours(Ours::new(socket, extra)))
    }))
}

fn open_descriptors() -> Vec<c_int> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}
