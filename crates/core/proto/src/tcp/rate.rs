//! How fast data arrives at the peer, measured once in a round trip: what was delivered between the
//! sending of a segment and its acknowledgement, over that time (after
//! draft-cheng-iccrg-delivery-rate-estimation 3, with one segment in a round trip instead of each,
//! so that nothing has to be remembered per segment).

use clearway_base::Duration;

use crate::export::Fields;

/// Bytes per second in one unit of [`DeliveryRate`]: 32 bits reach beyond 200 Gbit/s.
const UNIT: u64 = 16;
const NANOS: u64 = 1_000_000_000;

/// The last sample that is worth knowing. Its lowest bit says that the sender had too little to
/// send.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DeliveryRate(u32);

impl DeliveryRate {
    /// `bytes` were delivered in `time`. `app_limited`: the owner did not write enough to fill what
    /// the way would have taken; such a sample counts only when it shows more than was known.
    #[inline(always)]
    pub(crate) fn sample(&mut self, bytes: u32, time: Duration, app_limited: bool) {
        // What is usual: a request and its answer, much slower than what was known. No division is
        // needed to see that.
        let (amount, nanos) = (u64::from(bytes) * (NANOS / UNIT), time.as_nanos());
        if app_limited && nanos <= u64::from(u32::MAX) && amount < u64::from(self.0 & !1) * nanos {
            return;
        }
        self.take(amount, nanos, app_limited);
    }

    #[cold]
    fn take(&mut self, amount: u64, nanos: u64, app_limited: bool) {
        let Some(units) = amount.checked_div(nanos) else { return };
        let units = units.min(u64::from(u32::MAX)) as u32;
        let new = units & !1 | u32::from(app_limited);
        if !app_limited || new > self.0 {
            self.0 = new;
        }
    }

    /// Bytes per second; 0 before the first sample.
    pub(crate) fn bytes_per_second(self) -> u64 {
        u64::from(self.0 & !1) * UNIT
    }

    /// Whether the sample was limited by what the owner wrote.
    pub(crate) fn is_app_limited(self) -> bool {
        self.0 & 1 == 1
    }
}

impl DeliveryRate {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        f.u32(220, &mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_rate_is_bytes_over_time() {
        let mut rate = DeliveryRate::default();
        assert_eq!(rate.bytes_per_second(), 0);
        rate.sample(1_000_000, MS.times(10), false);
        assert_eq!(rate.bytes_per_second(), 100_000_000);
        rate.sample(u32::MAX, Duration::from_nanos(1), false);
        assert!(rate.bytes_per_second() > 25_000_000_000);
        let before = rate;
        rate.sample(1, Duration::ZERO, false);
        assert_eq!(rate, before);
    }

    #[test]
    fn a_sender_with_little_to_say_does_not_lower_the_rate() {
        let mut rate = DeliveryRate::default();
        rate.sample(1_000_000, MS, false);
        rate.sample(1_000, MS, true);
        assert_eq!((rate.bytes_per_second(), rate.is_app_limited()), (1_000_000_000, false));
        rate.sample(2_000_000, MS, true);
        assert_eq!((rate.bytes_per_second(), rate.is_app_limited()), (2_000_000_000, true));
        rate.sample(1_000, MS, false);
        assert_eq!((rate.bytes_per_second(), rate.is_app_limited()), (1_000_000, false));
    }
}
