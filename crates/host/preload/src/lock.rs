//! The one lock of this library, which a fork may not leave locked in the child.

use std::cell::UnsafeCell;

/// A lock of the C library's: unlike the standard library's, it can be taken before a fork and
/// given back by both sides after it.
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made for use by several threads.
unsafe impl Sync for Lock {}

/// Gives the lock back when it goes.
pub(crate) struct Locked<'a>(&'a Lock);

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        self.take();
        Locked(self)
    }

    /// Takes the lock without a guard, for the handlers around a fork.
    pub(crate) fn take(&self) {
        // SAFETY: the mutex was initialised statically, and lives as long as the process.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Gives back what [`Lock::take`] took, in the same thread or in the child that this thread
    /// forked.
    pub(crate) fn give(&self) {
        // SAFETY: as in `take`.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}
