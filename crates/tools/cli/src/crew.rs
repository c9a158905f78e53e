//! Threads that drive one queue each, or several, without a stack, until somebody says stop.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, anyhow};
use clearway_base::{Duration, Instant};
use clearway_dev::{DevError, Facts, FaultSpec, FramePool, PoolBudget, PortSpec};
use clearway_engine::{Clock, Cores, Notifier, cores};
use clearway_pkt::{Burst, PoolBuf};
use clearway_ports::{CaptureTo, Port, PortError, Unwrapped, Wrap};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::error::WrongUse;
use crate::signals::{Signals, Woken};

/// A port without a stack on it, and the threads that drive its queues.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CrewArgs {
    /// The port: tap:NAME, tun:NAME, loop, pcap:FILE, dpdk:DEVICE or xdp:INTERFACE
    #[arg(long, value_name = "PORT")]
    pub(crate) port: PortSpec,

    /// Cores to run on, one thread each, such as 0 or 0,1 or 0-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<Cores>,

    /// Queues of the port, dealt out to the cores of --cores, without which each has a thread of
    /// its own [default: as many as cores, or 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) queues: Option<u16>,

    /// MTU of the port, in bytes [default: what it has]
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<usize>,

    /// Make the link bad, for tests:
    /// loss=2%,reorder=5%,dup=1%,corrupt=1%,delay=10ms,jitter=2ms,rate=100M,limit=100; each may
    /// have rx. or tx. before it
    #[arg(long, value_name = "SPEC")]
    pub(crate) fault: Option<FaultSpec>,

    /// The same faults again for the same number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) fault_seed: u64,

    /// Write all frames to this file (pcapng); several queues write several files
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<std::path::PathBuf>,

    /// Never sleep
    #[arg(long)]
    pub(crate) poll: bool,

    /// Leaves to the device what it can do: frames do not come as they are on the wire.
    #[arg(skip)]
    pub(crate) offload: bool,

    /// Take an interface also when it carries the default route of this machine or the login that
    /// started this
    #[arg(long)]
    pub(crate) force: bool,
}

/// How long a queue is looked at again and again after its last frame before its thread sleeps, and
/// how exactly a sleep ends.
const SPIN: Duration = Duration::from_micros(100);

/// How often a thread that works writes down what it did.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// The longest sleep.
const NAP: Duration = Duration::from_millis(200);

impl CrewArgs {
    /// Queues of the port.
    pub(crate) fn queues(&self) -> usize {
        self.queues.map_or_else(|| self.cores.as_ref().map_or(1, Cores::count), usize::from)
    }

    /// Threads that drive them: queue q belongs to thread q modulo their number.
    fn threads(&self) -> usize {
        self.cores.as_ref().map_or(self.queues(), Cores::count)
    }

    /// Where the queues run, in words.
    pub(crate) fn places(&self) -> String {
        match &self.cores {
            Some(cores) => format!("cores {cores}"),
            None => "any core".into(),
        }
    }

    fn check(&self) -> Result<(), WrongUse> {
        let (queues, cores) = (self.queues(), self.threads());
        if queues < cores {
            return Err(WrongUse(format!(
                "{queues} queues on {cores} cores: some cores would have none. Leave --queues out, \
                 or name fewer cores."
            )));
        }
        Ok(())
    }

    /// Opens the port's queues.
    fn open(&self) -> anyhow::Result<Vec<Unwrapped>> {
        let time = Clock::new().read();
        let unix_ns_at_zero = time.since_1970.as_nanos().saturating_sub(time.now.as_nanos());
        let pcap = self.pcap.clone().map(|path| CaptureTo { path, unix_ns_at_zero });
        let wrap = Wrap { fault: self.fault, fault_seed: self.fault_seed, pcap, force: self.force };
        if self.offload {
            return open(&self.port, self.mtu, &wrap, self.queues());
        }
        open_as_on_the_wire(&self.port, self.mtu, &wrap, self.queues())
    }
}

/// Opens queues of a port. Frames shall come and go as they are on the wire, so nothing is left to
/// the device that would have to be finished by somebody else: a joined frame, or a checksum that
/// was never made, could not be sent on.
pub(crate) fn open_as_on_the_wire(
    port: &PortSpec,
    mtu: Option<usize>,
    wrap: &Wrap,
    queues: usize,
) -> anyhow::Result<Vec<Unwrapped>> {
    let mut spec = port.clone();
    match &mut spec {
        PortSpec::Tap(tap) => tap.offload = false,
        PortSpec::Dpdk(dpdk) => dpdk.offload = false,
        PortSpec::Xdp(xdp) => xdp.offload = false,
        PortSpec::Loop | PortSpec::Pcap(_) => {}
    }
    open(&spec, mtu, wrap, queues)
}

