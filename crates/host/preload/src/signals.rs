//! What the program does with signals.

use std::ffi::c_int;

/// Signals there are (`_NSIG` − 1).
const SIGNALS: c_int = 64;

/// `struct sigaction` as the system call has it on x86-64 and AArch64: the C library's is laid out
/// otherwise, and does not show the handlers of its own signals.
#[repr(C)]
#[derive(Default)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Was every handler that the program has installed with SA_RESTART? Then it was such a one that
/// interrupted a call, whichever it was.
///
/// The kernel knows which signal came, and we do not; a program that mixes both kinds gets EINTR.
pub(crate) fn all_restart() -> bool {
    (1..=SIGNALS).all(|signal| {
        let mut action = KernelAction::default();
        // SAFETY: the action is as long as the kernel writes it, with a mask of eight bytes.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                std::ptr::null::<KernelAction>(),
                &raw mut action,
                size_of::<u64>(),
            ) != 0
        };
        let handled = action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
        failed || !handled || action.flags & libc::SA_RESTART as u64 != 0
    })
}

/// SIGPIPE for this thread, as a write to a broken connection gives.
pub(crate) fn raise_pipe() {
    // SAFETY: sends a signal to the calling thread, as Linux would.
    unsafe { libc::raise(libc::SIGPIPE) };
}
