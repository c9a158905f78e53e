//! The options that every command with a stack of its own takes, and what they make.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use clearway_base::{Duration, Instant};
use clearway_dev::{FaultSpec, FramePool, PoolBudget, PortSpec};
use clearway_engine::{Clock, Cores, Memory, Mode, Stores, cores};
use clearway_pkt::Iface;
use clearway_ports::{CaptureTo, PortError, Unwrapped, Wrap};
use clearway_proto::{AddError, Config, Congestion, Limits, NextHop, Stack, Table, WhenFull};
use clearway_wire::{Addr, Cidr};

use crate::error::WrongUse;

/// Ports, addresses and cores.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct NetArgs {
    /// A port of the stack: tap:NAME, tun:NAME, loop, pcap:FILE, dpdk:DEVICE or
    /// xdp:INTERFACE; may be repeated
    #[arg(long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<PortSpec>,

    /// An address of the stack with its prefix length, IPv4 or IPv6; may be repeated. @N puts it on
    /// the port of that number, counted from 0
    #[arg(short, long = "address", value_name = "ADDR/LEN[@N]")]
    pub(crate) addresses: Vec<Address>,

    /// The router for everything that is not on a link; one for IPv4 and one for IPv6
    #[arg(short, long = "gateway", value_name = "ADDR")]
    pub(crate) gateways: Vec<Addr>,

    /// Cores to run on, one thread each, such as 0 or 0,1 or 0-3 [default: one thread on any core]
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<Cores>,

    /// MTU of the ports, in bytes [default: what each interface has]
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

    /// Write all packets to this file (pcapng); several cores or ports write several files
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,

    /// Microseconds to look for more packets before sleeping, when they come that quickly [default:
    /// 100, or 0 with one core]
    #[arg(long, value_name = "US", conflicts_with = "poll")]
    pub(crate) spin: Option<u64>,

    /// Never sleep
    #[arg(long)]
    pub(crate) poll: bool,

    /// When every place for connections is taken: make-room (the idlest of the busiest source is
    /// reset), reset (the new one is), drop (its SYN is, and it tries again)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) when_full: Crowding,

    /// Congestion control of TCP
    #[arg(long, value_name = "ALGORITHM", value_enum, default_value_t)]
    pub(crate) congestion: Algorithm,

    /// Take an interface also when it carries the default route of this machine or the login that
    /// started this
    #[arg(long)]
    pub(crate) force: bool,
}

/// What becomes of a connection for which there is no place.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Crowding {
    /// The idlest connection of the busiest source makes room.
    #[default]
    MakeRoom,
    /// It is reset.
    Reset,
    /// Its SYN is dropped.
    Drop,
}

impl From<Crowding> for WhenFull {
    fn from(what: Crowding) -> WhenFull {
        match what {
            Crowding::MakeRoom => WhenFull::MakeRoom,
            Crowding::Reset => WhenFull::Reset,
            Crowding::Drop => WhenFull::Drop,
        }
    }
}

/// The congestion controls that there are.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Algorithm {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, 6582).
    Reno,
    /// BBRv3, with pacing.
    Bbr,
    /// BBR's first version, which Linux names bbr: takes no loss for a sign.
    Bbr1,
    /// Prague, for queues that mark early (L4S); CUBIC with a peer that knows no AccECN.
    Prague,
}

impl From<Algorithm> for Congestion {
    fn from(what: Algorithm) -> Congestion {
        match what {
            Algorithm::Cubic => Congestion::Cubic,
            Algorithm::Reno => Congestion::Reno,
            Algorithm::Bbr => Congestion::Bbr,
            Algorithm::Bbr1 => Congestion::Bbr1,
            Algorithm::Prague => Congestion::Prague,
        }
    }
}

/// An address on a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) cidr: Cidr,
    pub(crate) port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let (cidr, port) = text.split_once('@').unwrap_or((text, "0"));
        let cidr = cidr.parse::<Cidr>().map_err(|error| error.to_string())?;
        let port = port.parse().map_err(|_| format!("`{port}` is no number of a port"))?;
        Ok(Address { cidr, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cidr)
    }
}

/// How long to look for more packets: a round trip to a peer on the same machine with everything
/// that it does in between.
const SPIN: Duration = Duration::from_micros(100);

impl NetArgs {
    /// Threads to run.
    pub(crate) fn threads(&self) -> usize {
        self.cores.as_ref().map_or(1, Cores::count)
    }

    /// What the engine does when it is idle.
    pub(crate) fn mode(&self) -> Mode {
        match (self.poll, self.spin) {
            (true, _) => Mode::Polling,
            (false, Some(us)) => Mode::Adaptive(Duration::from_micros(us)),
            // On the only core, looking for packets would keep the peer from making them.
            (false, None) if cores::available() < 2 => Mode::Interrupt,
            (false, None) => Mode::Adaptive(SPIN),
        }
    }

