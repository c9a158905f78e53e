//! A house without threads: whoever has it drives keeper and workers by hand, at times of its own. For tests of what takes long, and for fuzzing, where the same
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

use crate::error::HouseError;
use crate::house::{Frame, Shared, frame};
use crate::keeper::{Keeper, KeeperCounts};
use crate::namespaces::{NamespaceError, NamespaceSpec};
use crate::setup::Setup;

/// Such a house.
pub struct HouseByHand {
    shared: Arc<Shared>,
    keeper: Keeper,
    workers: Vec<Worker>,
    // Keeps the boards on which workers leave their figures.
    _team: Team<SessionsReport>,
}

impl HouseByHand {
    /// Makes the sockets, and the workers on this thread.
    pub fn new(setup: Setup) -> Result<HouseByHand, HouseError> {
        let Frame { shared, keeper, team, seats } = frame(&setup)?;
        let worker = |(index, seat)| {
            shared.worker(index, setup.worker(index), seat).map_err(|failed| HouseError::of_worker(index, failed))
        };
        let workers = seats.into_iter().enumerate().map(worker).collect::<Result<Vec<_>, _>>()?;
        Ok(HouseByHand { shared, keeper, workers, _team: team })
    }

    /// The workers.
    pub fn workers(&mut self) -> &mut [Worker] {
        &mut self.workers
    }

    /// The names of the interfaces.
    pub fn interfaces(&self) -> Arc<std::sync::Mutex<Interfaces>> {
        Arc::clone(&self.shared.workers.interfaces)
    }

    /// Adds a namespace, and its door.
    pub fn add_namespace(&mut self, spec: NamespaceSpec) -> Result<u32, NamespaceError> {
        self.keeper.add_namespace(spec)
    }

    /// Every program.
    pub fn programs(&self) -> Vec<ProgramInfo> {
        self.keeper.program_infos()
    }

    /// What the host, its namespaces and their programs have and may have.
    pub fn quotas(&self) -> Vec<QuotaInfo> {
        self.keeper.quota_infos()
    }

    /// What the keeper has counted.
    pub fn counts(&self) -> KeeperCounts {
        self.keeper.counts()
    }

    /// What there is to do at this time, by the keeper and then by each worker, without waiting for more. As long as somebody had work there may be more.
    pub fn turn(&mut self, time: Time) -> Result<Turn, HouseError> {
        let worked = self.keeper.round(EpollTimeout::ZERO)?;
        let mut all = Turn { worked, again: false, deadline: Instant::NEVER };
        for (index, worker) in self.workers.iter_mut().enumerate() {
            all.worked |= self.shared.workers.doors[index].mailbox.has_jobs() || worker.has_jobs();
            let turn = worker.turn(time).map_err(|error| HouseError::Engine(index, error))?;
            all.worked |= turn.worked;
            all.again |= turn.again;
            all.deadline = all.deadline.min(turn.deadline);
        }
        Ok(all)
    }
}

impl Drop for HouseByHand {
    fn drop(&mut self) {
        self.keeper.close_all();
    }
}
