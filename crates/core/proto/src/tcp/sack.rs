//! The sender's scoreboard (RFC 6675 3): which bytes above SND.UNA the peer says it holds, and what each
//! ACK tells anew. A set,
//! nothing more; what follows from it is in `loss` and `recovery`.
//!
//! ```text
//!       SND.UNA                                          SND.NXT
//!  ────────┬────────┬──────┬──────┬───────┬──────┬──────────┬─────▶
//!          │ missing│sacked│missin│ sacked│missin│  sacked  │
//!                                 └ lost_edge: whatever is missing below it is lost
//! ```
//!
//! Nothing that is selectively acknowledged leaves the transmit store before it is acknowledged
//! cumulatively, because the peer may change its mind (RFC 2018 8).

use clearway_base::Duration;
use clearway_wire::Seq;

use super::ranges::Ranges;
use super::span::Span;

/// Duplicate ACKs, or segments held above a missing one, that mean a loss and no longer reordering
/// (RFC 5681 3.2, RFC 6675 2).
pub(crate) const DUP_THRESH: u8 = 3;

/// What an arrival tells of the path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Delivered {
    /// Some of it was sent once, and came behind what had left after it.
    pub(crate) late: bool,
    /// Some of it was taken for lost, and was not sent again.
    pub(crate) original: bool,
    /// The longest round trip of what was sent once, as far as it is known to a sixteenth.
    pub(crate) rtt: Option<Duration>,
}

impl Delivered {
    /// What both arrivals tell.
    pub(crate) fn and(self, other: Delivered) -> Delivered {
        Delivered {
            late: self.late | other.late,
            original: self.original | other.original,
            rtt: self.rtt.max(other.rtt),
        }
    }
}

/// What the SACK blocks of one ACK said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackUpdate {
    /// Bytes that were not known to be held before.
    pub(crate) newly: u32,
    /// Bytes that were known to be held and lie below SND.UNA now.
    pub(crate) passed: u32,
    /// What the record of what was sent says of what arrived.
    pub(crate) told: Delivered,
    /// Bytes that arrived a second time (RFC 2883).
    pub(crate) dsack: Option<Span>,
    /// Blocks that could not be true, or for which there was no room.
    pub(crate) refused: u8,
    /// The peer no longer holds what it said: the scoreboard was emptied.
    pub(crate) reneged: bool,
}

/// The scoreboard of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    ranges: Ranges,
}

impl Scoreboard {
    /// Nothing is selectively acknowledged.
    pub(crate) const fn new() -> Scoreboard {
        Scoreboard { ranges: Ranges::new() }
    }

