//! Reassembly of IPv4 and IPv6 datagrams (RFC 791 3.2, RFC 8200 4.5), bounded in datagrams, bytes,
//! pieces, time and per source.
//!
//! Fragments are copied into memory of the stack's own, so that a flood of them cannot hold the
//! device's buffers. Every overlap ends its datagram (RFC 5722); what still comes of it is dropped
//! until its time is over. The same piece again is dropped alone.
//!
//! ```text
//!   one place:  |  header of the first fragment  …  |  data, each piece where it belongs …          |
//!               0                                   HEAD                                     HEAD + 65535
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Ecn, Proto, ipv4, ipv6, ipv6_ext};

use crate::counters::{Drop, IpCounters};
use crate::ids::Table;
use crate::limits::Limits;

/// Room for the header of the first fragment with its extension headers and the fragment header.
const HEAD: usize = ipv6::HEADER_LEN + ipv6_ext::MAX_BYTES + ipv6_ext::FRAGMENT_LEN;
/// The longest data of a datagram.
const DATA: usize = 65_535;
/// One source may hold a fourth of everything.
const SHARE: usize = 4;
/// How long an IPv4 datagram may take (RFC 1122 3.3.2 says 60 to 120 s; at today's rates
/// identifications repeat long before, RFC 4963).
const TIMEOUT_V4: Duration = Duration::from_secs(30);
/// How long an IPv6 datagram may take (RFC 8200 4.5).
const TIMEOUT_V6: Duration = Duration::from_secs(60);

/// What the fragments of one datagram share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FragKey {
    pub(crate) table: Table,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) id: u32,
    /// Part of the key for IPv4 only (RFC 791 3.2); [`Proto::FRAGMENT`] for IPv6, whose later
    /// fragments may name anything (RFC 8200 4.5).
    pub(crate) proto: Proto,
}

/// One fragment.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// The IP header, and for IPv6 everything up to the end of the fragment header.
    pub(crate) header: &'a [u8],
    /// Where in `header` the datagram's own header names the fragment header, and what it names
    /// once that is gone (IPv6).
    pub(crate) named_at: usize,
    pub(crate) next: Proto,
    pub(crate) offset: u16,
    pub(crate) more: bool,
    pub(crate) data: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Gathering,
    /// A datagram that broke a rule: the rest of it is dropped too.
    Dead,
}

struct Slot {
    state: State,
    key: FragKey,
    ends: Instant,
    /// Bytes of data held.
    held: u32,
    /// Length of all data, once the last fragment came.
    end: Option<u32>,
    /// Length of the header of the first fragment; 0 while that has not come.
    header_len: u16,
    named_at: u16,
    next: Proto,
    /// Which ECN codepoints the fragments have, a bit for each number.
    marks: u8,
    pieces: Vec<(u16, u16)>,
    mem: Box<[u8]>,
}

/// All datagrams under reassembly.
pub(crate) struct Fragments {
    slots: Vec<Slot>,
    max_bytes: u32,
    max_pieces: usize,
    next_end: Instant,
}

/// A datagram that is whole: memory taken out of its place, to be given back with
/// [`Fragments::give_back`].
pub(crate) struct Whole {
    place: usize,
    mem: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Whole {
    /// The packet, IP header first, as if it had never been cut.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.mem[self.start..self.end]
    }
}

/// A datagram that never became whole and whose first fragment was there: what an ICMP error
/// quotes.
pub(crate) struct Expired<'a> {
    pub(crate) key: FragKey,
    pub(crate) quoted: [&'a [u8]; 2],
}

