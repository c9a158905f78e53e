//! A capture that was begun: what workers put into it, and the thread that writes it down.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_command::{PcapTrace, PortRange};
use clearway_dev::pcap::InterfaceCounts;
use clearway_dev::rules::NOWHERE;
use clearway_dev::{FrameFilter, Trace, TraceFrame, TraceSpec, Traced};
use clearway_pkt::Iface;
use clearway_wire::Proto;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use super::lane::{Batch, Lane, Note, Record};
use super::names::Names;
use crate::outcome::{CommandError, Output, locked};

/// The file of a capture that names none.
const DEFAULT_FILE: &str = "clearway.pcapng";

/// How often the writing thread looks for packets. What a worker may put meanwhile has to fit into
/// a lane, so it is short.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// How long a packet that was written may wait for others before a reader sees it, in rounds of the
/// thread without any packet.
const QUIET_ROUNDS: u32 = 4;

/// How often lost packets are told while there are some, in nanoseconds of packets' time.
const TELL_LOSSES_EVERY_NS: u64 = 1_000_000_000;

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// How long a reader that does not read is waited for when the host ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The names of interfaces from some time on.
type Naming = (u32, Vec<(Iface, String)>);

/// What workers see of a capture.
pub(super) struct Capture {
    pub(super) wanted: PcapTrace,
    filter: FrameFilter,
    snap_len: usize,
    /// The number of the one interface that is wanted, if one is; [`NOWHERE`] while it is not
    /// there.
    iface: AtomicU16,
    /// No more packets are taken.
    over: AtomicBool,
    /// How often interfaces were named anew, and the names that no packet was written with yet.
    naming: AtomicU32,
    namings: Mutex<Vec<Naming>>,
    /// One for each worker that has looked.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

impl Capture {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn set_interface(&self, iface: Iface) {
        self.iface.store(iface.0, Ordering::Release);
    }

    /// How often interfaces were named anew. Packets carry it, so that each stands under the name
    /// that its interface had, however late it is written.
    pub(super) fn naming(&self) -> u32 {
        self.naming.load(Ordering::Acquire)
    }

    /// Where a worker puts its packets.
    pub(super) fn lane(&self, worker: usize) -> Arc<Lane> {
        let mut lanes = locked(&self.lanes);
        while lanes.len() <= worker {
            lanes.push(Arc::default());
        }
        Arc::clone(&lanes[worker])
    }

    /// Puts a packet in, when it is wanted.
    pub(super) fn put(&self, lane: &Lane, record: &Record, bytes: &[u8]) {
        let elsewhere = || self.iface.load(Ordering::Acquire) != record.iface.0;
        if self.is_over() || (self.wanted.interface.is_some() && elsewhere()) {
            return;
        }
        let fits = self.filter.fits(bytes, record.ethernet);
        lane.put(record, fits.then(|| &bytes[..bytes.len().min(self.snap_len)]));
    }

    /// Packets that found no room.
    fn lost(&self) -> u64 {
        locked(&self.lanes).iter().map(|lane| lane.lost()).sum()
    }
}

/// What the writing thread is asked.
enum Ask {
    /// Have everything written that was put in before, and say how much there is.
    Report(SyncSender<Report>),
}

/// What there is of a capture.
#[derive(Clone, Default)]
struct Report {
    packets: u64,
    bytes: u64,
    is_over: bool,
    error: Option<String>,
}

/// A capture, as the control plane has it. When it is dropped everything is written.
pub(super) struct Recording {
    pub(super) capture: Arc<Capture>,
    /// The file; None for a stream.
    pub(super) path: Option<PathBuf>,
    max_packets: u64,
    asks: Option<mpsc::Sender<Ask>>,
    thread: Option<JoinHandle<()>>,
    /// The reader of a stream.
    stream: Option<UnixStream>,
}

/// What a capture needs to know of the host.
pub(super) struct Place {
    pub(super) iface: Option<Iface>,
    pub(super) names: Vec<(Iface, String)>,
    pub(super) sessions: Option<Names>,
}

impl Recording {
    /// Begins a file.
    pub(super) fn file(wanted: &PcapTrace, place: Place) -> Result<Recording, CommandError> {
        let path = wanted.file.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let path = std::path::absolute(&path).unwrap_or(path);
        let unwritable = |error| CommandError::Unwritable { path: path.clone(), error };
        let spec = spec(wanted, TraceSpec::default())?;
        let file = create(&path).map_err(unwritable)?;
        let (mut recording, writer) = begin(wanted, spec, place, file, None).map_err(unwritable)?;
        recording.thread = Some(spawn(writer, |_| ()).map_err(unwritable)?);
        recording.path = Some(path.clone());
        Ok(recording)
    }

