//! System calls of programs that go round the C library: statically linked ones, Go's, and those with
//! another C library.
//!
//! No library can be loaded before such a program, or it sees little. So it is the other way round: a
//! process with the C library and Clearway's library in it maps the program, as the kernel would,
//! with its loader where it names one, and goes on as it (`start`). Syscall User Dispatch of Linux
//! then makes a signal (SIGSYS) of each system call that is not made from where the libraries lie.
//! Its handler goes over to a stack and a thread pointer that belong to the libraries, and asks
//! [`Hooks::call`]. What is none of Clearway's is made by the program itself, from one of the places
//! in `sites`, with its own registers, stack and signal mask; so the kernel does what it always does
//! with it.
//!
//! Handlers of the program never interrupt the libraries: a signal that comes while they run ends
//! the call, and is sent once more when the program goes on (`signals`).

#[cfg(target_arch = "x86_64")]
mod block;
#[cfg(target_arch = "x86_64")]
mod brk;
#[cfg(target_arch = "x86_64")]
mod calls;
mod carry;
#[cfg(target_arch = "x86_64")]
mod credentials;
#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod exec;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod preload;
#[cfg(target_arch = "x86_64")]
mod range;
#[cfg(target_arch = "x86_64")]
mod raw;
#[cfg(target_arch = "x86_64")]
mod signals;
#[cfg(target_arch = "x86_64")]
mod sites;
#[cfg(target_arch = "x86_64")]
mod spawn;
#[cfg(target_arch = "x86_64")]
mod start;

use std::ffi::{c_char, c_long, c_void};

pub use carry::{Carried, carried, path_in};
#[cfg(target_arch = "x86_64")]
pub use signals::{has_handled, signal_entry};
#[cfg(target_arch = "x86_64")]
pub use start::start;

/// The variable by which a program that has a loader hands the library on to what it executes,
/// since it does not see it in LD_PRELOAD.
pub const PRELOAD_VARIABLE: &str = "CLEARWAY_TRAP_PRELOAD";

/// What [`Hooks::call`] answers for a call that was interrupted and begins again when the handler
/// has run. Linux has the same number for it (ERESTARTSYS), and no program sees it.
pub const RESTART: c_long = -512;

/// Threads of a program at one time. Each has a thread of the C library beside it, which sleeps and
/// lends it its stack and its thread-local variables.
pub const MAX_THREADS: usize = 2048;

/// Instructions by which a program makes system calls, each counted when it is first used.
pub const MAX_SITES: usize = 4096;

/// How far the heap of a program can grow (`brk`).
pub const MAX_HEAP: usize = 64 << 30;

/// The stack on which Clearway's calls of one thread run; memory is taken as it is used.
pub const STACK: usize = 1 << 20;

/// What is done with system calls, by the library that is loaded into the process.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// A program's call begins: a signal from now on interrupts it.
    pub begin: fn(),
    /// Does a system call, by its number, when it is Clearway's: what the kernel would answer, a
    /// negative errno where it failed, or [`RESTART`]. None: it is the kernel's.
    pub call: unsafe fn(c_long, [c_long; 6]) -> Option<c_long>,
    /// A signal came while the library runs, for which the program has a handler, with SA_RESTART
    /// or without. The pointer is what the kernel gave to ours as its third argument.
    pub interrupted: unsafe fn(bool, *mut c_void),
    /// A fault came while the library runs, for which the program has a handler, with the same
    /// pointer. True: a pointer of the program's leads nowhere, and the call fails.
    pub recover: unsafe fn(*mut c_void) -> bool,
    /// Whether a program that is executed with these variables is to have the library, also where
    /// they do not say so.
    pub keeps_library: unsafe fn(&[*const c_char]) -> bool,
    /// `execve`, with what the library adds to an environment. Answers a negative errno.
    pub execve: unsafe fn(*const c_char, *const *const c_char, *const *const c_char) -> c_long,
    /// `fork` of the C library: 0 in the child, a negative errno when it failed.
    pub fork: fn() -> c_long,
    /// Says a sentence to the user.
    pub tell: fn(&str),
}

/// Adds what an argument is to an error's sentence.
#[cfg(target_arch = "x86_64")]
fn context(what: &str, errno: i32) -> String {
    format!("{what}: {}", std::io::Error::from_raw_os_error(errno))
}
