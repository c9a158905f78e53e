//! `clearway bulk`: one-way transfers over our stack or over the kernel's, with checks of what
//! arrived.

mod talk;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use clearway_engine::{CoreReport, Source, cores};
use clearway_wire::{Addr, Endpoint};
use serde_json::json;

use crate::error::WrongUse;
use crate::figures::{self, Below, Form, Size, gbit};
use crate::kernel;
use crate::net::NetArgs;
use crate::team::{self, Plan, Watch};
use talk::{Amount, Bulk, Direction, Order, Report, Role};

/// Measure one-way transfers, over our stack or over the kernel's
///
/// Examples:
///   clearway bulk server --port tap:clearway0 -a 10.0.0.2/24
///   clearway bulk client --kernel -s 10.0.0.2 --bytes 1G --sha256
///   clearway bulk client --kernel -s 10.0.0.2 --time 10 --down --json
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand, Debug)]
enum Side {
    /// Wait for clients
    Server(Common),
    /// Connect, send or receive, and say how it went
    Client {
        #[command(flatten)]
        common: Common,

        /// The server's address
        #[arg(short, long, value_name = "ADDR")]
        server: Addr,

        /// The server sends, instead of the client
        #[arg(long)]
        down: bool,

        /// Send so many bytes, such as 1G
        #[arg(long, value_name = "BYTES", conflicts_with = "time")]
        bytes: Option<Size>,

        /// Send for so many seconds [default: 10]
        #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
        time: Option<Duration>,

        /// Send a sequence of numbers instead of a text, and compare its SHA-256 with that of what
        /// arrived
        #[arg(long)]
        sha256: bool,

        /// Streams at the same time
        #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1,
            value_parser = clap::value_parser!(u32).range(1..=1024))]
        streams: u32,
    },
}

#[derive(clap::Args, Debug)]
struct Common {
    #[command(flatten)]
    net: NetArgs,

    /// The server's TCP port
    #[arg(short = 'p', long = "tcp-port", value_name = "PORT", default_value_t = 5201)]
    tcp_port: u16,

    /// Use the kernel's sockets, on one thread
    #[arg(long, conflicts_with_all = ["ports", "gateways", "fault", "pcap", "mtu", "spin", "poll",
        "congestion"])]
    kernel: bool,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
    duration: Option<Duration>,

    /// Print results as JSON, an object per line
    #[arg(long)]
    json: bool,
}

/// Connections that a server takes at a time.
const PLACES: u32 = 1_024;

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.side {
        Side::Server(common) => serve(&common),
        Side::Client { common, server, down, bytes, time, sha256, streams } => {
            let amount = match (bytes, time) {
                (Some(Size(bytes)), _) => Amount::Bytes(bytes),
                (None, time) => {
                    let time = time.unwrap_or(Duration::from_secs(10));
                    Amount::Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
                }
            };
            let direction = if down { Direction::Down } else { Direction::Up };
            let order = Order { direction, amount, seed: sha256.then_some(1) };
            ask(&common, Endpoint::new(server, common.tcp_port), order, streams)
        }
    }
}

fn serve(common: &Common) -> anyhow::Result<()> {
    let mut watch = Serving { common, form: Form::choose(common.json), last: (0, 0), told: 0 };
    if common.kernel {
        pin(common)?;
        let addresses: Vec<SocketAddr> = if common.net.addresses.is_empty() {
            vec![SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), common.tcp_port)]
        } else {
            common
                .net
                .addresses
                .iter()
                .map(|a| SocketAddr::new(a.cidr.addr.into(), common.tcp_port))
                .collect()
        };
        let source = kernel::Source::Listen(&addresses);
        return kernel::run(Bulk::new(Role::Server), source, PLACES, common.duration, &mut watch);
    }
    let source = Source::Listen(common.tcp_port);
    let plan = Plan {
        net: &common.net,
        source,
        connections: PLACES,
        duration: common.duration,
        stages: false,
    };
    team::run(&plan, || Ok(Bulk::new(Role::Server)), &mut watch)
}

fn ask(common: &Common, server: Endpoint, order: Order, streams: u32) -> anyhow::Result<()> {
    if common.net.threads() > 1 {
        return Err(WrongUse(
            "a client runs on one core. Give --cores one core, and -P for several streams.".into(),
        )
        .into());
    }
    let role = Role::Client(order, streams);
    let mut watch = Asking { common, order, streams, form: Form::choose(common.json), error: None };
    if common.kernel {
        pin(common)?;
        let source = kernel::Source::Connect(server.into(), streams);
        kernel::run(Bulk::new(role), source, streams, common.duration, &mut watch)?;
    } else {
        let source = Source::Connect(server, streams);
        let plan = Plan {
            net: &common.net,
            source,
            connections: streams.max(16),
            duration: common.duration,
            stages: false,
        };
        team::run(&plan, || Ok(Bulk::new(role)), &mut watch)?;
    }
    match watch.error {
        Some(error) => bail!("{error}"),
        None => Ok(()),
    }
}