fn open(
    port: &PortSpec,
    mtu: Option<usize>,
    wrap: &Wrap,
    queues: usize,
) -> anyhow::Result<Vec<Unwrapped>> {
    let opened = clearway_ports::open_queues(std::slice::from_ref(port), mtu, wrap, queues);
    let opened = opened.map_err(|error| match error {
        PortError::Misuse(sentence) => WrongUse(sentence).into(),
        other => anyhow::Error::from(other),
    })?;
    Ok(opened.into_iter().flatten().collect())
}

/// What a thread does with one of its queues.
pub(crate) trait Work {
    /// What others are told of it.
    type Report: Clone + Default + Send;

    /// Does what there is to do now, and says whether there was anything.
    fn turn(
        &mut self,
        now: Instant,
        dev: &mut Port,
        burst: &mut Burst<PoolBuf>,
    ) -> Result<bool, DevError>;

    /// When there is something to do without a frame that comes in.
    fn next_due(&self) -> Instant;

    /// Another port that frames come from, whose thread is this one too.
    fn other_port(&self) -> Option<&Port> {
        None
    }

    /// What it has done so far.
    fn report(&self, dev: &Port) -> Self::Report;
}

/// The watcher's side of the threads.
pub(crate) struct Crew<R> {
    stop: Arc<AtomicBool>,
    notifiers: Vec<Notifier>,
    boards: Vec<Board<R>>,
    state: Arc<State>,
}

type Board<R> = Arc<Mutex<R>>;

struct State {
    ready: AtomicUsize,
    running: AtomicUsize,
    changed: Notifier,
}

impl<R: Clone + Default + Send> Crew<R> {
    fn new(threads: usize, queues: usize) -> anyhow::Result<Crew<R>> {
        let notifiers = (0..threads).map(|_| Notifier::new()).collect::<Result<_, _>>()?;
        let state = State {
            ready: AtomicUsize::new(0),
            running: AtomicUsize::new(threads),
            changed: Notifier::new()?,
        };
        let boards = (0..queues).map(|_| Board::default()).collect();
        Ok(Crew { stop: Arc::default(), notifiers, boards, state: Arc::new(state) })
    }

    /// What was done with each queue when its thread last wrote it down: some 20 ms ago while it
    /// works, and up to date when it sleeps or has ended.
    pub(crate) fn reports(&self) -> Vec<R> {
        self.boards
            .iter()
            .map(|board| board.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }

    /// Whether all threads run.
    pub(crate) fn is_whole(&self) -> bool {
        self.state.running.load(Ordering::Acquire) == self.notifiers.len()
    }

    /// Wakes all threads, because there is something new for them.
    pub(crate) fn wake(&self) {
        self.notifiers.iter().for_each(Notifier::notify);
    }

    /// Waits until a signal comes (true), a thread ends, or time is up.
    pub(crate) fn wait(&self, signals: &Signals, time: Duration) -> anyhow::Result<bool> {
        Ok(signals.wait(&self.state.changed, time.into())? == Woken::Signal)
    }

    /// Waits until all threads have their queues; false when one of them ended, or a signal came.
    fn wait_ready(&self, signals: &Signals) -> anyhow::Result<bool> {
        while self.state.ready.load(Ordering::Acquire) < self.notifiers.len() {
            if !self.is_whole() || self.wait(signals, NAP)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

/// Counts a thread out, however it ends.
struct Ends<'a>(&'a State);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify();
    }
}

/// Runs the work that `make` makes for each queue. `watch` is called when all of them have begun;
/// when it returns, they end. The answer is what it said, and the last reports.
pub(crate) fn run<W, F, X>(
    args: &CrewArgs,
    make: F,
    watch: impl FnOnce(&Crew<W::Report>, &Signals) -> anyhow::Result<X>,
) -> anyhow::Result<Option<(X, Vec<W::Report>)>>
where
    W: Work,
    F: Fn(usize, &Port) -> anyhow::Result<W> + Sync,
{
    args.check()?;
    let signals = Signals::take()?;
    let queues = args.open()?;
    let crew = Crew::new(args.threads(), queues.len())?;
    let mut hands: Vec<Vec<(usize, Unwrapped)>> = (0..args.threads()).map(|_| Vec::new()).collect();
    for (index, queue) in queues.into_iter().enumerate() {
        hands[index % args.threads()].push((index, queue));
    }
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, queues) in hands.into_iter().enumerate() {
            let (crew, make) = (&crew, &make);
            let spawned = thread::Builder::new().name(format!("queue{index}")).spawn_scoped(
                scope,
                move || {
                    let _ends = Ends(&crew.state);
                    one_thread(args, crew, index, queues, make)
                },
            );
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    crew.stop();
                    return Err(error).context("cannot start a thread");
                }
            }
        }
        let watched = match crew.wait_ready(&signals) {
            Ok(true) => watch(&crew, &signals).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        crew.stop();
        let mut first_error = None;
        for thread in threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a thread panicked; this is a bug of clearway")));
            first_error = first_error.or(ended.err());
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(watched?.map(|watched| (watched, crew.reports()))),
        }
    })
}

