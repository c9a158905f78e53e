//! The host: its supervisor, its workers, and the handle by which everyone else reaches them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use clearway_engine::{EngineError, Seat, Team};
use clearway_session::interfaces::Interfaces;
use clearway_session::mailbox::{Gone, Inbox, Job};
use clearway_session::program::ProgramInfo;
use clearway_session::quota::{Quota, QuotaInfo};
use clearway_session::sessions::SessionsReport;
use clearway_session::worker::{Failed, Worker, WorkerSetup};
use clearway_shm::HostPage;
use clearway_shm::attach_socket::SessionId;
use clearway_shm::host::MAX_WORKERS;

use crate::error::HostError;
use crate::namespaces::{NamespaceChanges, NamespaceError, NamespaceSpec, Namespaces};
use crate::random::random;
use crate::setup::Setup;
use crate::supervisor::{Supervisor, SupervisorCounts, ToSupervisor};
use crate::workers::Workers;

/// Reaches a host from any thread but the workers' own and the supervisor's (which would wait for
/// themselves).
#[derive(Clone)]
pub struct HostHandle(pub(crate) Arc<Shared>);

/// What the threads of a host share.
pub(crate) struct Shared {
    pub(crate) workers: Arc<Workers>,
    supervisor: Inbox<Supervisor>,
    namespaces: Arc<Mutex<Namespaces>>,
}

impl Shared {
    /// Makes a worker, on the thread that will run it.
    pub(crate) fn worker(
        &self,
        index: usize,
        setup: WorkerSetup,
        seat: Seat<SessionsReport>,
    ) -> Result<Worker, Failed> {
        let workers = &self.workers;
        let own = (workers.attach_sockets[index].clone(), Arc::clone(&workers.stop));
        Worker::new(index, setup, Arc::<Workers>::clone(workers), own, seat)
    }
}

impl HostHandle {
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.0.workers.count()
    }

    /// Has a worker do something between two turns.
    pub fn post(&self, worker: usize, job: Job<Worker>) -> Result<(), Gone> {
        self.0.workers.attach_sockets.get(worker).ok_or(Gone)?.post(job)
    }

    /// Has a worker do something, and waits for the answer.
    pub fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        self.0.workers.attach_sockets.get(worker).ok_or(Gone)?.ask(f)
    }

    /// Has every worker do something, and waits for the answers, in the workers' order.
    pub fn ask_all<R: Send + 'static>(
        &self,
        f: impl Fn(&mut Worker) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Gone> {
        (0..self.workers()).map(|worker| self.ask(worker, f.clone())).collect()
    }

    /// The namespaces.
    pub fn namespaces(&self) -> Arc<Mutex<Namespaces>> {
        Arc::clone(&self.0.namespaces)
    }

    /// Adds a namespace, and its attach socket. Answers its number.
    pub fn add_namespace(&self, spec: NamespaceSpec) -> Result<Result<u32, NamespaceError>, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.add_namespace(spec))
    }

    /// Changes several namespaces, all of them or none. Programs that are in them stay as they are.
    pub fn change_namespaces(
        &self,
        changes: NamespaceChanges,
    ) -> Result<Result<(), NamespaceError>, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.change_namespaces(changes))
    }

    /// Takes a namespace away, and its attach socket. Programs that are in it stay.
    pub fn remove_namespace(&self, id: &str) -> Result<Result<(), NamespaceError>, Gone> {
        let id = id.to_owned();
        self.0.supervisor.ask(move |supervisor| supervisor.remove_namespace(&id))
    }

    /// Lets programs in, where [`Setup::open`] did not; those that wait at an attach socket come
    /// first.
    pub fn open_attach_sockets(&self) -> Result<(), Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.open_attach_sockets())
    }

    /// The names of the interfaces.
    pub fn interfaces(&self) -> Arc<Mutex<Interfaces>> {
        Arc::clone(&self.0.workers.interfaces)
    }

    /// Every program.
    pub fn programs(&self) -> Result<Vec<ProgramInfo>, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.program_infos())
    }

    /// What `/proc` calls the descriptors of sessions.
    pub(crate) fn inodes(&self) -> Result<HashMap<SessionId, u64>, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.inodes(|_| true))
    }

    /// What the host, its namespaces and their programs have and may have.
    pub fn quotas(&self) -> Result<Vec<QuotaInfo>, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.quota_infos())
    }

    /// What the supervisor has counted.
    pub fn counts(&self) -> Result<SupervisorCounts, Gone> {
        self.0.supervisor.ask(|supervisor| supervisor.counts())
    }

    /// To be called after an address or a route was changed: what processes know of them is stale.
    pub fn routes_changed(&self) {
        self.0.workers.page.routes_changed();
    }

    /// Ends the host: [`Host::run`] returns.
    pub fn stop(&self) {
        self.0.workers.stop();
        self.0.supervisor.notifier.notify();
    }
}

