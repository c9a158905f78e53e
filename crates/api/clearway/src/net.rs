//! A stack with ports and addresses, and the threads that run it.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_base::Duration;
use clearway_dev::{FramePool, PoolBudget, PortSpec};
use clearway_engine::{App, CoreReport, Cores, Engine, Memory, Mode, Seat, Stores, Team, cores};
use clearway_pkt::Iface;
use clearway_ports::{Unwrapped, Wrap};
use clearway_proto::{AddError, Config, NextHop, Stack, Table};
use clearway_wire::{Addr, Cidr};

use crate::drained::{Drained, Left, Patience};
use crate::error::{Error, system};

/// How long to look for more packets before sleeping, when there is more than one core.
const SPIN: Duration = Duration::from_micros(100);

/// A team and the seats for its cores.
type Manned<R> = (Arc<Team<R>>, Vec<Seat<R>>);

/// What a [`Net`] shall be. [`Builder::open`] makes it.
#[derive(Clone, Debug)]
pub struct Builder {
    ports: Vec<String>,
    addresses: Vec<(usize, String)>,
    gateways: Vec<String>,
    cores: Option<Cores>,
    connections: u32,
    mtu: Option<usize>,
    mode: Option<Mode>,
    config: Option<Config>,
}

/// A stack with ports and addresses for each of its cores, ready to run an application.
pub struct Net {
    // None when a core has been used up by a run.
    ports: Option<Vec<Vec<Unwrapped>>>,
    addresses: Vec<(Iface, Cidr)>,
    gateways: Vec<Addr>,
    builder: Builder,
    mode: Mode,
    stopper: Stopper,
}

/// Ends a [`Net`]'s run from any thread.
#[derive(Clone, Default)]
pub struct Stopper {
    state: Arc<Mutex<Stop>>,
}

#[derive(Default)]
struct Stop {
    stopped: bool,
    team: Option<Box<dyn Fn() + Send>>,
    wake: Option<Box<dyn Fn() + Send>>,
    drain: Patience,
}

impl Stopper {
    /// The run ends: connections are closed or reset, and [`Net::run`] returns. A run that has not
    /// begun ends as it begins.
    pub fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        state.team.iter().for_each(|stop| stop());
    }

    /// The run ends without breaking anything off: nothing new is taken from now on, idle
    /// connections are closed, and [`Net::run`] returns when the others have ended and their peers
    /// have acknowledged all of it, or after `patience` as [`Stopper::stop`] has it. A second call
    /// shortens or lengthens the patience of the first, counted from the first.
    pub fn drain(&self, patience: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.drain.set(patience);
        state.wake.iter().for_each(|wake| wake());
    }

    /// What the last drain cut off, after the run: connections that had an owner or bytes that were
    /// not acknowledged when its patience was over, or somebody called [`Stopper::stop`]. Empty when
    /// nothing was, and when nobody drained.
    pub fn left(&self) -> Vec<Left> {
        self.patience().left()
    }

    fn patience(&self) -> Patience {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).drain.clone()
    }

    fn is_for(&self, stop: impl Fn() + Send + 'static, wake: impl Fn() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            stop();
        }
        state.team = Some(Box::new(stop));
        state.wake = Some(Box::new(wake));
    }
}

impl Default for Builder {
    fn default() -> Builder {
        let (ports, addresses, gateways) = (Vec::new(), Vec::new(), Vec::new());
        Builder {
            ports,
            addresses,
            gateways,
            cores: None,
            connections: 65_536,
            mtu: None,
            mode: None,
            config: None,
        }
    }
}

impl Builder {
    /// One more port: `tap:NAME`, `tun:NAME`, `loop`, `pcap:FILE`.
    #[must_use]
    pub fn port(mut self, name: &str) -> Builder {
        self.ports.push(name.to_owned());
        self
    }

    /// One more address with its prefix length, IPv4 or IPv6, on the port that was named last.
    #[must_use]
    pub fn address(mut self, cidr: &str) -> Builder {
        self.addresses.push((self.ports.len(), cidr.to_owned()));
        self
    }

    /// The router for everything that is not on a link; one for IPv4 and one for IPv6.
    #[must_use]
    pub fn gateway(mut self, addr: &str) -> Builder {
        self.gateways.push(addr.to_owned());
        self
    }

