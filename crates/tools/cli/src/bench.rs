//! `clearway bench`: a load generator and a responder, over our stack or over the kernel's sockets.

mod client;
mod server;
mod told;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Subcommand, ValueEnum};
use clearway_bench::{AddressRange, Pattern, Protocol};
use clearway_dev::{FaultSpec, PortSpec};
use clearway_engine::{Cores, Memory};
use clearway_wire::Addr;

use crate::error::WrongUse;
use crate::net::{Address, Algorithm, Crowding, NetArgs};

/// Measure requests and answers, over our stack or over the kernel's
///
/// Examples:
///   clearway bench server --port tap:clearway0 -a 10.0.0.2/24 -l 64
///   clearway bench client --kernel -s 10.0.0.2 -c 128 -l 64 -t 10
///   clearway bench client --kernel -s 10.0.0.2 -c 1000 -r 50k        at a fixed rate: latency from
///   when each request was due clearway bench client --kernel -s 10.0.0.2 -c 64 --close-after 1
///   connections per second clearway bench client --port dpdk:net_memif0,role=client -a
///   10.0.0.1-10.0.0.200/24 -s 10.0.1.2 -c 1000000 --active 10000 clearway bench client --kernel -s
///   10.0.0.2 -p 80 -m 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand, Debug)]
enum Side {
    /// Answer requests, of TCP and UDP
    Server(Box<server::Args>),
    /// Make requests, and tell how long their answers took
    Client(Box<client::Args>),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.side {
        Side::Server(args) => server::run(&args),
        Side::Client(args) => client::run(&args),
    }
}

/// Ports, addresses and cores; as for other commands, but `-g` means something else here, and an
/// address may be a range.
#[derive(clap::Args, Clone, Debug)]
struct Common {
    /// A port of the stack: tap:NAME, tun:NAME, loop, pcap:FILE, dpdk:DEVICE or
    /// xdp:INTERFACE; may be repeated
    #[arg(
        long = "port",
        value_name = "PORT",
        conflicts_with = "kernel",
        required_unless_present = "kernel"
    )]
    ports: Vec<PortSpec>,

    /// An address of ours with its prefix length, or a range such as 10.0.0.1-10.0.3.255/8; may be
    /// repeated. @N puts it on the port of that number
    #[arg(short, long = "address", value_name = "ADDR[-ADDR]/LEN[@N]")]
    addresses: Vec<AddressRange>,

    /// The router for everything that is not on a link; one for IPv4 and one for IPv6
    #[arg(long = "gateway", value_name = "ADDR", conflicts_with = "kernel")]
    gateways: Vec<Addr>,

    /// Use the kernel's sockets, with epoll
    #[arg(long)]
    kernel: bool,

    /// Cores to run on, one thread each, such as 0 or 0,1 or 0-3 [default: one thread on any core]
    #[arg(long, value_name = "LIST")]
    cores: Option<Cores>,

    /// MTU of the ports, in bytes [default: what each interface has]
    #[arg(long, value_name = "BYTES", conflicts_with = "kernel")]
    mtu: Option<usize>,

    /// Make the link bad, for tests:
    /// loss=2%,reorder=5%,dup=1%,corrupt=1%,delay=10ms,jitter=2ms,rate=100M,limit=100; each may
    /// have rx. or tx. before it
    #[arg(long, value_name = "SPEC", conflicts_with = "kernel")]
    fault: Option<FaultSpec>,

    /// The same faults again for the same number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    fault_seed: u64,

    /// Write all packets to this file (pcapng); several cores or ports write several files
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pcap: Option<PathBuf>,

    /// Microseconds to look for more packets before sleeping, when they come that quickly [default:
    /// 100, or 0 with one core]
    #[arg(long, value_name = "US", conflicts_with_all = ["poll", "kernel"])]
    spin: Option<u64>,

    /// Never sleep
    #[arg(long, conflicts_with = "kernel")]
    poll: bool,

    /// When every place for connections is taken: make-room (the idlest of the busiest source is
    /// reset), reset (the new one is), drop (its SYN is, and it tries again)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, conflicts_with = "kernel")]
    when_full: Crowding,

    /// Congestion control of TCP
    #[arg(long, value_name = "ALGORITHM", value_enum, default_value_t, conflicts_with = "kernel")]
    congestion: Algorithm,

    /// Take an interface also when it carries the default route of this machine or the login that
    /// started this
    #[arg(long, conflicts_with = "kernel")]
    force: bool,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,

    /// Count the processor's cycles per request by stage: driver, stack, timers, application
    #[arg(long, conflicts_with = "kernel")]
    stages: bool,
}