/// A host that runs. Its workers run already; the thread that has it becomes the supervisor.
pub struct Host {
    handle: HostHandle,
    supervisor: Supervisor,
    threads: Vec<JoinHandle<Result<(), EngineError>>>,
    // Keeps the boards on which workers leave their figures.
    team: Team<SessionsReport>,
}

impl Host {
    /// Makes the sockets and starts the workers.
    pub fn start(setup: Setup) -> Result<Host, HostError> {
        let Frame { shared, supervisor, team, seats } = frame(&setup)?;
        let mut host =
            Host { handle: HostHandle(Arc::clone(&shared)), supervisor, threads: Vec::new(), team };
        for (index, seat) in seats.into_iter().enumerate() {
            match start_worker(index, &setup, &shared, seat) {
                Ok(thread) => host.threads.push(thread),
                Err(error) => {
                    host.handle.stop();
                    host.join()?;
                    return Err(error);
                }
            }
        }
        Ok(host)
    }

    /// How others reach it.
    pub fn handle(&self) -> HostHandle {
        self.handle.clone()
    }

    /// What each worker had done when it last wrote it down.
    pub fn reports(&self) -> Vec<clearway_engine::CoreReport<SessionsReport>> {
        self.team.reports()
    }

    /// Keeps host until [`HostHandle::stop`] is called or a worker fails.
    pub fn run(mut self) -> Result<(), HostError> {
        let kept = self.supervisor.run();
        self.handle.stop();
        // Programs learn at once that nobody serves them any more.
        let Host { supervisor, .. } = &mut self;
        supervisor.close_all();
        let joined = self.join();
        kept.and(joined)
    }

    fn join(&mut self) -> Result<(), HostError> {
        let mut result = Ok(());
        for (index, thread) in self.threads.drain(..).enumerate() {
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(|error| HostError::Engine(index, error)),
                Err(_) => {
                    Err(HostError::Thread(index, "its thread panicked; this is a bug".into()))
                }
            };
            result = result.and(ended);
        }
        result
    }
}

/// What a host is before anybody works in it.
pub(crate) struct Frame {
    pub(crate) shared: Arc<Shared>,
    pub(crate) supervisor: Supervisor,
    pub(crate) team: Team<SessionsReport>,
    pub(crate) seats: Vec<Seat<SessionsReport>>,
}

pub(crate) fn frame(setup: &Setup) -> Result<Frame, HostError> {
    if setup.workers.is_empty() || setup.workers.len() > MAX_WORKERS {
        return Err(HostError::Workers);
    }
    let system = |what| move |error| HostError::System(what, error);
    let attach_sockets = setup.workers.iter().map(|_| Inbox::new()).collect::<io::Result<Vec<_>>>();
    let attach_sockets = attach_sockets.map_err(system("make the workers' notifiers"))?;
    let boot = random_u64().map_err(system("read the system's random source"))?;
    let (page, page_fd) = HostPage::create(boot, attach_sockets.len())?;
    let inbox = Inbox::new().map_err(system("make the supervisor's notifier"))?;
    let workers =
        Arc::new(Workers::new(attach_sockets, page, Box::new(ToSupervisor(inbox.clone()))));
    let namespaces: Arc<Mutex<Namespaces>> = Arc::default();
    let quota = Quota::host(setup.counted(), setup.memory, setup.programs);
    let known = (Arc::clone(&namespaces), quota);
    let supervisor =
        Supervisor::new(setup, (Arc::clone(&workers), inbox.clone()), known, (page_fd, boot))?;
    let notifiers = workers.attach_sockets.iter().map(|w| w.notifier.clone()).collect();
    let shared = Arc::new(Shared { workers, supervisor: inbox, namespaces });
    let (team, seats) =
        Team::with_notifiers(notifiers).map_err(system("make the workers' notifiers"))?;
    Ok(Frame { shared, supervisor, team, seats })
}

fn start_worker(
    index: usize,
    setup: &Setup,
    shared: &Arc<Shared>,
    seat: Seat<SessionsReport>,
) -> Result<JoinHandle<Result<(), EngineError>>, HostError> {
    let (tell, begun) = mpsc::sync_channel(1);
    let (setup, shared) = (setup.worker(index), Arc::clone(shared));
    let run = move || {
        let worker = match shared.worker(index, setup, seat) {
            Ok(worker) => worker,
            Err(failed) => {
                let _ = tell.send(Err(failed));
                return Ok(());
            }
        };
        let _ = tell.send(Ok(()));
        let ended = worker.run();
        if ended.is_err() {
            HostHandle(shared).stop();
        }
        ended
    };
    let thread = std::thread::Builder::new().name(format!("clearway-w{index}")).spawn(run);
    let thread = thread.map_err(|error| HostError::System("start a thread", error))?;
    match begun.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(failed)) => Err(HostError::of_worker(index, failed)),
        Err(_) => Err(HostError::Thread(index, "its thread panicked; this is a bug".into())),
    }
}

fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
