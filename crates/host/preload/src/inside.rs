//! A process that has its stack inside (`clearway run --inproc`): the library that holds it, and
//! what becomes of it over a fork and at the end.

use std::ffi::{CString, OsString, c_int};
use std::mem;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clearway_client::in_process::{Calls, LIBRARY_VARIABLE, SETTINGS_VARIABLE, SYMBOL, Stack};
use clearway_client::{AppConfig, Client};

use crate::object::{self, Object, TABLE};
use crate::process::{client, tell};
use crate::{modules, real, start};

/// What sockets accepted is sent for so long at most when the process ends.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The settings of the stack, where this process shall have one inside.
pub(crate) fn settings() -> Option<OsString> {
    start::variable(SETTINGS_VARIABLE).filter(|settings| !settings.is_empty())
}

/// Makes the stack and enters it. An error is a sentence for the user.
pub(crate) fn attach(settings: OsString, config: AppConfig) -> Result<Arc<Client>, String> {
    let settings = settings.into_string().map_err(|_| format!("{SETTINGS_VARIABLE} is no text"))?;
    let path = start::variable(LIBRARY_VARIABLE)
        .ok_or_else(|| format!("{LIBRARY_VARIABLE} is not set"))?;
    let stack = load(path)?;
    stack.start(&settings, on_events)?;
    let client = Client::attach_inside(config, stack).map_err(|error| error.to_string())?;
    // SAFETY: the handler is a function of this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
    Ok(client)
}

/// Loads the library with the stack. Its own calls of the C library shall not come to the functions
/// of this one.
fn load(path: OsString) -> Result<Stack, String> {
    let shown = path.to_string_lossy().into_owned();
    let path = CString::new(path.into_vec())
        .map_err(|_| format!("{LIBRARY_VARIABLE}: a path has no NUL"))?;
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    // SAFETY: the path is a C string; the library's constructors are those of Rust's standard
    // library.
    let library = unsafe { real::dlopen(path.as_ptr(), flags) };
    if library.is_null() {
        return Err(format!("{shown} cannot be loaded: {}", dl_error()));
    }
    // SAFETY: the library is open, and the symbol a C string.
    let symbol = unsafe { modules::look_up(library, SYMBOL.as_ptr()) };
    if symbol.is_null() {
        return Err(format!("{shown} holds no stack: {}", dl_error()));
    }
    // SAFETY: the symbol is the function of this type that the library defines.
    let table =
        unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn() -> *const Calls>(symbol) };
    // SAFETY: it answers a table that lives as long as the library, which stays loaded.
    unsafe { Stack::of(table()) }.ok_or_else(|| format!("{shown} is of another version"))
}

fn dl_error() -> String {
    // SAFETY: answers null or a C string that holds until the next call of its kind in this thread.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "no reason given".into();
    }
    // SAFETY: as above.
    unsafe { std::ffi::CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

/// The stack's own thread has turned it.
extern "C" fn on_events() -> u32 {
    client().is_some_and(|client| client.events_came()).into()
}

/// The process ends by `exit`, or by the end of `main`.
extern "C" fn at_exit() {
    if let Some(client) = client() {
        client.end_inside(END_WITHIN);
    }
}

/// A child was forked. Told once in this process, when there is anything that the child has lost.
pub(crate) fn tell_of_fork() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let has_sockets =
        client().is_some_and(|client| client.is_inside()) && sockets().next().is_some();
    if has_sockets && !TOLD.swap(true, Ordering::Relaxed) {
        tell(
            "the stack stays with the process that has it inside: in a forked child its sockets \
             fail with EBADF",
        );
    }
}

/// In a forked child, whose parent has the stack: every socket of the stack becomes a descriptor of
/// which each use but `close` fails with EBADF. The session ends with the parent's descriptors.
pub(crate) fn forget_sockets() {
    if !client().is_some_and(|client| client.is_inside()) {
        return;
    }
    // SAFETY: opens a folder that is always there, for its name alone.
    let nothing = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    for fd in sockets().collect::<Vec<_>>() {
        // SAFETY: reads a flag of a descriptor.
        let close_on_exec = unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC != 0;
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        // SAFETY: replaces a descriptor whose object leaves the table.
        unsafe { libc::syscall(libc::SYS_dup3, nothing, fd, flags) };
        // What it was lies in memory that the parent's threads may have been writing.
        mem::forget(object::put(fd, None));
    }
    // SAFETY: closes what was opened above.
    unsafe { libc::syscall(libc::SYS_close, nothing) };
}

/// Descriptors of sockets of the stack.
fn sockets() -> impl Iterator<Item = c_int> {
    let is_ours = |fd: &c_int| TABLE.get(*fd).is_some_and(|held| matches!(&*held, Object::Ours(_)));
    TABLE.range(0, c_int::MAX).filter(is_ours)
}
