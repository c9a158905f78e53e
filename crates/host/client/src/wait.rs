//! A thread that waits: it registers, looks once more, and sleeps in the kernel.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway_shm::interrupt;
use clearway_shm::wait::{self, EpollEvent, PollFd, SignalMask};

use crate::client::Client;
use crate::core::Core;
use crate::hub::{HANGUP, NOBODY, NOTIFIER, Sleeper, Watch};
use crate::internal::Internal;
use crate::{Errno, ready};

/// A thread that waits for some sockets or sets, until this is dropped.
pub(crate) struct Waiting<'a> {
    client: &'a Client,
    waiter: usize,
    /// What [`Client::turn_awake`] said last.
    handed_over: Cell<bool>,
}

/// Until when a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// In so long a time; None: never.
    pub(crate) fn after(timeout: Option<Duration>) -> Deadline {
        // A time that no clock shows is never.
        Deadline(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// What is left; None: for ever.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// There is an end.
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(client: &'a Client) -> Waiting<'a> {
        let waiter = client.hub().add_waiter();
        Waiting { client, waiter, handed_over: Cell::new(false) }
    }

    /// This thread is blocked in `accept`.
    pub(crate) fn watch_for_connections(&self) -> Watch {
        Watch::Acceptor { waiter: self.waiter }
    }

    pub(crate) fn watch(&self, mask: u32) -> Watch {
        Watch::Thread { waiter: self.waiter, mask: mask | ready::ALWAYS }
    }

    /// Looks for a short while whether something that is waited for was touched.
    pub(crate) fn spin(&self) -> bool {
        self.client.spin.look(|| {
            self.client.turn_inside();
            let mut hub = self.client.hub();
            hub.drain();
            hub.was_touched(self.waiter)
        })
    }

    /// Sleeps until something that is waited for was touched, one of `fds` was found, the time is
    /// over, or a signal comes (EINTR). The first of `fds` is ours to fill in; the others are
    /// descriptors of the kernel. Returns at once when something was touched since the last time.
    pub(crate) fn sleep(
        &self,
        fds: &mut [PollFd],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Result<(), Errno> {
        if interrupt::came() {
            return Err(Errno::INTR);
        }
        let timeout = self.client.until_next_look(timeout);
        self.client.notify_owed_workers();
        let handed_over = self.handed_over.take();
        let Some(resting) = self.client.rest_inside(handed_over) else { return Ok(()) };
        let rest = resting.rest;
        let mut hub = self.client.hub();
        let sleeper = hub.lie_down(self.waiter, rest)?;
        let accepting = hub.accepting(self.waiter);
        // Without a host nothing is waited for but the kernel's descriptors, and that a host comes.
        let queue_pair =
            hub.living().map(|queue_pair| (queue_pair.words.clone(), queue_pair.notifier.clone()));
        let number = hub.alive().unwrap_or(NOBODY);
        let queue_pair_parts = hub.living().map(|queue_pair| {
            (queue_pair.hangup_fd.as_fd().as_raw_fd(), queue_pair.notifier.clone())
        });
        if let Some((words, _)) = &queue_pair {
            accepting.about_to_sleep(words);
            hub.drain();
        }
        if hub.was_touched(self.waiter) {
            if let Some((words, _)) = &queue_pair {
                accepting.awake(words);
            }
            hub.get_up(self.waiter, sleeper, number);
            return Ok(());
        }
        drop(hub);

        let mut found = [EpollEvent::default(); 4];
        fds[0] = PollFd { fd: sleeper.set.number(rest), events: libc::POLLIN, found: 0 };
        let polled =
            (fds.len() > 1 || wait::is_confined()).then(|| wait::sleep_poll(fds, timeout, mask));
        let (slept, there) = match polled {
            // A process that may have no descriptor more may not poll either: Linux counts what is
            // polled for.
            Some(Err(error)) if fds.len() == 1 && error.raw_os_error() == Some(libc::EINVAL) => {
                sleeper.set.sleep(rest, &mut found, timeout, mask)
            }
            // What woke it must be taken from the set, or it wakes the next sleeper too.
            Some(slept) => {
                let there = match fds[0].found != 0 {
                    true if wait::is_confined() => {
                        take_by_reading(&sleeper, queue_pair_parts, &mut found)
                    }
                    true => sleeper.set.take(rest, &mut found),
                    false => 0,
                };
                (slept, there)
            }
            None => sleeper.set.sleep(rest, &mut found, timeout, mask),
        };
        let found = &found[..there];
        if let Some((_, notifier)) =
            queue_pair.as_ref().filter(|_| found.iter().any(|event| event.data == NOTIFIER))
        {
            clear(notifier);
        }
        let pulse_lost = found.iter().any(|event| event.data == HANGUP);
        drop(resting);
        let mut hub = self.client.hub();
        // Before the rings are drained: nobody need kick it for what is found there.
        hub.woke(self.waiter);
        if self.client.is_inside() {
            drop(hub);
            self.handed_over.set(self.client.turn_awake(rest));
            hub = self.client.hub();
        }
        if let Some((words, _)) = queue_pair.filter(|_| {
            hub.queue_pair.as_ref().is_some_and(|queue_pair| queue_pair.number == number)
        }) {
            accepting.awake(&words);
            hub.drain();
        }
        // Whatever touched it is seen by the look that follows.
        hub.was_touched(self.waiter);
        hub.get_up(self.waiter, sleeper, number);
        drop(hub);
        if pulse_lost {
            self.client.lost_pulse(number);
        }
        self.client.come_back();
        slept?;
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.client.hub().remove_waiter(self.waiter);
    }
}

/// What a sleeper's set takes, by reading alone: the set looks at its members itself when it is
/// next asked whether it is ready.
fn take_by_reading(
    sleeper: &Sleeper,
    queue_pair: Option<(i32, Arc<Internal>)>,
    found: &mut [EpollEvent; 4],
) -> usize {
    clear(&sleeper.kick);
    let Some((hangup_fd, notifier)) = queue_pair else { return 0 };
    clear(&notifier);
    let mut fds = [PollFd { fd: hangup_fd, events: libc::POLLRDHUP, found: 0 }];
    if !matches!(wait::poll(&mut fds, Some(Duration::ZERO), None), Ok(1)) {
        return 0;
    }
    found[0] = EpollEvent { events: fds[0].found as u32, data: HANGUP };
    1
}

/// Empties the notifier. What it was notified for must be looked at after this call.
pub(crate) fn clear(notifier: &Internal) {
    let mut rings = [0; 64];
    while rustix::io::read(notifier, &mut rings) == Ok(rings.len()) {}
}

impl Client {
    /// The attachment's host hung up.
    pub(crate) fn lost_pulse(&self, number: u32) {
        if let Some(attachment) = self.alive().filter(|attachment| attachment.number == number) {
            self.host_died(&attachment);
        }
    }

    /// Waits until `done` says so, looking whenever one of the bits of `interest` changes on the
    /// socket. EAGAIN: the time is over.
    pub(crate) fn wait_for(
        &self,
        core: &Core,
        interest: u32,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), Errno> {
        let waiting = Waiting::new(self);
        let watch = if core.is_listening() {
            waiting.watch_for_connections()
        } else {
            waiting.watch(interest)
        };
        self.hub().watch_socket(core.key, watch);
        let waited = loop {
            ask(core, interest);
            if done() {
                break Ok(());
            }
            if waiting.spin() {
                continue;
            }
            let left = deadline.left();
            if left.is_some_and(|left| left.is_zero()) {
                break Err(Errno::AGAIN);
            }
            let mut fds = [PollFd { fd: -1, events: 0, found: 0 }];
            match waiting.sleep(&mut fds, left, None) {
                // Linux restarts calls that have no time limit when the handler has SA_RESTART. One
                // that is known of may not have run yet: it does when the caller is out, who begins
                // the call again then.
                Err(Errno::INTR)
                    if !deadline.is_some() && !interrupt::came() && wait::handlers_restart() => {}
                Err(error) => break Err(error),
                Ok(()) => {}
            }
        };
        let mut hub = self.hub();
        hub.unwatch_socket(core.key, watch);
        if waited.is_err() && core.is_listening() {
            // It may have been woken for a connection, and does not take it.
            hub.wake_acceptors(core.key);
        }
        waited
    }
}

/// As [`Core::arm`], but asks for any room: who waits here may need more than makes a socket
/// writable.
fn ask(core: &Core, interest: u32) {
    core.arm(interest & ready::READ);
    if let Some(tx) = core.tx().filter(|_| interest & ready::WRITE != 0) {
        tx.mem.head().want_room.swap(1, Ordering::AcqRel);
    }
}
