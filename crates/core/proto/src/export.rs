//! The state of a stack as bytes, so that another stack can go on where it was: what
//! [`Stack::export`](crate::Stack::export) writes and [`Stack::import`](crate::Stack::import)
//! reads.
//!
//! ```text
//!   "CWST"  version  │ kind  length  fields … │ kind  length  fields … │ …
//!      4       2        2      4     each: tag 2, length 4, value
//! ```
//!
//! All numbers are little-endian. A number's value has as many bytes as it needs, none when it is
//! zero. The format is additive: who reads skips fields and kinds that he does not know, and what
//! is missing has the value that it has in a new record. Points in time are told as nanoseconds
//! from the moment of the export. Links, caches and whatever else follows from the rest are not in
//! it, and neither are counters.
//!
//! What is read is checked as input of a stranger is: a record whose parts contradict each other is
//! refused, and the stack is as it was before that record.

use alloc::vec::Vec;
use core::fmt;

use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Endpoint, Seq};

use crate::error::Unreachable;
use crate::ids::{BindId, ConnId, ListenerId, UdpId};

/// What an export begins with.
const MAGIC: &[u8; 4] = b"CWST";

/// The version of the format. It changes only when an older reader could not make sense of what it
/// knows.
pub const VERSION: u16 = 1;

/// Bytes of the header of an export, of a record, and of a field.
const HEADER_LEN: usize = 6;
const RECORD_LEN: usize = 6;
const FIELD_LEN: usize = 6;

/// No point in time is further away than this: what is said to be is taken to be that far, about a
/// hundred days.
const FARTHEST_NS: u64 = 1 << 53;

/// How the farthest point in time of all, [`Instant::NEVER`], is told.
const NEVER: u64 = u64::MAX;

/// Errors of the network by number, 0 for none.
pub(crate) const UNREACHABLE: [Option<Unreachable>; 8] = [
    None,
    Some(Unreachable::Network),
    Some(Unreachable::Host),
    Some(Unreachable::Protocol),
    Some(Unreachable::Port),
    Some(Unreachable::Prohibited),
    Some(Unreachable::TimeExceeded),
    Some(Unreachable::Parameter),
];

/// What a record is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Stack = 1,
    Interface = 2,
    Address = 3,
    Route = 4,
    Neighbour = 5,
    PathMtu = 6,
    Bind = 7,
    Listener = 8,
    HalfOpen = 9,
    Connection = 10,
    TimeWait = 11,
    UdpSocket = 12,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Stack,
        Kind::Interface,
        Kind::Address,
        Kind::Route,
        Kind::Neighbour,
        Kind::PathMtu,
        Kind::Bind,
        Kind::Listener,
        Kind::HalfOpen,
        Kind::Connection,
        Kind::TimeWait,
        Kind::UdpSocket,
    ];

    fn of(number: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Stack => "stack",
            Kind::Interface => "interface",
            Kind::Address => "address",
            Kind::Route => "route",
            Kind::Neighbour => "neighbour",
            Kind::PathMtu => "path MTU",
            Kind::Bind => "reservation",
            Kind::Listener => "listener",
            Kind::HalfOpen => "half-open connection",
            Kind::Connection => "connection",
            Kind::TimeWait => "TIME-WAIT record",
            Kind::UdpSocket => "UDP socket",
        }
    }
}

/// Why a record was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is no export, or ends too early.
    Truncated,
    /// It was written in a format that this reader does not know.
    Version(u16),
    /// The field with this number has a value that it cannot have.
    Field(u16),
    /// Its parts contradict each other; the text says which.
    Contradiction(&'static str),
    /// Something with the same name is there already.
    Exists,
    /// The table for such things is full, or the stores have no memory for its bytes.
    Full,
    /// It names something that is not there: an interface, a listener, a routing table.
    Missing,
    /// It holds received bytes, and the stack has nothing to make buffers with
    /// ([`Stack::set_buffer_maker`](crate::Stack::set_buffer_maker)).
    NoBuffers,
}

