//! `clearway bench server`.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use clearway_base::Duration as Span;
use clearway_bench::stack::ServerApp;
use clearway_bench::{Framing, Pattern, ServerPlan, ServerReport, kernel, text};
use clearway_engine::CoreReport;
use clearway_proto::Limits;
use serde_json::json;

use super::told::{Cost, grouped};
use super::{Common, PatternArg, memory, message};
use crate::error::WrongUse;
use crate::figures::{self, Below, Form, Size, gbit, per_second};
use crate::signals::Signals;
use crate::stages::Budget;
use crate::team::{self, Watch};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,

    /// The port to listen on, for TCP and UDP, on every address
    #[arg(short = 'p', long = "server-port", value_name = "PORT", default_value_t = 10_000,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Answer with so many bytes; requests have as many unless --request says otherwise [default:
    /// 64]
    #[arg(short, long, value_name = "BYTES", conflicts_with = "message")]
    length: Option<Size>,

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

    /// Connections that one core may have at a time [default: 1048576, over the kernel's sockets as
    /// many as may be open]
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    connections: Option<u32>,

    /// Stop after so many seconds
    #[arg(short = 't', long = "time", value_name = "SECONDS", value_parser = figures::seconds)]
    time: Option<Duration>,
}

/// Connections of one core unless somebody says otherwise.
const CONNECTIONS: u64 = 1 << 20;

/// Bytes of one UDP queue: datagrams of more than one burst of packets.
const UDP_QUEUE: u32 = 4 << 20;

impl Args {
    fn plan(&self) -> anyhow::Result<ServerPlan> {
        let message = message(self.message.as_deref(), self.length.map(|size| size.0))?;
        let requests = match self.request.as_deref() {
            Some("http") => Framing::HttpRequest,
            Some("any") => Framing::Any,
            Some(text) => match text.parse::<Size>() {
                Ok(Size(len)) if len > 0 && len <= u64::from(u32::MAX) => {
                    Framing::Fixed(len as u32)
                }
                _ => {
                    return Err(WrongUse(format!(
                        "`{text}` is no end of a request: write bytes such as 64, http or any"
                    ))
                    .into());
                }
            },
            None if text::is_http_answer(&message) => Framing::HttpRequest,
            None if self.message.is_some() => Framing::Any,
            None => Framing::Fixed(message.len() as u32),
        };
        let most = if self.common.kernel {
            kernel::sockets_allowed() / self.common.net().threads() as u64
        } else {
            u64::MAX
        };
        let connections = self.connections.unwrap_or(most.clamp(16, CONNECTIONS) as u32);
        let pattern: Pattern = self.pattern.into();
        Ok(ServerPlan { port: self.port, pattern, message, requests, connections })
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let net = args.common.net();
    let mut watch = Serving {
        args,
        form: Form::choose(args.common.json),
        last: Vec::new(),
        budget: Budget::default(),
    };
    if args.common.kernel {
        let all = u64::from(plan.connections) * net.threads() as u64;
        kernel::allow_open_files(all).map_err(|sentence| anyhow!(sentence))?;
        let signals = Signals::take()?;
        let addresses: Vec<SocketAddr> = match args.common.address_count() {
            0 => vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), args.port)],
            _ => net
                .addresses
                .iter()
                .map(|a| SocketAddr::new(a.cidr.addr.into(), args.port))
                .collect(),
        };
        let attach_sockets = (0..net.threads()).map(|_| kernel::bind(&addresses).map(Some));
        let attach_sockets = Mutex::new(
            attach_sockets.collect::<Result<Vec<_>, _>>().map_err(|sentence| anyhow!(sentence))?,
        );
        let work = |seat: clearway_engine::Seat<ServerReport>| {
            let mine = attach_sockets
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_mut(seat.index())
                .and_then(Option::take);
            match mine {
                Some(attach_sockets) => kernel::run_server(seat, &plan, attach_sockets)
                    .map_err(|sentence| anyhow!(sentence)),
                None => Ok(()),
            }
        };
        return team::run_threads(&net, args.time, &signals, work, &mut watch);
    }
    let addresses = args.common.address_places()?;
    let make = |_| {
        let limits = Limits {
            connections: plan.connections,
            half_open: 65_536,
            time_wait: plan.connections.clamp(16_384, 1 << 20),
            orphans: plan.connections.clamp(8_192, 1 << 17),
            udp_queue_bytes: UDP_QUEUE,
            addresses,
            neighbours: 16_384,
            neighbour_queue: u8::MAX,
            waiting_frames: 4_096,
            ..Limits::default()
        };
        let len = plan.message.len() as u64;
        let (stack, pool) = net.stack_with(
            |config| config.limits = limits,
            &memory(plan.connections, len, (1 << 20).max(len * 2)),
        )?;
        Ok((stack, pool, ServerApp::new(&plan)))
    };
    team::run_apps(&net, false, args.time, args.common.stages, make, &mut watch)
}

struct Serving<'a> {
    args: &'a Args,
    form: Form,
    last: Vec<ServerReport>,
    budget: Budget,
}

