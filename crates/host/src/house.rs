//! The house: its keeper, its workers, and the handle by which everyone else reaches them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use clearway_engine::{Bell, EngineError, Seat, Team};
use clearway_shm::door::SessionId;
use clearway_shm::house::MAX_WORKERS;
use clearway_shm::{HousePage, ShmError, sleep};
use thiserror::Error;

use crate::interfaces::Interfaces;
use crate::keeper::{Keeper, KeeperCounts};
use crate::mailbox::{Job, Mailbox};
use crate::namespaces::{NamespaceError, NamespaceSpec, Namespaces};
use crate::program::ProgramInfo;
use crate::quota::{Quota, QuotaInfo};
use crate::sessions::SessionsReport;
use crate::setup::Setup;
use crate::worker::Worker;

/// The worker, or the house, has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the host is stopping")]
pub struct Gone;

/// Why a house did not start, or ended.
#[derive(Debug, Error)]
pub enum HouseError {
    /// Another host answers at the socket.
    #[error("a host is running at {0}: stop it, or choose another --socket")]
    Running(PathBuf),
    /// The socket cannot be made.
    #[error("cannot make the socket {0}: {1}")]
    Socket(PathBuf, io::Error),
    /// The system refused something that every host needs.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
    /// Memory for the house page.
    #[error("cannot make the house page: {0}")]
    Page(#[from] ShmError),
    /// None, or too many.
    #[error("a host has 1 to {MAX_WORKERS} workers")]
    Workers,
    /// A worker could not begin.
    #[error("worker {0}: {1}")]
    Thread(usize, String),
    /// A worker failed.
    #[error("worker {0}: {1}")]
    Engine(usize, EngineError),
}

/// Namespaces that shall be otherwise.
#[derive(Debug)]
pub struct NamespaceChanges {
    /// To be added, or to take the place of the one of this name.
    pub put: Vec<NamespaceSpec>,
    /// To be taken away, if they are there.
    pub remove: Vec<String>,
}

/// Reaches a house from any thread but the workers' own and the keeper's (which would wait for themselves).
#[derive(Clone)]
pub struct HouseHandle(pub(crate) Arc<Shared>);

/// What the threads of a house share.
pub(crate) struct Shared {
    pub(crate) workers: Vec<Door<Worker>>,
    pub(crate) keeper: Door<Keeper>,
    pub(crate) namespaces: Arc<Mutex<Namespaces>>,
    pub(crate) interfaces: Arc<Mutex<Interfaces>>,
    pub(crate) page: HousePage,
    pub(crate) stop: AtomicBool,
    /// What the host has, and may have.
    pub(crate) quota: Arc<Quota>,
    /// Listeners that have branches on other workers; there are no more of them than there may be sessions.
    branched: Mutex<HashSet<SessionId>>,
}

/// How a thread is reached.
pub(crate) struct Door<T> {
    pub(crate) mailbox: Arc<Mailbox<T>>,
    pub(crate) bell: Bell,
}

impl<T> Door<T> {
    fn new() -> io::Result<Door<T>> {
        Ok(Door { mailbox: Arc::default(), bell: Bell::new()? })
    }

    pub(crate) fn post(&self, job: Job<T>) -> Result<(), Gone> {
        if !self.mailbox.put(job) {
            return Err(Gone);
        }
        self.bell.ring();
        Ok(())
    }

    fn ask<R: Send + 'static>(&self, f: impl FnOnce(&mut T) -> R + Send + 'static) -> Result<R, Gone> {
        let (tell, answer) = mpsc::sync_channel(1);
        self.post(Box::new(move |it| drop(tell.send(f(it)))))?;
        answer.recv().map_err(|_| Gone)
    }
}

impl Shared {
    pub(crate) fn to_worker(&self, worker: usize, job: Job<Worker>) {
        let Some(door) = self.workers.get(worker) else { return };
        // A worker that has ended has ended its sessions too. One that is awake looks into its mailbox before it sleeps, so that a bell would only cost both of us a
        // system call: there are several jobs for each connection that a program makes.
        if door.mailbox.put(job) && sleep::is_asleep(self.page.sleeps(worker)) {
            door.bell.ring();
        }
    }

