//! Options that few connections are given. They are kept in the record of what is rare, which a
//! connection without them does not have for their sake.

use clearway_base::Duration;

use crate::config::ConnOptions;
use crate::export::Fields;

/// The options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seldom {
    pub syn_retries: u8,
    pub user_timeout: Duration,
    pub max_segment: u16,
    pub fin_wait_2: Option<Duration>,
    pub linear_timeouts: bool,
    /// Bytes in a second that leave at most (SO_MAX_PACING_RATE), or [`NO_PACING_LIMIT`].
    pacing_limit: u64,
}

/// The owner has set no highest rate.
const NO_PACING_LIMIT: u64 = u64::MAX;

impl Seldom {
    /// None was given.
    pub(crate) const NONE: Seldom = Seldom {
        syn_retries: 0,
        user_timeout: Duration::ZERO,
        max_segment: 0,
        fin_wait_2: None,
        linear_timeouts: false,
        pacing_limit: NO_PACING_LIMIT,
    };

    /// Those among a connection's options.
    pub(crate) fn of(options: &ConnOptions) -> Seldom {
        let &ConnOptions {
            syn_retries,
            user_timeout,
            max_segment,
            fin_wait_2,
            linear_timeouts,
            max_pacing_rate,
            ..
        } = options;
        Seldom {
            syn_retries,
            user_timeout: in_ms(user_timeout),
            max_segment,
            fin_wait_2,
            linear_timeouts,
            pacing_limit: max_pacing_rate.unwrap_or(NO_PACING_LIMIT),
        }
    }

    /// Bytes in a second that leave at most.
    pub(crate) fn max_pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_limit).filter(|limit| *limit != NO_PACING_LIMIT)
    }

    /// Their part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        // User timeout and segment size are told among the options.
        let Seldom {
            syn_retries,
            user_timeout: _,
            max_segment: _,
            fin_wait_2,
            linear_timeouts,
            pacing_limit,
        } = self;
        f.u8(470, syn_retries);
        let (mut is_set, mut time) = (fin_wait_2.is_some(), fin_wait_2.unwrap_or(Duration::ZERO));
        f.bool(471, &mut is_set);
        f.duration(472, &mut time);
        *fin_wait_2 = is_set.then_some(time);
        f.bool(473, linear_timeouts);
        f.u64(640, pacing_limit);
    }
}

/// In whole milliseconds, as many as 32 bits hold. A time that is not zero stays so: zero means
/// that there is none.
fn in_ms(time: Duration) -> Duration {
    let ms = time.as_millis().max(u64::from(time != Duration::ZERO));
    Duration::from_millis(ms.min(u32::MAX.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_timeout_too_short_or_too_long_to_be_said_is_not_zero() {
        let kept = |time| {
            Seldom::of(&ConnOptions { user_timeout: time, ..ConnOptions::default() }).user_timeout
        };
        assert_eq!(kept(Duration::from_nanos(5)), Duration::from_millis(1));
        assert_eq!(kept(Duration::MAX), Duration::from_millis(u32::MAX.into()));
        assert_eq!(kept(Duration::from_millis(45_123)), Duration::from_millis(45_123));
        assert_eq!(kept(Duration::ZERO), Duration::ZERO);
    }
}
