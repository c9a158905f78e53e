//! `clearway bench client`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clearway_base::Histogram;
use clearway_bench::stack::ClientApp;
use clearway_bench::{
    ClientPlan, ClientReport, Framing, Pattern, Phase, Protocol, Sources, Start, kernel, source,
    text,
};
use clearway_engine::{Clock, CoreReport, Memory};
use clearway_proto::{Config, Limits};
use clearway_wire::{Addr, Endpoint};
use serde_json::{Value, json};

use super::told::{Cost, grouped, span, times, times_line};
use super::{Common, PatternArg, ProtocolArg, Rate, memory, message};
use crate::error::WrongUse;
use crate::figures::{self, Below, Form, Size, gbit, per_second};
use crate::net;
use crate::signals::Signals;
use crate::stages::Budget;
use crate::team::{self, Watch};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,

    /// The server's address
    #[arg(short, long, value_name = "ADDR")]
    server: Addr,

    /// The server's port
    #[arg(short = 'p', long = "server-port", value_name = "PORT", default_value_t = 10_000,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Connections at a time, over all cores
    #[arg(short, long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    connections: u32,

    /// How many of them are asked; the others only exist [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    active: Option<u32>,

    /// Requests on their way on one connection; in a burst over our stack, messages that are not
    /// acknowledged [default: 1; in a burst what the queue takes]
    #[arg(short, long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    depth: Option<u32>,

    /// Wait for answers, or only send: ping-pong (or 1), burst (or 2)
    #[arg(short = 'g', long, value_name = "PATTERN", default_value = "ping-pong")]
    pattern: PatternArg,

    /// Bytes of an answer, and of a request unless -m says what it is [default: 64]
    #[arg(short, long, value_name = "BYTES")]
    length: Option<Size>,

    /// The request; \r \n \t \0 \\ and \xNN stand for bytes. To a request of HTTP answers of HTTP
    /// are read, unless -l says how long they are
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Read answers of HTTP, whatever the request looks like
    #[arg(long, conflicts_with = "length")]
    http: bool,

    /// tcp (or 6), udp (or 17)
    #[arg(short = 'n', long, value_name = "PROTOCOL", default_value = "tcp")]
    protocol: ProtocolArg,

    /// Make so many requests per second over all connections, such as 20k or 1.5M, whatever became
    /// of those before [default: each answer brings the next request]
    #[arg(short, long, value_name = "PER-SECOND")]
    rate: Option<Rate>,

    /// Count for so many seconds
    #[arg(short = 't', long = "time", value_name = "SECONDS", default_value = "10",
        value_parser = figures::seconds)]
    time: Duration,

    /// Make requests for so many seconds before counting
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = figures::seconds)]
    warmup: Duration,

    /// Close each connection after so many answers, and open another one for the next request
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    close_after: Option<u32>,

    /// End such connections with a reset, so that nothing is left of them in TIME-WAIT
    #[arg(long, requires = "close_after")]
    reset: bool,

    /// Seconds without an answer after which a connection is given up [default: 1 for UDP, 30 for
    /// TCP]
    #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
    timeout: Option<Duration>,

    /// Handshakes in progress at most, on each core
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024,
        value_parser = clap::value_parser!(u32).range(1..))]
    connecting: u32,
}

/// TIME-WAIT that a client keeps: so few that a source port is free again before it comes round.
const TIME_WAIT: u32 = 16_384;

/// Above this share of the time a client says that it may be what is measured.
const TOO_BUSY: f64 = 0.9;

fn wrong<T>(sentence: impl Into<String>) -> anyhow::Result<T> {
    Err(WrongUse(sentence.into()).into())
}

