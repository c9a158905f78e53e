//! What BBR is told, and what one stack tells another of it.

use clearway_base::{Duration, Instant};

use crate::export::Fields;
use crate::tcp::delivery::RateSample;

/// What an ACK, and the connection, say at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub now: Instant,
    pub sample: RateSample,
    /// Bytes delivered in all.
    pub delivered: u64,
    /// Bytes in the network (the pipe of RFC 6675).
    pub in_flight: u32,
    /// Of the oldest marker: what was in flight when it left, what was lost since, and whether the
    /// owner limited it.
    pub oldest: Option<(u32, u64, bool)>,
    /// Bytes newly said to be marked "congestion experienced".
    pub marked: u32,
    /// In fast recovery, or after a timeout.
    pub in_recovery: bool,
    /// The same, or something that was lost is not known to have arrived since.
    pub is_repairing: bool,
    /// SACK is in use.
    pub has_sack: bool,
}

/// What goes with a connection to another stack, which goes on from there.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Known {
    /// Bytes in a second; 0: nothing is known.
    pub(super) bw: u64,
    pub(super) min_rtt: Duration,
    pub(super) full_bw_reached: bool,
}

impl Known {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        f.u64(630, &mut self.bw);
        f.duration(631, &mut self.min_rtt);
        f.bool(632, &mut self.full_bw_reached);
    }
}

/// `value` · `hundredths` / 100.
pub(super) fn percent(value: u64, hundredths: u64) -> u64 {
    (u128::from(value) * u128::from(hundredths) / 100).min(u128::from(u64::MAX)) as u64
}