/// A record that was refused. What came before it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// Where it begins, in bytes from the beginning of the export.
    pub offset: usize,
    /// What it is of, as far as that could be read.
    pub what: &'static str,
    /// Why.
    pub why: Fault,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}, {}: ", self.offset, self.what)?;
        match self.why {
            Fault::Truncated => f.write_str("it is no export of a stack, or ends too early"),
            Fault::Version(version) => {
                write!(f, "version {version} of the format, and this stack reads {VERSION}")
            }
            Fault::Field(tag) => write!(f, "field {tag} has a value that it cannot have"),
            Fault::Contradiction(what) => write!(f, "its parts contradict each other: {what}"),
            Fault::Exists => f.write_str("something with the same name is there already"),
            Fault::Full => f.write_str("there is no room for it"),
            Fault::Missing => f.write_str("what it names is not there"),
            Fault::NoBuffers => f.write_str("there is nothing to keep received bytes in"),
        }
    }
}

impl core::error::Error for ImportError {}

/// What an import made: the old names with the new ones.
#[derive(Clone, Default, Debug)]
pub struct Imported {
    /// Reserved ports.
    pub binds: Vec<(BindId, BindId)>,
    /// Listeners.
    pub listeners: Vec<(ListenerId, ListenerId)>,
    /// Connections that have an owner, or had one and wait to be read and closed; those that nobody
    /// has accepted too.
    pub conns: Vec<(ConnId, ConnId)>,
    /// UDP sockets.
    pub sockets: Vec<(UdpId, UdpId)>,
    /// Records of kinds that this stack does not know.
    pub skipped: u32,
}

/// The fields of a record, to be written or read. Each thing lists its own once, and that list
/// serves both ways.
pub(crate) trait Fields {
    /// The moment that times are told from.
    fn now(&self) -> Instant;

    /// A number, at most `most`.
    fn number(&mut self, tag: u16, value: &mut u64, most: u64);

    /// Bytes.
    fn bytes(&mut self, tag: u16, value: &mut Vec<u8>);

    /// What was read contradicts itself.
    fn refuse(&mut self, why: Fault);

    fn u8(&mut self, tag: u16, value: &mut u8) {
        let mut number = u64::from(*value);
        self.number(tag, &mut number, u8::MAX.into());
        *value = number as u8;
    }

    fn u16(&mut self, tag: u16, value: &mut u16) {
        let mut number = u64::from(*value);
        self.number(tag, &mut number, u16::MAX.into());
        *value = number as u16;
    }

    fn u32(&mut self, tag: u16, value: &mut u32) {
        let mut number = u64::from(*value);
        self.number(tag, &mut number, u32::MAX.into());
        *value = number as u32;
    }

    fn u64(&mut self, tag: u16, value: &mut u64) {
        self.number(tag, value, u64::MAX);
    }

    fn bool(&mut self, tag: u16, value: &mut bool) {
        let mut number = u64::from(*value);
        self.number(tag, &mut number, 1);
        *value = number == 1;
    }

    fn seq(&mut self, tag: u16, value: &mut Seq) {
        self.u32(tag, &mut value.0);
    }

    /// A value of a small set; `numbers` says which number stands for which.
    fn choice<T: Copy + PartialEq>(&mut self, tag: u16, value: &mut T, numbers: &[T])
    where
        Self: Sized,
    {
        let mut number = numbers.iter().position(|one| one == value).unwrap_or(0) as u64;
        self.number(tag, &mut number, numbers.len().saturating_sub(1) as u64);
        if let Some(chosen) = numbers.get(number as usize) {
            *value = *chosen;
        }
    }

    /// A length of time.
    fn duration(&mut self, tag: u16, value: &mut Duration) {
        let mut ns = value.as_nanos().min(FARTHEST_NS);
        self.number(tag, &mut ns, u64::MAX);
        *value = Duration::from_nanos(ns.min(FARTHEST_NS));
    }