impl Fragments {
    /// Places as the limits say.
    pub(crate) fn new(limits: &Limits) -> Fragments {
        let max_pieces = usize::from(limits.fragment_pieces);
        let mut slots = Vec::new();
        let key = FragKey {
            table: Table(0),
            src: Addr::ANY_V6,
            dst: Addr::ANY_V6,
            id: 0,
            proto: Proto::NO_NEXT,
        };
        slots.resize_with(usize::from(limits.fragments), || Slot {
            state: State::Free,
            key,
            ends: Instant::NEVER,
            held: 0,
            end: None,
            header_len: 0,
            named_at: 0,
            next: Proto::NO_NEXT,
            marks: 0,
            pieces: Vec::with_capacity(max_pieces),
            mem: alloc::vec![0; HEAD + DATA].into_boxed_slice(),
        });
        Fragments { slots, max_bytes: limits.fragment_bytes, max_pieces, next_end: Instant::NEVER }
    }

    /// Takes a fragment; the datagram when this was its last missing one.
    ///
    /// # Errors
    /// Why the fragment, or with it the whole datagram, was dropped.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        key: FragKey,
        piece: &Piece<'_>,
        counters: &mut IpCounters,
    ) -> Result<Option<Whole>, Drop> {
        let end = usize::from(piece.offset) + piece.data.len();
        if end > DATA || piece.header.len() > HEAD {
            return Err(Drop::FragmentTooLong);
        }
        let place = match self.slots.iter().position(|s| s.state != State::Free && s.key == key) {
            Some(place) => place,
            None => self.open(now, key, counters)?,
        };
        if self.slots[place].state == State::Dead {
            return Err(Drop::FragmentOverlap);
        }
        match self.slots[place].check(piece, self.max_pieces) {
            Ok(()) => {}
            Err(Drop::FragmentDuplicate) => return Err(Drop::FragmentDuplicate),
            Err(why) => {
                self.slots[place].kill(counters);
                return Err(why);
            }
        }
        self.make_room(place, piece.data.len() as u32, counters)?;
        counters.fragments_in += 1;
        let slot = &mut self.slots[place];
        slot.store(piece);
        if slot.end != Some(slot.held) {
            return Ok(None);
        }
        let whole = slot.finish(place);
        match whole {
            Some(whole) => {
                counters.reassembled += 1;
                Ok(Some(whole))
            }
            None => {
                slot.kill(counters);
                Err(Drop::FragmentTooLong)
            }
        }
    }

    /// A place for a new datagram. The oldest makes room, but one source never holds more than its
    /// share.
    fn open(
        &mut self,
        now: Instant,
        key: FragKey,
        counters: &mut IpCounters,
    ) -> Result<usize, Drop> {
        let same_source =
            |s: &&Slot| s.state != State::Free && s.key.src == key.src && s.key.table == key.table;
        if self.slots.iter().filter(same_source).count() >= (self.slots.len() / SHARE).max(1) {
            return Err(Drop::FragmentSourceShare);
        }
        let place = match self.slots.iter().position(|s| s.state == State::Free) {
            Some(place) => place,
            None => self.oldest(None).ok_or(Drop::FragmentsFull)?,
        };
        let slot = &mut self.slots[place];
        slot.free(counters);
        slot.state = State::Gathering;
        slot.key = key;
        slot.ends = now + if key.src.is_v4() { TIMEOUT_V4 } else { TIMEOUT_V6 };
        self.next_end = self.next_end.min(slot.ends);
        Ok(place)
    }

    /// The place whose time ends first, a dead one before all others.
    fn oldest(&self, except: Option<usize>) -> Option<usize> {
        let used = self
            .slots
            .iter()
            .enumerate()
            .filter(|(at, s)| s.state != State::Free && Some(*at) != except);
        used.min_by_key(|(_, s)| (s.state != State::Dead, s.ends)).map(|(at, _)| at)
    }

    /// Makes room for `len` more bytes in the datagram at `place`.
    fn make_room(&mut self, place: usize, len: u32, counters: &mut IpCounters) -> Result<(), Drop> {
        let key = self.slots[place].key;
        let of_source =
            self.slots.iter().filter(|s| s.key.src == key.src && s.key.table == key.table);
        if of_source.map(|s| s.held).sum::<u32>() + len > self.max_bytes / SHARE as u32 {
            return Err(Drop::FragmentSourceShare);
        }
        while self.slots.iter().map(|s| s.held).sum::<u32>() + len > self.max_bytes {
            let others = self.slots.iter().enumerate().filter(|(at, s)| *at != place && s.held > 0);
            let oldest =
                others.min_by_key(|(_, s)| s.ends).map(|(at, _)| at).ok_or(Drop::FragmentsFull)?;
            self.slots[oldest].free(counters);
        }
        Ok(())
    }

    /// Takes back the memory of a datagram that was delivered.
    pub(crate) fn give_back(&mut self, whole: Whole) {
        if let Some(slot) = self.slots.get_mut(whole.place) {
            slot.mem = whole.mem;
            slot.state = State::Free;
        }
    }

    /// Gives up what is too old, and tells of each datagram whose first fragment was there.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        counters: &mut IpCounters,
        mut tell: impl FnMut(Expired<'_>),
    ) {
        if now < self.next_end {
            return;
        }
        self.next_end = Instant::NEVER;
        for slot in &mut self.slots {
            if slot.state == State::Free {
                continue;
            }
            if slot.ends > now {
                self.next_end = self.next_end.min(slot.ends);
                continue;
            }
            if slot.state == State::Gathering {
                counters.reassembly_timeouts += 1;
                // RFC 792 and RFC 4443 3.3: only who sent the first fragment is told.
                let first = slot
                    .pieces
                    .iter()
                    .find(|(start, _)| *start == 0)
                    .map_or(0, |(_, end)| usize::from(*end));
                if slot.header_len > 0 {
                    let header = &slot.mem[..usize::from(slot.header_len)];
                    tell(Expired {
                        key: slot.key,
                        quoted: [header, &slot.mem[HEAD..HEAD + first]],
                    });
                }
            }
            slot.free(counters);
        }
    }

    /// When [`Fragments::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_end
    }

    /// Bytes held in all.
    #[cfg(test)]
    fn held(&self) -> u32 {
        self.slots.iter().map(|s| s.held).sum()
    }
}

