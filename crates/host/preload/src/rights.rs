//! What a process does that takes rights away from it: another user, another root, fewer system
//! calls. Whatever its sockets need of the host is fetched before.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong};

use clearway_client::Client;
use libc::{gid_t, pid_t, rlimit, size_t, uid_t};

use crate::export::interpose;
use crate::given;
use crate::process::{before_change, before_confinement};

/// The library watches whatever process it is in.
fn is_watched() -> bool {
    true
}

interpose! {
    /// `setuid(2)`
    fn setuid(uid: uid_t) -> c_int, if is_watched() => { before_change(); None };

    /// `seteuid(2)`
    fn seteuid(uid: uid_t) -> c_int, if is_watched() => { before_change(); None };

    /// `setreuid(2)`
    fn setreuid(real: uid_t, effective: uid_t) -> c_int,
        if is_watched() => { before_change(); None };

    /// `setresuid(2)`
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int,
        if is_watched() => { before_change(); None };

    /// `setgid(2)`
    fn setgid(gid: gid_t) -> c_int, if is_watched() => { before_change(); None };

    /// `setresgid(2)`
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int,
        if is_watched() => { before_change(); None };

    /// `setgroups(2)`
    fn setgroups(count: size_t, groups: *const gid_t) -> c_int,
        if is_watched() => { before_change(); None };

    /// `initgroups(3)`
    fn initgroups(user: *const c_char, group: gid_t) -> c_int,
        if is_watched() => { before_change(); None };

    /// `chroot(2)`
    fn chroot(path: *const c_char) -> c_int, if is_watched() => { before_change(); None };

    /// `unshare(2)`
    fn unshare(flags: c_int) -> c_int, if is_watched() => { before_change(); None };

    /// `prctl(2)`. Declared with `...` in C: on the machines that Clearway runs on, optional words
    /// are passed as fixed ones are. Every filter of system calls begins with one of these two,
    /// also one that is installed by a bare system call, unless it is root's.
    fn prctl(what: c_int, one: c_ulong, two: c_ulong, three: c_ulong, four: c_ulong) -> c_int,
        if confines(what) => {
        before_confinement(|client| client.before_confinement(what == libc::PR_SET_SECCOMP));
        None
    };

    /// `setrlimit(2)`
    fn setrlimit(what: c_uint, limit: *const rlimit) -> c_int,
        if what == libc::RLIMIT_NOFILE as c_uint => { before_limit(limit); None };

    /// `setrlimit` by the name that programs with 64-bit file offsets call it.
    fn setrlimit64(what: c_uint, limit: *const rlimit) -> c_int,
        if what == libc::RLIMIT_NOFILE as c_uint => { before_limit(limit); None };

    /// `prlimit(2)`
    fn prlimit(pid: pid_t, what: c_uint, limit: *const rlimit, old: *mut rlimit) -> c_int,
        if what == libc::RLIMIT_NOFILE as c_uint => { before_limit(limit); None };

    /// `prlimit` by its other name.
    fn prlimit64(pid: pid_t, what: c_uint, limit: *const rlimit, old: *mut rlimit) -> c_int,
        if what == libc::RLIMIT_NOFILE as c_uint => { before_limit(limit); None };
}

/// This kind of `prctl` stands at the beginning of every filter of system calls.
pub(crate) fn confines(what: c_int) -> bool {
    matches!(what, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP)
}

/// Before `seccomp(2)`, which only a bare system call can name: the C library has no function for
/// it.
pub(crate) fn before_filter(operation: c_long) {
    if matches!(operation as u32, libc::SECCOMP_SET_MODE_STRICT | libc::SECCOMP_SET_MODE_FILTER) {
        before_confinement(|client| client.before_confinement(true));
    }
}

/// Below so many descriptors a process means to open nothing more.
const FEW: libc::rlim_t = 64;

fn before_limit(limit: *const rlimit) {
    // SAFETY: null, or the caller's, and any bytes are a limit.
    let Ok(limit) = (unsafe { given::read(limit) }) else { return };
    if limit.rlim_cur < FEW {
        before_confinement(Client::before_last_descriptor);
    }
    before_confinement(|client| client.hold_spares(Some(limit.rlim_cur)));
}
