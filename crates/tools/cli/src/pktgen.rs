//! `clearway pktgen`: sends numbered frames and keeps account of what comes back.

mod queue;
mod table;

use std::time::Duration;

use anyhow::anyhow;
use clearway_base::{Duration as Span, Instant};
use clearway_dev::{Facts as _, Mac};
use clearway_engine::Clock;
use clearway_ports::Port;
use clearway_traffic::frame::{FLOWS_PER_ADDR, MAX_FLOWS};
use clearway_traffic::{Rate, Shape, Template};
use clearway_wire::Addr;
use indicatif::{ProgressBar, ProgressStyle};

use crate::crew::{self, Crew, CrewArgs};
use crate::error::WrongUse;
use crate::figures::{self, Form};
use crate::signals::Signals;
use queue::{Job, Order, Queue, Report};
use table::{Row, Second, Totals};

/// Send numbered frames to a port, and count and time what comes back
///
/// At the other end `clearway reflect`, or anything else that sends frames back, untouched or with
/// source and destination exchanged. Sizes are those of the frames that the port is given: from the
/// Ethernet header to the last byte, without the 4 bytes of the check sequence.
///
/// Examples:
///   clearway pktgen --port tap:clearway0       six sizes, 5 seconds each, as fast as it goes
///   clearway pktgen --port tap:clearway0 --size 64 --rate 100kpps --seconds 10
///   clearway pktgen --port dpdk:net_memif0,role=client,socket=/tmp/m.sock --flows 64 --json
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    crew: CrewArgs,

    /// What to offer, all queues together: a share of the line such as 10%, frames such as 1.5Mpps,
    /// bits such as 100Mbit/s, or max
    #[arg(long, value_name = "RATE", default_value = "max")]
    rate: Rate,

    /// The line rate that a share in --rate is of
    #[arg(long, value_name = "BITS", default_value = "10G", value_parser = bits)]
    line: u64,

    /// Count 24 bytes more with each frame in Mbit/s, as on a wire: check sequence, preamble and
    /// gap. A share in --rate always does
    #[arg(long)]
    wire: bool,

    /// Sizes of the frames in bytes, one after another
    #[arg(
        long,
        visible_alias = "size",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64,128,256,512,1024,1500"
    )]
    sizes: Vec<usize>,

    /// Seconds for each size
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = figures::seconds)]
    seconds: Duration,

    /// Flows, told apart by source port and, beyond 16,384, by source address
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
    flows: u32,

    /// What the frames look like
    #[arg(long, value_name = "udp|tcp", default_value = "udp", value_parser = ["udp", "tcp"])]
    proto: String,

    /// IPv6 instead of IPv4, when no address says so
    #[arg(short = '6', long)]
    ipv6: bool,

    /// Source address of the first flow [default: 198.18.0.1 or 2001:2::1, which are set aside for
    /// measurements]
    #[arg(long, value_name = "ADDR")]
    src: Option<Addr>,

    /// Destination address [default: 198.19.0.1 or 2001:2:0:8000::1]
    #[arg(long, value_name = "ADDR")]
    dst: Option<Addr>,

    /// Source port of the first flow
    #[arg(long, value_name = "PORT", default_value_t = 10_000,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(65_536 - FLOWS_PER_ADDR)))]
    src_port: u16,

    /// Destination port
    #[arg(long, value_name = "PORT", default_value_t = 9,
        value_parser = clap::value_parser!(u16).range(1..))]
    dst_port: u16,

    /// Source MAC address [default: the port's own]
    #[arg(long, value_name = "MAC")]
    src_mac: Option<Mac>,

    /// Destination MAC address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02")]
    dst_mac: Mac,

    /// Seconds to wait at the start until a frame comes back. 0 begins at once, also when nobody is
    /// there to send anything back
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = figures::seconds)]
    wait: Duration,

    /// What has not come back when none came for so many seconds is lost
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = figures::seconds)]
    drain: Duration,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,
}

/// `10G` and the like as bits per second.
fn bits(text: &str) -> Result<u64, String> {
    match text.parse::<Rate>() {
        Ok(Rate::Bits(bits)) => Ok(bits as u64),
        _ => Err(format!("`{text}` is no line rate: write bits per second such as 10G or 100M")),
    }
}

