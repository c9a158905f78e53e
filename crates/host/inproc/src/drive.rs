//! Who turns the stack: whichever thread of the program comes first, under one lock that nobody
//! waits for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crate::helper::Parking;
use clearway_base::Instant;
use clearway_engine::Clock;
use clearway_host::HostByHand;
use clearway_shm::in_process::{BUSY, FAILED, Rest, WORKED};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// The supervisor looks at its descriptors at least once in so many turns; what it learns of by
/// itself (a session fd that another process was the last to hold) is not urgent.
const ATTEND_EVERY: u64 = 64;

/// How long a thread that asks waits at most for a turn that another one is in.
const LOCK_WITHIN: Duration = Duration::from_secs(1);

/// For so long all threads that sleep watch, after one was waited for in vain, and for so long when
/// that happens again and again: what it costs to wait in vain is a small part of it.
const ALL_WATCH_LEAST: Duration = Duration::from_millis(20);
const ALL_WATCH_MOST: Duration = Duration::from_secs(2);

/// The stack, and who sleeps on it.
pub(crate) struct Stack {
    host: Mutex<Held>,
    /// Somebody came while another one turned, and left again: there is work of his.
    is_marked: AtomicBool,
    /// The supervisor was asked something.
    is_asked: AtomicBool,
    has_failed: AtomicBool,
    turns: AtomicU64,
    /// When the last turn began, in nanoseconds of the monotonic clock.
    turned_at: AtomicU64,
    /// Threads of the program that sleep on the descriptors, or are about to.
    watchers: AtomicU32,
    /// The library's own thread does so in their place.
    is_stood_in: AtomicBool,
    /// Threads that sleep without, for one that watches or is on its way.
    aside: AtomicU32,
    /// Until then nobody sleeps aside, on the same clock.
    all_watch_until: AtomicU64,
    /// How long it was the last time that all had to watch.
    all_watched_for: AtomicU64,
    recall: EventFd,
    timer: Timer,
    pub(crate) wait_fds: Vec<RawFd>,
    pub(crate) supervisor_fd: RawFd,
    pub(crate) parking: Parking,
}

/// The host, for whichever thread holds the lock.
pub(crate) struct Held(HostByHand);

// SAFETY: what keeps it from being sent are counts without atomics (of packet buffers) and cells.
// All who count or write them are inside of it: it hands none of them out, and is reached through
// the lock alone, so one thread after the other has all of it. Nothing in it belongs to a thread:
// no thread-local data, no lock that is held from turn to turn.
unsafe impl Send for Held {}

/// Wakes one of those who sleep when the next turn is due. It is touched by who holds the stack.
struct Timer {
    fd: TimerFd,
    /// What it is set to, in nanoseconds of the monotonic clock; later turns leave it there, so
    /// that it is set a few times a second at most.
    set_to: AtomicU64,
}

impl Timer {
    fn new() -> io::Result<Timer> {
        let fd = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        Ok(Timer { fd, set_to: AtomicU64::new(u64::MAX) })
    }

    /// It is `now`: what it rang for is done in this turn.
    fn passed(&self, now: Instant) {
        if self.set_to.load(Ordering::Relaxed) <= now.as_nanos() {
            self.set_to.store(u64::MAX, Ordering::Relaxed);
            // It may have rung, or be about to: it stays readable until it is set or taken back.
            let _ = self.fd.unset();
        }
    }

    fn set(&self, now: Instant, due: Instant) {
        if due.as_nanos() >= self.set_to.load(Ordering::Relaxed) {
            return;
        }
        self.set_to.store(due.as_nanos(), Ordering::Relaxed);
        // Zero would switch it off.
        let wait = Duration::from_nanos(due.since(now).as_nanos().max(1));
        let _ = self
            .fd
            .set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty());
    }
}

