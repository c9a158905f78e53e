//! A process whose stack is inside of it: nobody but its own threads drives that, so whoever waits
//! turns it, and so does, now and then, whoever does not wait.
//!
//! Whoever turns drains the event rings afterwards, and wakes those whom the events concern. So
//! nobody is announced to the worker as asleep, and no notifier is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use clearway_shm::in_process::{Rest, Stack};

use crate::attach::AttachError;
use crate::client::Client;
use crate::{AppConfig, Errno};

/// Of so many sends that do not wait one turns the stack, though no thread waits: who sends without
/// end is heard.
const TURN_EVERY: u32 = 16;

/// The stack inside of this process.
pub(crate) struct Inside {
    pub(crate) stack: Stack,
    /// This is a forked child, and the stack is its parent's.
    has_left: AtomicBool,
    sends: AtomicU32,
}

impl Inside {
    /// The stack, while it is this process's.
    pub(crate) fn stack(&self) -> Option<Stack> {
        (!self.has_left.load(Ordering::Relaxed)).then_some(self.stack)
    }
}

/// A thread that is about to sleep, or sleeps, until this is dropped.
pub(crate) struct Resting {
    stack: Option<Stack>,
    pub(crate) rest: Rest,
}

impl Drop for Resting {
    fn drop(&mut self) {
        if let Some(stack) = self.stack {
            stack.woke(self.rest);
        }
    }
}

impl Client {
    /// Enters the stack that is inside of this process.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn attach_inside(config: AppConfig, stack: Stack) -> Result<Arc<Client>, AttachError> {
        let inside = Inside { stack, has_left: AtomicBool::new(false), sends: AtomicU32::new(0) };
        let client = Client::new(config, Some(inside));
        client.enter()?;
        Ok(client)
    }

    /// Its stack is inside of this process, or, in a forked child, of the parent.
    pub fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    fn stack_inside(&self) -> Option<Stack> {
        self.inside.as_ref()?.stack()
    }

    /// Turns the stack once, if it is inside of this process, and tells whom it concerns what came.
    #[inline]
    pub(crate) fn turn_inside(&self) {
        if self.inside.is_some() {
            self.turn_stack(false);
        }
    }

    /// Turns it by a thread that slept so and is awake. True: it has watched, and something came
    /// for others, who are woken by this or come by themselves.
    pub(crate) fn turn_awake(&self, rest: Rest) -> bool {
        self.turn_stack(false) && rest == Rest::Watch
    }

    /// Answers whether it found anything for others.
    #[cold]
    fn turn_stack(&self, attend: bool) -> bool {
        let Some(stack) = self.stack_inside() else { return false };
        let turned = if attend { stack.turn_and_attend() } else { stack.turn() };
        let for_others = self.hub().drain_for_others();
        if turned.failed() {
            if let Some(attachment) = self.alive() {
                self.host_died(&attachment);
            }
        }
        for_others
    }

    /// Something was left for the worker by a call that does not wait. Who would have waited for
    /// room is no loop of events that sends more before it waits; and those who sleep hear of
    /// nothing by themselves.
    pub(crate) fn sent_inside(&self, blocks: bool) {
        let Some(inside) = &self.inside else { return };
        let Some(stack) = inside.stack() else { return };
        if blocks
            || stack.is_slept_on()
            || inside.sends.fetch_add(1, Ordering::Relaxed) % TURN_EVERY == 0
        {
            self.turn_stack(false);
        }
    }

    /// The last descriptor of a socket was closed: the supervisor shall see it.
    pub(crate) fn closed_inside(&self) {
        if self.inside.is_some() {
            self.turn_stack(true);
        }
    }

    /// This thread is about to sleep; `handed_over`: as [`Client::turn_awake`] said. None: the
    /// stack had work, so it must look again.
    pub(crate) fn rest_inside(&self, handed_over: bool) -> Option<Resting> {
        let Some(stack) = self.stack_inside() else {
            return Some(Resting { stack: None, rest: Rest::Aside });
        };
        if let Some(rest) = stack.about_to_sleep(handed_over) {
            return Some(Resting { stack: Some(stack), rest });
        }
        self.hub().drain();
        None
    }

    /// A thread of the stack's own has turned it. Answers whether what came wakes a thread that
    /// sleeps.
    pub fn events_came(&self) -> bool {
        let mut hub = self.hub();
        hub.drain();
        hub.wakes_some()
    }

    /// In a forked child: the stack is the parent's alone.
    pub(crate) fn leave_inside(&self) {
        if let Some(inside) = &self.inside {
            if !inside.has_left.swap(true, Ordering::Relaxed) {
                inside.stack.leave();
            }
        }
    }

    /// The process ends: what its sockets accepted is sent, for so long at most.
    pub fn end_inside(&self, within: Duration) {
        if let Some(stack) = self.stack_inside() {
            stack.end(within);
        }
    }
}

/// What a call fails with that needs the stack of the parent.
pub(crate) const LEFT: Errno = Errno::NETDOWN;
