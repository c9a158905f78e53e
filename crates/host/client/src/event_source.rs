//! Readiness for a runtime that sleeps in the kernel by itself: one descriptor stands for all the
//! sockets that were added.
//!
//! A thread of the client library announces itself to the workers before it sleeps, and takes that
//! back when it is up. Here nobody of this crate sleeps: whoever drives the runtime calls
//! [`EventSource::arm`] when nothing was left to take, waits for the descriptor as for any other,
//! and calls [`EventSource::take`] when it is readable. Between the two the process counts as
//! asleep, so the workers notify it, once; while it takes, they write nothing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clearway_shm::QueuePairView;
use clearway_shm::wait::{self, EpollEvent};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::hub::set::{ET, Set, What};
use crate::hub::{Accepting, HANGUP, Inner, KICK, NOBODY, NOTIFIER, counter};
use crate::internal::Internal;
use crate::wait::clear;
use crate::{Client, Errno, Socket};

/// Stands for the timer among the members of the kernel's set.
const TIMER: u64 = 6;

/// The number of the attachment stands above the word for what is so of it: what comes late from
/// the one before is told apart.
const ATTACHMENT_SHIFT: u32 = 32;

/// Sockets whose changes are told by one descriptor, edge by edge.
pub struct EventSource {
    client: Arc<Client>,
    key: usize,
    /// What the runtime sleeps on. It stays when another host is entered.
    epoll: Internal,
    /// Wakes the runtime when a host is to be looked for again.
    timer: Internal,
    state: Mutex<State>,
}

struct State {
    /// The attachment whose notifier lies in the kernel's set, and the notifier.
    watched: Option<(u32, Arc<Internal>)>,
    asleep: Option<Asleep>,
}

/// How the process was announced as asleep.
struct Asleep {
    number: u32,
    announced: Option<(Accepting, QueuePairView)>,
}

impl Drop for EventSource {
    fn drop(&mut self) {
        let mut state = self.state();
        let mut hub = self.client.hub();
        get_up(&mut hub, self.key, state.asleep.take());
        hub.remove_set(self.key);
    }
}

impl AsFd for EventSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for EventSource {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_fd().as_raw_fd()
    }
}