impl Stack {
    pub(crate) fn new(mut host: HostByHand) -> io::Result<Stack> {
        let (mut wait_fds, supervisor_fd) = (host.wait_fds(), host.supervisor_fd().as_raw_fd());
        let timer = Timer::new()?;
        wait_fds.push(timer.fd.as_fd().as_raw_fd());
        Ok(Stack {
            host: Mutex::new(Held(host)),
            is_marked: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            turned_at: AtomicU64::new(0),
            watchers: AtomicU32::new(0),
            is_stood_in: AtomicBool::new(false),
            aside: AtomicU32::new(0),
            all_watch_until: AtomicU64::new(0),
            all_watched_for: AtomicU64::new(0),
            recall: EventFd::from_value_and_flags(
                0,
                EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK,
            )?,
            timer,
            wait_fds,
            supervisor_fd,
            parking: Parking::new()?,
        })
    }

    /// Turns so far.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Threads sleep on the descriptors.
    pub(crate) fn is_slept_on(&self) -> bool {
        // What this thread left before is seen by who is about to sleep, or it sees the sleeper.
        fence(Ordering::SeqCst);
        self.is_watched() || self.is_stood_in.load(Ordering::Relaxed)
    }

    /// A thread of the program does.
    fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Threads sleep aside.
    pub(crate) fn has_some_aside(&self) -> bool {
        self.aside.load(Ordering::Relaxed) > 0
    }

    /// Readable, by its edge, whenever those who sleep aside are called.
    pub(crate) fn recall_fd(&self) -> RawFd {
        self.recall.as_fd().as_raw_fd()
    }

    /// Turns once, unless another thread does.
    pub(crate) fn turn(&self, attend: bool) -> u32 {
        if attend {
            self.is_asked.store(true, Ordering::Relaxed);
        }
        let mut answer = BUSY;
        while let Some(host) = self.lock_or_mark() {
            answer = (answer & !BUSY) | self.turn_held(host);
            // Who came meanwhile has left a mark: before the lock was let go, or he had found it
            // free.
            fence(Ordering::SeqCst);
            if !self.is_marked.swap(false, Ordering::AcqRel) {
                break;
            }
        }
        answer
    }

