//! A connection's options in the form they are kept in: a third of the public one.

use clearway_base::Duration;

use super::ecn::TOS_BITS;
use super::sizes::{fixed_size, fixed_step};
use crate::config::{Congestion, ConnOptions, EcnMode, Keepalive};

/// Those of [`ConnOptions`] that many are given; the others are in [`super::seldom`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    keepalive_idle: KeptTime,
    keepalive_interval: KeptTime,
    /// Fixed steps ([`super::right_size`]); 0: none.
    pub receive_buffer: u8,
    pub send_buffer: u8,
    /// With [`FIRST_VERSION`].
    keepalive_count: u8,
    bits: u8,
    pub tos: u8,
    pub ttl: u8,
}

const NODELAY: u8 = 1;
const CORK: u8 = 2;
/// There is a user timeout, in the record of what is rare.
const USER_TIMEOUT: u8 = 4;
/// Two bits say which congestion control, by its place among them; the higher one, that it goes by
/// rates.
const CONGESTION_SHIFT: u32 = 3;
const CONGESTION: u8 = 3 << CONGESTION_SHIFT;
const BY_RATES: u8 = 16;
/// Beside the count of probes: of the algorithm that those two bits say it is the first version.
const FIRST_VERSION: u8 = 128;
/// Records end within what was written. It is no option.
const RECORDS: u8 = 32;
/// The owner said with the last bytes that more follows. It is no option.
const MORE: u8 = 128;
/// The peer announced urgent data that the owner has not read past. It is no option either.
const URGENT_WAITS: u8 = 64;

/// A time in two bytes: whole milliseconds up to 32 767, beyond that whole seconds, as many at most
/// (which is what Linux takes). What lies between is kept longer, and what is beyond is kept as the
/// longest. Zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeptTime(u16);

impl KeptTime {
    const NONE: KeptTime = KeptTime(0);
    /// The bit that says that it is seconds.
    const SECONDS: u16 = 1 << 15;
    const MOST: u64 = KeptTime::SECONDS as u64 - 1;

    /// A time that is shorter than a millisecond is one: zero means something else.
    fn of(time: Duration) -> KeptTime {
        let ms = time.as_millis().max(1);
        if ms <= KeptTime::MOST {
            return KeptTime(ms as u16);
        }
        KeptTime(ms.div_ceil(1000).min(KeptTime::MOST) as u16 | KeptTime::SECONDS)
    }

    fn time(self) -> Duration {
        let number = u64::from(self.0 & !KeptTime::SECONDS);
        if self.0 & KeptTime::SECONDS == 0 {
            Duration::from_millis(number)
        } else {
            Duration::from_secs(number)
        }
    }
}

const fn congestion_bits(congestion: Congestion) -> u8 {
    let place = match congestion {
        Congestion::Reno => 0,
        Congestion::Cubic => 1,
        Congestion::Bbr | Congestion::Bbr1 => 2,
        Congestion::Prague => 3,
    };
    place << CONGESTION_SHIFT
}

const fn version_bit(congestion: Congestion) -> u8 {
    if matches!(congestion, Congestion::Bbr1) { FIRST_VERSION } else { 0 }
}

impl From<ConnOptions> for Settings {
    fn from(o: ConnOptions) -> Settings {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let keepalive = o.keepalive.unwrap_or_default();
        Settings {
            keepalive_idle: o.keepalive.map_or(KeptTime::NONE, |k| KeptTime::of(k.idle)),
            keepalive_interval: KeptTime::of(keepalive.interval),
            receive_buffer: fixed_step(o.receive_buffer),
            send_buffer: fixed_step(o.send_buffer),
            keepalive_count: keepalive.count.min(!FIRST_VERSION) | version_bit(o.congestion),
            bits: bit(o.nodelay, NODELAY)
                | bit(o.cork, CORK)
                | bit(o.user_timeout != Duration::ZERO, USER_TIMEOUT)
                | congestion_bits(o.congestion),
            tos: o.tos & !TOS_BITS,
            ttl: o.ttl,
        }
    }
}

impl From<Settings> for ConnOptions {
    fn from(s: Settings) -> ConnOptions {
        ConnOptions {
            nodelay: s.nodelay(),
            cork: s.cork(),
            keepalive: s.keepalive(),
            receive_buffer: fixed_size(s.receive_buffer),
            send_buffer: fixed_size(s.send_buffer),
            congestion: s.congestion(),
            tos: s.tos,
            ttl: s.ttl,
            // Whoever wants it otherwise is refused.
            urgent_inline: true,
            // These are in the record of what is rare (`super::seldom`).
            user_timeout: Duration::ZERO,
            max_segment: 0,
            syn_retries: 0,
            fin_wait_2: None,
            linear_timeouts: false,
            // It is for the handshake, which is over.
            ecn: EcnMode::default(),
            // It is kept elsewhere: few have one.
            max_pacing_rate: None,
        }
    }
}

