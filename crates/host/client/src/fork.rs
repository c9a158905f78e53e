//! Over a fork: nothing of ours is half done when the child begins, and the child has nothing of
//! its parent's but what it needs.

use std::cell::RefCell;
use std::sync::MutexGuard;

use crate::client::{Client, Entrance};
use crate::hub::Held;

thread_local! {
    /// The locks that the forking thread holds meanwhile.
    static LOCKS: RefCell<Vec<(MutexGuard<'static, Entrance>,
        Held<'static>)>> = const { RefCell::new(Vec::new()) };
}

impl Client {
    /// Call before fork, in the thread that forks: takes the locks of this crate, so that the child
    /// finds everything whole.
    pub fn before_fork(&self) {
        self.session_fds_are_copied();
        let mut entrance = self.entrance();
        entrance.for_child = self.connection_for_child(&entrance);
        let hub = self.shared.hub.lock();
        LOCKS.with_borrow_mut(|locks| locks.push((entrance, hub)));
    }

    /// Call after fork, in the parent. Also when fork failed.
    pub fn after_fork_in_parent(&self) {
        if let Some((mut entrance, _)) = LOCKS.with_borrow_mut(Vec::pop) {
            entrance.for_child = None;
        }
    }

    /// Call after fork, in the child. Lets go of the parent's attachment, and enters the host as a
    /// process of its own if the parent was there: at once, for the child may be about to change
    /// its user or its root, or to confine itself, and could not enter then.
    pub fn after_fork_in_child(&self) {
        let Some((entrance, hub)) = LOCKS.with_borrow_mut(Vec::pop) else { return };
        self.begin_anew(entrance, hub);
    }

    /// The same in a child that was made by a bare system call, which nobody announced. What
    /// another thread of the parent held at that moment stays locked, as it does for everything
    /// else in such a child.
    pub fn after_clone_in_child(&self) {
        let entrance = self.entrance();
        let hub = self.shared.hub.lock();
        self.begin_anew(entrance, hub);
    }

    fn begin_anew(&self, mut entrance: MutexGuard<'static, Entrance>, mut hub: Held<'static>) {
        let was_attached = self.is_attached() && !self.is_inside();
        self.leave_inside();
        // The host must see its parent go even while the child lives, so the child keeps no copy of
        // the parent's attach socket.
        entrance.channel = None;
        let connection = entrance.for_child.take();
        hub.forget_threads();
        self.count_fork();
        drop((hub, entrance));
        if was_attached {
            clearway_shm::lock::know_this_thread();
            // What goes wrong is told when a socket is used: that tries again.
            if !self.enter_as_child(connection) {
                let _ = self.enter();
            }
        }
    }

    /// Call before the process can open nothing more. Whatever its sockets need later is opened,
    /// mapped and asked for now.
    pub fn before_last_descriptor(&self) {
        let Ok(attachment) = self.enter() else { return };
        let strangers: Vec<_> = {
            let hub = self.hub();
            let forks = self.forks();
            let cores = hub.sockets.iter().map(|(_, socket)| &socket.core);
            cores.filter(|core| core.is_inherited(forks)).cloned().collect()
        };
        for core in strangers {
            self.of(&core);
        }
        self.hub().lay_in_sleepers(attachment.number);
        clearway_shm::lock::know_this_thread();
    }

    /// Call before the process lets the kernel refuse system calls to it: afterwards bytes pass,
    /// and threads wait, by `read`, `write`, `ppoll` and `futex` alone. With `for_good` it does so
    /// now, and from then on nothing is opened any more, so the process does not come back to
    /// another host.
    pub fn before_confinement(&self, for_good: bool) {
        self.before_last_descriptor();
        clearway_shm::wait::confine();
        if for_good {
            self.back.give_up();
        }
    }
}
