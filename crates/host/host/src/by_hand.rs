//! A host without threads: whoever has it drives supervisor and workers by hand, at times of its own. For tests of what takes long, and for fuzzing, where the same
//! input must do the same.

use std::sync::Arc;

use clearway_base::Instant;
use clearway_engine::{Team, Time, Turn};
use clearway_session::interfaces::Interfaces;
use clearway_session::program::ProgramInfo;
use clearway_session::quota::QuotaInfo;
use clearway_session::sessions::SessionsReport;
use clearway_session::worker::Worker;
use nix::sys::epoll::EpollTimeout;

use crate::error::HostError;
use crate::host::{Frame, Shared, frame};
use crate::namespaces::{NamespaceError, NamespaceSpec};
use crate::setup::Setup;
use crate::supervisor::{Supervisor, SupervisorCounts};

/// Such a host.
pub struct HostByHand {
    shared: Arc<Shared>,
    supervisor: Supervisor,
    workers: Vec<Worker>,
    // Keeps the boards on which workers leave their figures.
    _team: Team<SessionsReport>,
}

impl HostByHand {
    /// Makes the sockets, and the workers on this thread.
    pub fn new(setup: Setup) -> Result<HostByHand, HostError> {
        let Frame { shared, supervisor, team, seats } = frame(&setup)?;
        let worker = |(index, seat)| {
            shared.worker(index, setup.worker(index), seat).map_err(|failed| HostError::of_worker(index, failed))
        };
        let workers = seats.into_iter().enumerate().map(worker).collect::<Result<Vec<_>, _>>()?;
        Ok(HostByHand { shared, supervisor, workers, _team: team })
    }

    /// The workers.
    pub fn workers(&mut self) -> &mut [Worker] {
        &mut self.workers
    }

    /// The names of the interfaces.
    pub fn interfaces(&self) -> Arc<std::sync::Mutex<Interfaces>> {
        Arc::clone(&self.shared.workers.interfaces)
    }

    /// Adds a namespace, and its attach socket.
    pub fn add_namespace(&mut self, spec: NamespaceSpec) -> Result<u32, NamespaceError> {
        self.supervisor.add_namespace(spec)
    }

    /// Every program.
    pub fn programs(&self) -> Vec<ProgramInfo> {
        self.supervisor.program_infos()
    }

    /// What the host, its namespaces and their programs have and may have.
    pub fn quotas(&self) -> Vec<QuotaInfo> {
        self.supervisor.quota_infos()
    }

    /// What the supervisor has counted.
    pub fn counts(&self) -> SupervisorCounts {
        self.supervisor.counts()
    }

    /// What there is to do at this time, by the supervisor and then by each worker, without waiting for more. As long as somebody had work there may be more.
    pub fn turn(&mut self, time: Time) -> Result<Turn, HostError> {
        let worked = self.supervisor.round(EpollTimeout::ZERO)?;
        let mut all = Turn { worked, again: false, deadline: Instant::NEVER };
        for (index, worker) in self.workers.iter_mut().enumerate() {
            all.worked |= self.shared.workers.attach_sockets[index].mailbox.has_jobs() || worker.has_jobs();
            let turn = worker.turn(time).map_err(|error| HostError::Engine(index, error))?;
            all.worked |= turn.worked;
            all.again |= turn.again;
            all.deadline = all.deadline.min(turn.deadline);
        }
        Ok(all)
    }
}

impl Drop for HostByHand {
    fn drop(&mut self) {
        self.supervisor.close_all();
    }
}
