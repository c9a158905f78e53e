//! Epoll sets with sockets of Clearway beside descriptors of the kernel.
//!
//! The program's descriptor is an epoll set of the kernel, which holds the kernel's members. As
//! long as there is no other member, waiting is the kernel's alone. From the first socket on,
//! threads sleep on a second set of the kernel's, in which the first lies beside the notifier.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clearway_shm::in_process::Rest;
use clearway_shm::interrupt;
pub use clearway_shm::wait::EpollEvent;
use clearway_shm::wait::{self, SignalMask};

use crate::hub::set::{Set, What};
use crate::hub::{HANGUP, Inner, KERNEL, NOBODY, NOTIFIER, counter, notify};
use crate::internal::Internal;
use crate::ready::IN;
use crate::wait::{Deadline, clear};
use crate::{Client, Errno, Socket};

/// Stands for our own member in the program's set of the kernel. A program's words are addresses
/// and small numbers; this is neither.
const OURS: u64 = 0xc1ea_7a4f_9e3d_5b16;

/// While there are always sockets ready, the kernel's members are looked at once in so many calls,
/// and come first then: as many sockets may be ready as the program has room for.
const KERNEL_TURN: u32 = 8;

/// The sockets of Clearway in an epoll set. The kernel's members stay in the kernel's epoll set,
/// behind the program's descriptor.
pub struct EpollSet {
    client: Arc<Client>,
    pub(crate) key: usize,
    /// A member of the program's set: wakes threads that wait there because there was no socket
    /// yet.
    first: Internal,
    calls: AtomicU32,
    /// How often this process had been forked when the members were last made its own.
    forks: AtomicU32,
}

impl Drop for EpollSet {
    fn drop(&mut self) {
        self.client.hub().remove_set(self.key);
    }
}

impl EpollSet {
    /// A set without sockets beside the kernel's set behind the program's descriptor `epfd`. Make
    /// it when the program makes `epfd`: it adds a member of its own there, by which threads that
    /// wait learn of the first socket. Until then waiting is the kernel's alone.
    ///
    /// # Errors
    /// `EMFILE`, or what the kernel says of adding a member to its set.
    pub fn new(client: &Arc<Client>, epfd: i32) -> Result<Arc<EpollSet>, Errno> {
        let first = counter()?;
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        wait::epoll_add(epfd, first.as_fd().as_raw_fd(), EpollEvent { events, data: OURS })?;
        let key = client.hub().sets.insert(Set::new(epfd, counter()?));
        let forks = AtomicU32::new(client.forks());
        Ok(Arc::new(EpollSet {
            client: client.clone(),
            key,
            first,
            calls: AtomicU32::new(0),
            forks,
        }))
    }

    /// EPOLL_CTL_ADD of a socket by the program's descriptor number `fd`.
    ///
    /// # Errors
    /// `EEXIST` when it is a member.
    pub fn add(&self, fd: i32, socket: &Socket, event: EpollEvent) -> Result<(), Errno> {
        // A socket that came by a fork must be this process's before events are looked for.
        self.client.of(&socket.core);
        self.add_member(fd, What::Socket(socket.core.key), event)
    }

    /// EPOLL_CTL_ADD of another set; `fd` is the program's descriptor of it. It is not to be added
    /// to the kernel's set as well.
    ///
    /// # Errors
    /// As [`EpollSet::add`]; `EINVAL` and `ELOOP` for sets that cannot stand in each other.
    pub fn add_set(&self, fd: i32, set: &EpollSet, event: EpollEvent) -> Result<(), Errno> {
        self.client.hub().may_nest(self.key, set.key)?;
        self.add_member(fd, What::Set(set.key), event)?;
        // The kernel's members of the inner set must wake who sleeps on this one.
        let mut hub = self.client.hub();
        if let Some(set) = hub.sets.get_mut(self.key) {
            set.sleep = None;
        }
        hub.wake_set(self.key);
        Ok(())
    }

