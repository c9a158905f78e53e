//! Sets of places on a line, as spans that never touch.

use std::collections::BTreeMap;

/// A set of places. Each span is `[start, end)`.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Spans {
    by_start: BTreeMap<i64, i64>,
}

impl Spans {
    /// Adds `[start, end)`.
    pub fn insert(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        // Spans that overlap or touch the new one melt into it.
        while let Some((&s, &e)) = self.by_start.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.by_start.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.by_start.insert(start, end);
    }

    /// The end of the span that `at` lies in; `at` itself when it lies in none.
    pub fn end_of_run(&self, at: i64) -> i64 {
        match self.by_start.range(..=at).next_back() {
            Some((_, &end)) if end > at => end,
            _ => at,
        }
    }

    /// Whether all of `[start, end)` is in the set.
    pub fn covers(&self, start: i64, end: i64) -> bool {
        start >= end || self.end_of_run(start) >= end
    }

    /// The parts of the set within `[start, end)`.
    pub fn within(&self, start: i64, end: i64) -> Vec<(i64, i64)> {
        let first = self.by_start.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let parts = self.by_start.range(first..end).map(|(&s, &e)| (s.max(start), e.min(end)));
        parts.filter(|(s, e)| s < e).collect()
    }

    /// How much of `[start, end)` is in the set.
    pub fn overlap(&self, start: i64, end: i64) -> i64 {
        self.within(start, end).iter().map(|(s, e)| e - s).sum()
    }

    /// How many spans there are.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }
}

#[cfg(test)]
mod tests;
