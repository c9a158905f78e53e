//! A connection's options in the form they are kept in: a third of the public one.

use clearway_base::Duration;

use super::clock::DueFar;
use super::ecn::TOS_BITS;
use super::sizes::{fixed_size, fixed_step};
use crate::config::{Congestion, ConnOptions, EcnMode, Keepalive};

/// [`ConnOptions`], with times in whole milliseconds (up to 49 days).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    keepalive_idle_ms: u32,
    keepalive_interval_ms: u32,
    user_timeout_ms: u32,
    pub max_segment: u16,
    /// Fixed steps ([`super::right_size`]); 0: none.
    pub receive_buffer: u8,
    pub send_buffer: u8,
    keepalive_count: u8,
    bits: u8,
    pub tos: u8,
    pub ttl: u8,
}

const NODELAY: u8 = 1;
const CORK: u8 = 2;
const KEEPALIVE: u8 = 4;
/// Two bits say which congestion control, by its place among them; the higher one, that it goes by rates.
const CONGESTION_SHIFT: u32 = 3;
const CONGESTION: u8 = 3 << CONGESTION_SHIFT;
const BY_RATES: u8 = 16;
/// Records end within what was written. It is no option.
const RECORDS: u8 = 32;
/// The owner said with the last bytes that more follows. It is no option.
const MORE: u8 = 128;
/// The peer announced urgent data that the owner has not read past. It is no option either.
const URGENT_WAITS: u8 = 64;

fn to_ms(d: Duration) -> u32 {
    // A time that is not zero stays so: zero means something else.
    let ms = d.as_millis().max(u64::from(d != Duration::ZERO));
    u32::try_from(ms).unwrap_or(u32::MAX)
}

const fn congestion_bits(congestion: Congestion) -> u8 {
    (congestion as u8) << CONGESTION_SHIFT
}

impl From<ConnOptions> for Settings {
    fn from(o: ConnOptions) -> Settings {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let keepalive = o.keepalive.unwrap_or_default();
        Settings {
            keepalive_idle_ms: to_ms(keepalive.idle.min(DueFar::FAR)),
            keepalive_interval_ms: to_ms(keepalive.interval.min(DueFar::FAR)),
            user_timeout_ms: to_ms(o.user_timeout),
            max_segment: o.max_segment,
            receive_buffer: fixed_step(o.receive_buffer),
            send_buffer: fixed_step(o.send_buffer),
            keepalive_count: keepalive.count,
            bits: bit(o.nodelay, NODELAY)
                | bit(o.cork, CORK)
                | bit(o.keepalive.is_some(), KEEPALIVE)
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
            user_timeout: s.user_timeout(),
            max_segment: s.max_segment,
            receive_buffer: fixed_size(s.receive_buffer),
            send_buffer: fixed_size(s.send_buffer),
            congestion: s.congestion(),
            tos: s.tos,
            ttl: s.ttl,
            // Whoever wants it otherwise is refused.
            urgent_inline: true,
            // These are in the record of what is rare (`super::seldom`).
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
    }

    pub(crate) fn congestion(&self) -> Congestion {
        const ALL: [Congestion; 4] = [Congestion::Reno, Congestion::Cubic, Congestion::Bbr, Congestion::Bbr];
        ALL[usize::from(self.bits >> CONGESTION_SHIFT & 3)]
    }

    pub(crate) fn keepalive(&self) -> Option<Keepalive> {
        (self.bits & KEEPALIVE != 0).then(|| Keepalive {
            idle: Duration::from_millis(self.keepalive_idle_ms.into()),
            interval: Duration::from_millis(self.keepalive_interval_ms.into()),
            count: self.keepalive_count,
        })
    }

    /// Zero: none.
    #[inline]
    pub(crate) fn user_timeout(&self) -> Duration {
        Duration::from_millis(self.user_timeout_ms.into())
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
            keepalive: Some(Keepalive { idle: Duration::from_secs(7), interval: Duration::from_millis(250), count: 3 }),
            user_timeout: Duration::from_secs(90),
            max_segment: 1234,
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
        let bbr = ConnOptions { congestion: Congestion::Bbr, ..all };
        for options in [all, bbr, ConnOptions::default()] {
            assert_eq!(ConnOptions::from(Settings::from(options)), options);
        }
    }

    #[test]
    fn a_time_too_short_or_too_long_to_be_said_is_not_zero() {
        let s = Settings::from(ConnOptions { user_timeout: Duration::from_nanos(5), ..ConnOptions::default() });
        assert_eq!(s.user_timeout(), Duration::from_millis(1));
        let s = Settings::from(ConnOptions { user_timeout: Duration::MAX, ..ConnOptions::default() });
        assert_eq!(s.user_timeout(), Duration::from_millis(u32::MAX.into()));
    }
}
