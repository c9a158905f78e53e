//! The search for the largest packet that a path carries, where nobody says so: packetization layer
//! path MTU discovery (RFC 4821, RFC 8899).
//!
//! ```text
//!   floor ≤ base ≤ low ────────── probe ────────── high ≤ what the first link, or ICMP, says
//!                  │ gets through   │ one segment    │ does not get through, or was never tried
//! ```
//!
//! A connection whose full segments are not acknowledged for [`TIMEOUTS`] timeouts in a row may sit
//! behind a black hole, which drops what is too long and sends no ICMP (or a firewall drops that):
//! its segments become as short as [`base`] says. Once data flows again, one new segment now and
//! then is longer than the others. When it arrives the others become as long; when it is lost the
//! search goes on below. A loss of the probe alone says nothing of congestion (RFC 4821 7.6.1). Ten
//! minutes after the search has ended, it begins anew upwards (RFC 8899 5.1.1, PMTU_RAISE_TIMER).

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use crate::export::Fields;

/// Timeouts in a row after which full segments are suspected (MAX_PROBES of RFC 8899 5.1.2; Linux:
/// tcp_retries1).
pub(crate) const TIMEOUTS: u8 = 3;
/// One more, and what is left is the least: the timeout has doubled so often by then that each further one may take two
/// minutes (Linux halves at each from there on).
pub(crate) const MORE_TIMEOUTS: u8 = TIMEOUTS + 1;
/// How long a result holds.
const RAISE: Duration = Duration::from_secs(600);
/// The search ends when this little is left to be found.
const CLOSE_ENOUGH: u16 = 16;
/// BASE_PLPMTU (RFC 8899 5.1.2).
const BASE_V4: u16 = 1_200;
const BASE_V6: u16 = 1_280;
/// The smallest that is ever taken: what ICMP may make of it too.
const FLOOR_V4: u16 = 552;

/// A segment that is longer than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    pub start: Seq,
    pub end: Seq,
    /// The IP packet's length.
    pub size: u16,
}

/// What is known of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MtuSearch {
    /// So long a packet gets through.
    low: u16,
    /// No longer one does.
    high: u16,
    probe: Option<Probe>,
    /// When `high` is what the link says again.
    raise: Instant,
}

/// What is left when not even the base gets through.
pub(crate) const fn floor(v6: bool) -> u16 {
    if v6 { BASE_V6 } else { FLOOR_V4 }
}

/// With what a search begins.
pub(crate) const fn base(v6: bool) -> u16 {
    if v6 { BASE_V6 } else { BASE_V4 }
}

impl MtuSearch {
    /// Packets shall be as short as the base from now on; `path` is what the link, or ICMP, says.
    pub(crate) fn from_base(v6: bool, path: u16) -> MtuSearch {
        MtuSearch { low: base(v6).min(path), high: path, probe: None, raise: Instant::NEVER }
    }

    /// Not even those get through.
    pub(crate) fn fall_to_floor(&mut self, v6: bool) {
        self.low = self.low.min(floor(v6));
        self.probe = None;
    }

    /// The longest packet that leaves, but for probes.
    pub(crate) fn limit(&self) -> u16 {
        self.low
    }

    /// The length of the next probe, when one is due; `path` as in [`MtuSearch::from_base`].
    pub(crate) fn next(&mut self, now: Instant, path: u16) -> Option<u16> {
        if self.raise <= now {
            (self.high, self.raise) = (path, Instant::NEVER);
        }
        self.high = self.high.min(path);
        if self.probe.is_some() || self.raise.is_set() {
            return None;
        }
        if self.high.saturating_sub(self.low) < CLOSE_ENOUGH && self.high != path
            || self.high <= self.low
        {
            self.raise = now + RAISE;
            return None;
        }
        // Mostly it was no black hole: all of it first, then halves.
        Some(if self.high == path { path } else { self.low + (self.high - self.low).div_ceil(2) })
    }

