//! Programs that are executed while the effective user or group is not the real one, as squid's
//! master executes its workers. The kernel has the loader take that for a program that gets rights
//! (`AT_SECURE`), and the loader leaves the library out. So a process whose real user is root, who
//! may have them back at any time, executes with its real user and group, and the library in the new
//! program gives these up for the ones that were meant before anything else of it runs.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clearway_program::{Elf, libraries, script};
use libc::{gid_t, uid_t};

use crate::{process, start};

/// What tells the new program its effective user and group: `CLEARWAY_EFFECTIVE=13:13`. It is for
/// that program alone, in whose environment nothing is said in it.
pub(crate) const VARIABLE: &[u8] = b"CLEARWAY_EFFECTIVE=";

/// What [`set`] leaves as it is.
const SAME: uid_t = uid_t::MAX;

/// Scripts whose interpreter is a script and so on, as many as Linux follows.
const MAX_SCRIPTS: usize = 5;

/// How a process ends that cannot give up rights: as one whose program cannot be executed.
const CANNOT: c_int = 127;

/// Room for the variable.
pub(crate) type Line = [u8; 64];

/// A real, an effective and a saved user, and the same of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ids {
    users: [uid_t; 3],
    groups: [gid_t; 3],
}

impl Ids {
    fn now() -> Ids {
        let (mut users, mut groups) = ([0; 3], [0; 3]);
        let ([r, e, s], [rg, eg, sg]) = (&mut users, &mut groups);
        // SAFETY: the places are writable.
        unsafe {
            libc::getresuid(r, e, s);
            libc::getresgid(rg, eg, sg);
        }
        Ids { users, groups }
    }

    /// The loader would leave the library out, and all can be as it was before if the program cannot
    /// be executed, whatever capabilities there are.
    fn are_mixed(&self) -> bool {
        let ([real, effective, saved], [group, effective_group, saved_group]) =
            (self.users, self.groups);
        real == 0
            && (effective != real || effective_group != group)
            && [real, effective].contains(&saved)
            && [group, effective_group].contains(&saved_group)
    }
}

/// Of this thread alone, as the C library's functions are not: it is about to become another program,
/// or lends its rights to one that it starts.
fn set([effective_group, saved_group]: [gid_t; 2], [effective, saved]: [uid_t; 2]) -> bool {
    // SAFETY: all of it are numbers.
    unsafe {
        libc::syscall(libc::SYS_setresgid, SAME, effective_group, saved_group) == 0
            && libc::syscall(libc::SYS_setresuid, SAME, effective, saved) == 0
    }
}

/// The loader would leave the library out.
pub(crate) fn is_mixed() -> bool {
    Ids::now().are_mixed()
}

/// What the program at `path` is told in `line`; None: it is executed as ever.
pub(crate) fn about_to_execute(path: Option<&CStr>, line: &mut Line) -> Option<Ids> {
    let ids = Ids::now();
    if !ids.are_mixed() || !path.is_some_and(takes_library) {
        return None;
    }
    let ([_, user, _], [_, group, _]) = (ids.users, ids.groups);
    let mut rest = &mut line[..];
    rest.write_all(VARIABLE).ok()?;
    write!(rest, "{user}:{group}\0").ok()?;
    Some(ids)
}

/// Whether the loader puts the library into the program when it is executed with the real user, and
/// the effective one may execute it.
fn takes_library(path: &CStr) -> bool {
    // SAFETY: a C string.
    let may = |path: &CStr| unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0
    };
    let mut path = path.to_owned();
    for _ in 0..MAX_SCRIPTS {
        if !may(&path) {
            return false;
        }
        let place = Path::new(OsStr::from_bytes(path.as_bytes()));
        let Ok(Some(script)) = script(place) else { return has_loader(place) };
        let Ok(next) = CString::new(script.interpreter.into_os_string().as_bytes()) else {
            return false;
        };
        path = next;
    }
    false
}

/// The library that this environment has the loader put into a program is the one that this process
/// has, and is there.
pub(crate) fn names_library(listed: &[u8]) -> bool {
    let ours = start::variable("LD_PRELOAD");
    let ours = ours.as_deref().and_then(|list| libraries(list.as_bytes()).next());
    // The loader reads it as the real user.
    // SAFETY: a C string.
    let may_read = |path: &CStr| unsafe { libc::access(path.as_ptr(), libc::R_OK) == 0 };
    ours.is_some_and(|ours| {
        libraries(listed).any(|other| other == ours)
            && CString::new(ours).is_ok_and(|path| may_read(&path))
    })
}

fn has_loader(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let gets_rights = file.metadata().is_ok_and(|is| is.permissions().mode() & 0o6000 != 0);
    let elf = Elf::read(&file).ok().flatten();
    !gets_rights && elf.is_some_and(|elf| elf.is_for_this_machine() && !elf.goes_round_libraries())
}

/// Executes, or starts, with the real user and group. What comes back is as it was.
pub(crate) fn with_real_ids(ids: Option<Ids>, execute: impl FnOnce() -> c_int) -> c_int {
    let Some(Ids { users: [real, user, saved], groups: [group, effective, saved_group] }) = ids
    else {
        return execute();
    };
    // The saved ones are what leads back.
    if !set([group, effective], [real, user]) {
        set([effective, saved_group], [user, saved]);
        return execute();
    }
    let answer = execute();
    let errno = crate::errno::get();
    if !set([effective, saved_group], [user, saved]) {
        // Nobody goes on with rights that he gave up.
        // SAFETY: ends the process, whoever's memory this is.
        unsafe { libc::_exit(CANNOT) };
    }
    crate::errno::set(errno);
    answer
}

/// Runs before `main`: the program is what it was to be.
pub(crate) fn become_effective() {
    let Some((user, group)) = take_variable() else { return };
    let Ids { users: [real, now, _], groups: [real_group, group_now, _] } = Ids::now();
    if (real, now) != (0, 0) || group_now != real_group {
        // Whoever said so was not the library.
        return;
    }
    // As before every such change: later it may not reach the host.
    process::before_change();
    if !set([group, group], [user, user]) {
        process::tell("the effective user that the program is to have cannot be set; it ends");
        // SAFETY: ends the process, of which nothing has run.
        unsafe { libc::_exit(CANNOT) };
    }
}

/// Reads the variable, and leaves it with nothing said in it: what lies behind the environment is
/// looked for by its length.
fn take_variable() -> Option<(uid_t, gid_t)> {
    // SAFETY: the C library's variable of this name and type.
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    let mut found = None;
    // SAFETY: nothing else runs yet; the environment ends in a null pointer, and its lines are the
    // process's to write.
    unsafe {
        let mut at = environ;
        while let Some(&line) = at.as_ref().filter(|line| !line.is_null()) {
            if let Some(value) = CStr::from_ptr(line).to_bytes().strip_prefix(VARIABLE) {
                found = parsed(value).or(found);
                line.add(VARIABLE.len()).write(0);
            }
            at = at.add(1);
        }
    }
    found
}

fn parsed(value: &[u8]) -> Option<(uid_t, gid_t)> {
    let (user, group) = std::str::from_utf8(value).ok()?.split_once(':')?;
    Some((user.parse().ok()?, group.parse().ok()?))
}
