//! The supervisor: lets processes in, hands their questions to the workers, and notices when a
//! process or the last holder of a session is gone. It sleeps in the kernel until one of its
//! descriptors has something; no packet passes it.

mod ahead;
mod attach;
mod attach_sockets;
mod back;
mod gone;
mod joined;
mod key;
mod questions;
mod state;
mod strangers;
mod turn;
mod waiting;

pub use state::SupervisorCounts;

use clearway_session::Worker;
use clearway_session::mailbox::{Inbox, Job};

use crate::workers::SupervisorCalls;

pub(crate) use state::Supervisor;

/// How workers reach the supervisor.
pub(crate) struct ToSupervisor(pub(crate) Inbox<Supervisor>);

impl SupervisorCalls for ToSupervisor {
    fn cut_off(&self, program: u32, why: &'static str) {
        // A supervisor that has ended has closed all attach sockets.
        let _ = self.0.post(Box::new(move |supervisor| supervisor.cut_off(program, why)));
    }

    fn check_memory(&self) {
        let _ = self.0.post(Box::new(|supervisor| supervisor.check_memory()));
    }

    fn behind_hangups(&self, worker: usize, job: Job<Worker>) {
        let _ = self.0.post(Box::new(move |supervisor| supervisor.behind_hangups(worker, job)));
    }
}
