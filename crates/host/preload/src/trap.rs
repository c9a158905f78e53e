//! Programs that go round the C library (`clearway run --trap`): their system calls are taken over by
//! `clearway-trap`, and come here by their numbers, as those of `syscall(2)` do.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// The calls of this process are trapped: handlers of the program run when a call has ended.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

#[cfg(all(target_arch = "x86_64", not(test)))]
pub(crate) use clearway_trap::has_handled;

/// There is nothing that traps here.
#[cfg(not(all(target_arch = "x86_64", not(test))))]
pub(crate) fn has_handled(_signal: std::ffi::c_int) -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", not(test)))]
mod hooks {
    use std::ffi::{c_char, c_int, c_long, c_void};
    use std::sync::atomic::Ordering;

    use clearway_client::interrupt;
    use clearway_trap::Hooks;

    use crate::signals::faults;
    use crate::syscalls::{Words, ours};
    use crate::{errno, exec, process};

    const _: () = assert!(clearway_trap::RESTART == -(errno::RESTART.0 as c_long));

    /// What `clearway-trap` calls, with the arguments of its process. It comes back when it could
    /// not go on as the program.
    ///
    /// # Safety
    /// The arguments are where the kernel put them, and no other thread runs.
    // SAFETY: no other function has this name.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn clearway_trap_start(argv: *mut *mut c_char) -> c_int {
        /// As a shell says that it could not run a program.
        const NOT_RUN: c_int = 126;
        super::IS_ON.store(true, Ordering::Relaxed);
        interrupt::enters_by(clearway_trap::signal_entry());
        let hooks = Hooks {
            begin: interrupt::hold,
            call,
            interrupted,
            recover,
            keeps_library,
            execve,
            fork,
            tell: process::tell,
        };
        // SAFETY: as the caller says.
        process::tell(&unsafe { clearway_trap::start(argv, hooks) });
        NOT_RUN
    }

    /// What a function of the C library answered, as the kernel would have.
    fn kernels(answer: c_long) -> c_long {
        if answer == -1 { -c_long::from(errno::get()) } else { answer }
    }

    /// # Safety
    /// The words are what the system call of this number asks.
    unsafe fn call(number: c_long, words: Words) -> Option<c_long> {
        // SAFETY: as the caller says.
        unsafe { ours(number, words) }.map(kernels)
    }

    /// # Safety
    /// The context is what the kernel gave to a handler.
    unsafe fn interrupted(restarts: bool, context: *mut c_void) {
        // SAFETY: as the caller says.
        unsafe { interrupt::handled(restarts, context) };
    }

    /// # Safety
    /// As above.
    unsafe fn recover(context: *mut c_void) -> bool {
        // SAFETY: as the caller says.
        unsafe { faults::recover(context) }
    }

    /// # Safety
    /// C strings.
    unsafe fn keeps_library(environment: &[*const c_char]) -> bool {
        // SAFETY: as the caller says.
        unsafe { exec::keeps_library(environment, false) }
    }

    /// # Safety
    /// As for `execve(2)`.
    unsafe fn execve(
        path: *const c_char,
        argv: *const *const c_char,
        envp: *const *const c_char,
    ) -> c_long {
        // SAFETY: as the caller says.
        kernels(unsafe { exec::execve(path, argv, envp) }.into())
    }

    fn fork() -> c_long {
        // SAFETY: the child goes on as the program's, and this library's handlers around the fork
        // have run.
        kernels(unsafe { libc::fork() }.into())
    }
}