impl Args {
    fn plan(&self) -> anyhow::Result<ClientPlan> {
        let message = message(self.message.as_deref(), self.length.map(|size| size.0))?;
        let pattern: Pattern = self.pattern.into();
        let protocol: Protocol = self.protocol.into();
        let answers = match self.length {
            Some(Size(len)) if len > u64::from(u32::MAX) => {
                return wrong("an answer is at most 4G long. Give a smaller -l.");
            }
            Some(Size(0)) => return wrong("an answer has at least one byte. Give another -l."),
            Some(Size(len)) => Framing::Fixed(len as u32),
            None if self.http || text::is_http_request(&message) => Framing::HttpAnswer,
            None => Framing::Fixed(message.len() as u32),
        };
        let active = self.active.unwrap_or(self.connections);
        let threads = self.common.net().threads() as u32;
        if active > self.connections {
            return wrong(format!(
                "{active} connections cannot be active when there are {}. Raise -c.",
                self.connections
            ));
        }
        if active < threads {
            return wrong(format!(
                "{threads} cores need as many active connections at least. Raise -c or name \
                 fewer cores."
            ));
        }
        if self.close_after.is_some()
            && (self.depth.unwrap_or(1) > 1
                || active < self.connections
                || pattern == Pattern::Burst)
        {
            return wrong(
                "--close-after goes with one request at a time, answered, on every connection: \
                 leave -d, --active and -g out.",
            );
        }
        if protocol == Protocol::Udp && message.len() > 65_507 {
            return wrong("a datagram holds 65507 bytes at most. Give a smaller -l or -m.");
        }
        let timeout = self.timeout.unwrap_or(Duration::from_secs(if protocol == Protocol::Udp {
            1
        } else {
            30
        }));
        if timeout.is_zero() || self.time.is_zero() {
            return wrong("--timeout and --time are longer than 0 seconds.");
        }
        Ok(ClientPlan {
            protocol,
            pattern,
            connections: self.connections,
            active,
            depth: self.depth.unwrap_or(1),
            message,
            answers,
            every_ps: self.rate.map(|Rate(rate)| ((1e12 / rate) as u64).max(1)),
            close_after: self.close_after,
            reset: self.reset,
            duration: self.time.into(),
            warmup: self.warmup.into(),
            timeout: timeout.into(),
            connecting: self.connecting,
        })
    }

    /// The addresses that connections may come from.
    fn sources(&self) -> anyhow::Result<Vec<Addr>> {
        let cidrs = self.common.addresses.iter().flat_map(|range| range.cidrs());
        let addresses: Vec<Addr> = cidrs
            .map(|cidr| cidr.addr)
            .filter(|addr| addr.is_v4() == self.server.is_v4() && !addr.is_link_local())
            .collect();
        if addresses.is_empty() {
            if self.common.kernel && self.common.addresses.is_empty() {
                return Ok(addresses);
            }
            let family = if self.server.is_v4() { "IPv4" } else { "IPv6" };
            return wrong(format!(
                "{} is an {family} address, and none of ours is. Give one with -a.",
                self.server
            ));
        }
        let most = source::capacity(addresses.len());
        // Those that wait in TIME-WAIT have a port as well.
        let wanted = u64::from(self.connections)
            + if self.close_after.is_some() { u64::from(TIME_WAIT) } else { 0 };
        if wanted > most {
            let count = wanted.div_ceil(source::capacity(1));
            return wrong(format!(
                "{} connections need {count} source addresses. Give a range, such as -a \
                 10.0.0.1-10.0.0.{}/24.",
                self.connections,
                count.min(250)
            ));
        }
        Ok(addresses)
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let sources = args.sources()?;
    let net = args.common.net();
    let cores = net.threads();
    let server = Endpoint::new(args.server, args.port);
    let secret = net::secret()?;
    let seed = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| secret[at]));
    let sources_of = |core| Sources::new(sources.clone(), core, cores, seed % source::capacity(1));
    let start = Arc::new(Start::new(cores));
    let form = Form::choose(args.common.json);
    let mut watch = Asking {
        args,
        plan: &plan,
        form,
        last: Vec::new(),
        seconds: 0,
        budget: Budget::default(),
        error: None,
    };
    if args.common.kernel {
        kernel::allow_open_files(plan.connections.into()).map_err(|sentence| anyhow!(sentence))?;
        let signals = Signals::take()?;
        let work = |seat: clearway_engine::Seat<ClientReport>| {
            let core = seat.index();
            let part = plan.part(core, cores);
            kernel::run_client(
                seat,
                part,
                SocketAddr::from(server),
                sources_of(core),
                Arc::clone(&start),
            )
            .map_err(|sentence| anyhow!(sentence))
        };
        team::run_threads(&net, None, &signals, work, &mut watch)?;
    } else {
        let addresses = args.common.address_places()?;
        let make = |core| {
            let part = plan.part(core, cores);
            let (stack, pool) =
                net.stack_with(|config| configure(config, &part, addresses), &queues(args, &part))?;
            let now = Clock::new().read().now;
            Ok((
                stack,
                pool,
                ClientApp::new(part, server, sources_of(core), Arc::clone(&start), now),
            ))
        };
        team::run_apps(&net, true, None, args.common.stages, make, &mut watch)?;
    }
    match watch.error {
        Some(error) => bail!("{error}"),
        None => Ok(()),
    }
}

