//! Who waits for what in this process, and what the workers' events mean for them.
//!
//! One lock guards it all, and is held briefly: nothing under it waits. Whichever thread holds it
//! drains the event rings of the *queue pair* and marks the threads and epoll sets concerned, so it
//! does not matter which of them the notifier has woken. Those that sleep are *kicked* when the
//! lock is released.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clearway_shm::attach_socket::{FifoPlace, SessionId, SocketOptions};
use clearway_shm::in_process::Rest;
use clearway_shm::layout::{ACCEPT_COUNTERS, accept_counter, event};
use clearway_shm::sleep;
use clearway_shm::wait::{self, PollFd};
use clearway_shm::{FifoMem, QueuePairView, RingConsumer, Segment};
use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use crate::Errno;
use crate::ahead::Ahead;
use crate::core::{Core, Fifos};
use crate::internal::{self, Internal};
use crate::ready::{self, ALL, IN};
use crate::routes::Routes;

pub(crate) mod set;
pub(crate) mod sleep_set;

use set::{ET, Set};
use sleep_set::{Inlets, SleepSet};

/// Words by which a sleeper's epoll set names what it found.
pub(crate) const NOTIFIER: u64 = 0;
pub(crate) const KICK: u64 = 1;
pub(crate) const HANGUP: u64 = 2;
pub(crate) const KERNEL: u64 = 3;
pub(crate) const INNER: u64 = 4;
pub(crate) const STACK: u64 = 5;
pub(crate) const RECALL: u64 = 6;
/// The set within the one that is slept on.
pub(crate) const WITHIN: u64 = 7;

/// Sleepers that a process lays in before it confines itself: as many threads can sleep then.
const STOCK: usize = 4;

/// In place of an attachment's number: no host is there.
pub(crate) const NOBODY: u32 = 0;

/// The hub of one process.
pub(crate) struct Hub(Mutex<Inner>);

/// What the lock guards.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) sockets: Slab<Watched>,
    pub(crate) sets: Slab<Set>,
    waiters: Slab<Waiter>,
    by_session: HashMap<SessionId, usize>,
    pub(crate) queue_pair: Option<QueuePair>,
    /// Segments that are mapped, by their program's number and their own.
    pub(crate) segments: HashMap<(u32, u32), Arc<Segment>>,
    /// Which start of the host they are of.
    pub(crate) boot: u64,
    pub(crate) routes: Option<Arc<Routes>>,
    /// Sockets that listen, or have listened.
    listeners: Vec<usize>,
    pub(crate) ahead: Ahead,
    kicks: Kicks,
    /// Sessions that this process subscribes to just now, whose events are not routed yet.
    subscribing: usize,
    /// What [`Inner::drain_for_others`] answers.
    concerns_others: bool,
}

/// The part of an attachment by which events come.
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    pub(crate) words: QueuePairView,
    pub(crate) events: Vec<RingConsumer>,
    pub(crate) notifier: Arc<Internal>,
    /// A copy of the attach socket: it hangs up when the host is gone.
    pub(crate) hangup_fd: Internal,
    pub(crate) pool: Vec<Arc<Sleeper>>,
    pub(crate) alive: bool,
    /// The worker is inside of this process, and this is what brings it work. Nobody is announced
    /// to it as asleep: who turns it wakes who sleeps.
    inside: Option<Inlets>,
}

impl QueuePair {
    pub(crate) fn new(
        number: u32,
        words: QueuePairView,
        events: Vec<RingConsumer>,
        notifier: Internal,
        hangup_fd: Internal,
        inside: Option<Inlets>,
    ) -> QueuePair {
        QueuePair {
            number,
            words,
            events,
            notifier: Arc::new(notifier),
            hangup_fd,
            pool: Vec::new(),
            alive: true,
            inside,
        }
    }
}

/// A socket, and who waits for it.
pub(crate) struct Watched {
    pub(crate) core: Arc<Core>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) local: Option<std::net::SocketAddr>,
    /// What it was bound to, as long as it is not connected.
    pub(crate) bound: Option<std::net::SocketAddr>,
    pub(crate) remote: Option<std::net::SocketAddr>,
    pub(crate) options: SocketOptions,
    /// A connect has begun whose end no connect has reported.
    pub(crate) connecting: bool,
    /// The session fd of a socket that came back, where nobody else keeps it.
    pub(crate) session_fd: Option<Internal>,
}

