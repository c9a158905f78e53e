//! How a function of the C library is stood in for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errno::Answer;
use crate::signals::held;

pub(crate) use clearway_client::interrupt::{enter, leave};

/// How many calls of ours this thread is inside of: one needs the C library itself, and must not be
/// cancelled there, for our frames are not made to be unwound.
pub(crate) use crate::signals::held::{depth, outside};

/// What the inside of a call came to. None: the descriptor is the kernel's, so the C library's
/// function shall do it.
pub(crate) type Inside<T> = Option<Answer<T>>;

/// Runs the inside of a call. A panic may not reach the C caller, whose frames know nothing of it:
/// the process ends.
#[inline]
pub(crate) fn guarded<T>(inside: impl FnOnce() -> T) -> T {
    held::enter();
    crate::process::notice_clone();
    let answer = catch_unwind(AssertUnwindSafe(inside)).unwrap_or_else(|_| std::process::abort());
    held::leave();
    answer
}

/// Whether the thread has what belongs to a thread. A child that was made by a bare `clone` with
/// memory of zeros in its place, as Chromium makes one, has system calls and errno, and so nothing
/// but the C library's function to call.
#[inline(always)]
pub(crate) fn is_thread() -> bool {
    thread_word() != 0
}

/// Where its variables are found (`dtv`), behind its own address, which Chromium's child has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn thread_word() -> usize {
    let word: usize;
    // SAFETY: every thread of a program with a C library has this segment, and the word in it.
    unsafe {
        std::arch::asm!("mov {}, fs:[8]", out(reg) word,
            options(readonly, nostack, preserves_flags));
    }
    word
}

/// The same; it stands in front.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn thread_word() -> usize {
    let word: usize;
    // SAFETY: every thread of a program with a C library has this register, and the word that it
    // names.
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", "ldr {0}, [{0}]", out(reg) word,
            options(readonly, nostack, preserves_flags));
    }
    word
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn thread_word() -> usize {
    1
}

/// Defines C functions of these names. Each runs its inside when a descriptor that it names is in
/// the table, and the C library's function otherwise, or when the inside has no answer.
///
/// The functions themselves hold nothing that has to be dropped: a thread that is cancelled in one
/// is unwound through it.
macro_rules! interpose {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty,
            if $known:expr => $inside:expr $(, kernels $kernels:path)?;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $answer {
            if !$crate::export::is_thread() {
                // SAFETY: the caller's own arguments.
                return unsafe { $crate::real::$name($($arg),*) };
            }
            let entered = $crate::export::enter();
            // A call that succeeds leaves it as it was, as Linux's do.
            let errno = $crate::errno::get();
            while $known {
                // SAFETY: the caller keeps to what the C function asks, and the inside asks no
                // more.
                #[allow(unused_unsafe, reason = "some insides are safe")]
                let inside: $crate::export::Inside<$answer> = $crate::export::guarded(|| unsafe { $inside });
                $crate::errno::set(errno);
                match inside {
                    Some(answer) => {
                        if let Some(answer) = $crate::errno::finish(answer) {
                            $crate::export::leave(entered);
                            return answer;
                        }
                    }
                    None => break,
                }
            }
            $crate::export::leave(entered);
            // SAFETY: as above; these are the caller's own arguments.
            let answer = unsafe { $crate::real::$name($($arg),*) };
            $(let answer = $kernels(answer);)?
            answer
        }
    )*};
}

pub(crate) use interpose;
