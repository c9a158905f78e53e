//! `clearway capture`: packets of a running host as pcapng, for Wireshark and its like.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::stat::{SFlag, fstat};
use nix::sys::time::TimeSpec;

use self::blocks::Blocks;
use self::files::{Files, Limits};
use crate::ctl::{Host, Place};
use crate::error::WrongUse;
use crate::out;
use crate::signals::Signals;

mod blocks;
mod files;

/// Capture packets of a running host as pcapng, live.
///
/// Packets go to a file, or to standard output for tshark and Wireshark. A packet that was dropped
/// carries the reason as a comment, and every packet of a program's session whose it is. The host
/// never waits for this: what it cannot pass on in time is counted, and told in the last line and
/// in the file.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway capture -w - | tshark -r -
  clearway capture -i tap0 -f 'tcp port 80' -w web.pcapng
  clearway capture -s 128 -b filesize:100000 -b files:5 -w ring.pcapng
  clearway capture --only drop -c 10 -w drops.pcapng
  clearway extcap --install        Wireshark, tshark and dumpcap list the interfaces themselves")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    what: What,

    /// End after so many packets
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    duration: Option<u32>,

    /// The file; `-`: standard output
    #[arg(short = 'w', long, value_name = "FILE", default_value = "-")]
    write: PathBuf,

    /// Begin another file after filesize:KILOBYTES, duration:SECONDS or packets:N, and keep the
    /// last files:N of them; may be given several times
    #[arg(short = 'b', long, value_name = "WHAT:N")]
    ring: Vec<String>,

    /// List the interfaces, and capture nothing
    #[arg(short = 'D', long)]
    list: bool,

    /// No line at the end
    #[arg(short, long)]
    quiet: bool,
}

/// Which packets.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct What {
    /// One interface; any: all of them
    #[arg(short = 'i', long, value_name = "INTERFACE", default_value = "any")]
    pub(crate) interface: String,

    /// A filter as tcpdump takes it: host, net, port, portrange, proto, tcp, udp, and, or, not
    #[arg(short = 'f', long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// Keep the first bytes of each packet only
    #[arg(short = 's', long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) snaplen: Option<u32>,

    /// Only packets that come in, go out, or are dropped
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAYS")]
    pub(crate) only: Vec<Way>,

    /// No session and program beside a packet
    #[arg(long)]
    pub(crate) no_names: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// That come in
    Rx,
    /// That go out
    Tx,
    /// That are dropped, with the reason
    Drop,
}

impl What {
    /// As a command of the host.
    fn command(&self, count: Option<u64>) -> anyhow::Result<String> {
        let mut line = "pcap stream".to_owned();
        for (way, word) in [(Way::Rx, "rx"), (Way::Tx, "tx"), (Way::Drop, "drop")] {
            if self.only.is_empty() || self.only.contains(&way) {
                line.push_str(&format!(" {word}"));
            }
        }
        line.push_str(&format!(" intfc {}", self.interface));
        if let Some(len) = self.snaplen {
            line.push_str(&format!(" max-bytes-per-pkt {len}"));
        }
        if let Some(count) = count {
            line.push_str(&format!(" max {count}"));
        }
        if let Some(filter) = self.filter.as_ref().filter(|filter| !filter.trim().is_empty()) {
            if filter.contains(['"', '\\', '\n']) {
                return Err(WrongUse("a filter has no quotes and is one line".into()).into());
            }
            line.push_str(&format!(" filter \"{filter}\""));
        }
        if !self.no_names {
            line.push_str(" names");
        }
        Ok(line)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        for (at, interface) in interfaces(&args.place)?.iter().enumerate() {
            writeln!(out::stdout(), "{}. {}", at + 1, interface.name)?;
        }
        return Ok(());
    }
    let limits = Limits::of(&args.ring)?;
    let is_standard = args.write.as_os_str() == "-";
    if is_standard && limits.is_some() {
        return Err(WrongUse("a ring of files needs a name: -w FILE".into()).into());
    }
    if is_standard && out::stdout().is_terminal() {
        let why = "packets do not go to a terminal: name a file with -w, or a pipe";
        return Err(WrongUse(why.into()).into());
    }
    let out = match is_standard {
        true => Out::Pipe(Pipe::of(out::stdout().as_fd())?),
        false => Out::Files(Files::new(&args.write, limits)?),
    };
    let until = args.duration.map(|s| Instant::now() + Duration::from_secs(s.into()));
    let mut capture = Capture::begin(&args.place, &args.what, args.count, out)?;
    let ended = capture.run(until);
    if !args.quiet {
        eprintln!("clearway: {}", capture.told());
    }
    ended
}

