//! `clearway reflect`: sends back every frame that comes.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clearway_base::Instant;
use clearway_dev::{DevCounters, DevError, Facts as _, RxDrop, TxDrop};
use clearway_engine::{Clock, cores};
use clearway_pkt::{Burst, PoolBuf};
use clearway_ports::Port;
use clearway_traffic::{Answerer, Mirror, Reflected, Reflector, Requests};
use serde_json::{Map, Value, json};

use crate::crew::{self, Crew, CrewArgs, Work};
use crate::figures::{self, Form, gbit, per_second};
use crate::signals::Signals;

/// 16 MiB.
const LONGEST_ANSWER: usize = 16 << 20;

/// Send back every frame that comes to a port, with its addresses exchanged
///
/// Each queue has a thread of its own. Frames to a group cannot go back with exchanged addresses,
/// and are dropped; --as-is returns them too.
///
/// Examples:
///   clearway reflect --port tap:clearway0
///   clearway reflect --port tap:clearway0 --l3 --cores 0,1
///   clearway reflect --port dpdk:net_memif0,role=server,socket=/tmp/m.sock --as-is
///   clearway reflect --port tap:clearway0 --answer page.http
///
/// With --answer, requests over TCP and IPv4 are answered without a stack, each segment from what
/// stands in it: how many requests a link and its clients carry when the server costs nothing. Of
/// answers that are longer than a segment it sends what the client's window has room for, and
/// nothing again. It answers no ARP: ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev clearway0
///
/// With --server-core too, what comes is first handed to a thread on that core, and answered when
/// that thread has said so: what a server that is not in the same thread costs at the least, when
/// one request is under way
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    crew: CrewArgs,

    /// Exchange IP addresses and the ports of TCP and UDP too
    #[arg(long, conflicts_with = "as_is")]
    l3: bool,

    /// Exchange nothing: frames go back as they came
    #[arg(long)]
    as_is: bool,

    /// Answer each request with the bytes of a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["l3", "as_is"])]
    answer: Option<PathBuf>,

    /// How requests are told apart
    #[arg(long, value_name = "PROTOCOL", requires = "answer", default_value = "http")]
    requests: Protocol,

    /// End each connection with its first answer
    #[arg(long, requires = "answer")]
    close: bool,

    /// Before requests are answered, wake a thread on this core and wait for it
    #[arg(long, value_name = "CORE", requires = "answer")]
    server_core: Option<usize>,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = figures::seconds)]
    seconds: Option<Duration>,

    /// Print figures as JSON, an object per line
    #[arg(long)]
    json: bool,
}

/// What clients speak.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Protocol {
    /// A request ends with an empty line
    Http,
    /// A request begins with a line that begins with `*`
    Redis,
}

/// What one queue did.
#[derive(Clone, Default)]
struct Report {
    counts: Reflected,
    dev: DevCounters,
}

enum Queue {
    Reflects(Reflector),
    Answers(Answerer),
}

impl Work for Queue {
    type Report = Report;

    fn turn(
        &mut self,
        now: Instant,
        dev: &mut Port,
        burst: &mut Burst<PoolBuf>,
    ) -> Result<bool, DevError> {
        match self {
            Queue::Reflects(reflector) => reflector.turn(now, dev, burst),
            Queue::Answers(answerer) => answerer.turn(now, dev, burst),
        }
    }

    fn next_due(&self) -> Instant {
        Instant::NEVER
    }

    fn report(&self, dev: &Port) -> Report {
        let counts = match self {
            Queue::Reflects(reflector) => reflector.counts(),
            Queue::Answers(answerer) => answerer.counts(),
        };
        Report { counts: *counts, dev: dev.counters() }
    }
}

/// Runs the command.
pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    // What is answered goes no further, so a device may join what comes and finish what leaves.
    args.crew.offload = args.answer.is_some();
    let form = Form::choose(args.json);
    let mirror = match (args.as_is, args.l3) {
        (true, _) => Mirror::AsIs,
        (_, true) => Mirror::Addresses,
        _ => Mirror::Macs,
    };
    let answer = args.answer.as_deref().map(read_answer).transpose()?;
    let requests = match args.requests {
        Protocol::Http => Requests::Http,
        Protocol::Redis => Requests::Redis,
    };
    let make = |_, _: &Port| {
        Ok(match &answer {
            Some(answer) => {
                let answerer = Answerer::new(requests, answer, args.close);
                Queue::Answers(match args.server_core {
                    Some(core) => answerer.asking(server(core)?),
                    None => answerer,
                })
            }
            None => Queue::Reflects(Reflector::new(mirror)),
        })
    };
    let ended =
        crew::run(&args.crew, make, |crew, signals| watch(&args, form, mirror, crew, signals))?;
    match ended {
        Some((seconds, reports)) => summary(form, seconds, &reports),
        None => Ok(()),
    }
}

/// Starts a thread that answers whoever asks, on this core; what is returned asks it and waits for
/// its answer. The thread ends when that is dropped.
fn server(core: usize) -> anyhow::Result<impl FnMut() + Send> {
    let (mut asks, mut asked) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let serve = move || -> anyhow::Result<()> {
        cores::pin(core)?;
        let mut word = [0];
        // The pin has held, before anybody asks.
        asked.write_all(&word)?;
        while asked.read(&mut word)? == 1 {
            asked.write_all(&word)?;
        }
        Ok(())
    };
    let thread = thread::Builder::new().name("server".into()).spawn(serve)?;
    let mut word = [0];
    if asks.read(&mut word)? == 0 {
        // It has ended, and says why.
        thread.join().map_err(|_| anyhow!("the server's thread panicked"))??;
    }
    Ok(move || {
        // A thread that was started and pinned answers until the other end is gone.
        let _ = asks.write_all(&[0]).and_then(|()| asks.read_exact(&mut [0]));
    })
}

