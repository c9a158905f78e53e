//! Two stacks joined by a cable in memory, in virtual time.

use clearway_base::{Duration, Instant};
use clearway_dev::{Facts, Fault, FaultSpec, PairConfig, pair};
use clearway_engine::{App, Engine, Mode, Stores, Team, Time};
use clearway_pkt::Iface;
use clearway_ports::Port;
use clearway_wire::Cidr;

use crate::Error;
use crate::error::system;
use crate::net::{config_for, stack_of};

/// Connections that each side may have.
const CONNECTIONS: u32 = 65_536;
/// What a turn takes when there is more to do at once.
const STEP: Duration = Duration::from_micros(10);
/// How long applications may take, in their own time, unless told otherwise.
const LIMIT: Duration = Duration::from_secs(600);

/// One side.
type Side<A> = Engine<Stores, Port, A>;

/// Two stacks with an application each, joined by a cable: for tests and examples. Time is virtual:
/// nothing waits for a clock, and the same applications with the same faults do the same again.
pub struct Pair<A: App<Stores>, B: App<Stores>> {
    left: Side<A>,
    right: Side<B>,
    limit: Duration,
}

impl<A: App<Stores>, B: App<Stores>> Pair<A, B> {
    /// Each side is an address with its prefix length, and an application. The addresses are of one
    /// subnet.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an address that is none, or that no host can have; [`Error::System`]
    /// when the system has no descriptors left.
    pub fn new(left: (&str, A), right: (&str, B)) -> Result<Pair<A, B>, Error> {
        let ((left, a), (right, b)) = (left, right);
        let cidr = |text: &str| {
            text.parse::<Cidr>().map_err(|why| Error::Misuse(format!("{text}: {why}")))
        };
        let (left, right) = (cidr(left)?, cidr(right)?);
        let (near, pool) = stack_of(config_for(CONNECTIONS, [1; 32]));
        let (far, _) = stack_of(config_for(CONNECTIONS, [2; 32]));
        let (here, there) = pair(PairConfig::default(), &pool);
        Ok(Pair {
            left: side(near, here, &pool, left, a)?,
            right: side(far, there, &pool, right, b)?,
            limit: LIMIT,
        })
    }

    /// Makes the cable bad: `loss=2%,reorder=5%,dup=1%,corrupt=1%,delay=10ms,rate=100M`, as
    /// `docs/ports.md` says. The same `seed` does the same again. Called before the first run.
    ///
    /// # Errors
    /// [`Error::Misuse`] with what is wrong in `spec`.
    pub fn fault(mut self, spec: &str, seed: u64) -> Result<Pair<A, B>, Error> {
        let spec: FaultSpec =
            spec.parse().map_err(|why| Error::Misuse(format!("{spec}: {why}")))?;
        // What leaves the left side and what comes to it: the whole cable.
        let pool = self.left.pool().clone();
        let end = self
            .left
            .port_mut(Iface(0))
            .ok_or_else(|| Error::Misuse("the left side has no port".into()))?;
        let nothing = Port::loopback(&pool, end.mtu());
        let inner = std::mem::replace(end, nothing);
        *end = Port::Other(Box::new(Fault::new(inner, spec, seed, pool)));
        Ok(self)
    }

    /// How long the applications may take, in their own time; 600 seconds otherwise.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Pair<A, B> {
        self.limit = limit;
        self
    }

    /// Runs until one of the applications is finished, and what is on its way then has come. The
    /// reports of both.
    ///
    /// # Errors
    /// [`Error::NotFinished`] after the time of [`Pair::limit`], [`Error::Misuse`] when an
    /// application could not begin, [`Error::Engine`] when one failed.
    pub fn run(&mut self) -> Result<(A::Report, B::Report), Error> {
        // Not zero, so that nothing rests on that.
        let begin = Instant::from_millis(1_000_000);
        let mut now = begin;
        let at = |now: Instant| Time {
            now,
            since_1970: Duration::from_secs(1_700_000_000) + now.since(begin),
        };
        begin_app(&mut self.left, at(now))?;
        begin_app(&mut self.right, at(now))?;
        let finished =
            |this: &mut Self| this.left.app().is_finished() || this.right.app().is_finished();
        // Once one is finished, the other one hears of it: that takes no longer than packets that
        // wait.
        loop {
            let (left, right) = (self.left.turn(at(now))?, self.right.turn(at(now))?);
            let busy = left.again || right.again || left.worked || right.worked;
            // Looked at before time goes on: what ends by a timer may leave nothing that is ever
            // due.
            if finished(self) && !busy {
                break;
            }
            let due = left.deadline.min(right.deadline);
            now = if busy || due <= now { now + STEP } else { due };
            if now.since(begin) > self.limit {
                return Err(Error::NotFinished(self.limit.as_secs()));
            }
        }
        Ok((end_app(&mut self.left, at(now)), end_app(&mut self.right, at(now))))
    }
}

fn side<A: App<Stores>>(
    stack: clearway_proto::Stack<Stores>,
    end: clearway_dev::PairEnd,
    pool: &clearway_dev::FramePool,
    cidr: Cidr,
    app: A,
) -> Result<Side<A>, Error> {
    let (_, mut seats) = Team::new(1).map_err(system("cannot make a notifier"))?;
    let seat = seats.pop().ok_or_else(|| Error::Misuse("a team of one has no seat".into()))?;
    let port = Port::Other(Box::new(end));
    let mut side = Engine::new(stack, vec![port], pool.clone(), app, Mode::Interrupt, seat)?;
    let added = side.stack().add_address(Instant::ZERO, Iface(0), cidr);
    added.map_err(|why| Error::Misuse(format!("{cidr} cannot be an address here: {why:?}")))?;
    Ok(side)
}

fn begin_app<A: App<Stores>>(side: &mut Side<A>, time: Time) -> Result<(), Error> {
    let (stack, app) = side.stack_and_app();
    app.start(time, stack).map_err(Error::Misuse)
}

fn end_app<A: App<Stores>>(side: &mut Side<A>, time: Time) -> A::Report {
    let (stack, app) = side.stack_and_app();
    let report = app.report();
    app.stop(time, stack);
    report
}

#[cfg(test)]
mod tests;
