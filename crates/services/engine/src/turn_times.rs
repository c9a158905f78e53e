//! How long turns took, as a histogram whose bounds double.

use clearway_base::Duration;

/// Bounds that are finite: 1 µs, 2 µs and so on up to a second.
const BOUNDS: usize = 21;

/// How long turns with work took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TurnTimes {
    /// How many took up to 2^n µs and more than half of that; the last, longer than any bound.
    counts: [u64; BOUNDS + 1],
    sum: Duration,
}

impl TurnTimes {
    /// Nothing yet.
    pub const fn new() -> TurnTimes {
        TurnTimes { counts: [0; BOUNDS + 1], sum: Duration::ZERO }
    }

    /// One turn more.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        let beyond = time.as_nanos().saturating_sub(1) / 1_000;
        let at = (u64::BITS - beyond.leading_zeros()) as usize;
        self.counts[at.min(BOUNDS)] += 1;
        self.sum = self.sum + time;
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bounds in seconds, infinity at last, each with how many turns lie between it and the
    /// one before.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bound = |at: usize| if at < BOUNDS { (1u64 << at) as f64 / 1e6 } else { f64::INFINITY };
        self.counts.iter().enumerate().map(move |(at, count)| (bound(at), *count))
    }
}

impl Default for TurnTimes {
    fn default() -> TurnTimes {
        TurnTimes::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_counted_at_the_smallest_bound_that_it_does_not_exceed() {
        let mut times = TurnTimes::new();
        for ns in [0, 1, 1_000, 1_001, 2_000, 2_001, 1 << 30, 1_048_576_000, 1_048_576_001] {
            times.record(Duration::from_nanos(ns));
        }
        let found: Vec<(f64, u64)> = times.buckets().filter(|(_, count)| *count > 0).collect();
        let last = 1_048_576.0 / 1e6;
        assert_eq!(found, [(1e-6, 3), (2e-6, 2), (4e-6, 1), (last, 1), (f64::INFINITY, 2)]);
        assert_eq!(times.count(), 9);
        assert_eq!(times.sum().as_nanos(), 6_004 + (1 << 30) + 2 * 1_048_576_000);
    }
}