impl Common {
    /// As the other commands have it.
    fn net(&self) -> NetArgs {
        let addresses = self
            .addresses
            .iter()
            .flat_map(|range| range.cidrs().map(|cidr| Address { cidr, port: range.port }));
        NetArgs {
            ports: self.ports.clone(),
            addresses: addresses.collect(),
            gateways: self.gateways.clone(),
            cores: self.cores.clone(),
            mtu: self.mtu,
            fault: self.fault,
            fault_seed: self.fault_seed,
            pcap: self.pcap.clone(),
            spin: self.spin,
            poll: self.poll,
            force: self.force,
            when_full: self.when_full,
            congestion: self.congestion,
        }
    }

    fn address_count(&self) -> usize {
        self.addresses.iter().map(|range| range.count() as usize).sum()
    }

    /// Places for addresses that one stack needs.
    fn address_places(&self) -> anyhow::Result<u16> {
        let most = clearway_bench::source::MAX_ADDRESSES as usize;
        match self.address_count() {
            count if count <= most => Ok(count as u16 + 64),
            count => {
                Err(WrongUse(format!("{count} addresses are too many. Give {most} at most."))
                    .into())
            }
        }
    }

    fn over(&self) -> &'static str {
        if self.kernel { "kernel" } else { "clearway" }
    }

    fn places(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(clearway_ports::describe).collect();
        if self.kernel { "the kernel's sockets".into() } else { ports.join(" ") }
    }
}

/// `-g`, by number or by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum PatternArg {
    /// Each request is answered
    #[value(name = "ping-pong", alias = "1")]
    PingPong,
    /// The client sends, and nobody answers
    #[value(name = "burst", alias = "2")]
    Burst,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Pattern {
        match pattern {
            PatternArg::PingPong => Pattern::PingPong,
            PatternArg::Burst => Pattern::Burst,
        }
    }
}

/// `-n`, by number or by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ProtocolArg {
    /// Connections
    #[value(name = "tcp", alias = "6")]
    Tcp,
    /// Datagrams
    #[value(name = "udp", alias = "17")]
    Udp,
}

impl From<ProtocolArg> for Protocol {
    fn from(protocol: ProtocolArg) -> Protocol {
        match protocol {
            ProtocolArg::Tcp => Protocol::Tcp,
            ProtocolArg::Udp => Protocol::Udp,
        }
    }
}

impl fmt::Display for ProtocolArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == ProtocolArg::Tcp { "tcp" } else { "udp" })
    }
}

/// Requests per second such as `500`, `20k` or `1.5M`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
            _ => (text, 1.0),
        };
        let rate = digits.parse::<f64>().ok().map(|number| number * unit);
        let rate = rate.filter(|rate| (0.001..=1e9).contains(rate));
        rate.map(Rate).ok_or_else(|| {
            format!("`{text}` is no rate: write requests per second such as 500, 20k or 1.5M")
        })
    }
}

/// The longest message, in bytes.
const MAX_MESSAGE: u64 = 16 << 20;

/// What `-m` says, or `-l` bytes of something.
fn message(text: Option<&str>, length: Option<u64>) -> anyhow::Result<Vec<u8>> {
    let message = match text {
        Some(text) => clearway_bench::text::unescape(text).map_err(WrongUse)?,
        None => {
            let len = length.unwrap_or(64);
            if len > MAX_MESSAGE {
                return Err(
                    WrongUse("a message is at most 16M long. Give a smaller -l.".into()).into()
                );
            }
            clearway_bench::text::filler(len as usize)
        }
    };
    if message.is_empty() {
        return Err(
            WrongUse("a message has at least one byte. Give another -m or -l.".into()).into()
        );
    }
    Ok(message)
}

/// Bytes of send queue in all, at least and at most. Pages that were never used cost nothing.
const TX_LEAST: u64 = 64 << 20;
const TX_MOST: u64 = 8 << 30;

/// Memory for so many connections that have so many bytes under way each: a queue that holds
/// anything takes whole chunks.
fn memory(connections: u32, bytes: u64, limit: u64) -> Memory {
    let chunk_len = bytes.next_power_of_two().clamp(256, 4_096);
    let wanted = u64::from(connections) * (bytes.div_ceil(chunk_len) + 1) * chunk_len;
    let send_chunks = (wanted.clamp(TX_LEAST, TX_MOST) / chunk_len) as u32;
    let send_limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Memory { send_chunks, send_chunk_len: chunk_len as u32, send_limit, ..Memory::of(connections) }
}

#[cfg(test)]
mod tests;
