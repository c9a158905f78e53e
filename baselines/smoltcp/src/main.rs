//! Answers requests with smoltcp over Clearway's ports: the requests of `clearway bench client`,
//! with the arguments of `clearway bench server`.

mod link;
mod server;
mod told;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use clearway_bench::{Framing, Pattern, text};
use clearway_dev::{FramePool, PoolBudget, PortSpec};
use clearway_engine::{Cores, cores};
use clearway_ports::Wrap;
use clearway_wire::{Addr, Cidr};

use crate::link::Link;
use crate::server::{Plan, Server};

/// Answer requests with smoltcp over a port of Clearway's, as `clearway bench server` does with its
/// own stack.
#[derive(Parser, Debug)]
#[command(name = "smoltcp", version = told::VERSION)]
struct Args {
    /// The port of the stack: tap:NAME, tun:NAME or dpdk:DEVICE
    #[arg(long = "port", value_name = "PORT")]
    port: PortSpec,

    /// An address of the stack with its prefix length, IPv4 or IPv6; up to eight
    #[arg(short, long = "address", value_name = "ADDR/LEN", required = true)]
    addresses: Vec<Cidr>,

    /// The router for everything that is not on a link; one for IPv4 and one for IPv6
    #[arg(long = "gateway", value_name = "ADDR")]
    gateways: Vec<Addr>,

    /// The port to listen on, for TCP and UDP, on every address
    #[arg(short = 'p', long = "server-port", value_name = "PORT", default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..))]
    server_port: u16,

    /// Answer with so many bytes; requests have as many unless --request says otherwise [default:
    /// 64]
    #[arg(short, long, value_name = "BYTES", conflicts_with = "message", value_parser = bytes)]
    length: Option<u64>,

    /// Answer with this text; \r \n \t \0 \\ and \xNN stand for bytes
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Where a request ends: after so many BYTES; with an empty line (http); or whatever arrives
    /// together is one (any)
    #[arg(long, value_name = "BYTES|http|any")]
    request: Option<String>,

    /// Answer each request, or only count: ping-pong (or 1), burst (or 2)
    #[arg(short = 'g', long, value_name = "PATTERN", default_value = "ping-pong")]
    pattern: PatternArg,

    /// Core to run on [default: any]
    #[arg(long, value_name = "CORE")]
    cores: Option<Cores>,

    /// Connections at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    connections: u32,

    /// Stop after so many seconds
    #[arg(short = 't', long = "time", value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,

    /// Never sleep
    #[arg(long)]
    poll: bool,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum PatternArg {
    #[value(name = "ping-pong", alias = "1")]
    PingPong,
    #[value(name = "burst", alias = "2")]
    Burst,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let duration = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    duration.ok_or_else(|| format!("`{text}` is no number of seconds"))
}

/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 16 << 20;

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number
        .filter(|number| (1..=MAX_ANSWER).contains(number))
        .ok_or_else(|| format!("`{text}` is no number of bytes from 1 to 16M, such as 64 or 4K"))
}

/// A command line that cannot be meant; exit code 2.
struct WrongUse(String);

impl Args {
    fn plan(&self) -> Result<Plan, WrongUse> {
        let answer = match &self.message {
            Some(text) => text::unescape(text).map_err(WrongUse)?,
            None => text::filler(self.length.unwrap_or(64) as usize),
        };
        if answer.is_empty() {
            return Err(WrongUse("a message has at least one byte. Give another -m.".into()));
        }
        let requests = match self.request.as_deref() {
            Some("http") => Framing::HttpRequest,
            Some("any") => Framing::Any,
            Some(text) => Framing::Fixed(bytes(text).map_err(WrongUse)? as u32),
            None if text::is_http_answer(&answer) => Framing::HttpRequest,
            None if self.message.is_some() => Framing::Any,
            None => Framing::Fixed(answer.len() as u32),
        };
        let pattern = match self.pattern {
            PatternArg::PingPong => Pattern::PingPong,
            PatternArg::Burst => Pattern::Burst,
        };
        Ok(Plan {
            port: self.server_port,
            answer,
            requests,
            pattern,
            connections: self.connections as usize,
        })
    }

    fn check(&self) -> Result<(), WrongUse> {
        if self.cores.as_ref().is_some_and(|cores| cores.count() > 1) {
            return Err(WrongUse(
                "an interface of smoltcp's belongs to one thread. Give --cores one core.".into(),
            ));
        }
        if self.addresses.len() > smoltcp::config::IFACE_MAX_ADDR_COUNT {
            let most = smoltcp::config::IFACE_MAX_ADDR_COUNT;
            return Err(WrongUse(format!(
                "smoltcp is built for {most} addresses here. Give fewer -a."
            )));
        }
        Ok(())
    }
}

fn run(args: &Args, plan: Plan) -> anyhow::Result<()> {
    let signals = told::Signals::take()?;
    if let Some(core) = args.cores.as_ref().and_then(|cores| cores.list().first()) {
        cores::pin(*core)?;
    }
    let ports = clearway_ports::open(std::slice::from_ref(&args.port), None, &Wrap::default(), 1)?;
    let pool = FramePool::new(PoolBudget::default());
    let Some(port) = ports.into_iter().flatten().next() else {
        anyhow::bail!("{} has no queue", args.port)
    };
    let mut server =
        Server::new(Link::new(port.into_port(&pool)?), plan, &args.addresses, &args.gateways)?;
    told::ready(args)?;
    server.serve(&signals, args.time, args.poll)?;
    told::summary(args, server.report())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = match args.check().and_then(|()| args.plan()) {
        Ok(plan) => plan,
        Err(WrongUse(sentence)) => {
            eprintln!("smoltcp: {sentence}");
            return ExitCode::from(2);
        }
    };
    match run(&args, plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smoltcp: {error:#}");
            ExitCode::FAILURE
        }
    }
}
