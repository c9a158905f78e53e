//! A worker: one thread with one engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_dev::{FramePool, PoolBudget};
use clearway_engine::{
    Engine, EngineError, Mode, OnDemandProbe, OnDeviceError, Seat, Step, Time, Turn, cores,
};
use clearway_ports::Port;
use clearway_proto::{Config, Stack};

use crate::env::HostEnv;
use crate::mailbox::{Inbox, Job};
use crate::sessions::{HostContext, Sessions, SessionsReport};
use crate::store::{FifoPlan, FifoRx, FifoTx};

/// Things asked of a worker that are done between two turns.
const JOBS: usize = 512;

/// The engine of a worker.
pub type HostEngine = Engine<HostEnv, Port, Sessions, OnDemandProbe>;

/// What a worker's thread owns. Jobs get it between two turns.
pub struct Worker {
    index: usize,
    attach_socket: Inbox<Worker>,
    /// It is to end.
    stop: Arc<AtomicBool>,
    engine: HostEngine,
    /// Taken out of the mailbox, and not done yet.
    jobs: VecDeque<Job<Worker>>,
    /// The time when somebody brings it, and it is not read from the clock.
    brought: Option<Time>,
}

/// Why a worker did not begin.
pub enum Failed {
    /// A sentence says it.
    Start(String),
    /// Its engine cannot be made.
    Engine(EngineError),
}

/// Called on each worker's thread before its first turn, with the worker's number: to set a
/// scheduling policy, say. An error is a sentence for the user.
pub type ThreadHook = Arc<dyn Fn(usize) -> Result<(), String> + Send + Sync>;

/// What a worker is made of.
#[derive(Clone)]
pub struct WorkerSetup {
    /// The core that its thread is pinned to.
    pub core: Option<usize>,
    /// Called on its thread first.
    pub on_thread: Option<ThreadHook>,
    /// Its stack.
    pub stack: Config,
    /// Its packet buffers.
    pub pool: PoolBudget,
    /// What it does when there is nothing to do.
    pub mode: Mode,
    /// Sessions at once.
    pub sessions: u32,
    /// Bytes of a FIFO at most.
    pub largest_fifo: u32,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The host ends with each of its workers.
        self.stop.store(true, Ordering::Release);
    }
}

impl Worker {
    /// Made on the thread that will run it.
    pub fn new(
        index: usize,
        setup: WorkerSetup,
        context: Arc<dyn HostContext>,
        (attach_socket, stop): (Inbox<Worker>, Arc<AtomicBool>),
        seat: Seat<SessionsReport>,
    ) -> Result<Worker, Failed> {
        if let Some(core) = setup.core {
            cores::pin(core).map_err(|error| Failed::Start(error.to_string()))?;
        }
        if let Some(hook) = &setup.on_thread {
            hook(index).map_err(Failed::Start)?;
        }
        let fifo_plan = FifoPlan::default();
        let stack = Stack::new(
            setup.stack,
            FifoRx::new(fifo_plan.clone(), setup.largest_fifo),
            FifoTx::new(fifo_plan.clone()),
        );
        let mailbox = Arc::clone(&attach_socket.mailbox);
        let is_asked = Box::new(move || mailbox.has_jobs());
        let sessions = Sessions::new(index, context, is_asked, fifo_plan, setup.sessions);
        let sessions =
            sessions.map_err(|error| Failed::Start(format!("cannot watch programs: {error}")))?;
        let pool = FramePool::new(setup.pool);
        let probe = OnDemandProbe::new();
        let engine = Engine::with_probe(stack, Vec::new(), pool, sessions, setup.mode, seat, probe);
        let mut engine = engine.map_err(Failed::Engine)?;
        engine.set_on_device_error(OnDeviceError::TakeDown);
        Ok(Worker { index, attach_socket, stop, engine, jobs: VecDeque::new(), brought: None })
    }

    /// Turns until the host is stopped.
    pub fn run(mut self) -> Result<(), EngineError> {
        let mailbox = Arc::clone(&self.attach_socket.mailbox);
        self.engine.start()?;
        let ended = loop {
            self.do_jobs();
            if self.stop.load(Ordering::Acquire) {
                break Ok(());
            }
            match self.engine.step() {
                Ok(Step::Again | Step::Slept) => {}
                Ok(Step::Stop) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        mailbox.close();
        let said = self.engine.finish(ended.is_ok());
        ended.and(said)
    }

    /// Does what was asked, some of it at a time: when a program with very many sessions ends, the
    /// others go on meanwhile.
    fn do_jobs(&mut self) {
        self.jobs.append(&mut self.attach_socket.mailbox.take());
        for _ in 0..JOBS {
            let Some(job) = self.jobs.pop_front() else { return };
            job(self);
        }
        if !self.jobs.is_empty() {
            // The turn that comes next must not end in sleep.
            self.attach_socket.notifier.notify();
        }
    }

    /// Whether something that was asked waits for the next turn.
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// What was asked of it, and one turn at a time that the caller brings.
    pub fn turn(&mut self, time: Time) -> Result<Turn, EngineError> {
        self.brought = Some(time);
        self.do_jobs();
        self.engine.turn(time)
    }

    /// Which worker this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its packet buffers, for ports to be added.
    pub fn pool(&self) -> &FramePool {
        self.engine.pool()
    }

    /// Its engine.
    pub fn engine(&mut self) -> &mut HostEngine {
        &mut self.engine
    }

    /// Its stack.
    pub fn stack(&mut self) -> &mut Stack<HostEnv> {
        self.engine.stack()
    }

    /// Its sessions.
    pub fn sessions(&mut self) -> &mut Sessions {
        self.engine.app()
    }

    /// Its sessions and its stack, for what concerns both.
    pub fn both(&mut self) -> (&mut Sessions, &mut Stack<HostEnv>) {
        let (stack, sessions) = self.engine.stack_and_app();
        (sessions, stack)
    }

    /// What time it is.
    pub fn time(&mut self) -> Time {
        self.brought.unwrap_or_else(|| self.engine.time())
    }
}