/// How busy the cores were between two states of affairs, on the average; and what each request
/// cost them.
fn busy(now: &[CoreReport<ServerReport>], before: &[ServerReport]) -> (f64, Option<Cost>) {
    let (mut busy, mut all, mut requests, mut cycles) = (0, 0, 0, 0);
    for (index, report) in now.iter().map(|report| &report.app).enumerate() {
        let (was_busy, from, asked, counter) = before
            .get(index)
            .filter(|r| r.at > r.from)
            .map_or((Span::ZERO, report.from, 0, 0), |r| (r.busy, r.at, r.requests, r.cycles));
        busy += (report.busy - was_busy).as_nanos();
        all += report.at.since(from).as_nanos();
        requests += report.requests.saturating_sub(asked);
        cycles += report.cycles.saturating_sub(counter);
    }
    let share = if all > 0 { busy as f64 / all as f64 } else { 0.0 };
    (share, Cost::of(Span::from_nanos(busy), cycles, Span::from_nanos(all), requests))
}

impl Serving<'_> {
    /// What a core told the last time, if it has told anything.
    fn before(&self, core: usize) -> Option<&ServerReport> {
        self.last.get(core).filter(|report| report.at > report.from)
    }
}

impl Watch<ServerReport> for Serving<'_> {
    fn ready(&mut self) -> anyhow::Result<()> {
        let common = &self.args.common;
        let addresses: Vec<String> = common.addresses.iter().map(ToString::to_string).collect();
        if self.form == Form::Json {
            return figures::json(&json!({
                "event": "ready", "over": common.over(), "addresses": addresses,
                    "port": self.args.port,
                "cores": common.net().threads(),
            }));
        }
        let place =
            if addresses.is_empty() { "every address".to_string() } else { addresses.join(" ") };
        Ok(figures::line(&format!(
            "Answering at {place}, port {}, over {}",
            self.args.port,
            common.places()
        ))?)
    }

    fn second(
        &mut self,
        _seconds: f64,
        reports: &[CoreReport<ServerReport>],
    ) -> anyhow::Result<()> {
        let (share, cost) = busy(reports, &self.last);
        let rate: f64 = reports
            .iter()
            .enumerate()
            .map(|(index, report)| {
                let (from, requests) =
                    self.before(index).map_or((report.app.from, 0), |r| (r.at, r.requests));
                let seconds = report.app.at.since(from).as_nanos() as f64 / 1e9;
                per_second(report.app.requests.saturating_sub(requests), seconds)
            })
            .sum();
        self.last = reports.iter().map(|report| report.app.clone()).collect();
        let sum = ServerReport::sum(&self.last);
        self.budget.second(sum.requests, reports);
        match self.form {
            Form::Quiet => Ok(()),
            Form::Live => {
                let cost = cost
                    .map_or(String::new(), |cost| format!(", {:.0} cycles a request", cost.cycles));
                Ok(figures::line(&format!(
                    "{:>9} connections {:>12} requests/s  busy {:.0} %{cost}",
                    grouped(sum.open),
                    grouped(rate as u64),
                    share * 100.0,
                ))?)
            }
            Form::Json => figures::json(&json!({
                "event": "second", "connections": sum.open, "requests_per_second": rate,
                    "busy_share": share,
                "per_request": Cost::json(&cost),
            })),
        }
    }

    fn summary(
        &mut self,
        seconds: f64,
        reports: &[CoreReport<ServerReport>],
    ) -> anyhow::Result<()> {
        let sum = ServerReport::sum(reports.iter().map(|report| &report.app));
        self.budget.second(sum.requests, reports);
        let (share, cost) = busy(reports, &[]);
        let (below, reasons) = (Below::of(reports), Below::reasons(reports));
        if self.form == Form::Json {
            return figures::json(&json!({
                "event": "summary", "over": self.args.common.over(), "seconds": seconds,
                    "accepted": sum.accepted,
                "open": sum.open, "reset_connections": sum.failed,
                    "refused_connections": sum.no_room,
                "requests": sum.requests, "answers": sum.answers, "bytes_in": sum.bytes_in,
                    "bytes_out": sum.bytes_out,
                "busy_share": share, "per_request": Cost::json(&cost), "below": below,
                    "drops_by_reason": reasons,
                "stages": self.budget.json(),
            }));
        }
        figures::line(&format!(
            "\n{} requests and {} answers on {} connections in {seconds:.1} s, in {:.3} out {:.3} \
             Gbit/s",
            grouped(sum.requests),
            grouped(sum.answers),
            grouped(sum.accepted),
            gbit(sum.bytes_in, seconds),
            gbit(sum.bytes_out, seconds),
        ))?;
        if sum.failed + sum.no_room > 0 {
            figures::line(&format!(
                "{} connections reset, {} refused",
                grouped(sum.failed),
                grouped(sum.no_room)
            ))?;
        }
        if let Some(cost) = cost {
            figures::line(&format!(
                "busy {:.1} % of the time: {:.0} ns or {:.0} cycles a request",
                share * 100.0,
                cost.busy_ns,
                cost.cycles
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