impl Settings {
    pub(crate) fn nodelay(&self) -> bool {
        self.bits & NODELAY != 0
    }

    pub(crate) fn cork(&self) -> bool {
        self.bits & CORK != 0
    }

    /// Whether the owner collects, by a cork or because more follows, or has written records.
    #[inline]
    pub(crate) fn collects(&self) -> bool {
        self.bits & (CORK | MORE | RECORDS) != 0
    }

    /// Records end within what was written (MSG_EOR).
    #[inline]
    pub(crate) fn has_record_ends(&self) -> bool {
        self.bits & RECORDS != 0
    }

    /// From now on they do.
    pub(crate) fn mark_records(&mut self) {
        self.bits |= RECORDS;
    }

    /// Whether the peer announced urgent data that the owner has not read past.
    #[inline]
    pub(crate) fn urgent_waits(&self) -> bool {
        self.bits & URGENT_WAITS != 0
    }

    pub(crate) fn set_urgent_waits(&mut self, on: bool) {
        self.bits = if on { self.bits | URGENT_WAITS } else { self.bits & !URGENT_WAITS };
    }

    /// More follows what was written last (MSG_MORE).
    pub(crate) fn say_more(&mut self) {
        self.bits |= MORE;
    }

    /// Whether the congestion control that was chosen needs measured rates, and paces.
    #[inline]
    pub(crate) fn goes_by_rates(&self) -> bool {
        self.bits & BY_RATES != 0
    }

    /// Another congestion control than was asked for.
    pub(crate) fn set_congestion(&mut self, congestion: Congestion) {
        self.bits = self.bits & !CONGESTION | congestion_bits(congestion);
        self.keepalive_count = self.keepalive_count & !FIRST_VERSION | version_bit(congestion);
    }

    pub(crate) fn congestion(&self) -> Congestion {
        const ALL: [Congestion; 4] =
            [Congestion::Reno, Congestion::Cubic, Congestion::Bbr, Congestion::Prague];
        match ALL[usize::from(self.bits >> CONGESTION_SHIFT & 3)] {
            Congestion::Bbr if self.keepalive_count & FIRST_VERSION != 0 => Congestion::Bbr1,
            congestion => congestion,
        }
    }

    pub(crate) fn keepalive(&self) -> Option<Keepalive> {
        (self.keepalive_idle != KeptTime::NONE).then(|| Keepalive {
            idle: self.keepalive_idle.time(),
            interval: self.keepalive_interval.time(),
            count: self.keepalive_count & !FIRST_VERSION,
        })
    }

    /// Whether there is a user timeout.
    #[inline]
    pub(crate) fn has_user_timeout(&self) -> bool {
        self.bits & USER_TIMEOUT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_as_they_were_given() {
        let all = ConnOptions {
            nodelay: true,
            cork: true,
            keepalive: Some(Keepalive {
                idle: Duration::from_secs(7),
                interval: Duration::from_millis(250),
                count: 3,
            }),
            user_timeout: Duration::ZERO,
            max_segment: 0,
            receive_buffer: 80 * 1024,
            send_buffer: 1 << 20,
            congestion: Congestion::Reno,
            tos: 8,
            ttl: 3,
            urgent_inline: true,
            syn_retries: 0,
            fin_wait_2: None,
            linear_timeouts: false,
            ecn: EcnMode::default(),
            max_pacing_rate: None,
        };
        let of = |congestion| ConnOptions { congestion, ..all };
        for options in Congestion::ALL.map(of).into_iter().chain([ConnOptions::default()]) {
            assert_eq!(ConnOptions::from(Settings::from(options)), options);
        }
        let mut settings = Settings::from(of(Congestion::Bbr1));
        settings.set_congestion(Congestion::Bbr);
        assert_eq!(ConnOptions::from(settings), of(Congestion::Bbr));
        // More probes than Linux has are as many as it has.
        let many = Some(Keepalive { count: 255, ..Keepalive::default() });
        let settings = Settings::from(ConnOptions { keepalive: many, ..all });
        assert_eq!(settings.keepalive().map(|k| k.count), Some(127));
    }

    #[test]
    fn a_keepalive_time_is_kept_to_the_millisecond_or_the_second() {
        let kept = |ms| KeptTime::of(Duration::from_millis(ms)).time().as_millis();
        for ms in [1, 250, 32_767, 33_000, 7_200_000, 32_767_000] {
            assert_eq!(kept(ms), ms);
        }
        assert_eq!((kept(32_768), kept(45_123), kept(u64::MAX)), (33_000, 46_000, 32_767_000));
        assert_eq!(KeptTime::of(Duration::from_nanos(5)).time(), Duration::from_millis(1));
    }
}
