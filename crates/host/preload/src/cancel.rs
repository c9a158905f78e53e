//! Cancelling a thread that is blocked in a call on a socket of Clearway.
//!
//! The C library only marks a thread as cancelled, and wakes it only where it can be unwound on the
//! spot, which is inside of the C library's own system calls. Ours are not among them. So whoever
//! cancels a thread leaves a sign of ours and interrupts its call as well; the call returns, and
//! the thread finds the mark ([`crate::errno::finish`]). A thread that was not in a call then finds
//! the sign when it enters the next one.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use libc::{pid_t, pthread_t};

use crate::errno::{Answer, LOOK};
use crate::export::guarded;
use crate::lock::Lock;
use crate::real;

/// `PTHREAD_CANCEL_ENABLE` and `PTHREAD_CANCEL_DISABLE`.
const ENABLED: c_int = 0;
const DISABLED: c_int = 1;

// SAFETY: the signature is that of the C library.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// The C library's own signal for this (`SIGCANCEL`): its handler does nothing where a thread
/// cannot be unwound.
const SIGNAL: c_int = 32;

/// A signal that comes between the thread's last look and its sleep wakes nobody, so it is sent
/// again until the thread is out.
const AGAIN: Duration = Duration::from_micros(200);
const MOST: u32 = 500;

/// A thread that was blocked in a call of ours at least once.
struct Thread {
    name: pthread_t,
    id: AtomicI32,
    blocked: AtomicBool,
    /// It was cancelled, and has not looked since.
    cancelled: AtomicBool,
    /// It found the sign and does not want to be cancelled now.
    refuses: AtomicBool,
}

/// All such threads, behind a lock that a fork does not leave locked.
struct Threads {
    lock: Lock,
    lists: UnsafeCell<Lists>,
}

struct Lists {
    threads: Vec<Arc<Thread>>,
    /// Threads that were cancelled before they were in a call of ours; the latest ones.
    strangers: VecDeque<pthread_t>,
}

/// More threads than this are not about to enter their first call while they are cancelled.
const STRANGERS: usize = 1024;

// SAFETY: the lists are only touched under the lock.
unsafe impl Sync for Threads {}

static THREADS: Threads = Threads {
    lock: Lock::new(),
    lists: UnsafeCell::new(Lists { threads: Vec::new(), strangers: VecDeque::new() }),
};

impl Threads {
    fn with<T>(&self, then: impl FnOnce(&mut Lists) -> T) -> T {
        let _locked = self.lock.lock();
        // SAFETY: under the lock.
        then(unsafe { &mut *self.lists.get() })
    }
}

/// The lock, for the handlers around a fork.
pub(crate) fn lock() -> &'static Lock {
    &THREADS.lock
}

/// In the child of a fork there is only the thread that forked, under another number.
pub(crate) fn after_fork_in_child() {
    THREADS.with(|lists| {
        lists.threads.clear();
        lists.strangers.clear();
    });
    let _ = THREAD.try_with(|thread| {
        thread.thread.id.store(own_id(), Ordering::Relaxed);
        THREADS.with(|lists| lists.threads.push(Arc::clone(&thread.thread)));
    });
}

/// Takes a thread off the list when it ends.
struct Listed {
    thread: Arc<Thread>,
}

impl Listed {
    /// It was cancelled, and lets itself be cancelled now. Takes the sign.
    fn must_look(&self) -> bool {
        if !self.thread.cancelled.load(Ordering::SeqCst) {
            return false;
        }
        if !is_enabled() {
            self.thread.refuses.store(true, Ordering::SeqCst);
            return false;
        }
        self.thread.cancelled.store(false, Ordering::SeqCst);
        true
    }
}

/// This thread lets itself be cancelled.
fn is_enabled() -> bool {
    let (mut state, mut disabled) = (ENABLED, DISABLED);
    // SAFETY: both places are ours; the state is put back as it was.
    unsafe {
        pthread_setcancelstate(DISABLED, &mut state);
        pthread_setcancelstate(state, &mut disabled);
    }
    state == ENABLED
}

impl Drop for Listed {
    fn drop(&mut self) {
        THREADS.with(|lists| lists.threads.retain(|thread| !Arc::ptr_eq(thread, &self.thread)));
    }
}

fn own_id() -> pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn list() -> Listed {
    // SAFETY: takes nothing and cannot fail.
    let name = unsafe { libc::pthread_self() };
    let off = || AtomicBool::new(false);
    let thread = Arc::new(Thread {
        name,
        id: AtomicI32::new(own_id()),
        blocked: off(),
        cancelled: off(),
        refuses: off(),
    });
    THREADS.with(|lists| {
        if let Some(at) = lists.strangers.iter().position(|stranger| *stranger == name) {
            lists.strangers.remove(at);
            thread.cancelled.store(true, Ordering::SeqCst);
        }
        lists.threads.push(Arc::clone(&thread));
    });
    Listed { thread }
}

thread_local! {
    static THREAD: Listed = list();
}

/// Runs what may block, so that who cancels this thread knows.
pub(crate) fn while_blocked<T>(call: impl FnOnce() -> Answer<T>) -> Answer<T> {
    // Either who cancels sees that we are in a call, or we see the sign.
    let entered = THREAD.try_with(|listed| {
        listed.thread.blocked.store(true, Ordering::SeqCst);
        let must_look = listed.must_look();
        if must_look {
            listed.thread.blocked.store(false, Ordering::Release);
        }
        must_look
    });
    match entered {
        Ok(false) => {}
        Ok(true) => return Err(LOOK),
        // A thread that is ending has no such value any more; it is not cancelled again.
        Err(_) => return call(),
    }
    let answer = call();
    let interrupted = matches!(answer, Err(clearway_client::Errno::INTR));
    let refused = THREAD.try_with(|listed| {
        listed.thread.blocked.store(false, Ordering::Release);
        interrupted && listed.thread.cancelled.load(Ordering::SeqCst) && !is_enabled()
    });
    // A cancellation that has to wait is nothing that the program sees.
    if refused == Ok(true) { Err(LOOK) } else { answer }
}

/// `pthread_cancel(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn pthread_cancel(name: pthread_t) -> c_int {
    // SAFETY: the caller keeps to what the function asks. It may unwind this very thread.
    let answer = unsafe { real::pthread_cancel(name) };
    if answer == 0 {
        guarded(|| interrupt(name));
    }
    answer
}

/// By the system call: who cancels may be cancelled itself.
fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: AGAIN.subsec_nanos().into() };
    // SAFETY: reads a time that is ours.
    unsafe {
        libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>())
    };
}

fn interrupt(name: pthread_t) {
    let found = THREADS.with(|lists| {
        let thread = lists.threads.iter().find(|thread| thread.name == name).map(Arc::clone);
        if thread.is_none() {
            lists.strangers.truncate(STRANGERS - 1);
            lists.strangers.push_front(name);
        }
        thread
    });
    let Some(thread) = found else { return };
    thread.refuses.store(false, Ordering::SeqCst);
    thread.cancelled.store(true, Ordering::SeqCst);
    for _ in 0..MOST {
        if !thread.blocked.load(Ordering::SeqCst) || thread.refuses.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: a signal to a thread of this process, or to none.
        unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                thread.id.load(Ordering::Relaxed),
                SIGNAL,
            )
        };
        pause();
    }
}