/// An interface that could be captured.
pub(crate) struct Interface {
    pub(crate) name: String,
    /// Its frames are Ethernet's.
    pub(crate) is_ethernet: bool,
}

pub(crate) fn interfaces(place: &Place) -> anyhow::Result<Vec<Interface>> {
    let mut host = Host::connect(place)?;
    host.answers_within(Duration::from_secs(5))?;
    let shown = host.shown("show interface")?;
    let rows = shown["interfaces"].as_array().cloned().unwrap_or_default();
    let of = |row: &serde_json::Value| {
        let name = row["name"].as_str()?.to_owned();
        Some(Interface { name, is_ethernet: row["mac"].is_string() })
    };
    Ok(rows.iter().filter_map(of).collect())
}

/// Where packets go.
pub(crate) enum Out {
    Pipe(Pipe),
    Files(Files),
}

/// Standard output, or a FIFO of Wireshark.
pub(crate) struct Pipe {
    file: std::fs::File,
    /// How much is written at a time: what can be without waiting.
    piece: usize,
    pending: Vec<u8>,
    /// So many of those are written.
    written: usize,
}

/// What a pipe takes at once when it says that it takes something (PIPE_BUF).
const PIPE_PIECE: usize = 4096;

/// What a pipe shall hold, if the system lets it: its reader may sleep for some milliseconds.
const PIPE_BYTES: usize = 1 << 20;

/// Bytes that wait for a reader here before the host is left waiting.
const MAX_PENDING: usize = 1 << 20;

/// Bytes read at a time.
const READ: usize = 256 << 10;

impl Pipe {
    pub(crate) fn of(fd: std::os::fd::BorrowedFd<'_>) -> anyhow::Result<Pipe> {
        let (file, piece) = match own_end(fd) {
            Some(file) => (file, usize::MAX),
            None => {
                let fd = fd.try_clone_to_owned().context("cannot use standard output")?;
                (fd.into(), PIPE_PIECE)
            }
        };
        Ok(Pipe { file, piece, pending: Vec::new(), written: 0 })
    }

    /// Bytes that wait.
    fn len(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Writes what is taken without waiting. False when nobody reads any more.
    fn write(&mut self, found: PollFlags) -> anyhow::Result<bool> {
        if found.contains(PollFlags::POLLERR) {
            return Ok(false);
        }
        if !found.contains(PollFlags::POLLOUT) || self.len() == 0 {
            return Ok(true);
        }
        let end = self.written + self.len().min(self.piece);
        match self.file.write(&self.pending[self.written..end]) {
            Ok(n) => self.written += n,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(false),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock
                ) => {}
            Err(error) => return Err(error).context("cannot write to standard output"),
        }
        // What is written goes when nothing is behind it, or half of what may be here is that.
        if self.len() == 0 {
            self.pending.clear();
            self.written = 0;
        } else if self.written >= MAX_PENDING / 2 {
            drop(self.pending.drain(..std::mem::take(&mut self.written)));
        }
        Ok(true)
    }
}

/// A way of our own to a pipe's writing end that does not block: the flag is the end's, and who gave
/// it to us may have it too. None: it is no pipe, or cannot be opened again.
fn own_end(fd: std::os::fd::BorrowedFd<'_>) -> Option<std::fs::File> {
    let stat = fstat(fd).ok()?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFIFO {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let file = std::fs::File::options().write(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.ok()?;
    // A smaller one does as well, with more turns.
    let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES as i32));
    Some(file)
}

/// A capture under way.
pub(crate) struct Capture {
    stream: UnixStream,
    signals: Signals,
    blocks: Blocks,
    out: Out,
    /// What is read at a time, which is written again with each read.
    bytes: Box<[u8]>,
    count: Option<u64>,
    /// We asked for the end.
    ending: bool,
}