fn read_answer(path: &Path) -> anyhow::Result<Vec<u8>> {
    let answer = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if answer.is_empty() || answer.len() > LONGEST_ANSWER {
        bail!("{} has {} bytes: an answer has 1 to {LONGEST_ANSWER}", path.display(), answer.len());
    }
    Ok(answer)
}

fn sum(reports: &[Report]) -> Reflected {
    let mut sum = Reflected::default();
    reports.iter().for_each(|report| sum.add(&report.counts));
    sum
}

/// Tells of each second; answers with how long it took.
fn watch(
    args: &Args,
    form: Form,
    mirror: Mirror,
    crew: &Crew<Report>,
    signals: &Signals,
) -> anyhow::Result<f64> {
    let port = clearway_ports::describe(&args.crew.port);
    let (queues, places) = (args.crew.queues(), args.crew.places());
    let what = match mirror {
        _ if args.answer.is_some() => "with an answer for each request",
        Mirror::AsIs => "as they are",
        Mirror::Macs => "with MAC addresses exchanged",
        Mirror::Addresses => "with MAC and IP addresses and ports exchanged",
    };
    if form == Form::Json {
        let cores = args.crew.cores.as_ref().map(|cores| cores.list().to_vec());
        figures::json(
            &json!({ "event": "ready", "port": port, "queues": queues, "cores": cores }),
        )?;
    } else {
        let queues = if queues == 1 { "1 queue".into() } else { format!("{queues} queues") };
        figures::line(&format!("Sending frames of {port} back {what}: {queues} on {places}"))?;
    }
    let mut clock = Clock::new();
    let start = clock.read().now;
    let end = args.seconds.map_or(Instant::NEVER, |seconds| start + seconds.into());
    let (mut last, mut before) = (start, Reflected::default());
    loop {
        let now = clock.read().now;
        let second = last + clearway_base::Duration::from_secs(1);
        if now >= end || !crew.is_whole() {
            break;
        }
        if now >= second {
            let counts = sum(&crew.reports());
            let seconds = now.since(last).as_nanos() as f64 / 1e9;
            tell_second(form, seconds, &counts, &before)?;
            (last, before) = (now, counts);
            continue;
        }
        if crew.wait(signals, second.min(end).since(now))? {
            break;
        }
    }
    Ok(clock.read().now.since(start).as_nanos() as f64 / 1e9)
}

fn tell_second(
    form: Form,
    seconds: f64,
    now: &Reflected,
    before: &Reflected,
) -> anyhow::Result<()> {
    let mpps = |now: u64, before: u64| per_second(now - before, seconds) / 1e6;
    let (rx, tx) = (mpps(now.frames, before.frames), mpps(now.returned, before.returned));
    let (rx_bits, tx_bits) = (
        gbit(now.bytes - before.bytes, seconds) * 1e3,
        gbit(now.returned_bytes - before.returned_bytes, seconds) * 1e3,
    );
    let kept = now.not_returned() - before.not_returned();
    match form {
        Form::Quiet => Ok(()),
        Form::Live => Ok(figures::line(&format!(
            "in {rx:>8.3} Mpps {rx_bits:>9.1} Mbit/s   back {tx:>8.3} Mpps {tx_bits:>9.1} Mbit/s   \
             {kept} not returned"
        ))?),
        Form::Json => figures::json(&json!({
            "event": "second", "seconds": seconds, "rx_mpps": rx, "tx_mpps": tx,
                "rx_mbit_per_s": rx_bits, "tx_mbit_per_s": tx_bits,
            "not_returned": kept,
        })),
    }
}

/// Every reason why frames were lost at a port, with the count, those that never happened left out.
pub(crate) fn port_drops(all: impl Iterator<Item = DevCounters>) -> Map<String, Value> {
    let mut dev = DevCounters::default();
    all.for_each(|counters| dev.add(&counters));
    let rx =
        RxDrop::ALL.iter().map(|why| (format!("port-rx-{}", why.name()), dev.rx_dropped(*why)));
    let tx =
        TxDrop::ALL.iter().map(|why| (format!("port-tx-{}", why.name()), dev.tx_dropped(*why)));
    rx.chain(tx).filter(|(_, count)| *count > 0).map(|(name, count)| (name, count.into())).collect()
}

fn summary(form: Form, seconds: f64, reports: &[Report]) -> anyhow::Result<()> {
    let all = sum(reports);
    let mut reasons = port_drops(reports.iter().map(|report| report.dev));
    for (name, count) in all.lost().into_iter().filter(|(_, count)| *count > 0) {
        reasons.insert(name.into(), count.into());
    }
    if form == Form::Json {
        let queues: Vec<Value> = reports
            .iter()
            .map(|report| {
                json!({ "frames": report.counts.frames,
                "returned": report.counts.returned })
            })
            .collect();
        return figures::json(&json!({
            "event": "summary", "seconds": seconds, "frames": all.frames, "bytes": all.bytes,
                "returned": all.returned,
            "returned_bytes": all.returned_bytes, "queues": queues, "drops_by_reason": reasons,
        }));
    }
    figures::line(&format!(
        "\n{} frames ({} bytes) in {seconds:.1} s, {} went back ({:.3} Mpps)",
        all.frames,
        all.bytes,
        all.returned,
        per_second(all.returned, seconds) / 1e6
    ))?;
    for (index, report) in reports.iter().enumerate() {
        figures::line(&format!(
            "  queue {index}: {} in, {} back",
            report.counts.frames, report.counts.returned
        ))?;
    }
    for (reason, count) in reasons {
        figures::line(&format!("  dropped, {reason}: {count}"))?;
    }
    Ok(())
}
