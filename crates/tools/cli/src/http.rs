//! `clearway http`: an HTTP server over our stack, or the same server over the kernel's sockets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clearway_engine::{CoreReport, Source};
use clearway_http::{Config, Server, Stats, Timeouts};
use serde_json::json;

use crate::error::WrongUse;
use crate::figures::{self, Below, Form, Size, gbit, per_second};
use crate::kernel;
use crate::net::NetArgs;
use crate::stages::Budget;
use crate::team::{self, Plan, Watch};

/// Serve HTTP/1.1 over a port of our own
///
/// Examples:
///   clearway http --port tap:clearway0 -a 10.0.0.2/24 -a 2001:db8::2/64 -l 64
///   clearway http --port tap:clearway0 -a 10.0.0.2/24 -g 10.0.0.1 --root /srv/www --cores 0,1
///   clearway http --kernel -p 8080 -l 64       the same server over the kernel's sockets
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    net: NetArgs,

    /// TCP port to listen on, on every address
    #[arg(short = 'p', long = "tcp-port", value_name = "PORT", default_value_t = 80)]
    tcp_port: u16,

    /// Answer every path with a text of this length, such as 64, 16k or 1M
    #[arg(short, long, value_name = "BYTES", default_value = "64", conflicts_with = "root")]
    length: Size,

    /// Serve the files below this folder
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// For tests of transfers: PUT and POST answer with length and SHA-256 of the body, and GET
    /// /random/BYTES?seed=NUMBER with that many bytes that the seed decides
    #[arg(long)]
    sink: bool,

    /// Connections that one core may have at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536,
        value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    connections: u32,

    /// Seconds that a request's head may take from its first byte to its last
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = figures::seconds)]
    head_timeout: Duration,

    /// Seconds that a connection may be idle between requests
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = figures::seconds)]
    idle_timeout: Duration,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
    duration: Option<Duration>,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,

    /// Count the processor's cycles per request by stage: driver, stack, timers, application
    #[arg(long, conflicts_with = "kernel")]
    stages: bool,

    /// Serve over the kernel's sockets with epoll, on one thread: what the stack is compared with
    #[arg(long, conflicts_with_all = ["ports", "gateways", "fault", "pcap", "mtu", "spin", "poll",
        "congestion"])]
    kernel: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let config = Config {
        page_len: args.length.0,
        root: args.root.clone(),
        sink: args.sink,
        timeouts: Timeouts {
            head: args.head_timeout.into(),
            idle: args.idle_timeout.into(),
            ..Timeouts::default()
        },
    };
    let make = || {
        Server::new(config.clone()).with_context(|| match &args.root {
            Some(root) => format!(
                "cannot serve {}. Name a folder that exists and may be read",
                root.display()
            ),
            None => "cannot make the server".into(),
        })
    };
    // Tells of a wrong folder before anything is opened.
    make()?;
    let mut watch = Figures {
        args: &args,
        form: Form::choose(args.json),
        last: (Stats::default(), Below::default()),
        budget: Budget::default(),
    };
    if args.kernel {
        if args.net.threads() > 1 {
            return Err(WrongUse(
                "the server over the kernel's sockets runs on one core. Give --cores one core."
                    .into(),
            )
            .into());
        }
        let addresses: Vec<SocketAddr> = if args.net.addresses.is_empty() {
            vec![SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), args.tcp_port)]
        } else {
            args.net
                .addresses
                .iter()
                .map(|a| SocketAddr::new(a.cidr.addr.into(), args.tcp_port))
                .collect()
        };
        if let Some(&core) = args.net.cores.as_ref().and_then(|cores| cores.list().first()) {
            clearway_engine::cores::pin(core)?;
        }
        return kernel::run(
            make()?,
            kernel::Source::Listen(&addresses),
            args.connections,
            args.duration,
            &mut watch,
        );
    }
    let plan = Plan {
        net: &args.net,
        source: Source::Listen(args.tcp_port),
        connections: args.connections,
        duration: args.duration,
        stages: args.stages,
    };
    team::run(&plan, make, &mut watch)
}

struct Figures<'a> {
    args: &'a Args,
    form: Form,
    last: (Stats, Below),
    budget: Budget,
}

fn sum(reports: &[CoreReport<Stats>]) -> Stats {
    let mut sum = Stats::default();
    for report in reports {
        sum.add(&report.app);
    }
    sum
}

