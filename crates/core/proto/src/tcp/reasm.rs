//! Which bytes have arrived ahead of RCV.NXT. The bytes themselves are in the receive store; a
//! connection has such a map only while there is a hole.
//!
//! ```text
//!        RCV.NXT
//!  ─────────┬─────────┬─────┬──────┬────────┬──────▶ sequence space
//!  in order │  hole   │ have│ hole │  have  │
//! ```

use clearway_wire::Seq;

pub(crate) use super::ranges::Full;
use super::ranges::{RANGES, Ranges};
use super::span::Span;

/// SACK blocks that one ACK can carry (RFC 2018 3: four without timestamps).
pub(crate) const BLOCKS: usize = 4;

/// Runs of one turn that wait to be told: what a burst of frames can bring. Of more the first are
/// forgotten, and told when an ACK has room for them again.
const UNTOLD: usize = 64;

/// An ACK that leaves in front of the one that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Earlier {
    /// RCV.NXT, as it was when all that is told had come and nothing else.
    pub nxt: Seq,
    /// How many blocks it has.
    pub blocks: usize,
}

/// The map of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Reasm {
    ranges: Ranges,
    /// Where the pieces that came last began, the last one first: the spans around them are
    /// reported in this order.
    recent: [Seq; BLOCKS],
    recent_len: u8,
    /// What no ACK has told of, in the order in which it came; pieces of which one begins where the
    /// one before it ends are one run.
    untold: [Span; UNTOLD],
    untold_len: u8,
    /// An ACK has told of something since nothing was missing.
    is_known: bool,
    /// RCV.NXT, as [`Reasm::contiguous_from`] last left it.
    nxt: Seq,
}

impl Reasm {
    /// Nothing has arrived.
    pub(crate) const fn new() -> Reasm {
        Reasm {
            ranges: Ranges::new(),
            recent: [Seq(0); BLOCKS],
            recent_len: 0,
            untold: [Span::new(Seq(0), Seq(0)); UNTOLD],
            untold_len: 0,
            is_known: false,
            nxt: Seq(0),
        }
    }