fn configure(config: &mut Config, part: &ClientPlan, addresses: u16) {
    let answer = match part.answers {
        Framing::Fixed(len) => len as usize,
        _ => 2_048,
    };
    let datagrams = part.depth as usize * 2 * part.message.len().max(answer).max(64);
    let least = if part.pattern == Pattern::Burst { 256 * 1_024 } else { 4_096 };
    let udp = part.protocol == Protocol::Udp;
    config.limits = Limits {
        connections: part.connections.saturating_add(1_024),
        time_wait: TIME_WAIT,
        orphans: 65_536,
        udp_sockets: if udp { part.connections.saturating_add(16) } else { 16 },
        udp_queue_bytes: datagrams.clamp(least, 16 << 20) as u32,
        addresses,
        neighbour_queue: u8::MAX,
        waiting_frames: 4_096,
        ..Limits::default()
    };
    config.tcp.syn_retries = 4;
}

fn queues(args: &Args, part: &ClientPlan) -> Memory {
    let len = part.message.len() as u64;
    match (part.pattern, args.depth) {
        (Pattern::Burst, Some(depth)) => {
            memory(part.active, len * u64::from(depth), len * u64::from(depth))
        }
        (Pattern::Burst, None) => memory(part.active.min(4_096), 1 << 20, (1 << 20).max(len)),
        (Pattern::PingPong, _) => {
            let bytes = len * u64::from(part.depth);
            memory(part.active, bytes, bytes.max(1 << 16))
        }
    }
}

struct Asking<'a> {
    args: &'a Args,
    plan: &'a ClientPlan,
    form: Form,
    last: Vec<ClientReport>,
    seconds: u64,
    budget: Budget,
    error: Option<String>,
}

impl Asking<'_> {
    fn connecting(&self, sum: &ClientReport) -> anyhow::Result<()> {
        let before: u64 = self.last.iter().map(|report| report.connected).sum();
        let new = sum.connected.saturating_sub(before);
        match self.form {
            Form::Quiet => Ok(()),
            Form::Live => Ok(figures::line(&format!(
                "connecting: {} of {}, {} more in the last second",
                grouped(sum.open.into()),
                grouped(self.args.connections.into()),
                grouped(new)
            ))?),
            Form::Json => figures::json(&json!({
                "event": "connecting", "connections": sum.open, "wanted": self.args.connections,
                    "new": new,
                "failures": sum.connect_failures,
            })),
        }
    }

    /// Answers (in a burst: messages) per second since the last time, busy share, and latencies.
    fn running(&mut self, now: &[ClientReport], sum: &ClientReport) -> anyhow::Result<()> {
        let (mut rate, mut busy, mut all) = (0.0, 0, 0);
        let mut before = Histogram::new();
        let count = |report: &ClientReport| self.done(report);
        for (index, report) in now.iter().enumerate() {
            let last = self.last.get(index);
            let from = last.map_or(0, |last| last.measured.as_nanos());
            let measured = report.measured.as_nanos().saturating_sub(from);
            rate += per_second(
                count(report).saturating_sub(last.map_or(0, count)),
                measured as f64 / 1e9,
            );
            busy +=
                report.busy.as_nanos().saturating_sub(last.map_or(0, |last| last.busy.as_nanos()));
            all += measured;
            if let Some(last) = last {
                before.add(&last.latency);
            }
        }
        let share = if all > 0 { busy as f64 / all as f64 } else { 0.0 };
        let second = sum.latency.since(&before);
        self.seconds += 1;
        match self.form {
            Form::Quiet => Ok(()),
            Form::Live => {
                let latency = if second.count() == 0 {
                    String::new()
                } else {
                    let at = |percent| span(second.percentile(percent));
                    format!("  p50 {}  p99 {}  max {}", at(50.0), at(99.0), span(second.max()))
                };
                Ok(figures::line(&format!(
                    "{:>4} s {:>12} requests/s{latency}  in flight {}  busy {:.0} %",
                    self.seconds,
                    grouped(rate as u64),
                    grouped(sum.in_flight),
                    share * 100.0
                ))?)
            }
            Form::Json => figures::json(&json!({
                "event": "second", "second": self.seconds, "requests_per_second": rate,
                    "connections": sum.open,
                "connected": sum.connected, "in_flight": sum.in_flight,
                    "latency_us": times(&second),
                "busy_share": share, "timeouts": sum.timeouts, "failed": sum.failed,
            })),
        }
    }

    /// What is counted as done: answers, or messages sent where nobody answers.
    fn done(&self, report: &ClientReport) -> u64 {
        if self.plan.pattern == Pattern::Burst { report.requests } else { report.answers }
    }

    fn warnings(&self, sum: &ClientReport, share: f64) -> Vec<String> {
        let mut warnings = Vec::new();
        if share > TOO_BUSY {
            warnings.push(format!(
                "this client was busy {:.0} % of the time, so it may be what was measured: give it \
                 more cores, or the server fewer",
                share * 100.0
            ));
        }
        if sum.not_sent > 0 {
            warnings.push(format!(
                "{} requests were due and never left: the server, or this client, is slower than \
                 the rate asked for",
                grouped(sum.not_sent)
            ));
        }
        let lost = sum.timeouts + sum.failed + sum.unanswered;
        if lost > 0 {
            warnings.push(format!(
                "{} requests have no answer, and are not in the latencies",
                grouped(lost)
            ));
        }
        if sum.refused > 0 {
            warnings.push(format!("{} answers have another status than 2xx", grouped(sum.refused)));
        }
        if sum.unexpected > 0 {
            warnings.push(format!(
                "{} answers came that nobody had asked for",
                grouped(sum.unexpected)
            ));
        }
        if sum.stopped {
            warnings.push("stopped before the time".into());
        }
        warnings
    }
}

