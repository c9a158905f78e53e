//! The round-trip estimate and the retransmission timeout (RFC 6298, RFC 7323 4 and appendix G).

use clearway_base::Duration;

use crate::config::TcpConfig;
use crate::export::Fields;

/// Fraction bits of the averages: one sample of many in a round trip moves them by very little, and
/// little must not be nothing.
const FRACTION: u32 = 8;

/// No sample is longer, so that the fraction bits fit: what is timed is told up to
/// [`super::clock::Recent::FAR`], an echo is believed up to ten minutes, and the age of a handshake
/// is bounded by who asks for it.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// Unit in which the minimum is kept, in nanoseconds: 32 bits of it reach beyond a minute.
const MIN_UNIT_NS: u64 = 16;

/// G of RFC 6298: the coarsest step of the timers that a stack is usually driven with.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// Doublings beyond this say nothing new: the upper bound has long been reached.
const MAX_BACKOFF: u8 = 16;

/// RFC 6298 5.7: what a timeout starts with after the SYN had to be repeated.
const AFTER_SYN_TIMEOUT: Duration = Duration::from_secs(3);

/// The estimate of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    srtt: u64,
    rttvar: u64,
    min: u32,
    backoff: u8,
    known: bool,
    syn_timed_out: bool,
    /// Our SYN or SYN-ACK was sent more than once: which of them was answered, nobody knows (Karn).
    pub(crate) syn_repeated: bool,
}

impl Rtt {
    /// Nothing is known yet.
    pub(crate) const fn new() -> Rtt {
        Rtt {
            srtt: 0,
            rttvar: 0,
            min: u32::MAX,
            backoff: 0,
            known: false,
            syn_timed_out: false,
            syn_repeated: false,
        }
    }

    /// Takes the sample `r`, one of those that `flight` bytes in segments of `mss` bring in a round
    /// trip.
    ///
    /// The caller obeys Karn: no sample from data that was sent twice unless a timestamp tells the
    /// copies apart (RFC 6298 3, RFC 7323 4.1), and no sample beyond [`LONGEST`]. The sample ends
    /// a backoff.
    #[inline(always)]
    pub(crate) fn on_sample(&mut self, r: Duration, flight: u32, mss: u16) {
        debug_assert!(r <= LONGEST);
        let r = r.as_nanos();
        self.min = u64::from(self.min).min(r / MIN_UNIT_NS) as u32;
        self.backoff = 0;
        let r = r << FRACTION;
        if !self.known {
            return self.first_sample(r);
        }
        if flight > 2 * u32::from(mss) {
            return self.one_of_many(r, flight, mss);
        }
        // RFC 6298 2.3: the deviation first, with the average of before; beta is 1/4, alpha 1/8.
        self.rttvar = blend_shifted::<2>(self.rttvar, self.srtt.abs_diff(r));
        self.srtt = blend_shifted::<3>(self.srtt, r);
    }

    /// RFC 6298 2.2.
    #[cold]
    fn first_sample(&mut self, r: u64) {
        self.known = true;
        self.srtt = r;
        self.rttvar = r / 2;
    }

    /// RFC 7323 G: with a sample from every ACK the history would be forgotten within one round
    /// trip; the weights are divided by the number of samples that a round trip is expected to
    /// bring, one for every second segment.
    #[cold]
    fn one_of_many(&mut self, r: u64, flight: u32, mss: u16) {
        let samples = u64::from(flight).div_ceil(u64::from(2 * u32::from(mss.max(1))));
        self.rttvar = blend(self.rttvar, self.srtt.abs_diff(r), 4 * samples);
        self.srtt = blend(self.srtt, r, 8 * samples);
    }

    /// The timer ran out: the timeout doubles (RFC 6298 5.5).
    pub(crate) fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// What the timer waited for in vain has come, and it was no acknowledgement of data: the
    /// handshake is done, or the window opened.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The handshake needed a second SYN. Until the first sample, the timeout is then at least 3
    /// seconds (RFC 6298 5.7).
    pub(crate) fn on_syn_timed_out(&mut self) {
        self.backoff = 0;
        self.syn_timed_out = true;
    }

    /// The retransmission timeout, with backoff, within the bounds of `cfg`.
    ///
    /// The lower bound lies on the deviation term, not on the whole: with a bound as short as 200
    /// ms, a steady path of 190 ms would otherwise be left 10 ms for the peer's delayed ACK. The
    /// result is never below the bound either way.
    #[inline(always)]
    pub(crate) fn rto(&self, cfg: &TcpConfig) -> Duration {
        // Both at once: a timeout is reckoned with each segment that leaves alone.
        if u8::from(!self.known) | self.backoff == 0 {
            return self.once(cfg).min(cfg.rto_max);
        }
        self.rto_of_any(cfg)
    }

    /// What follows from the average alone.
    #[inline(always)]
    fn once(&self, cfg: &TcpConfig) -> Duration {
        let deviation = Duration::from_nanos((self.rttvar >> FRACTION).saturating_mul(4));
        // `Tcp::new` has seen to it that the bound is no shorter than G.
        self.smoothed() + deviation.max(cfg.rto_min)
    }

    #[cold]
    fn rto_of_any(&self, cfg: &TcpConfig) -> Duration {
        let base = if self.known {
            self.once(cfg)
        } else if self.syn_timed_out {
            cfg.rto_initial.max(AFTER_SYN_TIMEOUT)
        } else {
            cfg.rto_initial
        };
        base.min(cfg.rto_max).times(1 << self.backoff).min(cfg.rto_max)
    }

    /// The smoothed round-trip time; None before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.known.then(|| self.smoothed())
    }

    /// The mean deviation; zero before the first sample.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar >> FRACTION)
    }

    /// The smallest sample of the connection's whole life; None before the first one.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.known.then(|| Duration::from_nanos(u64::from(self.min) * MIN_UNIT_NS))
    }

    /// How often the timeout was doubled.
    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }

    fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.srtt >> FRACTION)
    }
}

/// `old` moved by one part in 2^`SHIFT` towards `new`.
#[inline(always)]
fn blend_shifted<const SHIFT: u32>(old: u64, new: u64) -> u64 {
    old.wrapping_add_signed((new as i64 - old as i64) >> SHIFT)
}

/// `old` moved by one part in `weight` towards `new`.
#[inline(always)]
fn blend(old: u64, new: u64, weight: u64) -> u64 {
    // Both are below 2^50 (`LONGEST` with its fraction), so their difference has a sign.
    old.wrapping_add_signed((new as i64 - old as i64) / weight as i64)
}

impl Rtt {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Rtt { srtt, rttvar, min, backoff, known, syn_timed_out, syn_repeated } = self;
        f.number(150, srtt, LONGEST.as_nanos() << FRACTION);
        f.number(151, rttvar, LONGEST.as_nanos() << FRACTION);
        f.u32(152, min);
        f.u8(153, backoff);
        f.bool(154, known);
        f.bool(155, syn_timed_out);
        f.bool(156, syn_repeated);
        *backoff = (*backoff).min(MAX_BACKOFF);
    }
}

#[cfg(test)]
mod tests;