    /// Whether nothing is held: the map can be given back.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.spans().is_empty()
    }

    /// How many separate spans are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.spans().len()
    }

    /// How many bytes are held.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u32 {
        self.ranges.bytes()
    }

    /// The first contiguous part of `span` that is not here: what a buffer with these bytes is to
    /// be cut to before it is stored.
    pub(crate) fn missing(&self, span: Span) -> Option<Span> {
        self.ranges.first_missing(span)
    }

    /// The first contiguous part of `span` that is here already.
    pub(crate) fn duplicate(&self, span: Span) -> Option<Span> {
        self.ranges.first_present(span)
    }

    /// Whether `insert` of `span` would be taken; asked before the bytes are stored. The last place
    /// is for bytes at RCV.NXT, which leave the map at once: a full map could never empty itself
    /// otherwise.
    pub(crate) fn can_insert(&self, span: Span) -> bool {
        self.ranges.can_insert(span)
            && (self.ranges.spans().len() < RANGES - 1
                || span.start == self.nxt
                || self.ranges.touches(span))
    }

    /// `span` has arrived and is stored. When the map is full nothing changes, and the segment must
    /// be dropped.
    pub(crate) fn insert(&mut self, span: Span) -> Result<(), Full> {
        if span.is_empty() {
            return Ok(());
        }
        if !self.can_insert(span) {
            return Err(Full);
        }
        self.ranges.insert(span)?;
        // Marks inside the span that this piece has become part of would only name it a second
        // time.
        let whole = self.ranges.around(span.start).unwrap_or(span);
        let mut kept = 1;
        let mut put = span.start;
        for i in 0..usize::from(self.recent_len) {
            let mark = self.recent[i];
            // `kept` is no more than one ahead of `i`: what is written over waits in `put`.
            if !whole.contains(mark) && kept < BLOCKS {
                self.recent[kept - 1] = core::mem::replace(&mut put, mark);
                kept += 1;
            }
        }
        self.recent[kept - 1] = put;
        self.recent_len = kept as u8;
        self.note_untold(span);
        Ok(())
    }

    fn note_untold(&mut self, span: Span) {
        let len = usize::from(self.untold_len);
        match self.untold[..len].last_mut() {
            Some(last) if last.end == span.start => {
                last.end = span.end;
                return;
            }
            _ => {}
        }
        if len == UNTOLD {
            self.forget(1);
        }
        self.untold[usize::from(self.untold_len)] = span;
        self.untold_len += 1;
    }

    /// So many of the first runs are told, or never will be.
    fn forget(&mut self, runs: usize) {
        let len = usize::from(self.untold_len);
        self.untold.copy_within(runs..len, 0);
        self.untold_len = (len - runs) as u8;
    }

    /// How far RCV.NXT may move on from `nxt` over bytes that are here. Those, and everything
    /// below, leave the map.
    pub(crate) fn contiguous_from(&mut self, nxt: Seq) -> u32 {
        let reached = self.ranges.spans().iter().take_while(|s| s.start.le(nxt)).last();
        let end = reached.map_or(nxt, |s| s.end.max(nxt));
        self.ranges.drop_below(end);
        self.nxt = end;
        end.since(nxt)
    }

    /// The SACK option's blocks: the duplicate that is to be reported, if any (RFC 2883 4), then
    /// the spans in which something arrived most recently, then others, lowest first (RFC 2018 4).
    /// At most `max` blocks (what fits beside other options). Returns how many there are.
    pub(crate) fn sack_blocks(
        &self,
        dsack: Option<Span>,
        out: &mut [Span; BLOCKS],
        max: usize,
    ) -> usize {
        let max = max.min(BLOCKS);
        let mut n = 0;
        if let Some(span) = dsack.filter(|_| max > 0) {
            out[0] = span;
            n = 1;
        }
        let first = n;
        let recent = self.recent[..usize::from(self.recent_len)]
            .iter()
            .filter_map(|mark| self.ranges.around(*mark));
        // RFC 2883 4.2: the second block is the span that the duplicate is part of.
        let of_duplicate = dsack.and_then(|d| self.ranges.around(d.start));
        for span in
            of_duplicate.into_iter().chain(recent).chain(self.ranges.spans().iter().copied())
        {
            if n == max {
                break;
            }
            if !out[first..n].contains(&span) {
                out[n] = span;
                n += 1;
            }
        }
        n
    }

    /// No ACK has told that anything is missing. One that has may not be followed by one without
    /// blocks: the peer would take for lost what is here.
    pub(crate) fn is_untold(&self) -> bool {
        !self.is_known
    }

    /// More wait to be told than `max`, which the ACK that is due has room for.
    pub(crate) fn has_earlier(&self, max: usize) -> bool {
        usize::from(self.untold_len) > max
    }

    /// An ACK that leaves in front of the one that is due: of what nothing has told yet it tells of
    /// that which came first, as if it had left when no more had come. The peer takes for lost what
    /// it has sent before something that is told of (RFC 8985 6.2), be it a retransmission or not;
    /// so nothing is told before what came earlier.
    pub(crate) fn earlier_blocks(
        &mut self,
        dsack: Option<Span>,
        out: &mut [Span; BLOCKS],
        max: usize,
    ) -> Earlier {
        let max = max.min(BLOCKS);
        let dsack = dsack.filter(|_| max > 0);
        let is_part = dsack.is_some_and(|span| self.ranges.around(span.start).is_some());
        let first = usize::from(dsack.is_some());
        // RFC 2883 4.2: the second block is the span that the duplicate is part of.
        let mut n = first + usize::from(is_part && max > 1);
        let len = usize::from(self.untold_len);
        let (told, later) = self.untold[..len].split_at(len.min(max - n));
        if later.is_empty() {
            self.all_is_told();
            return Earlier { nxt: self.nxt, blocks: self.sack_blocks(dsack, out, max) };
        }
        let nxt = self.nxt_before(later);
        if let Some(span) = dsack {
            let whole = self.around_before(span, later);
            [span, whole].iter().zip(out.iter_mut()).take(n).for_each(|(from, to)| *to = *from);
        }
        for run in told.iter().rev() {
            let whole = self.around_before(*run, later);
            if run.start.ge(nxt) && !out[first..n].contains(&whole) {
                out[n] = whole;
                n += 1;
            }
        }
        let told = told.len();
        self.forget(told);
        self.is_known = true;
        Earlier { nxt, blocks: n }
    }

    /// RCV.NXT as it was before those came that are `later`.
    fn nxt_before(&self, later: &[Span]) -> Seq {
        let below = later.iter().map(|run| run.start).filter(|start| start.lt(self.nxt));
        below.fold(self.nxt, Seq::min)
    }

    /// The span around a run as it was before those came that are `later`.
    fn around_before(&self, run: Span, later: &[Span]) -> Span {
        // What is in order by now stood behind what was missing at RCV.NXT then.
        let passed = || Span::new(self.nxt_before(later), self.nxt);
        let mut whole = self.ranges.around(run.start).unwrap_or_else(passed);
        for other in later {
            if other.end.le(run.start) {
                whole.start = whole.start.max(other.end);
            } else if other.start.ge(run.end) {
                whole.end = whole.end.min(other.start);
            }
        }
        whole
    }

    /// The ACK that is due tells of what is left.
    pub(crate) fn all_is_told(&mut self) {
        self.untold_len = 0;
        self.is_known = true;
    }
}

/// What a D-SACK is to say about an arrived segment that covers `span`: its first part that had
/// been received before, be it below `nxt` or in the map (RFC 2883 4). None when all of it is new.
pub(crate) fn duplicate_of(nxt: Seq, map: Option<&Reasm>, span: Span) -> Option<Span> {
    if span.is_empty() {
        return None;
    }
    if span.start.lt(nxt) {
        return Some(Span::new(span.start, span.end.min(nxt)));
    }
    map.and_then(|map| map.duplicate(span))
}

impl Reasm {
    /// The spans, lowest first, and where the pieces that came last began.
    pub(crate) fn parts(&self) -> (&[Span], &[Seq]) {
        (self.ranges.spans(), &self.recent[..usize::from(self.recent_len)])
    }

    /// The map made of such parts; None when they cannot be those of a connection that expects
    /// `bounds.start` and has offered `bounds`.
    pub(crate) fn of(spans: &[(Seq, Seq)], recent: &[Seq], bounds: Span) -> Option<Reasm> {
        let mut map = Reasm {
            ranges: Ranges::of(spans, bounds)?,
            nxt: bounds.start,
            is_known: true,
            ..Reasm::new()
        };
        for (place, mark) in map.recent.iter_mut().zip(recent) {
            *place = *mark;
            map.recent_len += 1;
        }
        Some(map)
    }
}

#[cfg(test)]
mod tests;