    fn add_member(&self, fd: i32, what: What, event: EpollEvent) -> Result<(), Errno> {
        let mut hub = self.client.hub();
        hub.add_member(self.key, fd, what, event)?;
        self.call_over(&hub);
        Ok(())
    }

    /// There are members: one of the threads that wait in the program's set comes, and calls the
    /// next. A ring wakes one thread only, and the kernel keeps none for those who come later, so
    /// it is notified under the hub's lock, as they are counted.
    fn call_over(&self, hub: &Inner) {
        if hub.sets.get(self.key).is_some_and(|set| set.waiting > 0 && !set.is_empty()) {
            notify(&self.first);
        }
    }

    /// EPOLL_CTL_MOD of a socket or set.
    ///
    /// # Errors
    /// `ENOENT` when it is no member.
    pub fn modify(&self, fd: i32, event: EpollEvent) -> Result<(), Errno> {
        self.client.hub().modify_member(self.key, fd, event)
    }

    /// EPOLL_CTL_DEL of a socket or set.
    ///
    /// # Errors
    /// `ENOENT` when it is no member.
    pub fn remove(&self, fd: i32) -> Result<(), Errno> {
        self.client.hub().remove_member(self.key, fd)
    }

    /// The descriptor is a member here (not in the kernel's set).
    pub fn contains(&self, fd: i32) -> bool {
        self.client.hub().sets.get(self.key).is_some_and(|set| set.contains(fd))
    }

    /// What a member here was told to be waited for.
    pub fn event_of(&self, fd: i32) -> Option<EpollEvent> {
        self.client.hub().sets.get(self.key)?.event_of(fd)
    }

    /// There are no members here: the kernel's set is all there is.
    pub fn is_empty(&self) -> bool {
        self.client.hub().sets.get(self.key).is_none_or(Set::is_empty)
    }

    /// The kernel's set has, or had, members too: from now on it is looked at as well.
    pub fn has_kernel_members(&self) {
        if let Some(set) = self.client.hub().sets.get_mut(self.key) {
            set.kernel = true;
        }
    }

    /// Waits as `epoll_pwait2` does; `epfd` is the program's descriptor of the set. Returns how
    /// many of `out` were filled.
    ///
    /// # Errors
    /// `EINTR` after a signal, `EINVAL` for no room, `EBADF`.
    pub fn wait(
        &self,
        epfd: i32,
        out: &mut [EpollEvent],
        timeout: Option<Duration>,
        sigmask: Option<SignalMask>,
    ) -> Result<usize, Errno> {
        if out.is_empty() {
            return Err(Errno::INVAL);
        }
        self.inherit();
        self.client.turn_inside();
        let deadline = Deadline::after(timeout.filter(|timeout| !timeout.is_zero()));
        let at_once = timeout == Some(Duration::ZERO);
        let mut handed_over = false;
        let first = self.kernel_in_passing(epfd, out);
        if first > 0 {
            let rest = &mut out[first..];
            let filled = if rest.is_empty() { None } else { self.harvest(rest) };
            return Ok(first + filled.unwrap_or(0));
        }
        loop {
            let Some(filled) = self.harvest(out) else {
                let left = if at_once { timeout } else { deadline.left() };
                match self.wait_for_kernel_only(epfd, out, left, sigmask)? {
                    // The first socket came, or the last one went.
                    0 if left.is_none_or(|left| !left.is_zero()) => continue,
                    filled => return Ok(filled),
                }
            };
            if filled > 0 {
                self.calls.fetch_add(1, Ordering::Relaxed);
                return Ok(filled);
            }
            let left = deadline.left();
            if at_once || left.is_some_and(|left| left.is_zero()) {
                self.client.poll_once();
                return match self.has_kernel() {
                    true => self.kernel_wait(epfd, out, Some(Duration::ZERO), sigmask),
                    false => Ok(0),
                };
            }
            if self.spin() {
                continue;
            }
            let kernel = self.sleep(left, sigmask, &mut handed_over)?;
            if kernel {
                let filled = self.kernel_wait(epfd, out, Some(Duration::ZERO), sigmask)?;
                if filled > 0 {
                    return Ok(filled);
                }
            }
        }
    }