impl Watch<Stats> for Figures<'_> {
    fn ready(&mut self) -> anyhow::Result<()> {
        let urls = self.args.net.urls(self.args.tcp_port);
        let ports: Vec<_> = self.args.net.ports.iter().map(clearway_ports::describe).collect();
        if self.form == Form::Json {
            let over = if self.args.kernel { "kernel" } else { "clearway" };
            return figures::json(
                &json!({ "event": "ready", "over": over, "urls": urls, "ports": ports,
                    "cores": self.args.net.threads() }),
            );
        }
        let what = match &self.args.root {
            Some(root) => root.display().to_string(),
            None => format!("{} bytes", self.args.length.0),
        };
        let place = match (self.args.kernel, urls.is_empty()) {
            (true, true) => format!("port {} of the kernel's sockets", self.args.tcp_port),
            (true, false) => format!("{} over the kernel's sockets", urls.join(" ")),
            (false, _) => format!("{} over {}", urls.join(" "), ports.join(" ")),
        };
        Ok(figures::line(&format!("Serving {what} at {place}"))?)
    }

    fn second(&mut self, seconds: f64, reports: &[CoreReport<Stats>]) -> anyhow::Result<()> {
        let (stats, below) = (sum(reports), Below::of(reports));
        self.budget.second(stats.requests(), reports);
        let (stats_before, below_before) = std::mem::replace(&mut self.last, (stats, below));
        let requests = stats.requests() - stats_before.requests();
        let rx = gbit(below.rx_bytes - below_before.rx_bytes, seconds);
        let tx = gbit(below.tx_bytes - below_before.tx_bytes, seconds);
        let retransmits = below.retransmits - below_before.retransmits;
        let drops = below.drops - below_before.drops;
        match self.form {
            Form::Quiet => Ok(()),
            Form::Live => Ok(figures::line(&format!(
                "{:>7} connections {:>9.0} requests/s  in {rx:>7.3} out {tx:>7.3} Gbit/s  \
                 {retransmits} retransmits {drops} drops",
                stats.open,
                per_second(requests, seconds),
            ))?),
            Form::Json => figures::json(&json!({
                "event": "second", "seconds": seconds, "connections": stats.open,
                    "accepted": stats.accepted - stats_before.accepted,
                "requests": requests, "rx_gbit_per_s": rx, "tx_gbit_per_s": tx,
                    "retransmits": retransmits, "drops": drops,
            })),
        }
    }

    fn summary(&mut self, seconds: f64, reports: &[CoreReport<Stats>]) -> anyhow::Result<()> {
        let (stats, below) = (sum(reports), Below::of(reports));
        self.budget.second(stats.requests(), reports);
        let [ok, moved, refused, failed] = stats.responses;
        let reasons = Below::reasons(reports);
        if self.form == Form::Json {
            return figures::json(&json!({
                "event": "summary", "seconds": seconds, "accepted": stats.accepted,
                    "requests": stats.requests(),
                "responses": { "2xx": ok, "3xx": moved, "4xx": refused, "5xx": failed },
                    "body_bytes_in": stats.body_in,
                "body_bytes_out": stats.body_out, "timeouts": stats.timeouts,
                    "failed_connections": stats.failed,
                "refused_connections": stats.refused, "below": below, "drops_by_reason": reasons,
                    "stages": self.budget.json(),
            }));
        }
        figures::line(&format!(
            "\n{} requests ({ok} 2xx, {moved} 3xx, {refused} 4xx, {failed} 5xx) on {} connections \
             in {seconds:.1} s: {:.0} requests/s",
            stats.requests(),
            stats.accepted,
            per_second(stats.requests(), seconds),
        ))?;
        figures::line(&format!(
            "bodies: {} bytes out, {} in; {} timeouts, {} connections failed, {} refused",
            stats.body_out, stats.body_in, stats.timeouts, stats.failed, stats.refused
        ))?;
        if !self.args.kernel {
            figures::line(&format!(
                "packets: {} in ({} bytes), {} out ({} bytes); {} segments sent again, {} packets \
                 dropped",
                below.rx_packets,
                below.rx_bytes,
                below.tx_packets,
                below.tx_bytes,
                below.retransmits,
                below.drops
            ))?;
        }
        for (reason, count) in reasons {
            figures::line(&format!("  dropped, {reason}: {count}"))?;
        }
        for line in self.budget.lines() {
            figures::line(&line)?;
        }
        Ok(())
    }
}