    fn lock_or_mark(&self) -> Option<MutexGuard<'_, Held>> {
        match self.host.try_lock() {
            Ok(host) => return Some(host),
            Err(TryLockError::Poisoned(_)) => return None,
            Err(TryLockError::WouldBlock) => {}
        }
        self.is_marked.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        // The holder may have let go before he could see it.
        self.host.try_lock().ok()
    }

    fn turn_held(&self, mut held: MutexGuard<'_, Held>) -> u32 {
        let host = &mut held.0;
        let turns = self.turns.fetch_add(1, Ordering::Relaxed);
        self.is_marked.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let attends = self.is_asked.swap(false, Ordering::AcqRel) || turns % ATTEND_EVERY == 0;
        let time = host.time();
        self.turned_at.store(time.now.as_nanos(), Ordering::Relaxed);
        self.timer.passed(time.now);
        let turned = if attends { host.turn(time) } else { host.turn_workers(time) };
        let Ok(turn) = turned else {
            self.has_failed.store(true, Ordering::Release);
            return FAILED;
        };
        if self.is_slept_on() {
            self.timer.set(time.now, turn.deadline);
        }
        let failed = if self.has_failed.load(Ordering::Relaxed) { FAILED } else { 0 };
        failed | if turn.worked || turn.again { WORKED } else { 0 }
    }

    /// This thread is about to sleep, and will be woken so. None: there was work instead.
    ///
    /// One thread watches for all: woken for packets of the others, it would keep them from the
    /// processor, and each answer would be a turn of its own while it sleeps. Who has watched for
    /// others only, and has woken one of them, leaves the descriptors to that one, which has to do
    /// now and watches when it is done.
    pub(crate) fn about_to_sleep(&self, handed_over: bool) -> Option<Rest> {
        loop {
            let rest = self.begin_rest(handed_over);
            fence(Ordering::SeqCst);
            // Who watches is seen now by who turns: the timer is set for what is due.
            if self.turn(false) & WORKED != 0 {
                self.woke(rest);
                return None;
            }
            // Who watched may have left meanwhile.
            if rest == Rest::Watch || handed_over || self.is_watched() {
                return Some(rest);
            }
            self.woke(rest);
        }
    }

    fn begin_rest(&self, handed_over: bool) -> Rest {
        let all_watch =
            self.turned_at.load(Ordering::Relaxed) < self.all_watch_until.load(Ordering::Relaxed);
        if all_watch && !(handed_over && self.is_watched()) {
            self.watchers.fetch_add(1, Ordering::Relaxed);
            return Rest::Watch;
        }
        let free = !handed_over
            && self.watchers.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if free {
            return Rest::Watch;
        }
        self.aside.fetch_add(1, Ordering::Relaxed);
        Rest::Aside
    }

    /// A thread is awake again.
    pub(crate) fn woke(&self, slept: Rest) {
        match slept {
            Rest::Watch => {
                if self.watchers.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.parking.unpark();
                }
            }
            Rest::Aside => {
                self.aside.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// The library's own thread is about to sleep on the descriptors in place of the program's
    /// threads. False: there was work instead.
    pub(crate) fn about_to_stand_in(&self) -> bool {
        self.is_stood_in.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.turn(false) & WORKED == 0;
        if !may_sleep {
            self.stood_in();
        }
        may_sleep
    }

    /// It does so no longer.
    pub(crate) fn stood_in(&self) {
        self.is_stood_in.store(false, Ordering::Relaxed);
    }

    /// Work had to wait, because those who were on their way did not come: for some time all watch
    /// who sleep, and longer each time when that happens again soon.
    pub(crate) fn nobody_came(&self) {
        let now = now().as_nanos();
        let (until, before) = (
            self.all_watch_until.load(Ordering::Relaxed),
            self.all_watched_for.load(Ordering::Relaxed),
        );
        let least = nanos(ALL_WATCH_LEAST);
        let time = if now.saturating_sub(until) < before {
            (before * 2).clamp(least, nanos(ALL_WATCH_MOST))
        } else {
            least
        };
        self.all_watched_for.store(time, Ordering::Relaxed);
        self.all_watch_until.store(now + time, Ordering::Relaxed);
        // A counter that is full is readable already.
        let _ = self.recall.write(1);
    }

    /// A connection as if to an attach socket.
    pub(crate) fn connect(&self) -> io::Result<RawFd> {
        let host = self.lock_within(LOCK_WITHIN).ok_or(io::ErrorKind::TimedOut);
        Ok(host?.0.connect()?.into_raw_fd())
    }

    fn lock_within(&self, within: Duration) -> Option<MutexGuard<'_, Held>> {
        let until = now() + within.into();
        loop {
            match self.host.try_lock() {
                Ok(host) => return Some(host),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) if now() >= until => return None,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// The process ends: what its sockets accepted is sent, for so long at most.
    pub(crate) fn end(&self, within: Duration) {
        let until = now() + within.into();
        let Some(mut held) = self.lock_within(within) else { return };
        let host = &mut held.0;
        let turn = |host: &mut HostByHand| {
            let time = host.time();
            host.turn(time).map(|turn| (turn, time.now))
        };
        // What was written is in the rings, and what was closed is with the supervisor.
        while turn(host).is_ok_and(|(turn, now)| turn.worked && now < until) {}
        host.close_sessions();
        while let Ok((turned, now)) = turn(host) {
            if now >= until {
                host.reset_unsent();
                let _ = turn(host);
                return;
            }
            if turned.worked || turned.again {
                continue;
            }
            if !host.has_unacknowledged() {
                return;
            }
            self.sleep(until.min(turned.deadline).since(now).into());
        }
    }

    /// Sleeps until a descriptor has something, or the time is over.
    pub(crate) fn sleep(&self, most: Duration) {
        let fds: Vec<RawFd> = self.wait_fds.iter().chain([&self.supervisor_fd]).copied().collect();
        crate::helper::poll_for(&fds, Some(most));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What time it is, as turns have it.
fn now() -> Instant {
    Clock::new().read().now
}