    /// What `poll` would find, but for what the kernel knows of its own members.
    pub(crate) fn readiness(&self) -> u32 {
        let mut hub = self.client.hub();
        hub.drain();
        if hub.is_set_ready(self.key, 4) { IN | libc::EPOLLRDNORM as u32 } else { 0 }
    }

    /// Takes what is ready; None when there are no members.
    fn harvest(&self, out: &mut [EpollEvent]) -> Option<usize> {
        let mut hub = self.client.hub();
        if hub.sets.get(self.key)?.is_empty() {
            return None;
        }
        hub.drain();
        hub.look_at_inner_sets(self.key);
        let filled = hub.harvest(self.key, out);
        let set = hub.sets.get(self.key)?;
        if filled > 0 && set.is_promising() && set.sleeping > set.kicked {
            // What is left is for the others, as the kernel does it.
            hub.wake_set(self.key);
        }
        Some(filled)
    }

    /// Waits in the kernel as long as there are no members here.
    fn wait_for_kernel_only(
        &self,
        epfd: i32,
        out: &mut [EpollEvent],
        timeout: Option<Duration>,
        sigmask: Option<SignalMask>,
    ) -> Result<usize, Errno> {
        match self.client.hub().sets.get_mut(self.key) {
            Some(set) if set.is_empty() => set.waiting += 1,
            _ => return Ok(0),
        }
        let waited = self.kernel_wait(epfd, out, timeout, sigmask);
        let mut hub = self.client.hub();
        if let Some(set) = hub.sets.get_mut(self.key) {
            set.waiting = set.waiting.saturating_sub(1);
        }
        // Whoever was notified for is out, or is called again: the kernel's set must not look ready
        // for nobody, to sets that it lies in.
        clear(&self.first);
        self.call_over(&hub);
        waited
    }

    /// The kernel's set has members of the program's.
    pub(crate) fn has_kernel(&self) -> bool {
        self.client.hub().sets.get(self.key).is_some_and(|set| set.kernel)
    }

    /// Asks the kernel for its members.
    fn kernel_wait(
        &self,
        epfd: i32,
        out: &mut [EpollEvent],
        timeout: Option<Duration>,
        sigmask: Option<SignalMask>,
    ) -> Result<usize, Errno> {
        let filled = wait::sleep_epoll(epfd, out, timeout, sigmask)?;
        let Some(ours) = out[..filled].iter().position(|event| event.data == OURS) else {
            return Ok(filled);
        };
        out.copy_within(ours + 1..filled, ours);
        // It may have been meant for another thread, when this one looks at the kernel's members in
        // passing.
        self.call_over(&self.client.hub());
        Ok(filled - 1)
    }

