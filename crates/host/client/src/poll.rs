//! `poll` over sockets of Clearway, epoll sets and descriptors of the kernel. `select` is built on
//! it.

use std::os::fd::RawFd;
use std::time::Duration;

use clearway_shm::wait::{self, PollFd, SignalMask};

use crate::hub::Watch;
use crate::ready::ALWAYS;
use crate::wait::{Deadline, Waiting};
use crate::{Client, EpollSet, Errno, Socket};

/// One of the things that [`poll`] waits for.
pub struct PollEntry<'a> {
    /// What.
    pub target: Target<'a>,
    /// What for: POLL* bits.
    pub events: u16,
    /// What was found: POLL* bits.
    pub found: u16,
}

/// What an entry names.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// A descriptor of the kernel's. Negative: ignored.
    Kernel(i32),
    /// A socket.
    Ours(&'a Socket),
    /// An epoll set that may have sockets in it, and the program's descriptor of it.
    Epoll(&'a EpollSet, i32),
}

/// Entries whose kernel side lies on the stack.
const FEW: usize = 32;

/// Waits until an entry is ready, the time is over (None: never), or a signal comes (EINTR).
/// `sigmask` holds while it waits, bit `n - 1` for signal `n`. Returns how many entries were found
/// ready.
///
/// # Errors
/// `EINTR` after a signal, and what the kernel says of its own descriptors.
pub fn poll(
    client: &Client,
    entries: &mut [PollEntry<'_>],
    timeout: Option<Duration>,
    sigmask: Option<SignalMask>,
) -> Result<usize, Errno> {
    client.turn_inside();
    let kernel = entries.iter().filter(|entry| entry.kernel_fd().is_some()).count();
    let mut few = [UNUSED; FEW];
    let mut many;
    let fds = if kernel < FEW {
        &mut few[..=kernel]
    } else {
        many = vec![UNUSED; kernel + 1];
        &mut many[..]
    };
    let wanted = entries.iter().filter_map(|entry| Some((entry.kernel_fd()?, entry.events)));
    for (slot, (fd, events)) in fds[1..].iter_mut().zip(wanted) {
        *slot = PollFd { fd, events: events as i16, found: 0 };
    }
    if look(entries) > 0 || timeout == Some(Duration::ZERO) {
        return poll_once(client, entries, fds, sigmask);
    }
    Poll { client, entries, fds }.wait(Deadline::after(timeout), sigmask)
}

/// A place for a descriptor that is not looked at.
const UNUSED: PollFd = PollFd { fd: -1, events: 0, found: 0 };

impl PollEntry<'_> {
    /// What the kernel is asked about for this entry. Of a set without members of the kernel's
    /// there is nothing to ask.
    fn kernel_fd(&self) -> Option<RawFd> {
        match self.target {
            Target::Kernel(fd) => Some(fd),
            Target::Epoll(set, fd) => Some(if set.has_kernel() { fd } else { -1 }),
            Target::Ours(_) => None,
        }
    }
}

/// Looks at our own entries; returns how many are ready.
fn look(entries: &mut [PollEntry<'_>]) -> usize {
    let mut ready = 0;
    for entry in entries {
        let found = match entry.target {
            Target::Kernel(_) => 0,
            Target::Ours(socket) => socket.readiness(),
            Target::Epoll(set, _) => set.readiness(),
        };
        entry.found = (found & (u32::from(entry.events) | ALWAYS)) as u16;
        ready += usize::from(entry.found != 0);
    }
    ready
}

/// Enters what the kernel found; returns how many entries are ready.
fn merge(entries: &mut [PollEntry<'_>], fds: &[PollFd]) -> usize {
    let mut kernel = fds[1..].iter();
    let mut ready = 0;
    for entry in entries {
        if entry.kernel_fd().is_some() {
            entry.found |= kernel.next().map_or(0, |fd| fd.found as u16);
        }
        ready += usize::from(entry.found != 0);
    }
    ready
}

/// Asks the kernel about its descriptors without waiting.
fn poll_once(
    client: &Client,
    entries: &mut [PollEntry<'_>],
    fds: &mut [PollFd],
    sigmask: Option<SignalMask>,
) -> Result<usize, Errno> {
    if fds.len() > 1 {
        wait::poll(&mut fds[1..], Some(Duration::ZERO), sigmask)?;
    }
    let ready = merge(entries, fds);
    if ready == 0 {
        client.poll_once();
    }
    Ok(ready)
}

/// A call that waits.
struct Poll<'a, 'b> {
    client: &'a Client,
    entries: &'a mut [PollEntry<'b>],
    /// The first is for what wakes us; then the kernel's descriptors in their order.
    fds: &'a mut [PollFd],
}

impl Poll<'_, '_> {
    fn wait(&mut self, deadline: Deadline, sigmask: Option<SignalMask>) -> Result<usize, Errno> {
        let waiting = Waiting::new(self.client);
        self.watch(&waiting);
        let waited = self.wait_watching(&waiting, deadline, sigmask);
        self.unwatch(&waiting);
        waited
    }

    fn wait_watching(
        &mut self,
        waiting: &Waiting<'_>,
        deadline: Deadline,
        sigmask: Option<SignalMask>,
    ) -> Result<usize, Errno> {
        loop {
            for entry in &*self.entries {
                if let Target::Ours(socket) = entry.target {
                    socket.core.arm(u32::from(entry.events));
                }
            }
            if look(self.entries) > 0 {
                return poll_once(self.client, self.entries, self.fds, sigmask);
            }
            let left = deadline.left();
            if !left.is_some_and(|left| left.is_zero()) && waiting.spin() {
                // Whoever told us has taken back what we asked for, and it may have been too
                // little: ask again before sleeping.
                continue;
            }
            match waiting.sleep(self.fds, left, sigmask) {
                Err(Errno::INTR) if wait::no_handler_ran() => continue,
                slept => slept?,
            }
            let ours = look(self.entries);
            let ready = merge(self.entries, self.fds);
            if ready > 0 {
                // What slept on our side alone did not ask the kernel.
                return if ours > 0 {
                    poll_once(self.client, self.entries, self.fds, sigmask)
                } else {
                    Ok(ready)
                };
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(0);
            }
        }
    }

    fn watch(&self, waiting: &Waiting<'_>) {
        let mut hub = self.client.hub();
        for entry in &*self.entries {
            let watch = waiting.watch(u32::from(entry.events));
            match entry.target {
                Target::Kernel(_) => {}
                Target::Ours(socket) => hub.watch_socket(socket.core.key, watch),
                Target::Epoll(set, _) => hub.watch_set(set.key, watch),
            }
        }
    }

    fn unwatch(&self, waiting: &Waiting<'_>) {
        let mut hub = self.client.hub();
        for entry in &*self.entries {
            let watch: Watch = waiting.watch(u32::from(entry.events));
            match entry.target {
                Target::Kernel(_) => {}
                Target::Ours(socket) => hub.unwatch_socket(socket.core.key, watch),
                Target::Epoll(set, _) => hub.unwatch_set(set.key, watch),
            }
        }
    }
}