    /// Whether the other workers listen for this session, too, from now on.
    pub(crate) fn set_branched(&self, session: SessionId, is_branched: bool) {
        let mut branched = self.branched.lock().unwrap_or_else(PoisonError::into_inner);
        if is_branched {
            branched.insert(session);
        } else {
            branched.remove(&session);
        }
    }

    pub(crate) fn is_branched(&self, session: SessionId) -> bool {
        self.branched.lock().unwrap_or_else(PoisonError::into_inner).contains(&session)
    }

    pub(crate) fn to_keeper(&self, job: Job<Keeper>) {
        // A keeper that has ended has closed all doors.
        let _ = self.keeper.post(job);
    }
}

impl HouseHandle {
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.0.workers.len()
    }

    /// Has a worker do something between two turns.
    pub fn post(&self, worker: usize, job: Job<Worker>) -> Result<(), Gone> {
        self.0.workers.get(worker).ok_or(Gone)?.post(job)
    }

    /// Has a worker do something, and waits for the answer.
    pub fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        self.0.workers.get(worker).ok_or(Gone)?.ask(f)
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

    /// Adds a namespace, and its door. Answers its number.
    pub fn add_namespace(&self, spec: NamespaceSpec) -> Result<Result<u32, NamespaceError>, Gone> {
        self.0.keeper.ask(|keeper| keeper.add_namespace(spec))
    }

    /// Changes several namespaces, all of them or none. Programs that are in them stay as they are.
    pub fn change_namespaces(&self, changes: NamespaceChanges) -> Result<Result<(), NamespaceError>, Gone> {
        self.0.keeper.ask(|keeper| keeper.change_namespaces(changes))
    }

    /// Takes a namespace away, and its door. Programs that are in it stay.
    pub fn remove_namespace(&self, id: &str) -> Result<Result<(), NamespaceError>, Gone> {
        let id = id.to_owned();
        self.0.keeper.ask(move |keeper| keeper.remove_namespace(&id))
    }

    /// Lets programs in, where [`Setup::open`] did not; those that wait at a door come first.
    pub fn open_doors(&self) -> Result<(), Gone> {
        self.0.keeper.ask(|keeper| keeper.open_doors())
    }

    /// The names of the interfaces.
    pub fn interfaces(&self) -> Arc<Mutex<Interfaces>> {
        Arc::clone(&self.0.interfaces)
    }

    /// Every program.
    pub fn programs(&self) -> Result<Vec<ProgramInfo>, Gone> {
        self.0.keeper.ask(|keeper| keeper.program_infos())
    }

    /// What the host, its namespaces and their programs have and may have.
    pub fn quotas(&self) -> Result<Vec<QuotaInfo>, Gone> {
        self.0.keeper.ask(|keeper| keeper.quota_infos())
    }

    /// What the keeper has counted.
    pub fn counts(&self) -> Result<KeeperCounts, Gone> {
        self.0.keeper.ask(|keeper| keeper.counts())
    }

    /// To be called after an address or a route was changed: what processes know of them is stale.
    pub fn routes_changed(&self) {
        self.0.page.routes_changed();
    }

    /// Ends the house: [`House::run`] returns.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        for worker in &self.0.workers {
            worker.bell.ring();
        }
        self.0.keeper.bell.ring();
    }
}

/// A house that runs. Its workers run already; the thread that has it becomes the keeper.
pub struct House {
    handle: HouseHandle,
    keeper: Keeper,
    threads: Vec<JoinHandle<Result<(), EngineError>>>,
    // Keeps the boards on which workers leave their figures.
    team: Team<SessionsReport>,
}

impl House {
    /// Makes the sockets and starts the workers.
    pub fn start(setup: Setup) -> Result<House, HouseError> {
        let Frame { shared, keeper, team, seats } = frame(&setup)?;
        let mut house = House { handle: HouseHandle(Arc::clone(&shared)), keeper, threads: Vec::new(), team };
        for (index, seat) in seats.into_iter().enumerate() {
            match start_worker(index, &setup, &shared, seat) {
                Ok(thread) => house.threads.push(thread),
                Err(error) => {
                    house.handle.stop();
                    house.join()?;
                    return Err(error);
                }
            }
        }
        Ok(house)
    }

