//! How long frames were on their way.

use clearway_base::Duration;
use hdrhistogram::Histogram;

/// The longest time that is told apart, which is also the longest that a stamp can tell.
const LONGEST_NS: u64 = 1 << 35;

/// Times with three significant digits, in memory of fixed size.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl Latency {
    /// None yet.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Latency { histogram: histogram.expect("the bounds are constants, and sound"), sum_ns: 0 }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.clear();
        self.sum_ns = 0;
    }

    /// `count` frames took this long.
    #[inline]
    pub fn record(&mut self, took: Duration, count: u64) {
        self.histogram.saturating_record_n(took.as_nanos(), count);
        self.sum_ns = self.sum_ns.wrapping_add(took.as_nanos().wrapping_mul(count));
    }

    /// Adds those of another queue.
    pub fn add(&mut self, other: &Latency) {
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// Frames recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The sum of all times.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The shortest time in nanoseconds; 0 without any.
    pub fn least_ns(&self) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.min() }
    }

    /// The longest.
    pub fn most_ns(&self) -> u64 {
        self.histogram.max()
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// So many percent of the frames took no longer.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(percent / 100.0) }
    }
}
