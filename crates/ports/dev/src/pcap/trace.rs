//! A capture on demand: of several interfaces, with a filter, and bounded.

use std::io::{self, Write};

use clearway_pkt::Iface;

use super::SNAP_LEN;
use super::write::{Direction, InterfaceCounts, InterfaceId, Packet, PcapWriter};
use crate::filter::FrameFilter;

/// How much of a trace may be lost when the program is killed, in nanoseconds of its packets' time.
const FLUSH_EVERY_NS: u64 = 1_000_000_000;

/// What is captured, and how much at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceSpec {
    /// Which frames.
    pub filter: FrameFilter,
    /// How many.
    pub max_packets: u64,
    /// Bytes of the file.
    pub max_bytes: u64,
    /// Bytes of each frame that are kept.
    pub snap_len: usize,
}

impl Default for TraceSpec {
    /// Every frame whole, up to a million of them and a file of 1 GiB.
    fn default() -> TraceSpec {
        TraceSpec {
            filter: FrameFilter::default(),
            max_packets: 1_000_000,
            max_bytes: 1 << 30,
            snap_len: SNAP_LEN,
        }
    }
}

/// A frame that passes.
#[derive(Clone, Copy, Debug)]
pub struct TraceFrame<'a> {
    /// Where.
    pub iface: Iface,
    /// Whether it begins with an Ethernet header; it begins with its IP header otherwise.
    pub ethernet: bool,
    /// When, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// Which way.
    pub direction: Direction,
    /// Its bytes, or the first of them.
    pub bytes: &'a [u8],
    /// How many bytes it has in all.
    pub original_len: usize,
    /// What stands beside it in a viewer, a comment a line; None for nothing.
    pub comment: Option<&'a str>,
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traced {
    /// It is in the file.
    Written,
    /// The filter does not want it.
    Filtered,
    /// The trace is over: it has as much as it may, or the file cannot be written
    /// ([`Trace::error`]).
    Over,
}

/// Writes chosen frames to a pcapng file until it has enough.
pub struct Trace<W: Write> {
    writer: PcapWriter<W>,
    spec: TraceSpec,
    interfaces: Vec<(Iface, InterfaceId)>,
    names: Vec<(Iface, String)>,
    packets: u64,
    flushed_unix_ns: u64,
    error: Option<io::Error>,
}

impl<W: Write> Trace<W> {
    /// Begins a file. `names` says how interfaces are shown; another shows as its number.
    pub fn new(out: W, spec: TraceSpec, names: Vec<(Iface, String)>) -> io::Result<Trace<W>> {
        let writer = PcapWriter::new(out)?;
        Ok(Trace {
            writer,
            spec,
            interfaces: Vec::new(),
            names,
            packets: 0,
            flushed_unix_ns: 0,
            error: None,
        })
    }

    /// How interfaces are shown from now on. One whose number was another's begins anew in the
    /// file, so that nobody's frames stand under another's name.
    pub fn rename(&mut self, names: Vec<(Iface, String)>) {
        let of = |list: &[(Iface, String)], iface| {
            list.iter().find(|(named, _)| *named == iface).map(|(_, n)| n.clone())
        };
        self.interfaces.retain(|(iface, _)| of(&self.names, *iface) == of(&names, *iface));
        self.names = names;
    }

    /// Writes a frame down when it is wanted and there is room.
    pub fn record(&mut self, frame: &TraceFrame<'_>) -> Traced {
        if self.is_over() {
            return Traced::Over;
        }
        if !self.spec.filter.fits(frame.bytes, frame.ethernet) {
            return Traced::Filtered;
        }
        match self.write(frame) {
            Ok(()) => {
                self.packets += 1;
                if self.is_over()
                    || frame.unix_ns.saturating_sub(self.flushed_unix_ns) >= FLUSH_EVERY_NS
                {
                    self.flushed_unix_ns = frame.unix_ns;
                    self.flush();
                }
                Traced::Written
            }
            Err(error) => {
                self.error = Some(error);
                Traced::Over
            }
        }
    }

    fn write(&mut self, frame: &TraceFrame<'_>) -> io::Result<()> {
        let interface = self.interface(frame.iface, frame.ethernet)?;
        let bytes = &frame.bytes[..frame.bytes.len().min(self.spec.snap_len)];
        let TraceFrame { unix_ns, direction, original_len, comment, .. } = *frame;
        self.writer.write(&Packet { interface, unix_ns, direction, bytes, original_len, comment })
    }

    /// Writes down what an interface has had so far.
    pub fn statistics(
        &mut self,
        iface: Iface,
        ethernet: bool,
        unix_ns: u64,
        counts: &InterfaceCounts,
    ) {
        if self.error.is_some() {
            return;
        }
        let written = self
            .interface(iface, ethernet)
            .and_then(|interface| self.writer.statistics(interface, unix_ns, counts));
        self.error = written.err();
    }

    /// The interface's number in the file, which begins when its first frame comes.
    fn interface(&mut self, iface: Iface, ethernet: bool) -> io::Result<InterfaceId> {
        if let Some((_, id)) = self.interfaces.iter().find(|(known, _)| *known == iface) {
            return Ok(*id);
        }
        let name =
            self.names.iter().find(|(named, _)| *named == iface).map(|(_, name)| name.clone());
        let id = self.writer.interface(ethernet, &name.unwrap_or_else(|| iface.0.to_string()))?;
        self.interfaces.push((iface, id));
        Ok(id)
    }

    /// Whether no more frames are taken.
    pub fn is_over(&self) -> bool {
        self.error.is_some()
            || self.packets >= self.spec.max_packets
            || self.writer.written() >= self.spec.max_bytes
    }

    /// What is captured.
    pub fn spec(&self) -> &TraceSpec {
        &self.spec
    }

    /// Frames in the file, and its length in bytes.
    pub fn size(&self) -> (u64, u64) {
        (self.packets, self.writer.written())
    }

    /// Why the file can no longer be written, if so.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Hands everything to the system, so that a reader of the file sees it.
    pub fn flush(&mut self) {
        if let Err(error) = self.writer.flush() {
            self.error.get_or_insert(error);
        }
    }

    /// Ends the trace and gives the file back, everything written.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.writer.into_inner()),
        }
    }
}