/// One who waits for a socket or set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Watch {
    /// A thread, for these bits.
    Thread { waiter: usize, mask: u32 },
    /// A thread that is blocked in `accept`: for what arrives one is woken for each connection, for
    /// the rest all are.
    Acceptor { waiter: usize },
    /// An epoll set, of which it is this member.
    Member { set: usize, member: usize },
}

/// A thread that waits.
#[derive(Default)]
struct Waiter {
    /// Something that it waits for was touched.
    touched: bool,
    /// What it sleeps on, while it does.
    sleeper: Option<Arc<Sleeper>>,
    /// The listeners among what it waits for.
    accepting: Accepting,
}

/// Listeners that a thread waits for, as the queue pair counts them ([`accept_counter`]); None:
/// nobody is announced to this worker.
#[derive(Clone, Copy)]
pub(crate) struct Accepting(Option<u16>);

impl Default for Accepting {
    fn default() -> Accepting {
        Accepting(Some(0))
    }
}

impl Accepting {
    fn add(&mut self, core: &Core) {
        if core.is_listening() {
            self.0 = self.0.map(|counters| counters | 1 << accept_counter(core.id()));
        }
    }

    /// A thread that waits for these is about to sleep. What it waits for must be looked at once
    /// more after this call.
    pub(crate) fn about_to_sleep(self, words: &QueuePairView) {
        if self.0.is_none() {
            return;
        }
        for counter in self.counters() {
            words.accepting[counter].fetch_add(1, Ordering::Relaxed);
        }
        sleep::about_to_sleep(&words.sleepers);
    }

    /// It is awake again, or did not sleep after all.
    pub(crate) fn awake(self, words: &QueuePairView) {
        if self.0.is_none() {
            return;
        }
        sleep::awake(&words.sleepers);
        for counter in self.counters() {
            words.accepting[counter].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn counters(self) -> impl Iterator<Item = usize> {
        (0..ACCEPT_COUNTERS).filter(move |counter| self.0.unwrap_or(0) & 1 << counter != 0)
    }
}

const _: () = assert!(ACCEPT_COUNTERS <= u16::BITS as usize);

/// What a thread sleeps on, with a counter of its own in it.
pub(crate) struct Sleeper {
    pub(crate) set: SleepSet,
    pub(crate) kick: Internal,
}

impl Sleeper {
    fn new(queue_pair: Option<&QueuePair>) -> Result<Sleeper, Errno> {
        let make = || {
            let kick = counter()?;
            let set = SleepSet::new(queue_pair, &kick)?;
            Ok(Sleeper { set, kick })
        };
        internal::with_spares(make)
    }

    fn kick(&self) {
        notify(&self.kick);
    }
}

/// A new event counter.
pub(crate) fn counter() -> Result<Internal, Errno> {
    Ok(Internal::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

pub(crate) fn notify(counter: &Internal) {
    // A full counter is readable, which is all that is wanted.
    let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
}

/// Who must be woken when the lock is released. Beyond a few, they are woken at once.
#[derive(Default)]
struct Kicks {
    list: [Option<Kick>; 8],
    len: usize,
}

enum Kick {
    Thread(Arc<Sleeper>),
    Set(Arc<Internal>),
}

impl Kick {
    fn deliver(self) {
        match self {
            Kick::Thread(sleeper) => sleeper.kick(),
            Kick::Set(counter) => notify(&counter),
        }
    }
}

impl Kicks {
    fn add(&mut self, kick: Kick) {
        match self.list.get_mut(self.len) {
            Some(slot) => {
                *slot = Some(kick);
                self.len += 1;
            }
            None => kick.deliver(),
        }
    }

    fn deliver(self) {
        self.list.into_iter().take(self.len).flatten().for_each(Kick::deliver);
    }
}

/// The hub, held. Who must be woken is woken when this is dropped.
pub(crate) struct Held<'a> {
    inner: Option<MutexGuard<'a, Inner>>,
}

impl std::ops::Deref for Held<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.inner.as_ref().expect("taken away by drop only")
    }
}

impl std::ops::DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.inner.as_mut().expect("taken away by drop only")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        if inner.kicks.len > 0 {
            let kicks = std::mem::take(&mut inner.kicks);
            drop(inner);
            kicks.deliver();
        }
    }
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub(Mutex::new(Inner::default()))
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        Held { inner: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

/// This process subscribes to a session, until this is dropped: what it says of sessions that it
/// holds no more might come behind that, and be about the same one.
pub(crate) struct Subscribing<'a>(&'a Hub);