impl EventSource {
    /// A source without sockets.
    ///
    /// # Errors
    /// `EMFILE`; `EOPNOTSUPP` when the stack is inside of this process, where nobody notifies who
    /// sleeps.
    pub fn new(client: &Arc<Client>) -> Result<EventSource, Errno> {
        if client.is_inside() {
            return Err(Errno::OPNOTSUPP);
        }
        let epoll = Internal::new(epoll::create(CreateFlags::CLOEXEC)?);
        let timer = Internal::new(timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?);
        let kick = counter()?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), edge)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), edge)?;
        let key = client.hub().sets.insert(Set::new(epoll.as_fd().as_raw_fd(), kick));
        let state = Mutex::new(State { watched: None, asleep: None });
        Ok(EventSource { client: client.clone(), key, epoll, timer, state })
    }

    /// Tells of this socket from now on, and at once when it is ready: all changes of it, once for
    /// each, with `data`. `fd` is its session fd.
    ///
    /// # Errors
    /// `EEXIST` when the descriptor was added.
    pub fn add(&self, fd: BorrowedFd<'_>, socket: &Socket, data: u64) -> Result<(), Errno> {
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP) as u32;
        let event = EpollEvent { events: events | ET, data };
        let mut hub = self.client.hub();
        hub.add_member(self.key, fd.as_raw_fd(), What::Socket(socket.core.key), event)?;
        if socket.is_listener() {
            // It was not counted when the process was announced as asleep.
            self.kick(&mut hub);
        }
        Ok(())
    }

    /// Tells of it no more.
    ///
    /// # Errors
    /// `ENOENT` when it was not added.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.client.hub().remove_member(self.key, fd.as_raw_fd())
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        self.kick(&mut self.client.hub());
    }

    fn kick(&self, hub: &mut Inner) {
        if let Some(kick) = hub.sets.get(self.key).map(|set| set.kick.clone()) {
            hub.kick_set(kick);
        }
    }

    /// Fills `out` with what changed, in the order in which it did, and says how much that is. Each
    /// event has the data of its socket and what that is ready for now.
    pub fn take(&self, out: &mut [EpollEvent]) -> usize {
        let lost = self.be_up();
        if let Some(number) = lost {
            self.client.lost_pulse(number);
        }
        let mut hub = self.client.hub();
        hub.drain();
        let filled = hub.harvest(self.key, out);
        drop(hub);
        if filled == 0 {
            self.client.poll_once();
        }
        filled
    }

    /// To be called when nothing was left to take: from now on the descriptor becomes readable (it
    /// has an edge) when something may be there. False: something may be there now.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`: what the kernel says of adding a member to its set.
    pub fn arm(&self) -> Result<bool, Errno> {
        if self.spin() {
            return Ok(false);
        }
        let look = self.client.until_next_look(None);
        self.client.notify_owed_workers();
        let mut state = self.state();
        if state.asleep.is_some() {
            return Ok(true);
        }
        self.set_timer(look)?;
        let mut hub = self.client.hub();
        let announced = match hub.living() {
            // All sockets' host is gone, and that was reported to whom it concerned.
            None => None,
            Some(queue_pair) => {
                let (number, words) = (queue_pair.number, queue_pair.words.clone());
                if state.watched.as_ref().is_none_or(|(watched, _)| *watched != number) {
                    let (notifier, hangup) = (&queue_pair.notifier, &queue_pair.hangup_fd);
                    self.watch(number, notifier, hangup.as_fd())?;
                    state.watched = Some((number, notifier.clone()));
                }
                let accepting = hub.accepting_of(self.key);
                accepting.about_to_sleep(&words);
                hub.drain();
                Some((accepting, words))
            }
        };
        let number = hub.alive().unwrap_or(NOBODY);
        let asleep = Asleep { number, announced };
        match hub.sets.get_mut(self.key) {
            Some(set) if !set.is_promising() => (set.sleeping, set.kicked) = (1, 0),
            _ => {
                get_up(&mut hub, self.key, Some(asleep));
                return Ok(false);
            }
        }
        state.asleep = Some(asleep);
        Ok(true)
    }

    /// Looks for a moment whether something comes, while that has been worth it lately.
    fn spin(&self) -> bool {
        self.client.spin.look(|| {
            let mut hub = self.client.hub();
            hub.drain();
            hub.sets.get(self.key).is_none_or(Set::is_promising)
        })
    }

    /// Takes back that the process is asleep. Some: this attachment's host hung up.
    fn be_up(&self) -> Option<u32> {
        let mut state = self.state();
        let asleep = state.asleep.take()?;
        let mut found = [EpollEvent::default(); 8];
        let set = self.epoll.as_fd().as_raw_fd();
        let there = wait::epoll(set, &mut found, Some(Duration::ZERO), None).unwrap_or(0);
        let (number, notifier) = match &state.watched {
            Some((number, notifier)) => (*number, Some(notifier)),
            None => (NOBODY, None),
        };
        let is = |event: &EpollEvent, word| event.data == of(number, word);
        let found = &found[..there];
        if let Some(notifier) = notifier.filter(|_| found.iter().any(|event| is(event, NOTIFIER))) {
            clear(notifier);
        }
        get_up(&mut self.client.hub(), self.key, Some(asleep));
        found.iter().any(|event| is(event, HANGUP)).then_some(number)
    }

    /// The kernel's set tells of this attachment from now on. What lay there of the one before
    /// goes with its descriptors.
    fn watch(&self, number: u32, notifier: &Internal, hangup: BorrowedFd<'_>) -> Result<(), Errno> {
        let edge = EventFlags::IN | EventFlags::ET;
        let word = |word| EventData::new_u64(of(number, word));
        epoll::add(&self.epoll, notifier.as_fd(), word(NOTIFIER), edge | EventFlags::EXCLUSIVE)?;
        let hung_up = EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, hangup, word(HANGUP), hung_up)?)
    }

    /// None: not at all.
    fn set_timer(&self, after: Option<Duration>) -> Result<(), Errno> {
        let Some(after) = after else { return Ok(()) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let due = Timespec {
            tv_sec: after.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let time = Itimerspec { it_interval: never, it_value: due };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)?;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The word for a member that is an attachment's.
fn of(number: u32, word: u64) -> u64 {
    u64::from(number) << ATTACHMENT_SHIFT | word
}

/// The process is not asleep any more.
fn get_up(hub: &mut Inner, set: usize, asleep: Option<Asleep>) {
    let Some(asleep) = asleep else { return };
    if let Some(set) = hub.sets.get_mut(set) {
        (set.sleeping, set.kicked) = (0, 0);
    }
    if let Some((accepting, words)) = asleep.announced {
        if hub.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.number == asleep.number) {
            accepting.awake(&words);
        }
    }
}