impl Slot {
    /// Whether a piece fits what is here.
    fn check(&self, piece: &Piece<'_>, max_pieces: usize) -> Result<(), Drop> {
        let start = piece.offset;
        let end = u32::from(start) + piece.data.len() as u32;
        if self.pieces.iter().any(|&(s, e)| s == start && u32::from(e) == end) {
            let at = HEAD + usize::from(start);
            let same_bytes = self.mem[at..at + piece.data.len()] == *piece.data;
            let same_end = piece.more == (self.end != Some(end));
            return Err(if same_bytes && same_end {
                Drop::FragmentDuplicate
            } else {
                Drop::FragmentOverlap
            });
        }
        if self.pieces.iter().any(|&(s, e)| end > s.into() && start < e) {
            return Err(Drop::FragmentOverlap);
        }
        let last_held = self.pieces.iter().map(|&(_, e)| u32::from(e)).max().unwrap_or(0);
        match (piece.more, self.end) {
            (false, Some(_)) => return Err(Drop::FragmentEnd),
            (false, None) if last_held > end => return Err(Drop::FragmentEnd),
            (true, Some(known)) if end >= known => return Err(Drop::FragmentEnd),
            _ => {}
        }
        // RFC 3168 5.3: who sends packets that can be marked sends all fragments so, and neither
        // may the mark be lost nor be put on what cannot be marked.
        let marks = self.marks | 1 << mark_of(piece.header) as u8;
        if marks & NOT_ECT != 0 && marks != NOT_ECT {
            return Err(Drop::FragmentMixedEcn);
        }
        if self.pieces.len() >= max_pieces { Err(Drop::FragmentPieces) } else { Ok(()) }
    }

