//! A host without threads: whoever has it drives supervisor and workers by hand, at times of its
//! own. For tests of what takes long, and for fuzzing, where the same input must do the same.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use clearway_base::Instant;
use clearway_dev::Facts;
use clearway_engine::{Team, Time, Turn};
use clearway_proto::State;
use clearway_session::interfaces::Interfaces;
use clearway_session::program::ProgramInfo;
use clearway_session::quota::QuotaInfo;
use clearway_session::sessions::SessionsReport;
use clearway_session::worker::Worker;
use nix::sys::epoll::EpollTimeout;

use crate::error::HostError;
use crate::host::{Frame, HostHandle, Shared, frame};
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
            shared
                .worker(index, setup.worker(index), seat)
                .map_err(|failed| HostError::of_worker(index, failed))
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

    /// How others reach it. Whoever waits for an answer waits for a turn.
    pub fn handle(&self) -> HostHandle {
        HostHandle(Arc::clone(&self.shared))
    }

    /// A connection by which this process itself comes in, as if to the main attach socket.
    pub fn connect(&mut self) -> io::Result<OwnedFd> {
        self.supervisor.bring_in()
    }

    /// Readable while the supervisor has something to do.
    pub fn supervisor_fd(&self) -> BorrowedFd<'_> {
        self.supervisor.wait_fd()
    }

    /// What the workers' ports are waited for by.
    pub fn wait_fds(&mut self) -> Vec<RawFd> {
        let mut all = Vec::new();
        for worker in &mut self.workers {
            let engine = worker.engine();
            let ports: Vec<_> = engine.ports().map(|port| port.iface).collect();
            let fds = ports.into_iter().filter_map(|iface| engine.port(iface)?.wait_fd());
            all.extend(fds.map(|fd| fd.as_raw_fd()));
        }
        all
    }

    /// Some port must be asked again and again: there is nothing to sleep on.
    pub fn must_poll(&mut self) -> bool {
        self.workers.iter_mut().any(|worker| {
            let engine = worker.engine();
            let ports: Vec<_> = engine.ports().map(|port| port.iface).collect();
            ports.into_iter().any(|iface| engine.port(iface).is_some_and(Facts::must_poll))
        })
    }

    /// What time it is.
    pub fn time(&mut self) -> Time {
        self.workers.first_mut().map(|worker| worker.engine().time()).unwrap_or_default()
    }

    /// Every session is closed, as when its last holder ends.
    pub fn close_sessions(&mut self) {
        for worker in &mut self.workers {
            let (sessions, stack) = worker.both();
            sessions.close_all(stack);
        }
    }

    /// Something that sessions accepted is not acknowledged by its peer, or not sent yet.
    pub fn has_unacknowledged(&mut self) -> bool {
        let is_settled = |state| {
            !matches!(
                state,
                State::Established
                    | State::FinWait1
                    | State::CloseWait
                    | State::Closing
                    | State::LastAck
            )
        };
        self.workers.iter_mut().any(|worker| {
            let (sessions, stack) = worker.both();
            sessions.count() > 0
                || stack.wants_emit()
                || !stack.connections().all(|one| is_settled(one.state))
        })
    }

    /// Peers are told of what is not sent to them any more.
    pub fn reset_unsent(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.stack().reset_unsent());
    }

    /// What there is to do at this time, by the supervisor and then by each worker, without waiting
    /// for more. As long as somebody had work there may be more.
    pub fn turn(&mut self, time: Time) -> Result<Turn, HostError> {
        let worked = self.supervisor.round(EpollTimeout::ZERO)?;
        let turn = self.turn_workers(time)?;
        Ok(Turn { worked: worked | turn.worked, ..turn })
    }

    /// The same without the supervisor.
    pub fn turn_workers(&mut self, time: Time) -> Result<Turn, HostError> {
        let mut all = Turn { worked: false, again: false, deadline: Instant::NEVER };
        for (index, worker) in self.workers.iter_mut().enumerate() {
            all.worked |=
                self.shared.workers.attach_sockets[index].mailbox.has_jobs() || worker.has_jobs();
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
