//! Threads that wait for a socket which another thread puts a different one in the place of: for an
//! undecided one that becomes Clearway's, or for one that goes back to the kernel. They sleep on
//! what will not be the program's any more, so who replaces it wakes them, and they look again.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

use clearway_client::{Kind, Notifier};

use crate::lock::Lock;
use crate::object::Object;
use crate::table::Held;

/// All such threads, behind a lock that a fork does not leave locked.
struct Waiters {
    lock: Lock,
    list: UnsafeCell<Vec<(usize, Arc<Notifier>)>>,
}

// SAFETY: the list is only touched under the lock.
unsafe impl Sync for Waiters {}

static WAITERS: Waiters = Waiters { lock: Lock::new(), list: UnsafeCell::new(Vec::new()) };

impl Waiters {
    fn with<T>(&self, then: impl FnOnce(&mut Vec<(usize, Arc<Notifier>)>) -> T) -> T {
        let _locked = self.lock.lock();
        // SAFETY: under the lock.
        then(unsafe { &mut *self.list.get() })
    }
}

/// A thread that is about to wait for a socket, as long as this lives.
pub(crate) struct Waiter(Arc<Notifier>);

impl Waiter {
    /// None: nothing is put in its place, or there is no descriptor to be woken by. What the
    /// program's descriptor is has to be looked at once more after this.
    pub(crate) fn begin(held: &Held<Object>) -> Option<Waiter> {
        if !may_be_replaced(held) {
            return None;
        }
        let notifier = Arc::new(Notifier::new().ok()?);
        WAITERS.with(|list| list.push((held.name(), Arc::clone(&notifier))));
        Some(Waiter(notifier))
    }

    /// Readable as soon as the socket was replaced.
    pub(crate) fn fd(&self) -> c_int {
        self.0.as_fd().as_raw_fd()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let is_other = |(_, other): &(usize, Arc<Notifier>)| !Arc::ptr_eq(other, &self.0);
        WAITERS.with(|list| list.retain(is_other));
    }
}

/// Who waits for it for long may find another in its place. An undecided stream is told as hung up
/// at once.
pub(crate) fn may_be_replaced(held: &Held<Object>) -> bool {
    match &**held {
        Object::Pending(pending) => pending.kind == Kind::Datagram,
        Object::Ours(mine) => mine.may_go_back(),
        Object::Set(_) | Object::Route(_) => false,
    }
}

/// Another socket is in its place.
pub(crate) fn wake(held: &Held<Object>) {
    WAITERS.with(|list| {
        list.iter().filter(|(of, _)| *of == held.name()).for_each(|(_, waiter)| waiter.notify());
    });
}

/// The lock, for the handlers around a fork.
pub(crate) fn lock() -> &'static Lock {
    &WAITERS.lock
}

/// In the child of a fork nobody waits but who is inside of the call that forked; the parent's
/// threads are woken by the parent.
pub(crate) fn after_fork_in_child() {
    let others = WAITERS.with(std::mem::take);
    drop(others);
}