    /// Looks at the kernel's members now and then while there are sockets ready all the time.
    fn kernel_in_passing(&self, epfd: i32, out: &mut [EpollEvent]) -> usize {
        if self.calls.load(Ordering::Relaxed) % KERNEL_TURN != KERNEL_TURN - 1 {
            return 0;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.has_kernel() {
            true => self.kernel_wait(epfd, out, Some(Duration::ZERO), None).unwrap_or(0),
            false => 0,
        }
    }

    fn spin(&self) -> bool {
        self.client.spin.look(|| {
            self.client.turn_inside();
            let mut hub = self.client.hub();
            hub.drain();
            hub.sets.get(self.key).is_none_or(Set::is_promising)
        })
    }

    /// Sleeps until a member may be ready, the time is over, or a signal comes (EINTR); true when
    /// the kernel's set has something. `handed_over`: what [`Client::turn_awake`] said of the sleep
    /// before, and says of this one.
    fn sleep(
        &self,
        timeout: Option<Duration>,
        sigmask: Option<SignalMask>,
        handed_over: &mut bool,
    ) -> Result<bool, Errno> {
        if interrupt::came() {
            return Err(Errno::INTR);
        }
        let timeout = self.client.until_next_look(timeout);
        self.client.notify_owed_workers();
        let Some(resting) = self.client.rest_inside(*handed_over) else { return Ok(false) };
        let rest = resting.rest;
        let mut hub = self.client.hub();
        let Some(queue_pair) = hub.living() else {
            // All members' host is gone, and that was reported to whom it concerned.
            drop(hub);
            return self.sleep_without_host(timeout, sigmask);
        };
        let (number, words, notifier) =
            (queue_pair.number, queue_pair.words.clone(), queue_pair.notifier.clone());
        let sleeper = hub.set_sleeper(self.key, number, rest)?;
        let accepting = hub.accepting_of(self.key);
        accepting.about_to_sleep(&words);
        hub.drain();
        match hub.sets.get_mut(self.key) {
            Some(set) if !set.is_promising() => set.sleeping += 1,
            _ => {
                accepting.awake(&words);
                return Ok(false);
            }
        }
        drop(hub);

        let mut found = [EpollEvent::default(); 4];
        let (slept, there) = sleeper.sleep(rest, &mut found, timeout, sigmask);
        let found = &found[..there];
        if found.iter().any(|event| event.data == NOTIFIER) {
            clear(&notifier);
        }
        drop(resting);
        let mut hub = self.client.hub();
        if let Some(set) = hub.sets.get_mut(self.key) {
            // Before the rings are drained: this thread is no sleeper any more that would have to
            // be kicked for what is found there, and find its own kick at the next sleep.
            set.sleeping = set.sleeping.saturating_sub(1);
            // Two kicks can have woken one thread only, so others may be kicked again.
            set.kicked = 0;
            set.looking += 1;
        }
        if self.client.is_inside() {
            drop(hub);
            *handed_over = self.client.turn_awake(rest);
            hub = self.client.hub();
        }
        if hub.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.number == number) {
            accepting.awake(&words);
            hub.drain();
        }
        if let Some(set) = hub.sets.get_mut(self.key) {
            set.looking = set.looking.saturating_sub(1);
            if set.is_promising() && found.iter().any(|event| event.data == KERNEL) {
                // What the kernel has may be all that this thread takes.
                hub.wake_set(self.key);
            }
        }
        drop(hub);
        if found.iter().any(|event| event.data == HANGUP) {
            self.client.lost_pulse(number);
        }
        self.client.come_back();
        slept?;
        Ok(found.iter().any(|event| event.data == KERNEL))
    }

    fn sleep_without_host(
        &self,
        timeout: Option<Duration>,
        sigmask: Option<SignalMask>,
    ) -> Result<bool, Errno> {
        let mut hub = self.client.hub();
        let sleeper = hub.set_sleeper(self.key, NOBODY, Rest::Aside)?;
        match hub.sets.get_mut(self.key) {
            Some(set) if !set.is_promising() => set.sleeping += 1,
            _ => return Ok(false),
        }
        drop(hub);
        let mut found = [EpollEvent::default(); 4];
        let (slept, there) = sleeper.sleep(Rest::Aside, &mut found, timeout, sigmask);
        let found = &found[..there];
        let mut hub = self.client.hub();
        if let Some(set) = hub.sets.get_mut(self.key) {
            (set.sleeping, set.kicked) = (set.sleeping.saturating_sub(1), 0);
            if hub.alive().is_some() {
                // The others sleep without the host still.
                hub.wake_set(self.key);
            }
        }
        drop(hub);
        self.client.come_back();
        slept?;
        Ok(found.iter().any(|event| event.data == KERNEL))
    }

    /// Members that came by a fork become this process's.
    fn inherit(&self) {
        let forks = self.client.forks();
        if self.forks.swap(forks, Ordering::Relaxed) == forks {
            return;
        }
        let strangers: Vec<_> = {
            let hub = self.client.hub();
            let Some(set) = hub.sets.get(self.key) else { return };
            let cores =
                set.sockets().filter_map(|key| hub.sockets.get(key)).map(|socket| &socket.core);
            cores.filter(|core| core.is_inherited(forks)).cloned().collect()
        };
        for core in strangers {
            self.client.of(&core);
        }
    }
}