fn pin(common: &Common) -> anyhow::Result<()> {
    match common.net.cores.as_ref().map(|cores| cores.list()) {
        None => Ok(()),
        Some([core]) => Ok(cores::pin(*core)?),
        Some(_) => Err(WrongUse(
            "over the kernel's sockets one core is used. Give --cores one core.".into(),
        )
        .into()),
    }
}

fn over(common: &Common) -> &'static str {
    if common.kernel { "kernel" } else { "clearway" }
}

struct Serving<'a> {
    common: &'a Common,
    form: Form,
    last: (u64, u64),
    told: u64,
}

impl Watch<Report> for Serving<'_> {
    fn ready(&mut self) -> anyhow::Result<()> {
        let addresses: Vec<String> =
            self.common.net.addresses.iter().map(ToString::to_string).collect();
        if self.form == Form::Json {
            return figures::json(
                &json!({ "event": "ready", "over": over(self.common), "addresses": addresses,
                    "tcp_port": self.common.tcp_port }),
            );
        }
        let place =
            if addresses.is_empty() { "every address".to_string() } else { addresses.join(" ") };
        Ok(figures::line(&format!(
            "Waiting for clients at {place}, port {}, over {}",
            self.common.tcp_port,
            over(self.common)
        ))?)
    }

    fn second(&mut self, seconds: f64, reports: &[CoreReport<Report>]) -> anyhow::Result<()> {
        let sent: u64 = reports.iter().map(|r| r.app.sent).sum();
        let received: u64 = reports.iter().map(|r| r.app.received).sum();
        let before = std::mem::replace(&mut self.last, (sent, received));
        let (tx, rx) = (gbit(sent - before.0, seconds), gbit(received - before.1, seconds));
        let busy = sent + received > before.0 + before.1;
        match self.form {
            Form::Live if busy => Ok(figures::line(&format!("in {rx:>7.3} out {tx:>7.3} Gbit/s"))?),
            Form::Json if busy => figures::json(
                &json!({ "event": "second", "rx_gbit_per_s": rx, "tx_gbit_per_s": tx }),
            ),
            _ => Ok(()),
        }
    }

    fn summary(&mut self, seconds: f64, reports: &[CoreReport<Report>]) -> anyhow::Result<()> {
        self.told += 1;
        let sent: u64 = reports.iter().map(|r| r.app.sent).sum();
        let received: u64 = reports.iter().map(|r| r.app.received).sum();
        let below = Below::of(reports);
        if self.form == Form::Json {
            return figures::json(&json!({
                "event": "summary", "seconds": seconds, "sent": sent, "received": received,
                    "below": below,
                "drops_by_reason": Below::reasons(reports),
            }));
        }
        Ok(figures::line(&format!(
            "\nsent {sent} bytes, received {received} bytes in {seconds:.1} s; {} segments sent \
             again, {} packets dropped",
            below.retransmits, below.drops
        ))?)
    }
}

struct Asking<'a> {
    common: &'a Common,
    order: Order,
    streams: u32,
    form: Form,
    error: Option<String>,
}

impl Watch<Report> for Asking<'_> {
    fn ready(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn second(&mut self, _seconds: f64, _reports: &[CoreReport<Report>]) -> anyhow::Result<()> {
        Ok(())
    }

    fn summary(&mut self, _seconds: f64, reports: &[CoreReport<Report>]) -> anyhow::Result<()> {
        let outcomes: Vec<_> = reports.iter().flat_map(|report| &report.app.outcomes).collect();
        let bytes: u64 = outcomes.iter().map(|o| o.receipt.bytes).sum();
        let longest = outcomes.iter().map(|o| o.seconds).fold(0.0, f64::max);
        self.error = outcomes.iter().find_map(|o| o.error.clone());
        if outcomes.len() < self.streams as usize && self.error.is_none() {
            self.error = Some(format!("{} of {} streams ended", outcomes.len(), self.streams));
        }
        let mut verified = None;
        if let (Some(seed), None) = (self.order.seed, &self.error) {
            let right = outcomes.iter().all(|o| {
                o.receipt.sha256.as_ref() == Some(&talk::digest_of(seed, o.receipt.bytes))
            });
            verified = Some(right);
            if !right {
                self.error = Some("what arrived is not what was sent: the SHA-256 differ".into());
            }
        }
        let below = Below::of(reports);
        let direction = if self.order.direction == Direction::Up { "up" } else { "down" };
        let sha256 = outcomes.iter().find_map(|o| o.receipt.sha256.clone());
        if self.form == Form::Json {
            return figures::json(&json!({
                "event": "result", "over": over(self.common), "direction": direction,
                    "streams": self.streams, "bytes": bytes,
                "seconds": longest, "gbit_per_s": gbit(bytes, longest), "sha256": sha256,
                    "verified": verified,
                "error": self.error, "below": below, "drops_by_reason": Below::reasons(reports),
            }));
        }
        let checked = match (verified, sha256) {
            (Some(true), Some(sha256)) => format!(", SHA-256 {sha256} on both sides"),
            _ => String::new(),
        };
        Ok(figures::line(&format!(
            "{direction}: {bytes} bytes in {longest:.3} s, {:.3} Gbit/s{checked}",
            gbit(bytes, longest)
        ))?)
    }
}
