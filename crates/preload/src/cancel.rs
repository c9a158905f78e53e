//! Cancelling a thread that is blocked in a call on a socket of Clearway.
//!
//! The C library only marks a thread as cancelled, and wakes it only where it can be unwound on the spot, which is inside of the C library's own system
//! calls. Ours are not among them. So whoever cancels a thread interrupts its call as well; the call returns, and the thread finds the mark
//! ([`crate::errno::finish`]).

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use libc::{pid_t, pthread_t};

use crate::export::guarded;
use crate::lock::Lock;
use crate::real;

/// The C library's own signal for this (`SIGCANCEL`): its handler does nothing where a thread cannot be unwound.
const SIGNAL: c_int = 32;

/// A signal that comes between the thread's last look and its sleep wakes nobody, so it is sent again until the thread is out.
const AGAIN: Duration = Duration::from_micros(200);
const MOST: u32 = 500;

/// A thread that was blocked in a call of ours at least once.
struct Thread {
    name: pthread_t,
    id: AtomicI32,
    blocked: AtomicBool,
}

/// All such threads, behind a lock that a fork does not leave locked.
struct Threads {
    lock: Lock,
    list: UnsafeCell<Vec<Arc<Thread>>>,
}

// SAFETY: the list is only touched under the lock.
unsafe impl Sync for Threads {}

static THREADS: Threads = Threads { lock: Lock::new(), list: UnsafeCell::new(Vec::new()) };

impl Threads {
    fn with<T>(&self, then: impl FnOnce(&mut Vec<Arc<Thread>>) -> T) -> T {
        let _locked = self.lock.lock();
        // SAFETY: under the lock.
        then(unsafe { &mut *self.list.get() })
    }
}

/// The lock, for the handlers around a fork.
pub(crate) fn lock() -> &'static Lock {
    &THREADS.lock
}

/// In the child of a fork there is only the thread that forked, under another number.
pub(crate) fn after_fork_in_child() {
    THREADS.with(Vec::clear);
    let _ = THREAD.try_with(|thread| {
        thread.0.id.store(own_id(), Ordering::Relaxed);
        THREADS.with(|threads| threads.push(Arc::clone(&thread.0)));
    });
}

/// Takes a thread off the list when it ends.
struct Listed(Arc<Thread>);

impl Drop for Listed {
    fn drop(&mut self) {
        THREADS.with(|threads| threads.retain(|thread| !Arc::ptr_eq(thread, &self.0)));
    }
}

fn own_id() -> pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn list() -> Listed {
    // SAFETY: takes nothing and cannot fail.
    let name = unsafe { libc::pthread_self() };
    let thread = Arc::new(Thread { name, id: AtomicI32::new(own_id()), blocked: AtomicBool::new(false) });
    THREADS.with(|threads| threads.push(Arc::clone(&thread)));
    Listed(thread)
}

thread_local! {
    static THREAD: Listed = list();
}

/// Runs what may block, so that who cancels this thread knows.
pub(crate) fn while_blocked<T>(call: impl FnOnce() -> T) -> T {
    // A thread that is ending has no such value any more; it is not cancelled again.
    let mark = |on: bool| THREAD.try_with(|thread| thread.0.blocked.store(on, Ordering::SeqCst));
    let _ = mark(true);
    let answer = call();
    let _ = mark(false);
    answer
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

fn interrupt(name: pthread_t) {
    let Some(thread) = THREADS.with(|threads| threads.iter().find(|thread| thread.name == name).map(Arc::clone)) else {
        return;
    };
    for _ in 0..MOST {
        if !thread.blocked.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: a signal to a thread of this process, or to none.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.id.load(Ordering::Relaxed), SIGNAL) };
        std::thread::sleep(AGAIN);
    }
}