impl Drop for Subscribing<'_> {
    fn drop(&mut self) {
        let mut hub = self.0.lock();
        // A fork in a signal handler may have forgotten it.
        hub.subscribing = hub.subscribing.saturating_sub(1);
    }
}

impl Hub {
    pub(crate) fn subscribing(&self) -> Subscribing<'_> {
        self.lock().subscribing += 1;
        Subscribing(self)
    }
}

impl Inner {
    /// The number of the attachment whose host is there.
    pub(crate) fn alive(&self) -> Option<u32> {
        self.living().map(|queue_pair| queue_pair.number)
    }

    /// The queue pair whose host is there.
    pub(crate) fn living(&self) -> Option<&QueuePair> {
        self.queue_pair.as_ref().filter(|queue_pair| queue_pair.alive)
    }

    /// The worker is inside of this process.
    fn is_inside(&self) -> bool {
        self.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.inside.is_some())
    }

    /// What a socket is ready for.
    pub(crate) fn readiness(&self, core: &Core) -> u32 {
        core.readiness(self.alive() == Some(core.attachment()))
    }

    /// Another process connected the stream: finds its FIFOs by its words, in segments that are
    /// mapped. False: they are not.
    #[cold]
    pub(crate) fn learn(&self, core: &Core) -> bool {
        let session = core.described(SocketOptions::default());
        let segment = |number| self.segments.get(&(core.app(), number));
        let fifo = |place: FifoPlace| {
            let (head, data) = (segment(place.head.segment)?, segment(place.data.segment)?);
            Some((place, FifoMem::new(head, data, &place).ok()?))
        };
        let (rx, tx) = (session.rx.and_then(fifo), session.tx.and_then(fifo));
        let is_there = rx.is_some() && tx.is_some();
        if is_there {
            core.set_fifos(Fifos { rx, tx });
        }
        is_there
    }

    /// A socket is there. `make` gets its key.
    pub(crate) fn add_socket(
        &mut self,
        id: SessionId,
        make: impl FnOnce(usize) -> Watched,
    ) -> Arc<Core> {
        let entry = self.sockets.vacant_entry();
        let key = entry.key();
        let core = entry.insert(make(key)).core.clone();
        self.by_session.insert(id, key);
        if core.is_listening() {
            self.listens(key);
        }
        core
    }

    /// The socket listens from now on.
    pub(crate) fn listens(&mut self, key: usize) {
        if !self.listeners.contains(&key) {
            self.listeners.push(key);
        }
    }

    /// The listeners among the members of a set.
    pub(crate) fn accepting_of(&self, set: usize) -> Accepting {
        let mut accepting = Accepting::default();
        if self.is_inside() {
            return Accepting(None);
        }
        for listener in self.listeners.iter().filter_map(|key| self.sockets.get(*key)) {
            let waits = |watch: &Watch| {
                matches!(watch,
                Watch::Member { set: of, member } if *of == set && self.reads(set, *member))
            };
            if listener.watches.iter().any(waits) {
                accepting.add(&listener.core);
            }
        }
        accepting
    }

    /// A thread waits for these too.
    pub(crate) fn waits_for(&mut self, waiter: usize, accepting: Accepting) {
        if let Some(waiter) = self.waiters.get_mut(waiter) {
            waiter.accepting.0 = waiter.accepting.0.zip(accepting.0).map(|(own, more)| own | more);
        }
    }

    /// The listeners that a thread waits for.
    pub(crate) fn accepting(&self, waiter: usize) -> Accepting {
        if self.is_inside() {
            return Accepting(None);
        }
        self.waiters.get(waiter).map_or_else(Accepting::default, |waiter| waiter.accepting)
    }

    /// Events of the session are for this socket.
    pub(crate) fn route(&mut self, id: SessionId, key: usize) {
        self.by_session.insert(id, key);
    }

    /// Events of the session are for this socket alone, as far as is known.
    pub(crate) fn is_alone_with(&self, core: &Core) -> bool {
        self.subscribing == 0 && self.by_session.get(&core.id()) == Some(&core.key)
    }

    /// A socket is gone, and with it its places in epoll sets.
    pub(crate) fn remove_socket(&mut self, key: usize) -> Option<Watched> {
        let watched = self.sockets.try_remove(key)?;
        self.listeners.retain(|listener| *listener != key);
        if self.by_session.get(&watched.core.id()) == Some(&key) {
            self.by_session.remove(&watched.core.id());
        }
        for watch in &watched.watches {
            if let Watch::Member { set, member } = watch {
                self.forget_member(*set, *member);
            }
        }
        Some(watched)
    }

    /// A new queue pair in place of the one before. Sessions of that one are dead, or come along
    /// when they are next used.
    pub(crate) fn set_queue_pair(&mut self, queue_pair: Option<QueuePair>) {
        self.by_session.clear();
        // It was the old attachment's; in a forked child, the parent's.
        self.ahead = Ahead::default();
        self.queue_pair = queue_pair;
    }

    /// A new host is there: who sleeps hears no notifier of it, and looks anew.
    pub(crate) fn host_came(&mut self) {
        for waiter in self.waiters.iter().map(|(waiter, _)| waiter).collect::<Vec<_>>() {
            self.touch(waiter);
        }
        let asleep = self.sets.iter().filter(|(_, set)| set.sleeping > 0);
        for kick in asleep.map(|(_, set)| set.kick.clone()).collect::<Vec<_>>() {
            self.kick_set(kick);
        }
    }

    /// The host is gone: everything of it is ready, with an error.
    pub(crate) fn host_died(&mut self, number: u32) {
        let Some(queue_pair) = self
            .queue_pair
            .as_mut()
            .filter(|queue_pair| queue_pair.number == number && queue_pair.alive)
        else {
            return;
        };
        queue_pair.alive = false;
        self.mark_all();
    }

    /// Takes all events out of the rings and marks whom they concern. A host that writes nonsense
    /// counts as gone.
    pub(crate) fn drain(&mut self) {
        let Some(mut queue_pair) = self.queue_pair.take() else { return };
        let mut broken = false;
        for ring in &mut queue_pair.events {
            loop {
                match ring.pop() {
                    Ok(Some(message)) => {
                        if let Some(&key) = self.by_session.get(&message.session) {
                            self.event(key, message.what);
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        broken = true;
                        break;
                    }
                }
            }
        }
        let overflow = queue_pair.alive
            && queue_pair.words.overflow.load(Ordering::Acquire) != 0
            && queue_pair.words.overflow.swap(0, Ordering::AcqRel) != 0;
        queue_pair.alive &= !broken;
        self.queue_pair = Some(queue_pair);
        if overflow || broken {
            self.mark_all();
        }
    }

    /// The same by a thread that is awake; true when some of it is for others, who are woken by
    /// this or come by themselves.
    pub(crate) fn drain_for_others(&mut self) -> bool {
        self.concerns_others = false;
        self.drain();
        self.concerns_others
    }

    /// Threads that sleep are woken when this is let go.
    pub(crate) fn wakes_some(&self) -> bool {
        self.kicks.len > 0
    }

    /// The host hung up.
    pub(crate) fn has_lost_pulse(&self) -> bool {
        let Some(queue_pair) = &self.queue_pair else { return false };
        let mut fds = [PollFd {
            fd: queue_pair.hangup_fd.as_fd().as_raw_fd(),
            events: libc::POLLRDHUP,
            found: 0,
        }];
        matches!(wait::poll(&mut fds, Some(Duration::ZERO), None), Ok(1))
    }

    fn event(&mut self, key: usize, what: u32) {
        if what & event::READABLE != 0 && self.wants_each_arrival(key) {
            // The next one must be told too. Others look again, and arm, only when they find
            // nothing.
            self.sockets[key].core.arm(IN);
        }
        self.mark(key, ready::touched(what));
    }

    fn mark_all(&mut self) {
        let keys: Vec<usize> = self.sockets.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.mark(key, ALL));
    }

    /// Something about a socket changed: tells those who wait for any of the bits.
    pub(crate) fn mark(&mut self, key: usize, bits: u32) {
        let mut exclusive_done = false;
        // News of several connections can come as one.
        let several = self.sockets.get(key).is_some_and(|socket| socket.core.has_several_waiting());
        if bits == ready::touched(event::READABLE) {
            self.wake_acceptors(key);
        }
        let mut index = 0;
        while let Some(&watch) = self.sockets.get(key).and_then(|socket| socket.watches.get(index))
        {
            match watch {
                Watch::Acceptor { waiter } if bits != ready::touched(event::READABLE) => {
                    self.touch(waiter)
                }
                Watch::Acceptor { .. } => {}
                watch => self.mark_watch(watch, bits, &mut exclusive_done),
            }
            exclusive_done &= !several;
            index += 1;
        }
    }

    /// Wakes as many of the threads that are blocked in `accept` as there are connections, less
    /// those that are on their way: who has waited longest first. Which of them takes it is not
    /// said: who is awake before it, to move the news or to look for more, may come first.
    pub(crate) fn wake_acceptors(&mut self, key: usize) {
        let Some(socket) = self.sockets.get(key) else { return };
        if !socket.watches.iter().any(|watch| matches!(watch, Watch::Acceptor { .. })) {
            return;
        }
        // What tells of a connection may come behind who took it, and wakes nobody then. Who sleeps
        // on has asked before it was told, so it is asked once more, before it is counted.
        socket.core.arm(IN);
        let mut waiting = socket.core.connections_waiting();
        let mut index = 0;
        while let Some(&watch) = self.sockets.get(key).and_then(|socket| socket.watches.get(index))
        {
            index += 1;
            let Watch::Acceptor { waiter } = watch else { continue };
            if waiting == 0 {
                return;
            }
            waiting -= 1;
            self.touch(waiter);
        }
    }

    pub(crate) fn mark_watch(&mut self, watch: Watch, bits: u32, exclusive_done: &mut bool) {
        match watch {
            Watch::Thread { waiter, mask } if mask & bits != 0 => self.touch(waiter),
            Watch::Thread { .. } => {}
            Watch::Acceptor { waiter } => self.touch(waiter),
            Watch::Member { set, member } => self.mark_member(set, member, bits, exclusive_done),
        }
    }

    fn touch(&mut self, waiter: usize) {
        let Some(waiter) = self.waiters.get_mut(waiter) else { return };
        waiter.touched = true;
        if let Some(sleeper) = waiter.sleeper.take() {
            self.concerns_others = true;
            self.kicks.add(Kick::Thread(sleeper));
        }
    }

    pub(crate) fn kick_set(&mut self, counter: Arc<Internal>) {
        self.kicks.add(Kick::Set(counter));
    }

    /// A thread begins to wait.
    pub(crate) fn add_waiter(&mut self) -> usize {
        self.waiters.insert(Waiter::default())
    }

    /// It waits no longer.
    pub(crate) fn remove_waiter(&mut self, waiter: usize) {
        self.waiters.try_remove(waiter);
    }

    pub(crate) fn watch_socket(&mut self, key: usize, watch: Watch) {
        let Some(socket) = self.sockets.get_mut(key) else { return };
        socket.watches.push(watch);
        let reader = match watch {
            Watch::Thread { waiter, mask } if mask & IN != 0 => Some(waiter),
            Watch::Acceptor { waiter } => Some(waiter),
            Watch::Thread { .. } | Watch::Member { .. } => None,
        };
        if let Some(waiter) = reader.and_then(|waiter| self.waiters.get_mut(waiter)) {
            waiter.accepting.add(&socket.core);
        }
    }

    pub(crate) fn unwatch_socket(&mut self, key: usize, watch: Watch) {
        if let Some(socket) = self.sockets.get_mut(key) {
            forget(&mut socket.watches, watch);
        }
    }

    /// Something that the thread waits for was touched since the last time this was asked.
    pub(crate) fn was_touched(&mut self, waiter: usize) -> bool {
        // A thread that is not known was forgotten by a fork in a signal handler: it must look for
        // itself.
        self.waiters.get_mut(waiter).is_none_or(|waiter| std::mem::take(&mut waiter.touched))
    }

    /// The thread is about to sleep so on what this returns, on which it is kicked from now on.
    pub(crate) fn lie_down(&mut self, waiter: usize, rest: Rest) -> Result<Arc<Sleeper>, Errno> {
        let mut queue_pair = self.queue_pair.as_mut().filter(|queue_pair| queue_pair.alive);
        let sleeper = match queue_pair.as_mut().and_then(|queue_pair| queue_pair.pool.pop()) {
            Some(sleeper) => sleeper,
            None => Arc::new(Sleeper::new(queue_pair.as_deref())?),
        };
        if rest == Rest::Watch {
            sleeper.set.make_watching(queue_pair.as_deref())?;
        }
        if let Some(waiter) = self.waiters.get_mut(waiter) {
            waiter.sleeper = Some(sleeper.clone());
        }
        Ok(sleeper)
    }

    /// Makes what threads of this process will sleep on, as long as such may be made.
    pub(crate) fn lay_in_sleepers(&mut self, attachment: u32) {
        while let Some(queue_pair) = self
            .queue_pair
            .as_mut()
            .filter(|queue_pair| queue_pair.alive && queue_pair.pool.len() < STOCK)
        {
            let Ok(sleeper) = Sleeper::new(Some(queue_pair)) else { break };
            let _ = sleeper.set.make_watching(Some(queue_pair));
            queue_pair.pool.push(Arc::new(sleeper));
        }
        for key in self.sets.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            let _ = self.set_sleeper(key, attachment, Rest::Watch);
        }
    }

    /// What threads that wait for a set sleep on while this attachment is there, made when the
    /// first does.
    pub(crate) fn set_sleeper(
        &mut self,
        key: usize,
        attachment: u32,
        rest: Rest,
    ) -> Result<Arc<SleepSet>, Errno> {
        let set = self.sets.get(key).ok_or(Errno::BADF)?;
        let queue_pair =
            self.queue_pair.as_ref().filter(|queue_pair| queue_pair.number == attachment);
        let sleeper = match set.sleep.as_ref().filter(|(of, _)| *of == attachment) {
            Some((_, sleeper)) => sleeper.clone(),
            None => {
                // Kick, notifier and hang-up descriptor, and the kernel's sets of this set and of
                // those in it.
                let sleeper = SleepSet::new(queue_pair, &set.kick)?;
                sleeper.add(set.epfd, IN, KERNEL)?;
                for inner in self.sets_within(key) {
                    // By its edge: whether it is ready is looked at here, and one that nobody asks
                    // about now stays ready.
                    sleeper.add(inner, IN | ET, INNER)?;
                }
                if let Some(edges) = set.edges() {
                    sleeper.add(edges, IN | ET, INNER)?;
                }
                Arc::new(sleeper)
            }
        };
        if rest == Rest::Watch {
            sleeper.make_watching(queue_pair)?;
        }
        if let Some(set) = self.sets.get_mut(key) {
            set.sleep = Some((attachment, sleeper.clone()));
        }
        Ok(sleeper)
    }

    /// The thread is awake: whoever touches it from now on need not wake it.
    pub(crate) fn woke(&mut self, waiter: usize) {
        if let Some(waiter) = self.waiters.get_mut(waiter) {
            waiter.sleeper = None;
        }
    }

    /// The thread is up again.
    pub(crate) fn get_up(&mut self, waiter: usize, sleeper: Arc<Sleeper>, number: u32) {
        self.woke(waiter);
        if let Some(queue_pair) =
            self.queue_pair.as_mut().filter(|queue_pair| queue_pair.number == number)
        {
            queue_pair.pool.push(sleeper);
        }
    }

    /// In a forked child: the other threads are not there, and what the kernel holds for them is
    /// the parent's.
    pub(crate) fn forget_threads(&mut self) {
        self.set_queue_pair(None);
        self.waiters.clear();
        self.subscribing = 0;
        self.kicks = Kicks::default();
        for (_, socket) in &mut self.sockets {
            socket.watches.retain(|watch| matches!(watch, Watch::Member { .. }));
        }
        for (_, set) in &mut self.sets {
            set.forget_threads();
        }
    }
}

/// Takes one of equal watches out. Those that stay keep their order: who waits longest is woken
/// first.
pub(crate) fn forget(watches: &mut Vec<Watch>, watch: Watch) {
    if let Some(index) = watches.iter().position(|other| *other == watch) {
        watches.remove(index);
    }
}