    /// How others reach it.
    pub fn handle(&self) -> HouseHandle {
        self.handle.clone()
    }

    /// What each worker had done when it last wrote it down.
    pub fn reports(&self) -> Vec<clearway_engine::CoreReport<SessionsReport>> {
        self.team.reports()
    }

    /// Keeps house until [`HouseHandle::stop`] is called or a worker fails.
    pub fn run(mut self) -> Result<(), HouseError> {
        let kept = self.keeper.run();
        self.handle.stop();
        // Programs learn at once that nobody serves them any more.
        let House { keeper, .. } = &mut self;
        keeper.close_all();
        let joined = self.join();
        kept.and(joined)
    }

    fn join(&mut self) -> Result<(), HouseError> {
        let mut result = Ok(());
        for (index, thread) in self.threads.drain(..).enumerate() {
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(|error| HouseError::Engine(index, error)),
                Err(_) => Err(HouseError::Thread(index, "its thread panicked; this is a bug".into())),
            };
            result = result.and(ended);
        }
        result
    }
}

/// What a house is before anybody works in it.
pub(crate) struct Frame {
    pub(crate) shared: Arc<Shared>,
    pub(crate) keeper: Keeper,
    pub(crate) team: Team<SessionsReport>,
    pub(crate) seats: Vec<Seat<SessionsReport>>,
}

pub(crate) fn frame(setup: &Setup) -> Result<Frame, HouseError> {
    if setup.workers.is_empty() || setup.workers.len() > MAX_WORKERS {
        return Err(HouseError::Workers);
    }
    let system = |what| move |error| HouseError::System(what, error);
    let workers = setup.workers.iter().map(|_| Door::new()).collect::<io::Result<Vec<_>>>();
    let workers = workers.map_err(system("make the workers' bells"))?;
    let boot = random_u64().map_err(system("read the system's random source"))?;
    let (page, page_fd) = HousePage::create(boot, workers.len())?;
    let shared = Arc::new(Shared {
        workers,
        keeper: Door::new().map_err(system("make the keeper's bell"))?,
        namespaces: Arc::default(),
        interfaces: Arc::default(),
        page,
        stop: AtomicBool::new(false),
        quota: Quota::host(setup.counted(), setup.memory, setup.programs),
        branched: Mutex::default(),
    });
    let keeper = Keeper::new(setup, &shared, page_fd, boot)?;
    let bells = shared.workers.iter().map(|w| w.bell.clone()).collect();
    let (team, seats) = Team::with_bells(bells).map_err(system("make the workers' bells"))?;
    Ok(Frame { shared, keeper, team, seats })
}

fn start_worker(
    index: usize,
    setup: &Setup,
    shared: &Arc<Shared>,
    seat: Seat<SessionsReport>,
) -> Result<JoinHandle<Result<(), EngineError>>, HouseError> {
    let (tell, begun) = mpsc::sync_channel(1);
    let (setup, shared) = (setup.clone(), Arc::clone(shared));
    let run = move || {
        let worker = match Worker::new(index, &setup, &shared, seat) {
            Ok(worker) => worker,
            Err(failed) => {
                let _ = tell.send(Err(failed));
                return Ok(());
            }
        };
        let _ = tell.send(Ok(()));
        let ended = worker.run();
        if ended.is_err() {
            HouseHandle(shared).stop();
        }
        ended
    };
    let thread = std::thread::Builder::new().name(format!("clearway-w{index}")).spawn(run);
    let thread = thread.map_err(|error| HouseError::System("start a thread", error))?;
    match begun.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(failed)) => Err(failed.of(index)),
        Err(_) => Err(HouseError::Thread(index, "its thread panicked; this is a bug".into())),
    }
}

fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills `bytes` from the system's random source.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
