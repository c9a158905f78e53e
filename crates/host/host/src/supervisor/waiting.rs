//! Those who are connected and have not been let in: how many may be, for how long, and who makes
//! room.
//!
//! A program says who it is at once, so whoever is silent for long wants nothing, or wants to be in
//! the way. The supervisor takes no time from a clock: while there are strangers, or attach sockets
//! are shut, a timer of the kernel ticks.

use std::collections::VecDeque;
use std::time::Duration;

use clearway_base::Handle;
use clearway_shm::socket::Credentials;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// How long the supervisor lets the attach sockets shut when it can accept nobody, and how finely
/// it knows how long somebody is silent.
const TICK: Duration = Duration::from_millis(250);

/// Ticks that somebody may be connected without having been let in: 10 seconds.
const SILENT_TICKS: u64 = 40;

/// Who may be connected without having been let in, and since when.
pub(super) struct Waiting<T> {
    /// The oldest first.
    queue: VecDeque<Stranger<T>>,
    most: usize,
    pub(super) timer: TimerFd,
    pub(super) is_ticking: bool,
    pub(super) now: u64,
}

struct Stranger<T> {
    handle: Handle<T>,
    who: Option<Credentials>,
    since: u64,
}

impl<T> Waiting<T> {
    /// Room for so many.
    pub(super) fn new(most: usize) -> Result<Waiting<T>, Errno> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        Ok(Waiting { queue: VecDeque::with_capacity(most), most, timer, is_ticking: false, now: 0 })
    }

    /// Readable at every tick.
    pub(super) fn timer(&self) -> &TimerFd {
        &self.timer
    }

    pub(super) fn add(&mut self, handle: Handle<T>, who: Option<Credentials>) {
        self.queue.push_back(Stranger { handle, who, since: self.now });
    }

    pub(super) fn remove(&mut self, handle: Handle<T>) {
        self.queue.retain(|stranger| stranger.handle != handle);
    }

    /// Nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.most
    }

    /// Who makes room: of the user with most strangers the process with most, and of those the
    /// oldest. So who floods makes room for others.
    pub(super) fn victim(&self) -> Option<Handle<T>> {
        let most = |name: fn(&Credentials) -> u32, among: Option<u32>| {
            let mut counts: Vec<(u32, usize)> = Vec::new();
            for who in self
                .queue
                .iter()
                .filter_map(|s| s.who)
                .filter(|who| among.is_none_or(|uid| who.uid == uid))
            {
                match counts.iter_mut().find(|(of, _)| *of == name(&who)) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((name(&who), 1)),
                }
            }
            // The first of several that have as many: the one with the oldest.
            counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(of, _)| of)
        };
        let uid = most(|who| who.uid, None);
        let pid = uid.and_then(|uid| most(|who| who.pid, Some(uid)));
        let is_of =
            |s: &&Stranger<T>| s.who.is_none_or(|who| Some(who.uid) == uid && Some(who.pid) == pid);
        self.queue.iter().find(is_of).map(|stranger| stranger.handle)
    }

    /// Who has been silent for too long.
    pub(super) fn overdue(&self) -> Option<Handle<T>> {
        self.queue.front().filter(|s| self.now - s.since >= SILENT_TICKS).map(|s| s.handle)
    }

    /// The timer runs while somebody needs it, so that a supervisor without guests sleeps.
    pub(super) fn tick(&mut self, wanted: bool) {
        if wanted == self.is_ticking {
            return;
        }
        let set = if wanted {
            let tick = TimeSpec::from_duration(TICK);
            self.timer.set(Expiration::IntervalDelayed(tick, tick), TimerSetTimeFlags::empty())
        } else {
            self.timer.unset()
        };
        // An interval that is longer than nothing cannot be refused.
        self.is_ticking = if set.is_ok() { wanted } else { self.is_ticking };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(n: u32) -> Handle<()> {
        Handle::from_bits(u64::from(n) | 1 << 32).expect("a generation")
    }

    fn of(uid: u32, pid: u32) -> Option<Credentials> {
        Some(Credentials { pid, uid, gid: uid })
    }

    #[test]
    fn who_floods_makes_room_and_the_oldest_of_it_first() {
        let mut all = Waiting::<()>::new(8).unwrap();
        assert_eq!(all.victim(), None);
        for (n, (uid, pid)) in
            [(7, 70), (1, 10), (1, 11), (2, 20), (1, 11), (2, 20), (1, 11)].into_iter().enumerate()
        {
            all.add(handle(n as u32), of(uid, pid));
        }
        // User 1 has most, and its process 11.
        let victims: Vec<_> = std::iter::from_fn(|| {
            let victim = all.victim()?;
            all.remove(victim);
            Some(victim)
        })
        .collect();
        assert_eq!(victims.first(), Some(&handle(2)));
        assert_eq!(victims.len(), 7);
        assert!(
            victims.iter().position(|v| *v == handle(0)).unwrap() >= 4,
            "who has one goes behind those who flood"
        );
    }
}