    /// A probe has left.
    pub(crate) fn sent(&mut self, probe: Probe) {
        self.probe = Some(probe);
    }

    /// Everything up to `una` has arrived. True: longer packets may leave from now on.
    pub(crate) fn arrived(&mut self, una: Seq) -> bool {
        let Some(probe) = self.probe.filter(|probe| probe.end.le(una)) else { return false };
        self.probe = None;
        self.low = self.low.max(probe.size);
        true
    }

    /// Something is lost, the first of it at `una`. True: it is the probe.
    pub(crate) fn lost(&mut self, una: Seq) -> bool {
        let Some(probe) = self.probe else { return false };
        if probe.start != una {
            // It says nothing about the length: the same one is tried again.
            self.probe = None;
            return false;
        }
        self.probe = None;
        self.high = (probe.size - 1).max(self.low);
        true
    }

    /// The whole path is known to be open.
    pub(crate) fn is_over(&self, path: u16) -> bool {
        self.probe.is_none() && self.low >= path
    }

    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        // A probe that is out is one segment like the others to who goes on.
        let MtuSearch { low, high, probe: _, raise } = self;
        f.u16(421, low);
        f.u16(422, high);
        f.instant(423, raise);
        *low = (*low).max(FLOOR_V4);
        *high = (*high).max(*low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that takes packets of `path` bytes at most, where the link takes 1,500;
    /// the steps.
    fn search(path: u16) -> (MtuSearch, alloc::vec::Vec<u16>) {
        let mut s = MtuSearch::from_base(false, 1_500);
        let (mut tried, mut una) = (alloc::vec::Vec::new(), Seq(0));
        while let Some(size) = s.next(Instant::ZERO, 1_500) {
            assert!(size > s.limit() && size <= 1_500 && tried.len() < 16, "{size} {s:?}");
            tried.push(size);
            s.sent(Probe { start: una, end: una + u32::from(size), size });
            assert_eq!(s.next(Instant::ZERO, 1_500), None, "one at a time");
            if size <= path {
                una += u32::from(size);
                assert!(s.arrived(una));
            } else {
                assert!(s.lost(una));
            }
        }
        (s, tried)
    }

    #[test]
    fn a_path_that_carries_everything_is_known_after_one_probe() {
        let (s, tried) = search(1_500);
        assert_eq!((s.limit(), tried.as_slice()), (1_500, &[1_500][..]));
        assert!(s.is_over(1_500));
    }

    #[test]
    fn the_search_ends_close_below_what_the_path_takes() {
        for path in [1_200, 1_280, 1_333, 1_400, 1_420, 1_492, 1_499] {
            let (s, tried) = search(path);
            assert!(
                s.limit() <= path && path - s.limit() < CLOSE_ENOUGH,
                "{path}: {s:?} by {tried:?}"
            );
        }
    }

    #[test]
    fn ten_minutes_later_longer_packets_are_tried_again() {
        let (mut s, _) = search(1_280);
        assert_eq!(s.next(Instant::ZERO + (RAISE - Duration::from_secs(1)), 1_500), None);
        assert_eq!(s.next(Instant::ZERO + RAISE, 1_500), Some(1_500));
    }

    #[test]
    fn a_loss_elsewhere_says_nothing_about_the_length() {
        let mut s = MtuSearch::from_base(false, 1_500);
        s.sent(Probe { start: Seq(100), end: Seq(1_500), size: 1_500 });
        assert!(!s.lost(Seq(50)));
        assert_eq!(s.next(Instant::ZERO, 1_500), Some(1_500));
    }

    #[test]
    fn a_link_that_takes_less_than_the_base_bounds_it() {
        let mut s = MtuSearch::from_base(false, 600);
        assert_eq!((s.limit(), s.next(Instant::ZERO, 600)), (600, None));
        s.fall_to_floor(false);
        assert_eq!(s.limit(), 552);
    }
}
