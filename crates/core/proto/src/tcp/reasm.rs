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

/// Spans of one turn that wait to be told: what a burst of frames can bring. Of more the first are
/// forgotten, and told when an ACK has room for them again.
const UNTOLD: usize = 64;

/// The map of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Reasm {
    ranges: Ranges,
    /// Where the pieces that came last began, the last one first: the spans around them are
    /// reported in this order.
    recent: [Seq; UNTOLD],
    recent_len: u8,
    /// How many of them no ACK has told of, those in front.
    untold: u8,
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
            recent: [Seq(0); UNTOLD],
            recent_len: 0,
            untold: 0,
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
        let (mut kept, mut untold) = (1, 1);
        let mut put = span.start;
        for i in 0..usize::from(self.recent_len) {
            let mark = self.recent[i];
            let is_untold = i < usize::from(self.untold);
            let room = if is_untold { UNTOLD } else { BLOCKS };
            // `kept` is no more than one ahead of `i`: what is written over waits in `put`.
            if !whole.contains(mark) && kept < room {
                self.recent[kept - 1] = core::mem::replace(&mut put, mark);
                kept += 1;
                untold += usize::from(is_untold);
            }
        }
        self.recent[kept - 1] = put;
        self.recent_len = kept as u8;
        self.untold = untold as u8;
        Ok(())
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
        self.blocks_from(0, dsack, out, max)
    }

    /// No ACK has told that anything is missing. One that has may not be followed by one without
    /// blocks: the peer would take for lost what is here.
    pub(crate) fn is_untold(&self) -> bool {
        !self.is_known
    }

    /// More spans wait to be told than `max`, which the ACK that is due has room for.
    pub(crate) fn has_earlier(&self, max: usize) -> bool {
        usize::from(self.untold) > max
    }

    /// The blocks of an ACK that leaves in front of the one that is due: of what nothing has told
    /// yet that which came first.
    pub(crate) fn earlier_blocks(
        &mut self,
        dsack: Option<Span>,
        out: &mut [Span; BLOCKS],
        max: usize,
    ) -> usize {
        let spans = max.saturating_sub(usize::from(dsack.is_some()));
        self.untold = self.untold.saturating_sub(spans as u8);
        self.is_known = true;
        self.blocks_from(self.untold.into(), dsack, out, max)
    }

    /// The ACK that is due tells of what is left.
    pub(crate) fn all_is_told(&mut self) {
        self.untold = 0;
        self.is_known = true;
    }

    /// [`Reasm::sack_blocks`] without the `skip` pieces that came last.
    fn blocks_from(
        &self,
        skip: usize,
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
        let recent = self.recent[skip.min(self.recent_len.into())..usize::from(self.recent_len)]
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
