//! Over a fork: nothing of ours is half done when the child begins, and the child has nothing of its parent's but what it needs.

use std::cell::RefCell;
use std::sync::MutexGuard;

use crate::client::{Client, Entrance};
use crate::hub::Held;

thread_local! {
    /// The locks that the forking thread holds meanwhile.
    static LOCKS: RefCell<Vec<(MutexGuard<'static, Entrance>, Held<'static>)>> = const { RefCell::new(Vec::new()) };
}

impl Client {
    /// Call before fork, in the thread that forks: takes the locks of this crate, so that the child finds everything whole.
    pub fn before_fork(&self) {
        let entrance = self.entrance();
        let hub = self.shared.hub.lock();
        LOCKS.with_borrow_mut(|locks| locks.push((entrance, hub)));
    }

    /// Call after fork, in the parent. Also when fork failed.
    pub fn after_fork_in_parent(&self) {
        LOCKS.with_borrow_mut(Vec::pop);
    }

    /// Call after fork, in the child. Lets go of the parent's attachment; the child enters the host by itself when it first needs to.
    pub fn after_fork_in_child(&self) {
        let Some((mut entrance, mut hub)) = LOCKS.with_borrow_mut(Vec::pop) else { return };
        // The host must see its parent go even while the child lives, so the child keeps no copy of the parent's attach socket.
        entrance.door = None;
        hub.forget_threads();
        self.count_fork();
    }
}