impl Capture {
    pub(crate) fn begin(
        place: &Place,
        what: &What,
        count: Option<u64>,
        out: Out,
    ) -> anyhow::Result<Capture> {
        let line = what.command(count)?;
        let signals = Signals::take()?;
        let stream = Host::connect(place)?.into_stream(&line)?;
        Ok(Capture {
            stream,
            signals,
            blocks: Blocks::default(),
            out,
            bytes: vec![0; READ].into(),
            count,
            ending: false,
        })
    }

    /// Passes packets on until somebody ends that.
    pub(crate) fn run(&mut self, until: Option<Instant>) -> anyhow::Result<()> {
        let mut over = false;
        loop {
            let pending = match &self.out {
                Out::Pipe(pipe) => pipe.len(),
                Out::Files(_) => 0,
            };
            if over && pending == 0 {
                return self.end();
            }
            let [signal, readable, writable] = self.wait(!over, pending, until)?;
            if !signal.is_empty() {
                if self.signals_twice()? {
                    return Ok(());
                }
                self.ask_for_end();
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                self.ask_for_end();
            }
            if let Out::Pipe(pipe) = &mut self.out {
                if !pipe.write(writable)? {
                    return Ok(());
                }
            }
            if !readable.is_empty() {
                over = !self.read()?;
            }
        }
    }

    /// Waits for a signal, the host and the reader.
    fn wait(
        &self,
        reads: bool,
        pending: usize,
        until: Option<Instant>,
    ) -> anyhow::Result<[PollFlags; 3]> {
        let room = reads && pending < MAX_PENDING;
        let from_host = if room { PollFlags::POLLIN } else { PollFlags::empty() };
        // Who asks for nothing hears of an error still: that nobody reads.
        let to_reader = if pending > 0 { PollFlags::POLLOUT } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Out::Pipe(pipe) = &self.out {
            fds.push(PollFd::new(pipe.file.as_fd(), to_reader));
        }
        // A host that has said all is not asked again and again.
        if room {
            fds.push(PollFd::new(self.stream.as_fd(), from_host));
        }
        let left = until
            .filter(|_| !self.ending)
            .map(|until| TimeSpec::from_duration(until.saturating_duration_since(Instant::now())));
        match ppoll(&mut fds, left, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut found = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        let none = PollFlags::empty();
        let signal = found.next().unwrap_or(none);
        let is_pipe = matches!(self.out, Out::Pipe(_));
        let writable = if is_pipe { found.next().unwrap_or(none) } else { none };
        Ok([signal, found.next().unwrap_or(none), writable])
    }

    /// Takes a signal; whether it was asked to end before.
    fn signals_twice(&mut self) -> anyhow::Result<bool> {
        self.signals.clear()?;
        Ok(self.ending)
    }

    fn ask_for_end(&mut self) {
        if !std::mem::replace(&mut self.ending, true) {
            // A host that is gone has ended it.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Takes what the host sent. False at the end.
    fn read(&mut self) -> anyhow::Result<bool> {
        let n = match self.stream.read(&mut self.bytes) {
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error).context("the host cannot be heard"),
        };
        let out = &mut self.out;
        self.blocks.feed(&self.bytes[..n], |block, header| match out {
            Out::Pipe(pipe) => {
                pipe.pending.extend_from_slice(block.bytes);
                Ok(())
            }
            Out::Files(files) => files.write(block, header),
        })?;
        if let Out::Files(files) = out {
            files.flush()?;
        }
        Ok(n > 0)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let enough = self.count.is_some_and(|count| self.blocks.packets >= count);
        if !self.ending && !enough {
            bail!("the host has ended; what was captured is whole up to then");
        }
        Ok(())
    }

    /// What there was, in a line.
    pub(crate) fn told(&self) -> String {
        let blocks = &self.blocks;
        let lost = blocks.lost();
        let mut text = format!("{} packets captured, {lost} lost", blocks.packets);
        if lost > 0 {
            text.push_str(": they came faster than they were read");
        }
        if let Out::Files(files) = &self.out {
            text.push_str(&format!("; in {}", files.told()));
        }
        text
    }
}