    /// Begins a stream; `ended` is called when it is over.
    pub(super) fn stream(
        wanted: &PcapTrace,
        place: Place,
        stream: UnixStream,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Recording, CommandError> {
        let unwritable = |error: io::Error| CommandError::System(format!("the stream: {error}"));
        let endless =
            TraceSpec { max_packets: u64::MAX, max_bytes: u64::MAX, ..TraceSpec::default() };
        let spec = spec(wanted, endless)?;
        stream.set_nonblocking(false).map_err(unwritable)?;
        let (reader, kept) = (stream.try_clone(), stream.try_clone());
        let (reader, kept) = (reader.map_err(unwritable)?, kept.map_err(unwritable)?);
        let (mut recording, writer) =
            begin(wanted, spec, place, stream, Some(reader)).map_err(unwritable)?;
        let end = move |reader: Option<UnixStream>| {
            if let Some(reader) = reader {
                // Both descriptors must go before the reader sees an end.
                let _ = reader.shutdown(Shutdown::Both);
            }
            ended();
        };
        recording.thread = Some(spawn(writer, end).map_err(unwritable)?);
        recording.stream = Some(kept);
        Ok(recording)
    }

    pub(super) fn is_over(&self) -> bool {
        self.capture.is_over()
    }

    /// Interfaces have these names from now on, and the one that is wanted this number.
    pub(super) fn rename(&self, names: &[(Iface, String)], number: impl Fn(&str) -> Iface) {
        if let Some(name) = &self.capture.wanted.interface {
            self.capture.set_interface(number(name));
        }
        let mut namings = locked(&self.capture.namings);
        let next = self.capture.naming() + 1;
        namings.push((next, names.to_vec()));
        self.capture.naming.store(next, Ordering::Release);
    }

    fn report(&self) -> Report {
        let (tell, told) = mpsc::sync_channel(1);
        let asked = self.asks.as_ref().map(|asks| asks.send(Ask::Report(tell)));
        match asked {
            Some(Ok(())) => told.recv().unwrap_or_default(),
            _ => Report::default(),
        }
    }

    /// What there is so far, of a file.
    pub(super) fn status(&self) -> Output {
        let report = self.report();
        self.output(&report, if report.is_over { "Finished" } else { "Capturing" })
    }

    /// Ends it, and says what there is.
    pub(super) fn finish(self) -> Result<Output, CommandError> {
        self.capture.over.store(true, Ordering::Release);
        let report = self.report();
        match &report.error {
            Some(error) => Err(CommandError::System(format!(
                "{}: the capture is not whole: {error}",
                self.path()
            ))),
            None => Ok(self.output(&report, "Captured")),
        }
    }

    fn path(&self) -> String {
        self.path.as_ref().map_or("a stream".into(), |path| path.display().to_string())
    }

    fn output(&self, report: &Report, verb: &str) -> Output {
        let wanted = &self.capture.wanted;
        let ways: Vec<&str> = [(wanted.rx, "rx"), (wanted.tx, "tx"), (wanted.drop, "drop")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect();
        let (path, most, lost) = (self.path(), self.max_packets, self.capture.lost());
        let Report { packets, bytes, error, .. } = report;
        let mut text = format!(
            "{verb}: {} into {path}: {packets} packets of at most {most}, {bytes} bytes\n",
            ways.join(" ")
        );
        if lost > 0 {
            text.push_str(&format!(
                "{lost} packets are not in it: they came faster than they could be written\n"
            ));
        }
        if let Some(error) = error {
            text.push_str(&format!("The file cannot be written: {error}\n"));
        }
        let json = json!({
            "capturing": verb == "Capturing",
            "file": path,
            "what": ways,
            "packets": packets,
            "max": most,
            "bytes": bytes,
            "lost": lost,
            "error": error,
        });
        Output::new(text, json)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.capture.over.store(true, Ordering::Release);
        self.asks = None;
        let Some(thread) = self.thread.take() else { return };
        if let Some(stream) = &self.stream {
            if thread.thread().id() == std::thread::current().id() {
                return;
            }
            // A reader that reads gets the end of it; another one is not waited for.
            let rounds = LAST_WORDS.as_millis() / LOOK_EVERY.as_millis();
            for _ in 0..rounds {
                if thread.is_finished() {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = thread.join();
    }
}

/// Whether the filter can be used.
pub(super) fn check(wanted: &PcapTrace) -> Result<(), CommandError> {
    spec(wanted, TraceSpec::default()).map(drop)
}

fn spec(wanted: &PcapTrace, usual: TraceSpec) -> Result<TraceSpec, CommandError> {
    let expression = wanted.filter.as_ref().map(|text| text.parse()).transpose()?;
    Ok(TraceSpec {
        filter: FrameFilter {
            prefix: wanted.prefix,
            proto: wanted.protocol.map(Proto),
            ports: wanted.ports.map(range),
            expression,
        },
        max_packets: wanted.max.unwrap_or(usual.max_packets),
        snap_len: wanted
            .max_bytes
            .map_or(usual.snap_len, |len| (len as usize).clamp(1, usual.snap_len)),
        ..usual
    })
}

pub(super) fn range(ports: PortRange) -> std::ops::RangeInclusive<u16> {
    ports.first..=ports.last
}

/// Only for us to read, and not through a link that somebody left there.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    options.open(path)
}

fn begin<W: Write>(
    wanted: &PcapTrace,
    spec: TraceSpec,
    place: Place,
    out: W,
    reader: Option<UnixStream>,
) -> io::Result<(Recording, Writer<W>)> {
    let capture = Arc::new(Capture {
        wanted: wanted.clone(),
        filter: spec.filter.clone(),
        snap_len: spec.snap_len,
        iface: AtomicU16::new(place.iface.unwrap_or(NOWHERE).0),
        over: AtomicBool::new(false),
        naming: AtomicU32::new(0),
        namings: Mutex::default(),
        lanes: Mutex::default(),
    });
    let (asks, asked) = mpsc::channel();
    let max_packets = spec.max_packets;
    // Workers look at the filter.
    let spec = TraceSpec { filter: FrameFilter::default(), ..spec };
    let out = BufWriter::with_capacity(WRITE_BYTES, out);
    let mut trace = Trace::new(out, spec, place.names)?;
    // Who opens the file now finds its beginning.
    trace.flush();
    let writer = Writer {
        capture: Arc::clone(&capture),
        trace,
        asked,
        spare: Batch::default(),
        names: place.sessions,
        comment: String::new(),
        counts: Vec::new(),
        unix_ns: 0,
        told_losses: (0, 0),
        naming: 0,
        quiet: QUIET_ROUNDS,
        is_finished: false,
        reader,
    };
    let asks = Some(asks);
    let recording =
        Recording { capture, path: None, max_packets, asks, thread: None, stream: None };
    Ok((recording, writer))
}

fn spawn<W: Write + Send + 'static>(
    writer: Writer<W>,
    end: impl FnOnce(Option<UnixStream>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("clearway-pcap".into());
    thread.spawn(move || end(writer.run()))
}

/// The thread that writes a capture down.
struct Writer<W: Write> {
    capture: Arc<Capture>,
    trace: Trace<BufWriter<W>>,
    asked: Receiver<Ask>,
    spare: Batch,
    names: Option<Names>,
    comment: String,
    /// What interfaces had: number, whether its frames are Ethernet's, and how many.
    counts: Vec<(Iface, bool, InterfaceCounts)>,
    /// When the last packet passed.
    unix_ns: u64,
    /// Packets that were lost when somebody was told, and when.
    told_losses: (u64, u64),
    /// Those that the last packet was written with.
    naming: u32,
    /// Rounds without a packet.
    quiet: u32,
    /// The last words are written.
    is_finished: bool,
    /// The other side of a stream.
    reader: Option<UnixStream>,
}

impl<W: Write> Writer<W> {
    /// Writes until it is asked to end, or the reader does.
    fn run(mut self) -> Option<UnixStream> {
        loop {
            let asked = self.asked.recv_timeout(LOOK_EVERY);
            // Asked first: what was put in before the end is written.
            let is_ended = self.capture.is_over();
            self.write_down();
            if self.trace.is_over() || is_ended {
                self.finish();
            }
            match asked {
                Ok(Ask::Report(tell)) => {
                    self.trace.flush();
                    let (packets, bytes) = self.trace.size();
                    let error = self.trace.error().map(ToString::to_string);
                    let is_over = self.trace.is_over();
                    let _ = tell.send(Report { packets, bytes, is_over, error });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.finish();
                    return self.reader;
                }
            }
            if self.reader.as_ref().is_some_and(|reader| self.is_finished || is_shut(reader)) {
                self.write_down();
                self.finish();
                return self.reader;
            }
        }
    }

    /// Takes all that workers have put in.
    fn write_down(&mut self) {
        if self.is_finished {
            return;
        }
        let lanes: Vec<Arc<Lane>> = locked(&self.capture.lanes).clone();
        let mut spare = std::mem::take(&mut self.spare);
        let mut any = false;
        for lane in lanes {
            lane.take(&mut spare, |batch| any |= self.write_batch(batch));
        }
        self.spare = spare;
        self.quiet = if any { 0 } else { self.quiet.saturating_add(1) };
        if self.quiet == QUIET_ROUNDS {
            self.tell_losses();
            self.trace.flush();
        }
        if any && self.unix_ns.abs_diff(self.told_losses.1) >= TELL_LOSSES_EVERY_NS {
            self.tell_losses();
        }
    }

    fn write_batch(&mut self, batch: &Batch) -> bool {
        for (iface, ethernet, counts) in batch.counts() {
            self.count(iface, ethernet, counts);
        }
        self.ask_names(batch);
        let mut any = false;
        for (record, bytes) in batch.records() {
            self.unix_ns = record.unix_ns;
            if record.naming != self.naming {
                self.rename(record.naming);
            }
            self.comment.clear();
            match record.note {
                Note::None => {}
                Note::Dropped(why) => self.comment.push_str(why.name()),
                Note::Denied(rule) => self.comment.push_str(&format!("acl-denied: rule {rule}")),
            }
            if let Some(names) = &self.names {
                names.name(bytes, record.ethernet, &mut self.comment);
            }
            let frame = TraceFrame {
                iface: record.iface,
                ethernet: record.ethernet,
                unix_ns: record.unix_ns,
                direction: record.direction,
                bytes,
                original_len: record.original_len,
                comment: Some(self.comment.as_str()).filter(|comment| !comment.is_empty()),
            };
            any = true;
            if self.trace.record(&frame) == Traced::Over {
                break;
            }
        }
        if self.trace.is_over() {
            self.capture.over.store(true, Ordering::Release);
        }
        any
    }

    /// Interfaces had other names when the next packet passed.
    fn rename(&mut self, naming: u32) {
        self.naming = naming;
        let mut namings = locked(&self.capture.namings);
        let used = namings.iter().take_while(|(number, _)| *number <= naming).count();
        if let Some((_, names)) = namings.drain(..used).next_back() {
            self.trace.rename(names);
        }
    }

    /// Learns whose packets are that nobody is known for.
    fn ask_names(&mut self, batch: &Batch) {
        let Some(names) = &mut self.names else { return };
        let mut line = String::new();
        let mut last = None;
        let unnamed = batch.records().any(|(record, bytes)| {
            last = Some(record.unix_ns);
            line.clear();
            !names.name(bytes, record.ethernet, &mut line)
        });
        if let Some(unix_ns) = last {
            names.refresh(unix_ns, unnamed);
        }
    }

    fn count(&mut self, iface: Iface, ethernet: bool, more: &InterfaceCounts) {
        let known = self.counts.iter_mut().find(|(known, ..)| *known == iface);
        match known {
            Some((_, _, counts)) => {
                counts.seen += more.seen;
                counts.fitting += more.fitting;
                counts.lost += more.lost;
            }
            None => self.counts.push((iface, ethernet, *more)),
        }
    }

    /// For a reader who ends without asking us to.
    fn tell_losses(&mut self) {
        let lost = self.counts.iter().map(|(_, _, counts)| counts.lost).sum();
        if lost > self.told_losses.0 {
            self.write_counts();
        }
        self.told_losses = (lost, self.unix_ns);
    }

    fn write_counts(&mut self) {
        for (iface, ethernet, counts) in &self.counts {
            self.trace.statistics(*iface, *ethernet, self.unix_ns, counts);
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.capture.over.store(true, Ordering::Release);
            self.write_counts();
            self.trace.flush();
        }
    }
}

/// Whether the other side has shut its half, or is gone. It has nothing to say.
fn is_shut(reader: &UnixStream) -> bool {
    let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
    let found = poll(&mut fds, PollTimeout::ZERO);
    found.is_ok_and(|n| n > 0)
}
