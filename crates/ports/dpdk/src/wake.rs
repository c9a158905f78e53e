//! Whether and how a queue wakes its owner.
//!
//! A driver's interrupt costs the sender a system call for each burst, so it is only turned on when
//! a queue has been quiet for a while. A queue whose driver has none is looked at again after
//! pauses that grow while it stays quiet.

use std::os::fd::{AsFd, BorrowedFd};

use clearway_base::{Duration, Instant};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::steer::Inbox;
use crate::sys::RxQueue;

/// How long a queue has to be quiet before its interrupt is turned on.
const QUIET: Duration = Duration::from_micros(100);

/// The shortest and the longest pause between two looks at a queue without interrupts.
const PAUSE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// A queue that would wake us is still looked at so often: its link may have changed, and its
/// descriptor with it.
const GLANCE: Duration = Duration::from_millis(50);

/// Some drivers ring a little before they have the frame, so a queue that notified and is empty is
/// looked at again for so long.
const ECHO: Duration = Duration::from_millis(2);

/// Looks in one [`GLANCE`] that show that the owner does not sleep at all, and needs no interrupt.
const LOOKS: u32 = 64;

/// How long such an owner is left alone with it.
const AWAKE: Duration = Duration::from_secs(1);

/// Where frames come from.
pub(crate) struct Sources<'a> {
    /// A queue of the device.
    pub(crate) queue: Option<&'a mut RxQueue>,
    /// The other cores.
    pub(crate) inbox: Option<&'a Inbox>,
}

/// How one queue wakes its owner.
pub(crate) struct Wake {
    // Readable when the queue's descriptor has notified. The driver's may change with its peer, so
    // the owner sees only this one.
    epoll: Option<Epoll>,
    armed: bool,
    now: Instant,
    // When a frame last came.
    busy: Instant,
    // While armed: when to look again all the same. Otherwise: when to try again to arm.
    until: Instant,
    // When the interrupt last notified while it was on.
    heard: Instant,
    // Looks in vain since it was turned on.
    looks: u32,
}

impl Wake {
    /// `interrupts` says whether the driver may have them.
    pub(crate) fn new(interrupts: bool, inbox: Option<&Inbox>) -> Wake {
        let wanted = interrupts || inbox.is_some();
        let epoll = if wanted { Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok() } else { None };
        let edge = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        // Without the notifier of the other cores nobody may sleep long here.
        let epoll = epoll.filter(|epoll| inbox.is_none_or(|inbox| epoll.add(inbox, edge).is_ok()));
        Wake {
            epoll,
            armed: false,
            now: Instant::ZERO,
            busy: Instant::ZERO,
            until: Instant::ZERO,
            heard: Instant::ZERO,
            looks: 0,
        }
    }

    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Before the queue is looked at: the descriptor of a peer who is gone would stay silent for
    /// ever, so it is asked for anew now and then.
    #[inline]
    pub(crate) fn before_look(&mut self, sources: Sources<'_>) {
        if self.armed {
            self.listen(sources);
        }
    }

    #[inline(never)]
    fn listen(&mut self, sources: Sources<'_>) {
        if self.epoll.as_ref().is_some_and(silence) {
            self.heard = self.now;
        }
        self.looks += 1;
        if self.looks > LOOKS {
            self.disarm(sources);
            self.until = self.now + AWAKE;
        } else if self.now >= self.until {
            self.disarm(sources);
        }
    }

    /// Frames came.
    #[inline]
    pub(crate) fn got_some(&mut self, sources: Sources<'_>) {
        self.busy = self.now;
        if self.armed {
            self.disarm(sources);
        }
    }

    /// No frame came. Answers whether the interrupt was just turned on, so that the queue has to be
    /// looked at once more.
    #[inline]
    pub(crate) fn got_none(&mut self, sources: Sources<'_>) -> bool {
        let worth_it = !self.armed && self.epoll.is_some();
        worth_it
            && self.now >= self.until
            && self.now.since(self.busy) >= QUIET
            && self.arm(sources)
    }

    #[inline(never)]
    fn arm(&mut self, sources: Sources<'_>) -> bool {
        self.until = self.now + GLANCE;
        let Some(epoll) = &self.epoll else { return false };
        let Sources { queue, inbox } = sources;
        self.armed = queue.is_none_or(|queue| {
            let on = queue.interrupt(true);
            let watched = on && queue.watch(epoll);
            if on && !watched {
                queue.interrupt(false);
            }
            watched
        });
        self.looks = 0;
        // A queue that has to be looked at often anyway needs no notifier for the rest.
        if let Some(inbox) = inbox.filter(|_| self.armed) {
            inbox.want_notifier(true);
        }
        if self.armed {
            // What notified before is heard by the look that follows.
            let _ = silence(epoll);
        }
        self.armed
    }

    #[inline(never)]
    fn disarm(&mut self, sources: Sources<'_>) {
        self.armed = false;
        if let Some(queue) = sources.queue {
            queue.interrupt(false);
        }
        if let Some(inbox) = sources.inbox {
            inbox.want_notifier(false);
        }
        if let Some(epoll) = &self.epoll {
            let _ = silence(epoll);
        }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(|epoll| epoll.0.as_fd())
    }

    /// When the queue has to be looked at though nothing wakes its owner.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        if self.armed && self.now.since(self.heard) >= ECHO {
            return self.until;
        }
        let quiet = self.now.since(self.busy);
        self.now + quiet.per(4).max(PAUSE.0).min(PAUSE.1)
    }
}

/// Answers whether it notified. The descriptors in it are watched for edges, so what has notified
/// is forgotten when it was asked for once.
fn silence(epoll: &Epoll) -> bool {
    epoll.wait(&mut [EpollEvent::empty(); 4], EpollTimeout::ZERO).is_ok_and(|rung| rung > 0)
}
