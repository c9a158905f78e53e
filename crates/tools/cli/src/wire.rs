//! `clearway wire`: carries frames between two ports, over a link as bad as one likes.

use std::time::Duration;

use anyhow::anyhow;
use clearway_base::Instant;
use clearway_dev::{
    DevError, Facts as _, FramePool, PoolBudget, PortSpec, Receive as _, Transmit as _,
};
use clearway_engine::Clock;
use clearway_pkt::{Buf as _, Burst, PoolBuf, TxMeta};
use clearway_ports::{Port, Wrap};
use serde_json::json;

use crate::crew::{self, Crew, CrewArgs, Work};
use crate::figures::{self, Form};
use crate::signals::Signals;

/// Carry frames between two ports, over a bad link if asked for one
///
/// Two systems with a TAP device each, the kernels of two network namespaces for one, meet over the
/// same faults that the stack is tried with: rx. is what happens on the way from --port to --onto,
/// tx. on the way back.
///
/// Examples:
///   clearway wire --port tap:left --onto tap:right --fault loss=1%,delay=10ms
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    crew: CrewArgs,

    /// The port at the other end: tap:NAME, tun:NAME, dpdk:DEVICE or xdp:INTERFACE
    #[arg(long, value_name = "PORT")]
    onto: PortSpec,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
    seconds: Option<Duration>,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,
}

/// What was carried.
#[derive(Clone, Copy, Default)]
struct Report {
    /// From --port to --onto, and back.
    there: u64,
    back: u64,
    /// The port that a frame should have left by took none.
    no_room: u64,
}

struct Wire {
    far: Port,
    report: Report,
}

/// Sends what came in; how many left, and how many found no room.
fn pass(burst: &mut Burst<PoolBuf>, onto: &mut Port) -> (u64, u64) {
    let (mut left, mut no_room) = (0, 0);
    for index in 0..burst.len() {
        let Some((buf, _)) = burst.peek(index) else { continue };
        let bytes = buf.bytes();
        match onto.reserve(bytes.len()) {
            Some(room) => {
                room[..bytes.len()].copy_from_slice(bytes);
                onto.commit(bytes.len(), TxMeta::default());
                left += 1;
            }
            None => no_room += 1,
        }
    }
    burst.clear();
    onto.flush();
    (left, no_room)
}

impl Work for Wire {
    type Report = Report;

    fn turn(
        &mut self,
        now: Instant,
        dev: &mut Port,
        burst: &mut Burst<PoolBuf>,
    ) -> Result<bool, DevError> {
        let far = &mut self.far;
        dev.set_now(now);
        far.set_now(now);
        dev.rx(burst)?;
        let (there, no_room) = pass(burst, far);
        far.rx(burst)?;
        let (back, none_back) = pass(burst, dev);
        self.report.there += there;
        self.report.back += back;
        self.report.no_room += no_room + none_back;
        Ok(there + back + no_room + none_back > 0)
    }

    fn next_due(&self) -> Instant {
        Instant::NEVER
    }

    fn other_port(&self) -> Option<&Port> {
        Some(&self.far)
    }

    fn report(&self, _dev: &Port) -> Report {
        self.report
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let form = Form::choose(args.json);
    let make = |_, _: &Port| {
        let wrap = Wrap { force: args.crew.force, ..Wrap::default() };
        let far = crew::open_as_on_the_wire(&args.onto, args.crew.mtu, &wrap, 1)?;
        let pool = FramePool::new(PoolBudget::default());
        let far = far
            .into_iter()
            .next()
            .ok_or_else(|| anyhow!("--onto has no queue"))?
            .into_port(&pool)?;
        Ok(Wire { far, report: Report::default() })
    };
    let ended = crew::run(&args.crew, make, |crew, signals| watch(&args, form, crew, signals))?;
    let Some(((), reports)) = ended else { return Ok(()) };
    let all = reports.iter().fold(Report::default(), |a, b| Report {
        there: a.there + b.there,
        back: a.back + b.back,
        no_room: a.no_room + b.no_room,
    });
    if form == Form::Json {
        return figures::json(&json!({ "event": "summary", "there": all.there, "back": all.back,
                "no_room": all.no_room }));
    }
    let Report { there, back, no_room } = all;
    Ok(figures::line(&format!("{there} frames there, {back} back; {no_room} found no room"))?)
}

/// Waits for the end.
fn watch(args: &Args, form: Form, crew: &Crew<Report>, signals: &Signals) -> anyhow::Result<()> {
    let (port, onto) =
        (clearway_ports::describe(&args.crew.port), clearway_ports::describe(&args.onto));
    if form == Form::Json {
        figures::json(&json!({ "event": "ready", "port": port, "onto": onto }))?;
    } else {
        figures::line(&format!("Carrying frames between {port} and {onto}"))?;
    }
    let mut clock = Clock::new();
    let start = clock.read().now;
    let end = args.seconds.map_or(Instant::NEVER, |seconds| start + seconds.into());
    loop {
        let now = clock.read().now;
        if now >= end || !crew.is_whole() {
            return Ok(());
        }
        if crew.wait(signals, end.since(now).min(clearway_base::Duration::from_secs(1)))? {
            return Ok(());
        }
    }
}
