//! A stretch of sequence space.

use clearway_wire::Seq;

/// The sequence numbers from `start` up to, not including, `end`; shorter than half the circle, so
/// that both ends can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    /// The first number that belongs to it.
    pub(crate) start: Seq,
    /// The first number after it.
    pub(crate) end: Seq,
}

impl Span {
    /// From `start` up to `end`.
    #[inline]
    pub(crate) const fn new(start: Seq, end: Seq) -> Span {
        Span { start, end }
    }

    /// `len` numbers from `start` on.
    #[inline]
    pub(crate) fn with_len(start: Seq, len: u32) -> Span {
        Span { start, end: start + len }
    }

    /// How many numbers belong to it; 0 when the ends are reversed.
    #[inline]
    pub(crate) const fn len(self) -> u32 {
        if self.is_empty() { 0 } else { self.end.since(self.start) }
    }

    /// Whether nothing belongs to it, the ends being equal or reversed.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.end.le(self.start)
    }

    /// Whether `seq` belongs to it.
    #[inline]
    pub(crate) const fn contains(self, seq: Seq) -> bool {
        self.start.le(seq) && seq.lt(self.end)
    }

    /// Whether all of `other` belongs to it.
    #[inline]
    pub(crate) const fn covers(self, other: Span) -> bool {
        self.start.le(other.start) && other.end.le(self.end)
    }

    /// The part that belongs to `other` too; None when there is none.
    #[inline]
    pub(crate) const fn clip(self, other: Span) -> Option<Span> {
        let both = Span { start: self.start.max(other.start), end: self.end.min(other.end) };
        if both.is_empty() { None } else { Some(both) }
    }
}