    /// Whether nothing is selectively acknowledged: with recovery over, the board can be given
    /// back.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.spans().is_empty()
    }

    /// How many bytes are selectively acknowledged.
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.ranges.bytes()
    }

    /// The parts of `span` that are not selectively acknowledged, lowest first.
    pub(crate) fn missing_of(&self, span: Span) -> impl Iterator<Item = Span> {
        let mut rest = span;
        core::iter::from_fn(move || {
            let part = self.ranges.first_missing(rest)?;
            rest.start = part.end;
            Some(part)
        })
    }

    /// SND.UNA has moved to `una`; returns how many of the bytes below had been selectively
    /// acknowledged before.
    pub(crate) fn advance(&mut self, una: Seq) -> u32 {
        self.ranges.drop_below(una)
    }

    /// Takes the blocks of an ACK, as they came, after [`Scoreboard::advance`].
    ///
    /// A block counts when it lies within `una`..`nxt` and is not reversed (THREATS 23). A first
    /// block below `una`, or within the second one, tells of a duplicate (RFC 2883 4).
    #[cfg(test)]
    pub(crate) fn update(&mut self, blocks: &[(Seq, Seq)], una: Seq, nxt: Seq) -> SackUpdate {
        self.take(blocks, Span::new(una, nxt), |_| {})
    }

    /// The same for the blocks of an ACK that leaves `outstanding` in flight; `told` hears of each
    /// part that was not known to be held.
    pub(crate) fn take(
        &mut self,
        blocks: &[(Seq, Seq)],
        outstanding: Span,
        mut told: impl FnMut(Span),
    ) -> SackUpdate {
        let Span { start: una, end: nxt } = outstanding;
        let mut said = SackUpdate::default();
        // The byte at SND.UNA is missing by definition. When it was held once, the peer has thrown
        // it away and may have thrown away all.
        if self.ranges.spans().first().is_some_and(|s| s.start == una) {
            self.ranges.clear();
            said.reneged = true;
        }
        for (i, &(start, end)) in blocks.iter().enumerate() {
            let block = Span::new(start, end);
            let within_next = || blocks.get(1).is_some_and(|&(s, e)| Span::new(s, e).covers(block));
            if block.is_empty() || end.gt(nxt) {
                said.refused = said.refused.saturating_add(1);
            } else if i == 0 && (end.le(una) || within_next()) {
                said.dsack = Some(block);
            } else if end.le(una) {
                // An old ACK that arrives late says nothing new.
            } else if start.gt(una) && outstanding.covers(block) {
                if self.ranges.can_insert(block) {
                    self.missing_of(block).for_each(&mut told);
                }
                match self.ranges.insert(block) {
                    Ok(new) => said.newly += new,
                    Err(_) => said.refused = said.refused.saturating_add(1),
                }
            } else {
                said.refused = said.refused.saturating_add(1);
            }
        }
        said
    }

    /// How many bytes of `span` are selectively acknowledged.
    pub(crate) fn sacked_within(&self, span: Span) -> u32 {
        self.ranges.count_within(span)
    }

    /// Whether the byte at `seq` is selectively acknowledged.
    #[cfg(test)]
    pub(crate) fn is_sacked(&self, seq: Seq) -> bool {
        self.ranges.around(seq).is_some()
    }

    /// The first contiguous part of `span` that is not selectively acknowledged.
    pub(crate) fn first_missing(&self, span: Span) -> Option<Span> {
        self.ranges.first_missing(span)
    }

    /// The last contiguous part of `span` that is not selectively acknowledged.
    pub(crate) fn last_missing(&self, span: Span) -> Option<Span> {
        self.ranges.last_missing(span)
    }

    /// The end of the highest span that is selectively acknowledged.
    pub(crate) fn highest(&self) -> Option<Seq> {
        self.ranges.spans().last().map(|s| s.end)
    }

    /// IsLost of RFC 6675 4 for all bytes at once: a missing byte is lost when at least
    /// [`DUP_THRESH`] separate spans, or more than (`DUP_THRESH` - 1) segments' worth of bytes, are
    /// held above it. Both only grow downwards, so there is one edge, and what is missing below it
    /// is lost. None when nothing is lost.
    pub(crate) fn lost_edge(&self, mss: u32) -> Option<Seq> {
        let threshold = u64::from(DUP_THRESH - 1) * u64::from(mss);
        let mut bytes = 0u64;
        for (above, span) in (1u8..).zip(self.ranges.spans().iter().rev()) {
            bytes += u64::from(span.len());
            if above >= DUP_THRESH || bytes > threshold {
                return Some(span.start);
            }
        }
        None
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }
}

/// The duplicate that the blocks of an ACK tell of when no scoreboard is kept: a first block below
/// `una` (RFC 2883 4.1).
pub(crate) fn only_duplicate(blocks: &[(Seq, Seq)], una: Seq) -> Option<Span> {
    let &(start, end) = blocks.first()?;
    Some(Span::new(start, end)).filter(|s| !s.is_empty() && end.le(una))
}

impl Scoreboard {
    /// The spans that the peer holds, lowest first.
    pub(crate) fn spans(&self) -> &[Span] {
        self.ranges.spans()
    }

    /// The scoreboard made of such spans; None when they cannot be those of a connection that has
    /// `outstanding` in flight.
    pub(crate) fn of(spans: &[(Seq, Seq)], outstanding: Span) -> Option<Scoreboard> {
        Some(Scoreboard { ranges: Ranges::of(spans, outstanding)? })
    }
}

#[cfg(test)]
mod tests;
