//! Signals that come while their thread is inside of one of our functions.
//!
//! The program's handler may leave for good (`siglongjmp`), or call the function that it has
//! interrupted, or wait until another thread goes on: each of these with a lock of ours held. So the
//! handler runs when the thread is out: what came is noted, all other signals are blocked until
//! then, and a call that waits ends. Then the signal is sent to the thread once more, with what the
//! kernel said of it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_long};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use clearway_client::interrupt;
use libc::{siginfo_t, ucontext_t};

use super::{Action, entry_address};
use crate::errno::{self, Answer};
use crate::real;

/// Signals, one bit each, as the kernel has a mask.
type Mask = u64;

fn bit(signal: c_int) -> Mask {
    1 << (signal - 1)
}

/// What a thread knows of itself. Only the thread touches it, and handlers that interrupt it.
struct Thread {
    /// How many of our functions it is inside of.
    depth: AtomicU32,
    /// The signal that came there; 0: none.
    held: AtomicU32,
    /// What the kernel said of it, the mask that it had blocked before, and the process that it was
    /// sent to.
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
    mask: Cell<Mask>,
    process: Cell<c_long>,
}

thread_local! {
    // No destructor and no lazy start: a handler may be the first who asks for it.
    static THREAD: Thread = const {
        Thread {
            depth: AtomicU32::new(0),
            held: AtomicU32::new(0),
            info: UnsafeCell::new(MaybeUninit::uninit()),
            mask: Cell::new(0),
            process: Cell::new(0),
        }
    };
}

/// How many of our functions this thread is inside of.
pub(crate) fn depth() -> u32 {
    THREAD.with(|thread| thread.depth.load(Ordering::Relaxed))
}

/// The thread is inside of one more.
#[inline]
pub(crate) fn enter() {
    THREAD.with(|thread| thread.change(thread.depth.load(Ordering::Relaxed) + 1));
}

/// The thread has left the one that it entered last. Outside of all of them, a handler for which a
/// signal came meanwhile runs now, and this may not return.
#[inline]
pub(crate) fn leave() {
    THREAD.with(|thread| {
        let depth = thread.depth.load(Ordering::Relaxed) - 1;
        thread.change(depth);
        if depth == 0 && thread.held.load(Ordering::Relaxed) != 0 {
            thread.send_again();
        }
    });
}

/// Makes a call that may wait in the kernel, as from outside: handlers run meanwhile, and may leave
/// for good.
pub(crate) fn outside<T>(call: impl FnOnce() -> T) -> T {
    THREAD.with(|thread| {
        let depth = thread.depth.load(Ordering::Relaxed);
        thread.change(0);
        if thread.held.load(Ordering::Relaxed) != 0 {
            thread.send_again();
        }
        let answer = call();
        thread.change(depth);
        answer
    })
}

/// A system call of the kernel's that may wait, as from outside. A signal ends it whatever the
/// handler was installed with: a trapped program's handler runs when the call has ended.
///
/// # Safety
/// As for `clearway_client::interrupt::wait`.
pub(crate) unsafe fn wait(number: c_long, words: [c_long; 6]) -> Answer<c_long> {
    // SAFETY: as the caller says.
    let call = || unsafe { interrupt::wait(number, words.map(|word| word as u64)) };
    Ok(outside(call)? as c_long)
}

/// Notes what came, when the thread is inside. False: the handler may run now.
///
/// # Safety
/// The pointers are what the kernel gave to the handler.
pub(super) unsafe fn hold(signal: c_int, info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    THREAD.with(|thread| {
        let is_free = thread.depth.load(Ordering::Relaxed) == 0;
        // A confined process may not send itself signals.
        if is_free || super::FAULTS.contains(&signal) || clearway_client::is_confined() {
            return false;
        }
        // SAFETY: as the caller says; the kernel's mask is the first eight bytes of the C library's.
        let (said, mask) =
            unsafe { (info.read(), &mut *(&raw mut (*context).uc_sigmask).cast::<Mask>()) };
        // Of several that came at once the kernel calls the last one's handler first, from within
        // the others': what the thread had blocked is what the first one, called last, finds.
        thread.mask.set(*mask);
        // With one noted all are blocked, so another one is only sent again.
        if thread.held.load(Ordering::Relaxed) == 0 {
            // SAFETY: only this thread touches it, and it does not read it now.
            unsafe { (*thread.info.get()).write(said) };
            thread.process.set(process());
            thread.held.store(signal as u32, Ordering::Relaxed);
        } else {
            put_back(signal);
            send(process(), signal, info as c_long);
        }
        // What a fault is stays one.
        *mask |= !super::FAULTS.iter().fold(0, |mask, signal| mask | bit(*signal));
        true
    })
}

impl Thread {
    /// What is written before is there when a handler looks at the depth, and what comes later is
    /// not.
    #[inline]
    fn change(&self, depth: u32) {
        compiler_fence(Ordering::SeqCst);
        self.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    #[cold]
    fn send_again(&self) {
        let errno = errno::get();
        let signal = self.held.swap(0, Ordering::Relaxed) as c_int;
        let mask = self.mask.get();
        let process = process();
        // A child that was forked meanwhile has the note, but the signal was for its parent.
        if self.process.get() == process {
            put_back(signal);
            send(process, signal, self.info.get() as c_long);
            // A call that lets signals in while it waits has ended: this one came there, though it
            // is blocked otherwise.
            set_mask(mask & !bit(signal));
        }
        set_mask(mask);
        errno::set(errno);
    }
}

/// Sends a signal to this thread, with what was said of it.
fn send(process: c_long, signal: c_int, info: c_long) {
    // SAFETY: asks who this is, and sends a signal; what was said of it lies there.
    unsafe {
        let thread = real::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, 0);
        let send = libc::SYS_rt_tgsigqueueinfo;
        if real::syscall(send, process, thread, signal.into(), info, 0, 0) != 0 {
            // No room for what was said of it.
            real::syscall(libc::SYS_tgkill, process, thread, signal.into(), 0, 0, 0);
        }
    }
}

/// A handler that the kernel calls once has been taken out, and has not run yet.
fn put_back(signal: c_int) {
    // SAFETY: all of it are numbers, and the places are ours.
    unsafe {
        let mut action = mem::zeroed::<Action>();
        real::sigaction(signal, ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_DFL && action.sa_flags & libc::SA_RESETHAND != 0 {
            action.sa_sigaction = entry_address();
            action.sa_flags |= libc::SA_SIGINFO;
            real::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

fn process() -> c_long {
    // SAFETY: asks who this is.
    unsafe { real::syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) }
}

fn set_mask(mask: Mask) {
    let (mask, size) = ((&raw const mask) as c_long, size_of::<Mask>() as c_long);
    let how = libc::SIG_SETMASK.into();
    // SAFETY: the mask is ours, of the kernel's layout.
    unsafe { real::syscall(libc::SYS_rt_sigprocmask, how, mask, 0, size, 0, 0) };
}
