//! What runs inside the turn.

use std::os::fd::BorrowedFd;

use clearway_base::{Duration, Instant};
use clearway_proto::{Env, Stack};

use crate::Time;

/// An application that lives on the stack's own core and runs to completion in every turn: no
/// queue, no second thread and no copy stand between it and its packets.
pub trait App<E: Env> {
    /// What it tells the outside, once per second and at the end.
    type Report: Clone + Default + Send + 'static;

    /// Called once before the first turn: time to listen or connect. An error is a sentence for the
    /// user and ends the engine.
    ///
    /// # Errors
    /// A sentence that says why it cannot begin; the engine ends with it
    /// ([`crate::EngineError::App`]).
    fn start(&mut self, time: Time, stack: &mut Stack<E>) -> Result<(), String>;

    /// Called in every turn, after packets and timers, before anything is sent: takes
    /// [`Stack::next_event`] until there is none.
    fn on_events(&mut self, time: Time, stack: &mut Stack<E>);

    /// Called in every turn, after what there was to send has been handed to the ports.
    #[inline]
    fn on_sent(&mut self, stack: &mut Stack<E>) {
        let _ = stack;
    }

    /// Called in every turn before [`App::on_events`]: how long the turns that had work took so
    /// far, for applications that tell how busy their core is.
    #[inline]
    fn on_turn(&mut self, busy: Duration) {
        let _ = busy;
    }

    /// When [`App::on_events`] has something to do although nothing happened; the engine does not
    /// sleep past it.
    fn next_deadline(&self) -> Instant {
        Instant::NEVER
    }

    /// Whether the last [`App::on_events`] found something to do of its own, besides what packets
    /// and timers brought: it keeps an adaptive engine looking for more.
    fn had_work(&self) -> bool {
        false
    }

    /// Called right before the engine sleeps: time to tell others that the notifier is needed from
    /// now on, and then to look once more for what they left. False when there was something: the
    /// engine turns once more instead. Either way [`App::woke`] follows.
    fn may_sleep(&mut self) -> bool {
        true
    }

    /// What wakes the engine besides its notifier and its ports, when it is readable; [`App::woke`]
    /// makes it unreadable again.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called when the engine has slept, or [`App::may_sleep`] kept it from that. `rung`: what
    /// [`App::wait_fd`] says may be readable now.
    #[inline]
    fn woke(&mut self, rung: bool) {
        let _ = rung;
    }

    /// Whether there is nothing left to do; the engine then ends by itself.
    fn is_finished(&self) -> bool {
        false
    }

    /// Called in every turn after [`App::on_events`] from when on whoever runs it wants it to end
    /// without breaking anything off: take nothing new, close what has nothing under way, and say
    /// whether nothing is left. An application that says so never ends when the patience of its
    /// caller does.
    fn drain(&mut self, time: Time, stack: &mut Stack<E>) -> bool {
        let _ = (time, stack);
        false
    }

    /// Called once when the engine is told to stop: time to close or reset connections. What that
    /// makes the stack send still goes out.
    fn stop(&mut self, time: Time, stack: &mut Stack<E>);

    /// The state of affairs, for the outside.
    fn report(&self) -> Self::Report;
}
