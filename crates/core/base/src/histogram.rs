//! How long things took: counts of nanoseconds in buckets whose width is at most 1/128 of what they
//! hold.
//!
//! Values below 128 have a bucket each; above, each power of two is cut into 128 buckets. Recording
//! is one addition at a place that two instructions find, and two histograms of the same run are
//! added bucket by bucket.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Buckets of each power of two.
const PARTS: u64 = 1 << PART_BITS;
const PART_BITS: u32 = 7;

/// The longest time that is told apart from longer ones: 2^42 ns, more than an hour.
const LONGEST_BITS: u32 = 42;

const BUCKETS: usize = ((LONGEST_BITS - PART_BITS) as usize + 1) << PART_BITS;

/// A histogram of times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    // Empty until something is recorded: many are made and never used.
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Histogram { count, min, max, .. } = self;
        write!(f, "{count} times from {min} to {max} ns")
    }
}

fn bucket(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = 63 - PART_BITS - value.leading_zeros();
    ((u64::from(shift) << PART_BITS) + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let shift = (bucket >> PART_BITS) - 1;
    (((bucket & (PARTS - 1)) + PARTS + 1) << shift) - 1
}

impl Histogram {
    /// Nothing recorded.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Nothing recorded, with the memory for its buckets taken already: what records into it never
    /// allocates.
    pub fn ready() -> Histogram {
        let mut ready = Histogram::default();
        ready.begin();
        ready
    }

    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Records the same time `count` times.
    #[inline]
    pub fn record_many(&mut self, ns: u64, count: u64) {
        if self.buckets.is_empty() {
            self.begin();
        }
        let at = bucket(ns).min(BUCKETS - 1);
        self.buckets[at] += count;
        self.count += count;
        self.sum = self.sum.saturating_add(ns.saturating_mul(count));
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    #[cold]
    fn begin(&mut self) {
        self.buckets = vec![0; BUCKETS];
        self.min = u64::MAX;
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The shortest; 0 when there is none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The longest; 0 when there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 when there is none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The time that `percent` of all did not exceed, at most 1/128 too long and never longer than
    /// the longest; 0 when there is none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let exact = percent / 100.0 * self.count as f64;
        // Rounded up by hand: `f64::ceil` is not in `core`.
        let wanted =
            (exact as u64 + u64::from(exact > exact as u64 as f64)).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return if at == BUCKETS - 1 { self.max } else { highest(at).min(self.max) };
            }
        }
        0
    }

    /// Adds everything that `other` recorded.
    pub fn add(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.buckets.is_empty() {
            self.begin();
        }
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// What was recorded since `before`, an earlier state of the same histogram. Shortest and
    /// longest are known to a bucket only.
    pub fn since(&self, before: &Histogram) -> Histogram {
        if before.count == 0 {
            return self.clone();
        }
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .zip(&before.buckets)
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let used = |at: Option<usize>| at.map_or(0, |at| highest(at).min(self.max));
        Histogram {
            count: self.count.saturating_sub(before.count),
            sum: self.sum.saturating_sub(before.sum),
            min: used(buckets.iter().position(|&count| count > 0)),
            max: used(buckets.iter().rposition(|&count| count > 0)),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests;
