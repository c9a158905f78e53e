//! A lock in shared memory, for the threads and processes of one program.
//!
//! The word names its holder: bits 0–21 the thread's number (Linux has no larger ones), bits 22–30
//! some of the time when the thread started, bit 31 set while others wait. A thread that dies
//! holding the lock, in whatever way, is found by those that wait: its number is nobody's any more,
//! or a zombie's, or somebody's who started at another time. They then take the lock over. What it
//! protects must therefore be right at any instant, as the FIFOs are: an end's position is the last
//! thing that an operation writes.
//!
//! The host never takes such a lock. Processes that share one must see each other's thread numbers,
//! so be in one PID namespace.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags, Timespec};

mod holder;

use holder::Holder;

#[cfg(test)]
mod tests;

/// Others wait.
const WAITERS: u32 = 1 << 31;

/// Looks at a held lock before going to sleep. Sections under these locks are short, but for large
/// copies.
const SPINS: u32 = 100;

/// After waiting so long, the holder is looked up.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Holds a lock until it is dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<'a> {
    word: &'a AtomicU32,
    /// The word names the thread, so the guard stays with it.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Ordering::Release) & WAITERS != 0 {
            let _ = futex::wake(self.word, Flags::empty(), 1);
        }
    }
}

/// Takes the lock if nobody holds it.
pub fn try_lock(word: &AtomicU32) -> Option<Guard<'_>> {
    take(word, 0, Holder::current().word())
}

/// Takes the lock, and waits for it as long as its holder lives. Not for a thread that holds it
/// already.
pub fn lock(word: &AtomicU32) -> Guard<'_> {
    let me = Holder::current().word();
    for _ in 0..SPINS {
        let free = word.load(Ordering::Relaxed) == 0;
        if let Some(guard) = free.then(|| take(word, 0, me)).flatten() {
            return guard;
        }
        std::hint::spin_loop();
    }
    wait(word, me)
}

/// Finds this thread's name out now, while the process may still look at `/proc`.
pub fn know_this_thread() {
    Holder::current();
}

fn take(word: &AtomicU32, held: u32, me: u32) -> Option<Guard<'_>> {
    word.compare_exchange(held, me, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Guard { word, _of_this_thread: PhantomData })
}

fn wait(word: &AtomicU32, me: u32) -> Guard<'_> {
    loop {
        let held = word.load(Ordering::Relaxed);
        if held == 0 {
            // Who waited cannot know whether others still do, so it says that they do.
            if let Some(guard) = take(word, 0, me | WAITERS) {
                return guard;
            }
            continue;
        }
        let marked = held | WAITERS;
        if word.compare_exchange(held, marked, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            continue;
        }
        let slept = futex::wait(word, Flags::empty(), marked, Some(&TIME_LIMIT));
        let still_held =
            slept == Err(rustix::io::Errno::TIMEDOUT) && word.load(Ordering::Relaxed) == marked;
        if still_held && !Holder::of(held & !WAITERS).is_alive() {
            // The exchange fails when another thread took over meanwhile.
            if let Some(guard) = take(word, marked, me | WAITERS) {
                return guard;
            }
        }
    }
}