    /// The cores to run on, one thread each, for [`Net::run_each`].
    #[must_use]
    pub fn cores(mut self, cores: Cores) -> Builder {
        self.cores = Some(cores);
        self
    }

    /// Connections that one core may have, 1 to 16,777,216; 65,536 otherwise.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Builder {
        self.connections = connections;
        self
    }

    /// The longest IP packet of the ports that name none themselves, in bytes.
    #[must_use]
    pub fn mtu(mut self, mtu: usize) -> Builder {
        self.mtu = Some(mtu);
        self
    }

    /// What to do while there is nothing to do; otherwise 100 µs of looking for more and then
    /// sleep, or sleep at once where there is one core only.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Builder {
        self.mode = Some(mode);
        self
    }

    /// Every bound and setting of the stack. [`Builder::connections`] does not count then, and the
    /// secret must come from the system's random source.
    #[must_use]
    pub fn config(mut self, config: Config) -> Builder {
        self.config = Some(config);
        self
    }

    /// Opens the ports.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a setting that makes no sense (no port, an address without a port,
    /// limits that no machine can have), [`Error::Port`] for a port that cannot be opened.
    pub fn open(self) -> Result<Net, Error> {
        let misuse = |what: String| Error::Misuse(what);
        let parse = |name: &String| name.parse::<PortSpec>().map_err(|why| misuse(why.to_string()));
        let specs = self.ports.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if specs.is_empty() {
            return Err(misuse("no port. Name one, such as tap:clearway0.".into()));
        }
        if let Some(mtu) = self.mtu.filter(|mtu| !(576..=65_535).contains(mtu)) {
            return Err(misuse(format!("an MTU is 576 to 65535 bytes, not {mtu}.")));
        }
        let limits = match &self.config {
            Some(config) => config.limits,
            None => config_for(self.connections, [0; 32]).limits,
        };
        limits.check().map_err(|why| misuse(format!("{why}.")))?;
        let address = |(after, text): &(usize, String)| match (after.checked_sub(1), text.parse()) {
            (Some(port), Ok(cidr)) => Ok((Iface(port as u16), cidr)),
            (None, _) => {
                Err(misuse(format!("{text} has no port. Name the port first, then its addresses.")))
            }
            (_, Err(why)) => Err(misuse(format!("{text}: {why}"))),
        };
        let addresses = self.addresses.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        let gateway =
            |text: &String| text.parse().map_err(|_| misuse(format!("{text} is no address")));
        let gateways = self.gateways.iter().map(gateway).collect::<Result<Vec<_>, _>>()?;
        let threads = self.cores.as_ref().map_or(1, Cores::count);
        let spinning = if cores::available() < 2 { Mode::Interrupt } else { Mode::Adaptive(SPIN) };
        let ports = clearway_ports::open(&specs, self.mtu, &Wrap::default(), threads)?;
        let mode = self.mode.unwrap_or(spinning);
        Ok(Net {
            ports: Some(ports),
            addresses,
            gateways,
            builder: self,
            mode,
            stopper: Stopper::default(),
        })
    }
}

impl Net {
    /// What it shall be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What ends its run, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs an application on this thread, until it is finished, [`Stopper`] ends it or
    /// something fails. A net runs once.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the net ran already, has several cores, or an address, a gateway or
    /// the application cannot be; [`Error::Port`] and [`Error::Engine`] for what fails underneath;
    /// [`Error::System`] when the system has no descriptors left.
    pub fn run<A: App<Stores>>(&mut self, app: A) -> Result<CoreReport<A::Report>, Error> {
        let mut ports = self.take_ports()?;
        let (Some(ports), None) = (ports.pop(), ports.pop()) else {
            return Err(Error::Misuse(
                "one application runs on one core. Use run_each for several cores.".into(),
            ));
        };
        let (team, mut seats) = self.team(1)?;
        if let Some(seat) = seats.pop() {
            self.one_core(seat, ports, app)?;
        }
        team.reports().pop().ok_or_else(|| Error::Misuse("a team of one has no report".into()))
    }

