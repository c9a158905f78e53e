//! How many ICMP errors may leave: a token bucket whose depth is shaken.

use clearway_base::{Instant, Rng};

/// A token bucket.
///
/// An exact bucket is a side channel: whoever sends as many probes as it holds tokens can tell by
/// the answers whether another packet took one, and so find the source port of a query
/// (CVE-2020-25705). So every refill takes away a random few.
pub(crate) struct RateLimit {
    /// Tokens times a billion.
    level: u64,
    per_second: u64,
    depth: u64,
    last: Instant,
}

/// One token.
const TOKEN: u64 = 1_000_000_000;
/// Refills happen at most so often.
const REFILL_NS: u64 = 20_000_000;

impl RateLimit {
    /// `per_second` on average, and as many as come in a tenth of a second at once, but at least 8.
    pub(crate) fn new(per_second: u32) -> RateLimit {
        let depth = u64::from(per_second / 10).max(8) * TOKEN;
        RateLimit { level: depth, per_second: per_second.into(), depth, last: Instant::ZERO }
    }

    /// Whether one more may go.
    pub(crate) fn take(&mut self, now: Instant, rng: &mut Rng) -> bool {
        let elapsed = now.since(self.last).as_nanos();
        if elapsed >= REFILL_NS {
            self.last = now;
            let filled =
                self.level.saturating_add(elapsed.saturating_mul(self.per_second)).min(self.depth);
            // A shake of up to an eighth of the depth.
            let shake = rng.below(self.depth / TOKEN / 8 + 2) * TOKEN;
            self.level = filled.saturating_sub(shake);
        }
        if self.level < TOKEN {
            return false;
        }
        self.level -= TOKEN;
        true
    }
}

#[cfg(test)]
mod tests;