    fn store(&mut self, piece: &Piece<'_>) {
        let at = HEAD + usize::from(piece.offset);
        let end = usize::from(piece.offset) + piece.data.len();
        self.mem[at..at + piece.data.len()].copy_from_slice(piece.data);
        self.pieces.push((piece.offset, end as u16));
        self.held += piece.data.len() as u32;
        self.marks |= 1 << mark_of(piece.header) as u8;
        if !piece.more {
            self.end = Some(end as u32);
        }
        if piece.offset == 0 {
            self.mem[..piece.header.len()].copy_from_slice(piece.header);
            self.header_len = piece.header.len() as u16;
            self.named_at = piece.named_at as u16;
            self.next = piece.next;
        }
    }

    /// Puts the header before the data and makes it that of a whole datagram. None when the two
    /// together are too long (the ping of death).
    fn finish(&mut self, place: usize) -> Option<Whole> {
        let data_len = self.held as usize;
        let mut header_len = usize::from(self.header_len);
        let is_v4 = self.key.src.is_v4();
        let payload = if is_v4 {
            header_len + data_len
        } else {
            header_len -= ipv6_ext::FRAGMENT_LEN;
            header_len + data_len - ipv6::HEADER_LEN
        };
        let length_field = u16::try_from(payload).ok()?.to_be_bytes();
        let start = HEAD - header_len;
        self.mem.copy_within(..header_len, start);
        let header = &mut self.mem[start..HEAD];
        let is_marked = self.marks & 1 << Ecn::Ce as u8 != 0;
        if is_v4 {
            header[1] |= if is_marked { Ecn::Ce as u8 } else { 0 };
            header[2..4].copy_from_slice(&length_field);
            // No offset, no more fragments; the checksum is made to fit again.
            header[6..8].fill(0);
            header[10..12].fill(0);
            let checksum = clearway_wire::checksum::sum(header).finish();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            header[1] |= if is_marked { (Ecn::Ce as u8) << 4 } else { 0 };
            header[4..6].copy_from_slice(&length_field);
            *header.get_mut(usize::from(self.named_at))? = self.next.0;
        }
        let mem = core::mem::take(&mut self.mem);
        self.clear();
        // The place stays taken until its memory is back.
        self.state = State::Dead;
        Some(Whole { place, mem, start, end: HEAD + data_len })
    }

    fn clear(&mut self) {
        self.state = State::Free;
        self.pieces.clear();
        self.held = 0;
        self.marks = 0;
        self.end = None;
        self.header_len = 0;
    }

    /// Lets go of the data.
    fn free(&mut self, counters: &mut IpCounters) {
        counters.fragments_discarded += self.pieces.len() as u64;
        self.clear();
    }

    /// Lets go of the data, and drops what still comes.
    fn kill(&mut self, counters: &mut IpCounters) {
        self.free(counters);
        self.state = State::Dead;
    }
}

/// The bit of packets that cannot be marked, in [`Slot::marks`].
const NOT_ECT: u8 = 1 << Ecn::NotEct as u8;

/// The ECN codepoint in an IP header.
fn mark_of(header: &[u8]) -> Ecn {
    match *header {
        [version, class, ..] if version >> 4 == 6 => Ecn::of(class >> 4),
        [_, tos, ..] => Ecn::of(tos),
        _ => Ecn::NotEct,
    }
}

/// Whether a first fragment of IPv4 holds the whole header of what it carries (RFC 1858 3; for IPv6
/// RFC 7112 says the same and the walk looks).
pub(crate) fn first_holds_header(proto: Proto, data: &[u8]) -> bool {
    let needed = match proto {
        Proto::TCP => data.get(12).map_or(usize::MAX, |b| usize::from(b >> 4) * 4),
        Proto::UDP | Proto::ICMP => 8,
        _ => 0,
    };
    data.len() >= needed
}

const _: () = assert!(HEAD >= 60 && DATA <= ipv4::MAX_LEN);

#[cfg(test)]
pub(crate) mod tests;
