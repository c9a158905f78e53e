//! errno, and how an inner answer becomes what a C caller sees.

use std::ffi::c_int;

use clearway_client::Errno;

use crate::cancel::while_blocked;

// SAFETY: the signatures are those of the C library.
unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// What the inside of a call answers.
pub(crate) type Answer<T> = Result<T, Errno>;

/// Fails with an errno.
pub(crate) fn fail<T>(errno: c_int) -> Answer<T> {
    Err(Errno(errno))
}

/// Sets this thread's errno.
pub(crate) fn set(errno: c_int) {
    // SAFETY: the C library gives the place of this thread's errno, which is always writable.
    unsafe { *libc::__errno_location() = errno }
}

/// This thread's errno.
pub(crate) fn get() -> c_int {
    // SAFETY: as in `set`.
    unsafe { *libc::__errno_location() }
}

/// Numbers that C functions answer with.
pub(crate) trait Number: Copy {
    /// What they answer when they fail.
    const FAILED: Self;
}

impl Number for c_int {
    const FAILED: c_int = -1;
}

impl Number for isize {
    const FAILED: isize = -1;
}

/// The inside of a call was interrupted by a signal, and Linux would begin it again if the signal's
/// handler was installed with SA_RESTART. Linux has the same number for it, and like Linux we never
/// show it to a program.
pub(crate) const RESTART: Errno = Errno(512);

/// This thread may have been cancelled: look, and then begin the call again. No program sees this
/// number either.
pub(crate) const LOOK: Errno = Errno(513);

/// Runs what may block. Interrupted, it is begun again where the program wants that, unless it has
/// a time limit.
pub(crate) fn blocking<T>(
    call: impl FnOnce() -> Answer<T>,
    limited: impl FnOnce() -> bool,
) -> Answer<T> {
    match while_blocked(call) {
        Err(Errno(libc::EINTR)) if !limited() => Err(RESTART),
        answer => answer,
    }
}

/// The answer for the C caller: the number, or −1 and errno. None: begin again.
///
/// Calls that block are points where a thread can be cancelled; a cancelled thread's blocked call
/// is interrupted, and one that was cancelled before it called is told to look ([`LOOK`]), so it is
/// enough to look then.
pub(crate) fn finish<T: Number>(answer: Answer<T>) -> Option<T> {
    let errno = match answer {
        Ok(number) => return Some(number),
        Err(errno @ (Errno(libc::EINTR) | RESTART | LOOK)) => {
            // SAFETY: may unwind; no frame between here and the C caller has anything to clean up.
            unsafe { pthread_testcancel() };
            if errno == LOOK || errno == RESTART && crate::signals::restarts() {
                if errno == RESTART && crate::trap::is_on() {
                    // The handler has not run yet: it does before the program calls again.
                    set(RESTART.0);
                    return Some(T::FAILED);
                }
                return None;
            }
            libc::EINTR
        }
        Err(Errno(errno)) => errno,
    };
    set(errno);
    Some(T::FAILED)
}

/// What a call of the C library answered, as the inside of a call sees it.
pub(crate) fn check<T: Number + PartialEq>(number: T) -> Answer<T> {
    if number == T::FAILED { fail(get()) } else { Ok(number) }
}
