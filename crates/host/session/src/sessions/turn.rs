//! A worker's turn, as its sessions have it: messages of processes, events of the stack, and who is
//! woken.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use clearway_base::{Handle, Instant};
use clearway_engine::{App, Time};
use clearway_probes as probes;
use clearway_proto::Event;
use clearway_shm::layout::event;
use clearway_shm::sleep;

use super::remote::{forwarder_of, remote_listener_of};
use super::state::{HOST_TOKEN, Sessions, SessionsReport};
use crate::env::{HostEnv, HostStack};

impl Sessions {
    fn on_event(&mut self, stack: &mut HostStack, event: Event) {
        match event {
            Event::Incoming { token, .. } => {
                if let Some(remote_listener) = remote_listener_of(token) {
                    self.accept_at_remote_listener(stack, remote_listener);
                } else if let Some(handle) = Handle::from_bits(token) {
                    self.accept(stack, handle);
                }
            }
            Event::Conn { conn, token, what } => self.on_conn(stack, token, conn, what),
            Event::Udp { socket, token: HOST_TOKEN, .. } => self.hear_host_socket(stack, socket),
            Event::Udp { token, what, .. } => {
                if let Some(forwarder) = forwarder_of(token) {
                    self.carry_home(stack, forwarder);
                } else if let Some(handle) = Handle::from_bits(token) {
                    self.on_udp(stack, handle, what);
                }
            }
        }
    }

    /// Writers whose FIFOs have room again are told.
    fn tell_writable(&mut self, stack: &mut HostStack) {
        while let Some(token) = stack.stores().1.next_writable() {
            if let Some(handle) = Handle::from_bits(token) {
                self.tell(handle, event::WRITABLE);
            }
        }
    }

    /// Programs whose FIFOs held something impossible are cut off.
    fn cut_hostile(&mut self, stack: &mut HostStack) {
        let (rx, tx) = stack.stores_ref();
        if !(rx.has_hostile() || tx.has_hostile()) {
            return;
        }
        for token in rx.take_hostile().into_iter().chain(tx.take_hostile()) {
            let session = Handle::from_bits(token).and_then(|handle| self.table.get(handle));
            if let Some(program) = session.map(|s| Arc::clone(&s.program)) {
                self.cut_off(&program, "an impossible position in a FIFO");
            }
        }
    }

    /// Wakes the processes whose notifiers are not held.
    fn notify_sleepers(&mut self) {
        self.holds_notifiers = false;
        for queue_pair in &mut self.queue_pairs {
            self.report.notifiers += u64::from(queue_pair.notify(self.now));
            self.holds_notifiers |= queue_pair.hold.has_pending();
        }
    }

    /// Wakes all for whom something is pending: nobody may come back to notify it that are held.
    pub(super) fn notify_all(&mut self) {
        self.queue_pairs.iter_mut().for_each(|queue_pair| queue_pair.hold.flush());
        self.notify_sleepers();
    }

    /// When a notifier that is held must be notified.
    fn notifiers_deadline(&self) -> Instant {
        let ends = self
            .queue_pairs
            .iter()
            .filter(|_| self.holds_notifiers)
            .filter_map(|queue_pair| queue_pair.hold.ends_at());
        ends.min().unwrap_or(Instant::NEVER)
    }
}

impl App<HostEnv> for Sessions {
    type Report = SessionsReport;

    fn start(&mut self, _time: Time, _stack: &mut HostStack) -> Result<(), String> {
        Ok(())
    }

    fn on_events(&mut self, time: Time, stack: &mut HostStack) {
        self.now = time.now;
        self.had_work = self.take_messages(time, stack);
        for handle in std::mem::take(&mut self.unfinished) {
            self.had_work = true;
            self.send_datagrams(stack, handle);
        }
        self.had_work |= self.pass_all(time.now, stack);
        let mut had_events = false;
        while let Some(event) = stack.next_event() {
            had_events = true;
            self.on_event(stack, event);
        }
        self.pass_router_news(stack);
        self.had_work |= !self.unpassed.is_empty();
        self.tell_writable(stack);
        self.wake_the_others();
        if self.had_work || had_events {
            self.reclaim.wake(time.now);
        }
        self.had_work |= self.reclaim(time.now, stack);
    }

    /// Notifiers are notified last: a process that is woken on this core may take it at once, and
    /// what it waits for should be on its way by then.
    fn on_sent(&mut self, stack: &mut HostStack) {
        self.cut_hostile(stack);
        self.tell_stamps(stack);
        self.notify_sleepers();
    }

    fn next_deadline(&self) -> Instant {
        let sessions = self.passing_deadline().min(self.wake_deadline());
        sessions.min(self.notifiers_deadline()).min(self.reclaim.deadline())
    }

    fn had_work(&self) -> bool {
        self.had_work
    }

    fn may_sleep(&mut self) -> bool {
        self.notify_all();
        sleep::doze(self.context.page().sleeps(self.index));
        self.sleeps = !(self.is_asked)()
            && self.unfinished.is_empty()
            && self.unpassed.is_empty()
            // Each gets its time in the next turn.
            && self.leavers.have_their_time()
            && self.queue_pairs.iter().all(|queue_pair| queue_pair.is_quiet());
        if self.sleeps {
            probes::sleep(|| (self.index as u64, self.table.len().into()));
        }
        self.sleeps
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.notifier_set.as_fd())
    }

    fn woke(&mut self, rung: bool) {
        sleep::rise(self.context.page().sleeps(self.index));
        if std::mem::take(&mut self.sleeps) {
            probes::wake(|| (self.index as u64, rung.into()));
        }
        if rung {
            self.notifier_set.settle();
        }
    }

    fn stop(&mut self, _time: Time, stack: &mut HostStack) {
        let all: Vec<_> = self.table.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            // Datagrams have the turns that are left.
            if !self.sends_first(stack, handle) {
                self.end(stack, handle, true);
            }
        }
    }

    fn report(&self) -> SessionsReport {
        SessionsReport {
            sessions: self.table.len(),
            handed_over: self.handed_over.get(),
            ..self.report
        }
    }
}