/// One queue in its thread.
struct WorkerQueue<W> {
    /// Its number.
    index: usize,
    dev: Port,
    work: W,
}

impl<W: Work> WorkerQueue<W> {
    /// The ports that frames come from.
    fn ports(&self) -> impl Iterator<Item = &Port> {
        core::iter::once(&self.dev).chain(self.work.other_port())
    }

    /// When there is something to do without a frame that comes in.
    fn next_due(&self) -> Instant {
        self.ports().map(|port| port.next_deadline()).fold(self.work.next_due(), Instant::min)
    }
}

fn one_thread<W: Work>(
    args: &CrewArgs,
    crew: &Crew<W::Report>,
    index: usize,
    queues: Vec<(usize, Unwrapped)>,
    make: &(impl Fn(usize, &Port) -> anyhow::Result<W> + Sync),
) -> anyhow::Result<()> {
    if let Some(&core) = args.cores.as_ref().and_then(|cores| cores.list().get(index)) {
        cores::pin(core)?;
    }
    let pool = FramePool::new(PoolBudget::default());
    let worker_queue = |(index, queue): (usize, Unwrapped)| {
        let dev = queue.into_port(&pool)?;
        if dev.is_absent() {
            let (port, queues) = (clearway_ports::describe(&args.port), args.queues());
            return Err(anyhow!(
                "{port} has no queue {index}. Ask for fewer than {queues} queues, or make a port \
                 that has as many."
            ));
        }
        Ok(WorkerQueue { index, work: make(index, &dev)?, dev })
    };
    let mut worker_queues =
        queues.into_iter().map(worker_queue).collect::<anyhow::Result<Vec<_>>>()?;
    crew.state.ready.fetch_add(1, Ordering::AcqRel);
    crew.state.changed.notify();
    let ended = drive(args, crew, &crew.notifiers[index], &mut worker_queues);
    worker_queues.iter().for_each(|worker_queue| write_down(crew, worker_queue));
    ended
}

fn write_down<W: Work>(crew: &Crew<W::Report>, worker_queue: &WorkerQueue<W>) {
    *crew.boards[worker_queue.index].lock().unwrap_or_else(PoisonError::into_inner) =
        worker_queue.work.report(&worker_queue.dev);
}

fn drive<W: Work>(
    args: &CrewArgs,
    crew: &Crew<W::Report>,
    notifier: &Notifier,
    worker_queues: &mut [WorkerQueue<W>],
) -> anyhow::Result<()> {
    // On the only core, looking for frames would keep the peer from making them.
    let spin = if cores::available() < 2 && args.cores.is_none() { Duration::ZERO } else { SPIN };
    let (mut clock, mut burst) = (Clock::new(), Burst::new());
    let (mut worked_at, mut report_at) = (Instant::ZERO, Instant::ZERO);
    let mut idle_turns = 0u32;
    while !crew.stop.load(Ordering::Acquire) {
        let now = clock.read().now;
        let mut worked = false;
        for worker_queue in &mut *worker_queues {
            worked |= worker_queue.work.turn(now, &mut worker_queue.dev, &mut burst)?;
        }
        if now >= report_at {
            report_at = now + REPORT_EVERY;
            worker_queues.iter().for_each(|worker_queue| write_down(crew, worker_queue));
        }
        if worked {
            (worked_at, idle_turns) = (now, 0);
            continue;
        }
        idle_turns += 1;
        let dues = worker_queues.iter().map(WorkerQueue::next_due);
        let due = dues.min().unwrap_or(Instant::NEVER);
        let far = due.since(now) > SPIN;
        if args.poll || (far && now.since(worked_at) < spin) || (!far && due.is_set()) {
            // Whoever makes the frames that are waited for may need this very core.
            if idle_turns % 64 == 0 && !args.poll {
                thread::yield_now();
            }
            continue;
        }
        if worker_queues.iter().flat_map(WorkerQueue::ports).any(|port| port.must_poll()) {
            thread::yield_now();
            continue;
        }
        worker_queues.iter().for_each(|worker_queue| write_down(crew, worker_queue));
        // A sleep ends late rather than early, so the last stretch is not slept.
        sleep(worker_queues, notifier, due.since(now).min(NAP) - SPIN)?;
    }
    Ok(())
}

fn sleep<W: Work>(
    worker_queues: &[WorkerQueue<W>],
    notifier: &Notifier,
    time: Duration,
) -> anyhow::Result<()> {
    let mut fds = vec![PollFd::new(notifier.as_fd(), PollFlags::POLLIN)];
    let ports = worker_queues.iter().flat_map(WorkerQueue::ports);
    fds.extend(ports.filter_map(|port| Some(PollFd::new(port.wait_fd()?, PollFlags::POLLIN))));
    match ppoll(&mut fds, Some(TimeSpec::from_duration(time.into())), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    if fds[0].revents().is_some_and(|events| !events.is_empty()) {
        notifier.clear();
    }
    Ok(())
}