impl Watch<ClientReport> for Asking<'_> {
    fn ready(&mut self) -> anyhow::Result<()> {
        let common = &self.args.common;
        let server = Endpoint::new(self.args.server, self.args.port).to_string();
        match self.form {
            Form::Json => figures::json(&json!({
                "event": "ready", "over": common.over(), "server": server,
                    "cores": common.net().threads(),
            })),
            _ => Ok(figures::line(&format!(
                "Asking {server} by {} on {} connections, over {}",
                self.args.protocol,
                grouped(self.args.connections.into()),
                common.places()
            ))?),
        }
    }

    fn second(
        &mut self,
        _seconds: f64,
        reports: &[CoreReport<ClientReport>],
    ) -> anyhow::Result<()> {
        let now: Vec<ClientReport> = reports.iter().map(|report| report.app.clone()).collect();
        let sum = ClientReport::sum(&now);
        self.budget.second(self.done(&sum), reports);
        match sum.phase {
            Phase::Connecting | Phase::Waiting => self.connecting(&sum)?,
            Phase::Running => self.running(&now, &sum)?,
            // What is left takes a moment only.
            Phase::Draining | Phase::Closing | Phase::Done => {}
        }
        self.last = now;
        Ok(())
    }

    fn summary(
        &mut self,
        _seconds: f64,
        reports: &[CoreReport<ClientReport>],
    ) -> anyhow::Result<()> {
        let all: Vec<&ClientReport> = reports.iter().map(|report| &report.app).collect();
        let sum = ClientReport::sum(all.iter().copied());
        self.budget.second(self.done(&sum), reports);
        self.error = sum.error.clone();
        let burst = self.plan.pattern == Pattern::Burst;
        if self.error.is_none() && !burst && sum.answers == 0 && !sum.stopped {
            let why = sum
                .last_failure
                .unwrap_or("is a server there, and does it answer requests of this form?");
            self.error = Some(format!("no request was answered: {why}"));
        }
        let seconds = sum.measured.as_nanos() as f64 / 1e9;
        let done = if burst { sum.requests } else { sum.answers_in_time };
        // Each core has a time of its own.
        let busy: u64 = all.iter().map(|report| report.busy.as_nanos()).sum();
        let measured: u64 = all.iter().map(|report| report.measured.as_nanos()).sum();
        let share = if measured > 0 { busy as f64 / measured as f64 } else { 0.0 };
        let cost = Cost::of(sum.busy, sum.cycles, sum.measured, done);
        let warnings = self.warnings(&sum, share);
        if self.form == Form::Json {
            return self.json(&sum, reports, (seconds, done, share), &cost, &warnings);
        }
        let bytes = |each: usize| gbit(done * each as u64, seconds);
        figures::line(&format!(
            "\n{} requests in {seconds:.1} s on {} connections: {} requests/s, {:.3} Gbit/s of \
             requests",
            grouped(sum.requests),
            grouped(sum.wanted.into()),
            grouped(per_second(done, seconds) as u64),
            bytes(self.plan.message.len()),
        ))?;
        if sum.latency.count() > 0 {
            figures::line(&format!("latency     {}", times_line(&sum.latency)))?;
        }
        if sum.delay.count() > 0 {
            figures::line(&format!("of it here  {}", times_line(&sum.delay)))?;
        }
        if sum.connect.count() > 0 {
            figures::line(&format!("to connect  {}", times_line(&sum.connect)))?;
        }
        if self.plan.close_after.is_some() {
            figures::line(&format!("{} connections opened", grouped(sum.connected)))?;
        }
        if sum.connect_failures + sum.connections_failed + sum.closed_by_peer > 0 {
            figures::line(&format!(
                "connections: {} could not be opened, {} failed, {} closed by the server",
                sum.connect_failures, sum.connections_failed, sum.closed_by_peer
            ))?;
        }
        if let Some(cost) = cost {
            figures::line(&format!(
                "client busy {:.1} %, {:.0} cycles a request",
                share * 100.0,
                cost.cycles
            ))?;
        }
        for line in self.budget.lines() {
            figures::line(&line)?;
        }
        for warning in warnings {
            figures::line(&format!("warning: {warning}"))?;
        }
        Ok(())
    }
}