    /// A point in time, before or after now: the lowest bit says which.
    fn instant(&mut self, tag: u16, value: &mut Instant) {
        let now = self.now();
        let mut told = match *value {
            Instant::NEVER => NEVER,
            at if at >= now => at.since(now).as_nanos().min(FARTHEST_NS) << 1,
            at => now.since(at).as_nanos().min(FARTHEST_NS) << 1 | 1,
        };
        self.number(tag, &mut told, u64::MAX);
        let distance = (told >> 1).min(FARTHEST_NS);
        *value = match told {
            NEVER => Instant::NEVER,
            told if told & 1 == 0 => now + Duration::from_nanos(distance),
            _ => Instant::from_nanos(now.as_nanos().saturating_sub(distance)),
        };
    }

    fn addr(&mut self, tag: u16, value: &mut Addr) {
        let mut octets = value.octets().to_vec();
        self.bytes(tag, &mut octets);
        match <[u8; 16]>::try_from(octets.as_slice()) {
            Ok(octets) => *value = Addr::v6(octets),
            Err(_) => self.refuse(Fault::Field(tag)),
        }
    }

    /// An address, and its port under the next number.
    fn endpoint(&mut self, tag: u16, value: &mut Endpoint) {
        self.addr(tag, &mut value.addr);
        self.u16(tag + 1, &mut value.port);
    }

    /// Stretches of sequence space.
    fn spans(&mut self, tag: u16, value: &mut Vec<(Seq, Seq)>) {
        let mut bytes = Vec::with_capacity(value.len() * 8);
        for (start, end) in value.iter() {
            bytes.extend_from_slice(&start.0.to_le_bytes());
            bytes.extend_from_slice(&end.0.to_le_bytes());
        }
        self.bytes(tag, &mut bytes);
        if bytes.len() % 8 != 0 {
            return self.refuse(Fault::Field(tag));
        }
        let word = |b: &[u8]| Seq(b.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)));
        *value = bytes.chunks_exact(8).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect();
    }
}

/// Writes an export.
pub(crate) struct Writer {
    now: Instant,
    out: Vec<u8>,
    /// Where the length of the record stands that is being written.
    length_at: usize,
}

impl Writer {
    /// An export of the moment `now`.
    pub(crate) fn new(now: Instant) -> Writer {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        Writer { now, out, length_at: 0 }
    }

    /// Writes one record; `fields` lists what is in it.
    pub(crate) fn record(&mut self, kind: Kind, fields: impl FnOnce(&mut Writer)) {
        self.out.extend_from_slice(&(kind as u16).to_le_bytes());
        let length_at = self.out.len();
        self.length_at = length_at;
        self.out.extend_from_slice(&[0; 4]);
        fields(self);
        let len = (self.out.len() - length_at - 4) as u32;
        self.out[length_at..length_at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Writes what `fields` lists, unless that is what `usual` lists: what says nothing is not
    /// told.
    pub(crate) fn unless(
        &mut self,
        usual: impl FnOnce(&mut Writer),
        fields: impl FnOnce(&mut Writer),
    ) {
        let at = self.out.len();
        usual(self);
        let known = self.out.split_off(at);
        fields(self);
        if self.out[at..] == known[..] {
            self.out.truncate(at);
        }
    }

    /// The export.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn put(&mut self, tag: u16, value: &[u8]) {
        self.out.extend_from_slice(&tag.to_le_bytes());
        self.out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.out.extend_from_slice(value);
    }
}

impl Fields for Writer {
    fn now(&self) -> Instant {
        self.now
    }

    fn number(&mut self, tag: u16, value: &mut u64, _most: u64) {
        let len = (u64::BITS - value.leading_zeros()).div_ceil(8) as usize;
        let bytes = value.to_le_bytes();
        self.put(tag, &bytes[..len]);
    }

    fn bytes(&mut self, tag: u16, value: &mut Vec<u8>) {
        self.put(tag, value);
    }