    /// Complains about what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), WrongUse> {
        if self.ports.is_empty() {
            return Err(WrongUse("no port. Name one, such as --port tap:clearway0.".into()));
        }
        if self.addresses.is_empty() {
            return Err(WrongUse("no address. Give at least one, such as -a 10.0.0.2/24.".into()));
        }
        for address in &self.addresses {
            if usize::from(address.port) >= self.ports.len() {
                let (port, count) = (address.port, self.ports.len());
                return Err(WrongUse(format!(
                    "{address}@{port}: there is no port {port}, only {count}."
                )));
            }
        }
        Ok(())
    }

    /// Opens the ports, a list for each thread.
    pub(crate) fn open_ports(&self) -> anyhow::Result<Vec<Vec<Unwrapped>>> {
        let time = Clock::new().read();
        let unix_ns_at_zero = time.since_1970.as_nanos().saturating_sub(time.now.as_nanos());
        let pcap = self.pcap.clone().map(|path| CaptureTo { path, unix_ns_at_zero });
        let wrap = Wrap { fault: self.fault, fault_seed: self.fault_seed, pcap, force: self.force };
        clearway_ports::open(&self.ports, self.mtu, &wrap, self.threads()).map_err(|error| {
            match error {
                PortError::Misuse(sentence) => WrongUse(sentence).into(),
                other => other.into(),
            }
        })
    }

    /// A stack without interfaces, and the pool for its devices.
    pub(crate) fn stack(&self, connections: u32) -> anyhow::Result<(Stack<Stores>, FramePool)> {
        let limits =
            Limits { connections, time_wait: connections.max(16_384), ..Limits::default() };
        self.stack_with(|config| config.limits = limits, &Memory::of(connections))
    }

    /// The same with other settings and other memory.
    pub(crate) fn stack_with(
        &self,
        settings: impl FnOnce(&mut Config),
        memory: &Memory,
    ) -> anyhow::Result<(Stack<Stores>, FramePool)> {
        let mut config = Config::new(secret()?);
        settings(&mut config);
        config.tcp.when_full = self.when_full.into();
        config.tcp.defaults.congestion = self.congestion.into();
        config.limits.check().map_err(|why| WrongUse(format!("{why}.")))?;
        let pool = FramePool::new(PoolBudget::default());
        let (rx, tx) = memory.stores(&pool);
        Ok((Stack::new(config, rx, tx), pool))
    }

    /// Gives the stack its addresses and routes.
    pub(crate) fn configure(&self, now: Instant, stack: &mut Stack<Stores>) -> anyhow::Result<()> {
        for address in &self.addresses {
            stack
                .add_address(now, Iface(address.port), address.cidr)
                .map_err(|error| WrongUse(sentence(&address.to_string(), error)))?;
        }
        for gateway in &self.gateways {
            let any = if gateway.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
            let via = if gateway.is_link_local() {
                NextHop::GatewayOn { iface: Iface(0), addr: *gateway }
            } else {
                NextHop::Gateway(*gateway)
            };
            if let Some(everywhere) = Cidr::new(any, 0) {
                stack
                    .add_route(Table(0), everywhere, via)
                    .map_err(|error| WrongUse(sentence(&format!("gateway {gateway}"), error)))?;
            }
        }
        Ok(())
    }

    /// `http://` and so on: every address as a URL names it.
    pub(crate) fn urls(&self, port: u16) -> Vec<String> {
        let host = |addr: Addr| if addr.is_v4() { addr.to_string() } else { format!("[{addr}]") };
        self.addresses.iter().map(|a| format!("http://{}:{port}/", host(a.cidr.addr))).collect()
    }
}

/// Bytes that nobody can guess.
pub(crate) fn secret() -> anyhow::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let mut random =
        std::fs::File::open("/dev/urandom").context("cannot open the system's random source")?;
    std::io::Read::read_exact(&mut random, &mut secret)
        .context("cannot read the system's random source")?;
    Ok(secret)
}

fn sentence(what: &str, error: AddError) -> String {
    let why = match error {
        AddError::Full => "there are too many already",
        AddError::NoInterface | AddError::NoTable => "its port is not there",
        AddError::Exists => "it is there already. Give it once",
        AddError::BadAddress => {
            "this is not the address of one host on that link (a network's, broadcast or multicast \
             address). Use a host's address"
        }
        AddError::BadGateway => {
            "a router is another host on a link of ours. Give an address in one of the \
             networks of -a"
        }
        AddError::BadMtu => "IPv6 needs an MTU of at least 1280 bytes. Raise --mtu",
    };
    format!("{what}: {why}.")
}
