//! Programs that are executed while the effective user or group is not the real one, as squid's
//! master executes its workers. The kernel has the loader take that for a program that gets rights
//! (`AT_SECURE`), and the loader leaves the library out. So a process of which one of the two users
//! is root, who may have all rights at any time, executes with root as both and with its real group,
//! and the library in the new program makes them what was meant before anything else of it runs.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clearway_program::{Elf, MAX_SCRIPTS, libraries, script};
use libc::{gid_t, uid_t};

use crate::{process, start};

/// What tells the new program its real and effective user and its groups:
/// `CLEARWAY_EFFECTIVE=13:0:13:13`. It is for that program alone, in whose environment nothing is
/// said in it.
pub(crate) const VARIABLE: &[u8] = b"CLEARWAY_EFFECTIVE=";

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
        [real, effective].contains(&0)
            && (effective != real || effective_group != group)
            && [real, effective].contains(&saved)
            && [group, effective_group].contains(&saved_group)
    }
}

/// Of this thread alone, as the C library's functions are not: it is about to become another program,
/// or lends its rights to one that it starts.
fn set(
    Ids { users: [real, effective, saved], groups: [group, effective_group, saved_group] }: Ids,
) -> bool {
    // SAFETY: all of it are numbers.
    unsafe {
        libc::syscall(libc::SYS_setresgid, group, effective_group, saved_group) == 0
            && libc::syscall(libc::SYS_setresuid, real, effective, saved) == 0
    }
}

/// Whose this process is, where the loader would leave the library out.
pub(crate) fn mixed() -> Option<Ids> {
    Some(Ids::now()).filter(Ids::are_mixed)
}

/// What the program at `path` is told in `line`; None: it is executed as ever.
pub(crate) fn about_to_execute(path: &CStr, ids: Ids, line: &mut Line) -> Option<Ids> {
    if !takes_library(path) {
        return None;
    }
    let ([real, user, _], [group, effective_group, _]) = (ids.users, ids.groups);
    let mut rest = &mut line[..];
    rest.write_all(VARIABLE).ok()?;
    write!(rest, "{real}:{user}:{group}:{effective_group}\0").ok()?;
    Some(ids)
}

/// Whether the loader puts the library into the program when root executes it, and the effective
/// user may execute it.
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
    // The loader reads it as root, which one of the two users is.
    // SAFETY: a C string.
    let may = |path: &CStr, whose| unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::R_OK, whose) == 0
    };
    let may_read = |path: &CStr| may(path, 0) || may(path, libc::AT_EACCESS);
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

/// Executes, or starts, as root with the real group. What comes back is as it was.
pub(crate) fn as_root(ids: Option<Ids>, execute: impl FnOnce() -> c_int) -> c_int {
    let Some(before) = ids else { return execute() };
    let ([real, user, _], [group, effective_group, _]) = (before.users, before.groups);
    // The saved ones are what leads back.
    let meanwhile = Ids { users: [0, 0, real.max(user)], groups: [group, group, effective_group] };
    if !set(meanwhile) {
        set(before);
        return execute();
    }
    let answer = execute();
    let errno = crate::errno::get();
    if !set(before) {
        // Nobody goes on with rights that he gave up.
        // SAFETY: ends the process, whoever's memory this is.
        unsafe { libc::_exit(CANNOT) };
    }
    crate::errno::set(errno);
    answer
}

/// Runs before `main`: the program is what it was to be.
pub(crate) fn become_effective() {
    let Some(wanted) = take_variable() else { return };
    let Ids { users: [real, user, _], groups: [group, effective_group, _] } = Ids::now();
    if (real, user) != (0, 0) || group != effective_group {
        // Whoever said so was not the library.
        return;
    }
    // As before every such change: later it may not reach the host.
    process::before_change();
    if !set(wanted) {
        process::tell("the users that the program is to have cannot be set; it ends");
        // SAFETY: ends the process, of which nothing has run.
        unsafe { libc::_exit(CANNOT) };
    }
}

/// Reads the variable, and leaves it with nothing said in it: what lies behind the environment is
/// looked for by its length.
fn take_variable() -> Option<Ids> {
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

/// The saved ones are the effective ones, as in each program that was executed.
fn parsed(value: &[u8]) -> Option<Ids> {
    let numbers = std::str::from_utf8(value).ok()?.split(':').map(|number| number.parse().ok());
    let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
    let [real, user, group, effective_group] = numbers[..] else { return None };
    Some(Ids { users: [real, user, user], groups: [group, effective_group, effective_group] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_or_nothing_is() {
        let ids = Ids { users: [13, 0, 0], groups: [13, 14, 14] };
        assert_eq!(parsed(b"13:0:13:14"), Some(ids));
        for wrong in [&b""[..], b"13:0:13", b"13:0:13:14:15", b"a:0:13:14", b"-1:0:0:0"] {
            assert_eq!(parsed(wrong), None);
        }
    }

    #[test]
    fn only_where_root_is_one_of_the_two_users() {
        let mixed = |users, groups| Ids { users, groups }.are_mixed();
        assert!(mixed([0, 13, 13], [0; 3]) && mixed([0, 13, 0], [0; 3]));
        assert!(mixed([13, 0, 0], [13; 3]) && mixed([0; 3], [0, 13, 13]));
        assert!(!mixed([0; 3], [0; 3]) && !mixed([13; 3], [0, 13, 13]));
        assert!(!mixed([13, 14, 0], [0; 3]), "neither is root");
        assert!(!mixed([0, 13, 14], [0; 3]), "what leads back");
    }
}