    /// Runs an application that `make` makes on each core, a thread each, until all are finished,
    /// [`Stopper::stop`] is called or one of them fails. A net runs once.
    ///
    /// # Errors
    /// As [`Net::run`], but that several cores are what it is for. The first error of any core.
    pub fn run_each<A, F>(&mut self, make: F) -> Result<Vec<CoreReport<A::Report>>, Error>
    where
        A: App<Stores>,
        F: Fn(usize) -> A + Sync,
    {
        let ports = self.take_ports()?;
        let (team, seats) = self.team(ports.len())?;
        let (this, make) = (&*self, &make);
        let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let run = |(seat, ports): (Seat<A::Report>, Vec<Unwrapped>)| {
                let team = Arc::clone(&team);
                scope.spawn(move || {
                    let app = make(seat.index());
                    let ended = this.one_core(seat, ports, app);
                    if ended.is_err() {
                        team.stop();
                    }
                    ended
                })
            };
            let threads: Vec<_> = seats.into_iter().zip(ports).map(run).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        results.into_iter().collect::<Result<(), Error>>()?;
        Ok(team.reports())
    }

    fn take_ports(&mut self) -> Result<Vec<Vec<Unwrapped>>, Error> {
        self.ports.take().ok_or_else(|| Error::Misuse("a net runs once. Open another one.".into()))
    }

    fn team<R: Clone + Default + Send + 'static>(&self, cores: usize) -> Result<Manned<R>, Error> {
        let (team, seats) = Team::new(cores).map_err(system("cannot make a notifier"))?;
        let team = Arc::new(team);
        let (stopped, woken) = (Arc::clone(&team), Arc::clone(&team));
        self.stopper.is_for(move || stopped.stop(), move || woken.wake());
        Ok((team, seats))
    }

    fn one_core<A: App<Stores>>(
        &self,
        seat: Seat<A::Report>,
        ports: Vec<Unwrapped>,
        app: A,
    ) -> Result<(), Error> {
        let core = self.builder.cores.as_ref().and_then(|cores| cores.list().get(seat.index()));
        if let Some(&core) = core {
            cores::pin(core).map_err(|why| Error::Misuse(why.to_string()))?;
        }
        let (stack, pool) = match &self.builder.config {
            Some(config) => stack_of(config.clone()),
            None => stack_for(self.builder.connections)?,
        };
        let ports =
            ports.into_iter().map(|port| port.into_port(&pool)).collect::<Result<Vec<_>, _>>()?;
        let app = Drained::new(app, self.stopper.patience());
        let mut engine = Engine::new(stack, ports, pool, app, self.mode, seat)?;
        let now = engine.time().now;
        for &(iface, cidr) in &self.addresses {
            let added = engine.stack().add_address(now, iface, cidr);
            added.map_err(|why| {
                Error::Misuse(format!("{cidr} cannot be an address here: {why:?}"))
            })?;
        }
        for &gateway in &self.gateways {
            let any = if gateway.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
            let via = match gateway.is_link_local() {
                true => NextHop::GatewayOn { iface: Iface(0), addr: gateway },
                false => NextHop::Gateway(gateway),
            };
            let added = engine.stack().add_route(Table(0), Cidr { addr: any, prefix_len: 0 }, via);
            added.map_err(|why| match why {
                AddError::BadGateway => Error::Misuse(format!(
                    "{gateway} cannot be a gateway: it is on no link of ours, or is ourselves. \
                     Name a router in the network of one of the addresses."
                )),
                why => Error::Misuse(format!("{gateway} cannot be a gateway: {why:?}")),
            })?;
        }
        Ok(engine.run()?)
    }
}

/// A stack for so many connections, with a secret of its own, and the buffers for its devices.
pub(crate) fn stack_for(connections: u32) -> Result<(Stack<Stores>, FramePool), Error> {
    let mut secret = [0; 32];
    let random =
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut secret));
    random.map_err(system("cannot read the system's random source"))?;
    Ok(stack_of(config_for(connections, secret)))
}

/// The configuration for so many connections.
pub(crate) fn config_for(connections: u32, secret: [u8; 32]) -> Config {
    let mut config = Config::new(secret);
    config.limits.connections = connections;
    config.limits.time_wait = connections.max(16_384);
    config
}

/// A stack of this configuration and the buffers for its devices.
pub(crate) fn stack_of(config: Config) -> (Stack<Stores>, FramePool) {
    let pool = FramePool::new(PoolBudget::default());
    let (rx, tx) = Memory::of(config.limits.connections).stores(&pool);
    (Stack::new(config, rx, tx), pool)
}

#[cfg(test)]
mod tests;
