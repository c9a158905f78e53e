//! What the environment said when the program was started. Programs empty theirs, make it anew or
//! write their titles over it, many of them before they open their first socket.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;

use clearway_program::{TRAPPED_VARIABLE, value_of};

/// How the names of the library's own variables begin. `clearway run` always sets one of them.
pub(crate) const OWN: &[u8] = b"CLEARWAY_";

/// The variables of others that say where the host is.
const OTHERS: [&str; 3] = ["LD_PRELOAD", "VCL_CONFIG", "XDG_RUNTIME_DIR"];

static START: OnceLock<Start> = OnceLock::new();

/// What a process was started with.
pub(crate) struct Start {
    /// All that concerns the library: `NAME=value`.
    pub(crate) variables: Vec<CString>,
    /// Whose process it was: the real and the effective user.
    pub(crate) users: (libc::uid_t, libc::uid_t),
}

/// Remembers it, before the program can change anything. What names the program to be trapped is
/// for this process alone.
pub(crate) fn remember() {
    let concerns = |name: &OsString| {
        OTHERS.iter().any(|other| name == other)
            || name.as_bytes().starts_with(OWN) && name != TRAPPED_VARIABLE
    };
    let lines =
        std::env::vars_os().filter(|(name, _)| concerns(name)).filter_map(|(name, value)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        });
    let _ = START.set(Start { variables: lines.collect(), users: users() });
}

/// None before it was remembered.
pub(crate) fn start() -> Option<&'static Start> {
    START.get()
}

/// What a variable was set to: one of the library's own, or of [`OTHERS`].
pub(crate) fn variable(name: &str) -> Option<OsString> {
    debug_assert!(name.as_bytes().starts_with(OWN) || OTHERS.contains(&name), "{name} is not kept");
    let Some(start) = start() else { return std::env::var_os(name) };
    let value = |line: &CString| {
        value_of(line.as_bytes(), name).map(|value| OsStr::from_bytes(value).to_owned())
    };
    start.variables.iter().find_map(value)
}

/// Whose process it is: the real and the effective user.
pub(crate) fn users() -> (libc::uid_t, libc::uid_t) {
    // SAFETY: both only tell.
    unsafe { (libc::getuid(), libc::geteuid()) }
}