/// Rounds of waiting are no longer than this, so that what changes is soon seen.
const GLANCE: Span = Span::from_millis(20);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let form = Form::choose(args.json);
    let job = Job::new(&args, shape(&args)?);
    let make = |index, port: &Port| {
        check_sizes(&args, &job, port)?;
        Ok(Queue::new(&job, index))
    };
    let mut watch =
        Watch { args: &args, job: &job, form, clock: Clock::new(), bar: progress(&args) };
    let ended = crew::run(&args.crew, make, |crew, signals| watch.all_sizes(crew, signals));
    watch.bar.finish_and_clear();
    match ended? {
        Some((rows, _)) => table::summary(&args, form, &rows),
        None => Ok(()),
    }
}

/// What the command line says that the frames are. The port's own MAC address is put in by each
/// queue.
fn shape(args: &Args) -> Result<Shape, WrongUse> {
    let v6 = args.src.or(args.dst).map_or(args.ipv6, |addr| addr.is_v6());
    let default = |v4: [u8; 4], v6_half: u8| match v6 {
        // RFC 2544 C.2.2 and RFC 5180 8 set these aside.
        false => Addr::v4(v4),
        true => Addr::v6([0x20, 1, 0, 2, 0, 0, v6_half, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    };
    let own = args.src.unwrap_or(default([198, 18, 0, 1], 0));
    let peer = args.dst.unwrap_or(default([198, 19, 0, 1], 0x80));
    if own.is_v4() != peer.is_v4() || args.ipv6 && own.is_v4() {
        return Err(WrongUse(format!(
            "{own} and {peer}: both addresses are of one family, IPv6 with -6. Give both."
        )));
    }
    if own == peer || own.is_multicast() || peer.is_multicast() {
        return Err(WrongUse(format!("{own} to {peer}: give the addresses of two hosts.")));
    }
    let run = std::process::id() as u16;
    let tcp = args.proto == "tcp";
    let macs = Some((args.src_mac.unwrap_or(Mac::ZERO), args.dst_mac));
    Ok(Shape { macs, own, peer, own_port: args.src_port, peer_port: args.dst_port, tcp, run })
}

/// Complains about sizes that this port cannot carry or that cannot hold what they must.
fn check_sizes(args: &Args, job: &Job, port: &Port) -> anyhow::Result<()> {
    let header_len = if port.mac().is_some() { clearway_dev::device::ETHERNET_LEN } else { 0 };
    let longest = port.mtu() + header_len;
    for &size in &args.sizes {
        if size > longest {
            let name = clearway_ports::describe(&args.crew.port);
            let (mtu, why) = (port.mtu(), "Leave the size out, or raise --mtu");
            return Err(WrongUse(format!(
                "{size} bytes: {name} carries frames of {longest} bytes at most (MTU {mtu}). {why}."
            ))
            .into());
        }
        Template::new(job.shape_on(port), size)
            .map_err(|error| WrongUse(format!("{error}. Leave the size out.")))?;
    }
    Ok(())
}

fn progress(args: &Args) -> ProgressBar {
    // On standard error, and only where that is a terminal.
    let bar = ProgressBar::new(args.sizes.len() as u64 * args.seconds.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

struct Watch<'a> {
    args: &'a Args,
    job: &'a Job,
    form: Form,
    clock: Clock,
    bar: ProgressBar,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    Done,
    /// A signal asks for the end.
    Signal,
    /// A thread has ended, and will say why.
    Broken,
}

impl Watch<'_> {
    fn all_sizes(&mut self, crew: &Crew<Report>, signals: &Signals) -> anyhow::Result<Vec<Row>> {
        table::ready(self.args, self.form)?;
        let mut rows = Vec::new();
        if !self.args.wait.is_zero() && !self.knock(crew, signals)? {
            return Ok(rows);
        }
        if self.form != Form::Json {
            self.bar.suspend(|| figures::line(&table::head()))?;
        }
        for (index, &size) in self.args.sizes.iter().enumerate() {
            self.bar.set_message(format!("{size} bytes"));
            let (row, wait) = self.one_size(crew, signals, index)?;
            if let Some(row) = row {
                self.bar.suspend(|| table::tell_row(self.args, self.form, &row))?;
                rows.push(row);
            }
            if wait != Wait::Done {
                break;
            }
        }
        Ok(rows)
    }

    /// Sends a few frames until one comes back: links come up late, and bridges learn. False when
    /// the command is to end.
    fn knock(&mut self, crew: &Crew<Report>, signals: &Signals) -> anyhow::Result<bool> {
        self.give(crew, Order::Knock);
        let end = self.clock.read().now + self.args.wait.into();
        let wait = self.wait(crew, signals, end, |reports, _| {
            reports.iter().any(|report| report.came.frames > 0)
        })?;
        if wait == Wait::Done && self.clock.read().now >= end {
            let (port, seconds) =
                (clearway_ports::describe(&self.args.crew.port), self.args.wait.as_secs_f64());
            return Err(anyhow!(
                "nothing came back over {port} for {seconds} seconds. Start `clearway reflect` at \
                 the other end, raise --wait, or send without an answer with --wait 0"
            ));
        }
        // The rest comes in before the first size begins; it would only be counted as stale.
        let soon = self.clock.read().now + GLANCE;
        self.give(crew, Order::Pause);
        let settled = self.wait(crew, signals, soon, |_, _| false)?;
        Ok(wait == Wait::Done && settled == Wait::Done)
    }

    /// One size; the row says what was done also when a signal cut it short.
    fn one_size(
        &mut self,
        crew: &Crew<Report>,
        signals: &Signals,
        index: usize,
    ) -> anyhow::Result<(Option<Row>, Wait)> {
        let start = self.clock.read().now;
        self.give(crew, Order::Send(index));
        let size = self.args.sizes[index];
        // The threads end by themselves and on time; this is for one that hangs.
        let late = start + self.args.seconds.into() + Span::from_secs(5);
        let mut last = (start, Totals::default());
        let done_before = index as u64 * self.args.seconds.as_millis() as u64;
        let (args, form, bar) = (self.args, self.form, self.bar.clone());
        let sent = self.wait(crew, signals, late, |reports, now| {
            bar.set_position(
                done_before + now.since(start).as_millis().min(args.seconds.as_millis() as u64),
            );
            if now >= last.0 + Span::from_secs(1) {
                let totals = Totals::of(reports, index);
                let second =
                    Second { size, seconds: now.since(last.0), now: &totals, before: &last.1 };
                // A reader that has gone is told of when the row is printed.
                let _ = bar.suspend(|| table::tell_second(args, form, &second));
                last = (now, totals);
            }
            reports.iter().all(|report| report.is_done(index))
        })?;
        if sent == Wait::Broken {
            return Ok((None, sent));
        }
        self.give(crew, Order::Drain(index));
        let drained = self.drain(crew, signals, index)?;
        self.give(crew, Order::Pause);
        let end = self.clock.read().now + Span::from_secs(5);
        let told = self
            .wait(crew, signals, end, |_, _| self.job.results(index) == self.args.crew.queues())?;
        let wait = [sent, drained, told]
            .into_iter()
            .find(|wait| *wait != Wait::Done)
            .unwrap_or(Wait::Done);
        Ok((Row::of(self.args, self.job, index), wait))
    }

    /// Waits for frames that are on their way.
    fn drain(
        &mut self,
        crew: &Crew<Report>,
        signals: &Signals,
        index: usize,
    ) -> anyhow::Result<Wait> {
        let start = self.clock.read().now;
        let mut newest = (start, 0);
        let drain: Span = self.args.drain.into();
        // Each frame is waited for once, so this comes to an end.
        self.wait(crew, signals, Instant::NEVER, |reports, now| {
            let totals = Totals::of(reports, index);
            if totals.came.frames != newest.1 {
                newest = (now, totals.came.frames);
            }
            totals.came.frames >= totals.sent.frames || now.since(newest.0) >= drain
        })
    }

    fn give(&self, crew: &Crew<Report>, order: Order) {
        self.job.give(order);
        crew.wake();
    }

    /// Waits until `done` says so, or until `end`.
    fn wait(
        &self,
        crew: &Crew<Report>,
        signals: &Signals,
        end: Instant,
        mut done: impl FnMut(&[Report], Instant) -> bool,
    ) -> anyhow::Result<Wait> {
        let mut clock = Clock::new();
        loop {
            let now = clock.read().now;
            if !crew.is_whole() {
                return Ok(Wait::Broken);
            }
            if done(&crew.reports(), now) || now >= end {
                return Ok(Wait::Done);
            }
            if crew.wait(signals, GLANCE.min(end.since(now)))? {
                return Ok(Wait::Signal);
            }
        }
    }
}