    // What is written was never read.
    fn refuse(&mut self, _why: Fault) {}
}

/// Reads the fields of one record.
pub(crate) struct Reader<'a> {
    now: Instant,
    fields: &'a [u8],
    fault: Option<Fault>,
}

impl<'a> Reader<'a> {
    fn new(now: Instant, fields: &'a [u8]) -> Reader<'a> {
        // Every field must lie in the record, also those that nobody asks for.
        let mut rest = fields;
        let mut fault = None;
        while !rest.is_empty() {
            match split_field(rest) {
                Some((_, _, behind)) => rest = behind,
                None => {
                    fault = Some(Fault::Truncated);
                    break;
                }
            }
        }
        Reader { now, fields, fault }
    }

    /// The value of the field `tag`: the first of that number.
    fn find(&self, tag: u16) -> Option<&'a [u8]> {
        let mut rest = self.fields;
        while let Some((here, value, behind)) = split_field(rest) {
            if here == tag {
                return Some(value);
            }
            rest = behind;
        }
        None
    }

    /// Whether the record has the field.
    pub(crate) fn has(&self, tag: u16) -> bool {
        self.find(tag).is_some()
    }

    /// What was wrong, if anything was.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)
    }
}

impl Fields for Reader<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn number(&mut self, tag: u16, value: &mut u64, most: u64) {
        let Some(bytes) = self.find(tag) else { return };
        let fits = bytes.iter().skip(8).all(|byte| *byte == 0);
        let number = bytes.iter().take(8).rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        if fits && number <= most {
            *value = number;
        } else {
            self.refuse(Fault::Field(tag));
        }
    }

    fn bytes(&mut self, tag: u16, value: &mut Vec<u8>) {
        if let Some(bytes) = self.find(tag) {
            value.clear();
            value.extend_from_slice(bytes);
        }
    }

    fn refuse(&mut self, why: Fault) {
        self.fault.get_or_insert(why);
    }
}

/// The first field of `bytes`: its number, its value, and what lies behind it.
fn split_field(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (tag, len) = head(bytes)?;
    let value = bytes.get(FIELD_LEN..FIELD_LEN.checked_add(len)?)?;
    Some((tag, value, &bytes[FIELD_LEN + len..]))
}

/// Two bytes and four: what records and fields begin with.
fn head(bytes: &[u8]) -> Option<(u16, usize)> {
    let [a, b, rest @ ..] = bytes else { return None };
    let len = rest.first_chunk::<4>()?;
    Some((u16::from_le_bytes([*a, *b]), u32::from_le_bytes(*len) as usize))
}

/// Gives each record of an export to `take`, and counts those of kinds that nobody knows.
pub(crate) fn read(
    now: Instant,
    export: &[u8],
    mut take: impl FnMut(Kind, &mut Reader<'_>) -> Result<(), Fault>,
) -> Result<u32, ImportError> {
    let refused = |offset, what, why| ImportError { offset, what, why };
    let (magic, version) = match export.get(..HEADER_LEN) {
        Some(header) => (&header[..4], u16::from_le_bytes([header[4], header[5]])),
        None => return Err(refused(0, "header", Fault::Truncated)),
    };
    if magic != MAGIC {
        return Err(refused(0, "header", Fault::Truncated));
    }
    if version != VERSION {
        return Err(refused(0, "header", Fault::Version(version)));
    }
    let (mut at, mut skipped) = (HEADER_LEN, 0);
    while at < export.len() {
        let truncated = refused(at, "record", Fault::Truncated);
        let (number, len) = head(&export[at..]).ok_or(truncated)?;
        let end = (at + RECORD_LEN).checked_add(len).ok_or(truncated)?;
        let fields = export.get(at + RECORD_LEN..end).ok_or(truncated)?;
        match Kind::of(number) {
            Some(kind) => {
                let mut reader = Reader::new(now, fields);
                let taken = reader.check().and_then(|()| take(kind, &mut reader));
                taken.map_err(|why| refused(at, kind.name(), why))?;
            }
            None => skipped += 1,
        }
        at = end;
    }
    Ok(skipped)
}
