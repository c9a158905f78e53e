//! Running one service on every core until somebody says stop.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clearway_dev::{Facts, FramePool};
use clearway_engine::{
    App, Clock, CoreReport, Engine, Mode, NoProbe, Probe, Seat, Service, Source, StageProbe,
    Stores, Talks, Team, cores,
};
use clearway_ports::Unwrapped;
use clearway_proto::Stack;

use crate::net::NetArgs;
use crate::signals::{Signals, Woken};

/// What the watcher is told about, and when.
pub(crate) trait Watch<R> {
    /// All ports are open; packets are taken from now on.
    fn ready(&mut self) -> anyhow::Result<()>;
    /// About a second has passed since the last call, or since the start; `seconds` is how long
    /// exactly.
    fn second(&mut self, seconds: f64, reports: &[CoreReport<R>]) -> anyhow::Result<()>;
    /// Everything has ended after `seconds`.
    fn summary(&mut self, seconds: f64, reports: &[CoreReport<R>]) -> anyhow::Result<()>;
}

/// How to run.
pub(crate) struct Plan<'a> {
    pub(crate) net: &'a NetArgs,
    pub(crate) source: Source,
    /// Conversations that one core may have at a time.
    pub(crate) connections: u32,
    /// When to stop by itself.
    pub(crate) duration: Option<Duration>,
    /// Whether cycles are counted by stage.
    pub(crate) stages: bool,
}

/// Runs a service made by `make` on every core.
pub(crate) fn run<S, F, W>(plan: &Plan<'_>, make: F, watch: &mut W) -> anyhow::Result<()>
where
    S: Service,
    F: Fn() -> anyhow::Result<S> + Sync,
    W: Watch<S::Report>,
{
    let make = |_| {
        let (stack, pool) = plan.net.stack(plan.connections)?;
        Ok((stack, pool, Talks::new(make()?, plan.source, plan.connections)))
    };
    let asks = matches!(plan.source, Source::Connect(..));
    run_apps(plan.net, asks, plan.duration, plan.stages, make, watch)
}

/// Runs an application on every core, with a stack and a pool that `make` makes for the core of
/// that number. `asks` says whether it is the one that connects, `stages` whether its cycles are
/// counted.
pub(crate) fn run_apps<A, F, W>(
    net: &NetArgs,
    asks: bool,
    duration: Option<Duration>,
    stages: bool,
    make: F,
    watch: &mut W,
) -> anyhow::Result<()>
where
    A: App<Stores>,
    F: Fn(usize) -> anyhow::Result<(Stack<Stores>, FramePool, A)> + Sync,
    W: Watch<A::Report>,
{
    net.check()?;
    let signals = Signals::take()?;
    let ports = Mutex::new(net.open_ports()?.into_iter().map(Some).collect::<Vec<_>>());
    // Asked before any thread is bound to one core, because it depends on how many there are.
    let mode = net.mode();
    let work = |seat: Seat<A::Report>| {
        let mine = ports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(seat.index())
            .and_then(Option::take);
        let mine = mine.unwrap_or_default();
        if stages {
            one_core(net, asks, seat, mine, mode, &make, StageProbe::new())
        } else {
            one_core(net, asks, seat, mine, mode, &make, NoProbe)
        }
    };
    run_threads(net, duration, &signals, work, watch)
}

/// Runs `work` in a thread for each core, bound to it.
pub(crate) fn run_threads<R, F, W>(
    net: &NetArgs,
    duration: Option<Duration>,
    signals: &Signals,
    work: F,
    watch: &mut W,
) -> anyhow::Result<()>
where
    R: Clone + Default + Send + 'static,
    F: Fn(Seat<R>) -> anyhow::Result<()> + Sync,
    W: Watch<R>,
{
    let (team, seats) = Team::new(net.threads())?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for seat in seats {
            let index = seat.index();
            let work = &work;
            let spawned = thread::Builder::new().name(format!("core{index}")).spawn_scoped(
                scope,
                move || {
                    pin(net, index)?;
                    work(seat)
                },
            );
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    team.stop();
                    return Err(error).context("cannot start a thread");
                }
            }
        }
        let watched = watch_team(net.threads(), duration, &team, signals, watch);
        team.stop();
        let mut first_error = None;
        for thread in threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a core panicked; this is a bug of clearway")));
            first_error = first_error.or(ended.err());
        }
        match first_error {
            Some(error) => Err(error),
            None => {
                let seconds = watched?;
                watch.summary(seconds, &team.reports())
            }
        }
    })
}

fn pin(net: &NetArgs, index: usize) -> anyhow::Result<()> {
    if let Some(&core) = net.cores.as_ref().and_then(|cores| cores.list().get(index)) {
        cores::pin(core)?;
    }
    Ok(())
}

/// Who connects waits so long for the other ends of its ports. A peer that looks for us now and
/// then, as the connecting side of memif and vhost-user does, may find us later than an address is
/// asked for in vain. Behind it, what happens is told as ever: the host is unreachable.
const LINK_TIME: Duration = Duration::from_secs(10);

fn await_links<R: Clone + Default>(ports: &[impl Facts], seat: &Seat<R>) {
    let began = Instant::now();
    let mut is_told = false;
    while !ports.iter().all(Facts::link_up) && !seat.is_stopped() && began.elapsed() < LINK_TIME {
        if !is_told && began.elapsed() > Duration::from_secs(1) {
            eprintln!("clearway: waiting for the other end of the port, up to {LINK_TIME:?}");
            is_told = true;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn one_core<A: App<Stores>, P: Probe>(
    net: &NetArgs,
    asks: bool,
    seat: Seat<A::Report>,
    ports: Vec<Unwrapped>,
    mode: Mode,
    make: &(impl Fn(usize) -> anyhow::Result<(Stack<Stores>, FramePool, A)> + Sync),
    probe: P,
) -> anyhow::Result<()> {
    let (stack, pool, app) = make(seat.index())?;
    let devs =
        ports.into_iter().map(|port| port.into_port(&pool)).collect::<Result<Vec<_>, _>>()?;
    if asks {
        await_links(&devs, &seat);
    }
    let mut engine = Engine::with_probe(stack, devs, pool, app, mode, seat, probe)?;
    engine.set_splits_bursts(!asks);
    let now = engine.time().now;
    net.configure(now, engine.stack())?;
    engine.run()?;
    Ok(())
}

/// Answers with the seconds that it took.
fn watch_team<R: Clone + Default + Send + 'static>(
    threads: usize,
    duration: Option<Duration>,
    team: &Team<R>,
    signals: &Signals,
    watch: &mut impl Watch<R>,
) -> anyhow::Result<f64> {
    let mut clock = Clock::new();
    let started = clock.read().now;
    let end = duration.map(|duration| started + duration.into());
    watch.ready()?;
    let mut last = started;
    while team.running() == threads {
        let now = clock.read().now;
        if end.is_some_and(|end| now >= end) {
            break;
        }
        let second = last + clearway_base::Duration::from_secs(1);
        if now >= second {
            watch.second(now.since(last).as_nanos() as f64 / 1e9, &team.reports())?;
            last = now;
            continue;
        }
        let until = end.map_or(second, |end| end.min(second));
        if signals.wait(team.changed(), until.since(now).into())? == Woken::Signal {
            break;
        }
    }
    Ok(clock.read().now.since(started).as_nanos() as f64 / 1e9)
}
