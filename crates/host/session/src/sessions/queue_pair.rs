//! The rings between this worker and one process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Instant;
use clearway_shm::attach_socket::SessionId;
use clearway_shm::layout::{Message, accept_counter};
use clearway_shm::notifier::RemoteNotifier;
use clearway_shm::{Hostile, Notifier, QueuePairView, RingConsumer, RingProducer, sleep};

use super::hold::{Hold, When};
use crate::program::Program;
use crate::session_fds::SessionFds;

/// Messages that each ring of a queue pair holds.
pub const QUEUE_PAIR_SLOTS: u32 = 1024;

/// One process as this worker reaches it.
pub struct QueuePair {
    /// The process's number.
    pub process: u32,
    /// Its program.
    pub program: Arc<Program>,
    view: QueuePairView,
    requests: RingConsumer,
    events: RingProducer,
    notifier: Arc<RemoteNotifier>,
    /// What the process rings when this worker sleeps; nobody else's.
    pub(super) our_notifier: Notifier,
    pub(super) hold: Hold,
    /// Which of the process's session fds are free.
    pub(super) session_fds: Arc<SessionFds>,
}

impl QueuePair {
    /// The rings of this process, by which it is reached from now on.
    pub fn new(
        process: u32,
        program: Arc<Program>,
        session_fds: Arc<SessionFds>,
        view: QueuePairView,
        (requests, events): (RingConsumer, RingProducer),
        (notifier, our_notifier): (Arc<RemoteNotifier>, Notifier),
    ) -> QueuePair {
        QueuePair {
            process,
            program,
            view,
            requests,
            events,
            notifier,
            our_notifier,
            hold: Hold::new(),
            session_fds,
        }
    }

    /// Leaves an event. When there is no room the process is told to look at everything.
    pub(super) fn leave(&mut self, message: Message, when: When) {
        self.hold.add(when);
        self.leave_quietly(message);
    }

    /// Leaves an event for which a process that sleeps is not woken.
    pub(super) fn leave_quietly(&mut self, message: Message) {
        if self.events.push(message).is_err() {
            self.view.overflow.store(1, Ordering::Release);
        }
    }

    /// Whether a thread of the process sleeps, and whether one of those that do waits for
    /// connections of this listener.
    pub(super) fn is_asleep(&self, listener: SessionId) -> (bool, bool) {
        let asleep = sleep::is_asleep(&self.view.sleepers);
        (
            asleep,
            asleep && self.view.accepting[accept_counter(listener)].load(Ordering::Relaxed) != 0,
        )
    }

    /// Wakes the process, if it sleeps and something pending waits no longer. True: its notifier
    /// was notified.
    pub(super) fn notify(&mut self, now: Instant) -> bool {
        if !self.hold.has_pending() {
            return false;
        }
        // All of it was left before this look. Who does not sleep now looks at its ring before it
        // does, so no notifier is owed for any of it.
        if !sleep::is_asleep(&self.view.sleepers) {
            self.hold.heard();
            return false;
        }
        if self.hold.ends_at().is_some_and(|end| now < end) {
            return false;
        }
        self.hold.notified(now);
        self.notifier.notify();
        true
    }

    /// The next message of the process.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Hostile> {
        self.requests.pop()
    }

    /// Whether the process left nothing. One that is served no more has nothing to say.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty() || self.program.is_cut.load(Ordering::Relaxed)
    }
}