impl Asking<'_> {
    fn json(
        &self,
        sum: &ClientReport,
        reports: &[CoreReport<ClientReport>],
        (seconds, done, share): (f64, u64, f64),
        cost: &Option<Cost>,
        warnings: &[String],
    ) -> anyhow::Result<()> {
        let (args, plan) = (self.args, self.plan);
        let cores: Vec<Value> = reports
            .iter()
            .enumerate()
            .map(|(index, report)| {
                let app = &report.app;
                let core = args.common.cores.as_ref().and_then(|cores| cores.list().get(index));
                json!({
                    "core": core, "requests": app.requests, "answers": app.answers,
                        "connections": app.wanted,
                    "busy_share": app.busy_share(),
                })
            })
            .collect();
        let offered = args.rate.map(|Rate(rate)| rate);
        figures::json(&json!({
            "event": "summary", "over": args.common.over(), "protocol": args.protocol.to_string(),
            "pattern": if plan.pattern == Pattern::Burst { "burst" } else { "ping-pong" },
            "loop": if offered.is_some() { "open" } else { "closed" },
                "offered_per_second": offered,
            "connections": plan.connections, "active": plan.active, "depth": plan.depth,
            "request_bytes": plan.message.len(), "close_after": plan.close_after,
                "seconds": seconds,
            "requests": sum.requests, "answers": sum.answers, "timeouts": sum.timeouts,
                "failed": sum.failed,
            "unanswered": sum.unanswered, "not_sent": sum.not_sent, "refused": sum.refused,
            "unexpected": sum.unexpected, "requests_per_second": per_second(done, seconds),
            "bytes_out": sum.bytes_out, "bytes_in": sum.bytes_in, "connected": sum.connected,
            "connect_failures": sum.connect_failures, "connections_failed": sum.connections_failed,
            "closed_by_server": sum.closed_by_peer, "latency_us": times(&sum.latency),
            "delay_us": offered.map(|_| times(&sum.delay)), "connect_us": times(&sum.connect),
                "busy_share": share,
            "per_request": Cost::json(cost), "cores": cores, "stopped": sum.stopped,
                "warnings": warnings,
            "error": self.error, "below": Below::of(reports),
                "drops_by_reason": Below::reasons(reports),
            "stages": self.budget.json(),
        }))
    }
}
