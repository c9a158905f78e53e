//! A host that is drained: new connections go to other machines, and what is connected goes on.

use std::sync::atomic::Ordering;

use clearway_command::{DrainMode, SessionName};
use clearway_proto::Admission;
use serde_json::json;

use super::plane::{Control, OnDrain, State};
use crate::outcome::{CommandError, Output, locked};
use crate::show::Drain;

impl Control {
    /// Whether the host is drained. Never waits.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Who is to hear of it when that changes.
    pub fn set_on_drain(&self, hears: OnDrain) {
        *locked(&self.on_drain) = Some(hears);
    }

    pub(super) fn drain(&self, state: &mut State, mode: DrainMode) -> Result<Output, CommandError> {
        // Health says so first: whoever is refused finds a network that is about to know.
        self.tell_draining(true);
        self.admit(match mode {
            DrainMode::Announce => Admission::Open,
            DrainMode::Refuse => Admission::Reset,
            DrainMode::Silent => Admission::Drop,
        })?;
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let begun = Drain { since: now, mode };
        // One that goes from announcing to refusing began when it was announced.
        let drain = state.drain.get_or_insert(begun);
        drain.mode = mode;
        let text = match mode {
            DrainMode::Announce => "The host is drained; new connections are taken still.\n",
            DrainMode::Refuse => "The host is drained; new connections are refused.\n",
            DrainMode::Silent => "The host is drained; new connections get no answer.\n",
        };
        Ok(Output::new(text.into(), json!({ "draining": true, "mode": drain.mode_name() })))
    }

    pub(super) fn undrain(&self, state: &mut State) -> Result<Output, CommandError> {
        self.admit(Admission::Open)?;
        self.tell_draining(false);
        let text = match state.drain.take() {
            Some(_) => "New connections are taken again.\n",
            None => "The host was not drained.\n",
        };
        Ok(Output::new(text.into(), json!({ "draining": false })))
    }

    pub(super) fn kill_session(&self, name: SessionName) -> Result<Output, CommandError> {
        let SessionName { worker, slot, generation } = name;
        let shown = format!("{worker}:{slot}");
        let gone = || CommandError::Missing(format!("session {shown}"));
        if usize::from(worker) >= self.host.workers() {
            return Err(gone());
        }
        let killed = self.host.ask(worker.into(), move |worker| {
            let (sessions, stack) = worker.both();
            sessions.kill(stack, slot, generation)
        })?;
        match killed.ok_or_else(gone)? {
            true => Ok(Output::new(String::new(), json!({ "killed": shown }))),
            false => Err(CommandError::NoConnection(shown)),
        }
    }

    /// What becomes of new connections on every worker from now on.
    fn admit(&self, admission: Admission) -> Result<(), CommandError> {
        self.host.ask_all(move |worker| {
            worker.stack().reconfigure_tcp(|tcp| tcp.admission = admission);
        })?;
        Ok(())
    }

    fn tell_draining(&self, draining: bool) {
        if self.is_draining.swap(draining, Ordering::AcqRel) != draining {
            if let Some(hears) = locked(&self.on_drain).as_ref() {
                hears(draining);
            }
        }
    }
}
