//! What a thread sleeps on: an epoll set of the kernel. With a stack inside of this process there
//! is a second one around it, for who watches what brings that stack work.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

use clearway_shm::in_process::Rest;
use clearway_shm::wait::{self, EpollEvent, SignalMask};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::Errno;
use crate::hub::{HANGUP, KICK, NOTIFIER, QueuePair, RECALL, STACK, WITHIN};
use crate::internal::Internal;

/// What brings a stack work that is inside of this process.
pub(crate) struct Inlets {
    pub(crate) ports: Vec<RawFd>,
    /// Who sleeps without those is called by this.
    pub(crate) recall: RawFd,
}

/// See the module.
///
/// Two of them, because a program's thread changes between both ways to sleep thousands of times a
/// second. The second has the first as its member, so that what wakes a thread in either of them is
/// taken from the first alone and does not wake it in the other again.
pub(crate) struct SleepSet {
    plain: Internal,
    watching: OnceLock<Internal>,
}

impl SleepSet {
    /// With the notifier and the hang-up descriptor of the queue pair, if there is a host, and
    /// `kick`.
    ///
    /// The notifier is *exclusive*: of all who sleep, one is woken, and that one drains the rings
    /// for all. Notifier and kick are edge-triggered, so that they need not be emptied before the
    /// next sleep; an edge that comes while nobody sleeps costs one look too many.
    pub(crate) fn new(queue_pair: Option<&QueuePair>, kick: &Internal) -> Result<SleepSet, Errno> {
        let plain = Internal::new(epoll::create(CreateFlags::CLOEXEC)?);
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&plain, kick, EventData::new_u64(KICK), edge)?;
        let set = SleepSet { plain, watching: OnceLock::new() };
        if let Some(queue_pair) = queue_pair {
            epoll::add(
                &set.plain,
                queue_pair.notifier.as_fd(),
                EventData::new_u64(NOTIFIER),
                edge | EventFlags::EXCLUSIVE,
            )?;
            let hangup = EventData::new_u64(HANGUP);
            epoll::add(&set.plain, &queue_pair.hangup_fd, hangup, EventFlags::RDHUP)?;
            if let Some(inlets) = &queue_pair.inside {
                set.add(inlets.recall, (libc::EPOLLIN | libc::EPOLLET) as u32, RECALL)?;
            }
        }
        Ok(set)
    }

    /// Another member of the plain set.
    pub(crate) fn add(&self, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
        Ok(wait::epoll_add(number(&self.plain), fd, EpollEvent { events, data })?)
    }

    /// Makes what this is slept on by who watches, unless it is there.
    pub(crate) fn make_watching(&self, queue_pair: Option<&QueuePair>) -> Result<(), Errno> {
        let Some(inlets) = queue_pair.and_then(|queue_pair| queue_pair.inside.as_ref()) else {
            return Ok(());
        };
        if self.watching.get().is_some() {
            return Ok(());
        }
        let watching = Internal::new(epoll::create(CreateFlags::CLOEXEC)?);
        // By its level: the kernel's descriptors in it stay ready until the program takes them.
        let within = EpollEvent { events: libc::EPOLLIN as u32, data: WITHIN };
        wait::epoll_add(number(&watching), number(&self.plain), within)?;
        let events = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;
        for &port in &inlets.ports {
            wait::epoll_add(number(&watching), port, EpollEvent { events, data: STACK })?;
        }
        // Made under the hub's lock, so by one thread.
        let _ = self.watching.set(watching);
        Ok(())
    }

    /// What is slept on.
    pub(crate) fn number(&self, rest: Rest) -> RawFd {
        number(self.slept_on(rest))
    }

    fn slept_on(&self, rest: Rest) -> &Internal {
        self.watching.get().filter(|_| rest == Rest::Watch).unwrap_or(&self.plain)
    }

    /// Sleeps. What is found in the plain set is written to `found`, and how many those are is
    /// answered beside how it went.
    pub(crate) fn sleep(
        &self,
        rest: Rest,
        found: &mut [EpollEvent],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> (std::io::Result<usize>, usize) {
        let slept = wait::sleep_epoll(self.number(rest), found, timeout, mask);
        let there = *slept.as_ref().unwrap_or(&0);
        (slept, self.taken(rest, found, there))
    }

    /// Takes what there is, without sleeping.
    pub(crate) fn take(&self, rest: Rest, found: &mut [EpollEvent]) -> usize {
        let look = wait::epoll(self.number(rest), found, Some(Duration::ZERO), None);
        self.taken(rest, found, look.unwrap_or(0))
    }

    fn taken(&self, rest: Rest, found: &mut [EpollEvent], there: usize) -> usize {
        if number(self.slept_on(rest)) == number(&self.plain) {
            return there;
        }
        if found[..there].iter().all(|event| event.data != WITHIN) {
            return 0;
        }
        wait::epoll(number(&self.plain), found, Some(Duration::ZERO), None).unwrap_or(0)
    }
}

fn number(set: &Internal) -> RawFd {
    set.as_fd().as_raw_fd()
}
