//! A bounded set of sequence numbers, kept as sorted spans that neither overlap nor touch. Under
//! the receiver's map and the sender's scoreboard.

use clearway_wire::Seq;

use super::span::Span;

/// Spans that a set can hold. It bounds the cost of every operation: a peer that sends every second
/// byte must not make us slow (CVE-2018-5390). A queue on the way that overflows in slow start
/// drops about every second packet of a window, so that honest peers need as many as half of the
/// packets that such a queue holds: what does not fit is sent again in vain.
pub(crate) const RANGES: usize = 1024;

/// The set has no room for one more span; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// A set of sequence numbers. All of them lie within half the circle, which the users see to: a
/// receive window is far shorter.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    spans: [Span; RANGES],
    len: u16,
    bytes: u32,
}

impl Ranges {
    /// The empty set.
    pub(crate) const fn new() -> Ranges {
        Ranges { spans: [Span::new(Seq(0), Seq(0)); RANGES], len: 0, bytes: 0 }
    }

    /// The spans, lowest first.
    #[inline]
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans[..usize::from(self.len)]
    }

    /// How many numbers are in the set.
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Nothing is in the set any more.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.bytes = 0;
    }

    /// Indices of the spans that overlap or touch `span`.
    fn neighbours(&self, span: Span) -> (usize, usize) {
        let spans = self.spans();
        let from = spans.partition_point(|s| s.end.lt(span.start));
        let to = from + spans[from..].partition_point(|s| s.start.le(span.end));
        (from, to)
    }

    /// Whether `span` would become part of one that is there.
    pub(crate) fn touches(&self, span: Span) -> bool {
        let (from, to) = self.neighbours(span);
        from < to
    }

    /// Whether `insert` would find room.
    pub(crate) fn can_insert(&self, span: Span) -> bool {
        usize::from(self.len) < RANGES || self.touches(span)
    }

    /// Adds all of `span`; returns how many numbers are new.
    pub(crate) fn insert(&mut self, span: Span) -> Result<u32, Full> {
        if span.is_empty() {
            return Ok(0);
        }
        let (from, to) = self.neighbours(span);
        let len = usize::from(self.len);
        if from == to {
            if len == RANGES {
                return Err(Full);
            }
            self.spans.copy_within(from..len, from + 1);
            self.spans[from] = span;
            self.len += 1;
            self.bytes += span.len();
            return Ok(span.len());
        }
        let before: u32 = self.spans[from..to].iter().map(|s| s.len()).sum();
        let joined =
            Span::new(self.spans[from].start.min(span.start), self.spans[to - 1].end.max(span.end));
        self.spans[from] = joined;
        self.remove(from + 1, to);
        let new = joined.len() - before;
        self.bytes += new;
        Ok(new)
    }

    /// Takes the spans with indices `from..to` out of the list; their bytes are the caller's to
    /// count.
    fn remove(&mut self, from: usize, to: usize) {
        self.spans.copy_within(to..usize::from(self.len), from);
        self.len -= (to - from) as u16;
    }

    /// Takes out everything below `seq`; returns how many numbers that were.
    pub(crate) fn drop_below(&mut self, seq: Seq) -> u32 {
        let gone = self.spans().partition_point(|s| s.end.le(seq));
        let mut bytes: u32 = self.spans[..gone].iter().map(|s| s.len()).sum();
        self.remove(0, gone);
        if self.len > 0 && self.spans[0].start.lt(seq) {
            bytes += seq.since(self.spans[0].start);
            self.spans[0].start = seq;
        }
        self.bytes -= bytes;
        bytes
    }

    /// How many numbers of `span` are in the set. Summed up is what lies within or what lies
    /// outside, whichever are fewer spans: what is asked is often all of what is in flight.
    pub(crate) fn count_within(&self, span: Span) -> u32 {
        let spans = self.spans();
        let from = spans.partition_point(|s| s.end.le(span.start));
        let to = from + spans[from..].partition_point(|s| s.start.lt(span.end));
        let (before, within, behind) = (&spans[..from], &spans[from..to], &spans[to..]);
        if within.len() * 2 <= spans.len() {
            return within.iter().map_while(|s| s.clip(span)).map(Span::len).sum();
        }
        let outside: u32 = before.iter().chain(behind).map(|s| s.len()).sum();
        let cut = |s: &Span| s.len() - s.clip(span).map_or(0, Span::len);
        let first = within.first().map_or(0, cut);
        let last = if within.len() > 1 { within.last().map_or(0, cut) } else { 0 };
        self.bytes - outside - first - last
    }

    /// The span of the set that holds `seq`.
    pub(crate) fn around(&self, seq: Seq) -> Option<Span> {
        let i = self.spans().partition_point(|s| s.end.le(seq));
        self.spans().get(i).copied().filter(|s| s.contains(seq))
    }

    /// The first contiguous part of `span` that is not in the set.
    pub(crate) fn first_missing(&self, span: Span) -> Option<Span> {
        let spans = self.spans();
        let mut i = spans.partition_point(|s| s.end.le(span.start));
        let mut start = span.start;
        if let Some(s) = spans.get(i).filter(|s| s.contains(start)) {
            start = s.end;
            i += 1;
        }
        let end = spans.get(i).map_or(span.end, |s| s.start.min(span.end));
        Some(Span::new(start, end)).filter(|s| !s.is_empty())
    }

    /// The last contiguous part of `span` that is not in the set.
    pub(crate) fn last_missing(&self, span: Span) -> Option<Span> {
        let spans = self.spans();
        let mut i = spans.partition_point(|s| s.start.lt(span.end));
        let mut end = span.end;
        if let Some(s) = i.checked_sub(1).map(|below| spans[below]).filter(|s| s.end.ge(end)) {
            end = s.start;
            i -= 1;
        }
        let start = i.checked_sub(1).map_or(span.start, |below| spans[below].end.max(span.start));
        Some(Span::new(start, end)).filter(|s| !s.is_empty())
    }

    /// The first contiguous part of `span` that is in the set.
    pub(crate) fn first_present(&self, span: Span) -> Option<Span> {
        let from = self.spans().partition_point(|s| s.end.le(span.start));
        self.spans().get(from).and_then(|s| s.clip(span))
    }
}

impl Ranges {
    /// Makes the set of `spans`; None when they are too many, overlap or do not stand in order
    /// within `bounds`.
    pub(crate) fn of(spans: &[(Seq, Seq)], bounds: Span) -> Option<Ranges> {
        let mut set = Ranges::new();
        let mut below = bounds.start;
        for &(start, end) in spans {
            let span = Span::new(start, end);
            // The spans neither overlap nor touch, and the first lies above what is not in the set
            // by definition.
            if span.is_empty()
                || !start.gt(below)
                || end.gt(bounds.end)
                || set.insert(span).is_err()
            {
                return None;
            }
            below = end;
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests;
