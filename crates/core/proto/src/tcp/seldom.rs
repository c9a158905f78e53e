//! Options that few connections are given. They are kept in the record of what is rare, which a connection without them does not have for their sake.

use clearway_base::Duration;

use crate::config::ConnOptions;
use crate::export::Fields;

/// The options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seldom {
    pub syn_retries: u8,
    pub fin_wait_2: Option<Duration>,
    pub linear_timeouts: bool,
    /// Bytes in a second that leave at most (SO_MAX_PACING_RATE), or [`NO_PACING_LIMIT`].
    pacing_limit: u64,
}

/// The owner has set no highest rate.
const NO_PACING_LIMIT: u64 = u64::MAX;

impl Seldom {
    /// None was given.
    pub(crate) const NONE: Seldom =
        Seldom { syn_retries: 0, fin_wait_2: None, linear_timeouts: false, pacing_limit: NO_PACING_LIMIT };

    /// Those among a connection's options.
    pub(crate) fn of(options: &ConnOptions) -> Seldom {
        let &ConnOptions { syn_retries, fin_wait_2, linear_timeouts, max_pacing_rate, .. } = options;
        Seldom { syn_retries, fin_wait_2, linear_timeouts, pacing_limit: max_pacing_rate.unwrap_or(NO_PACING_LIMIT) }
    }

    /// Bytes in a second that leave at most.
    pub(crate) fn max_pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_limit).filter(|limit| *limit != NO_PACING_LIMIT)
    }

    /// Their part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Seldom { syn_retries, fin_wait_2, linear_timeouts, pacing_limit } = self;
        f.u8(470, syn_retries);
        let (mut is_set, mut time) = (fin_wait_2.is_some(), fin_wait_2.unwrap_or(Duration::ZERO));
        f.bool(471, &mut is_set);
        f.duration(472, &mut time);
        *fin_wait_2 = is_set.then_some(time);
        f.bool(473, linear_timeouts);
        f.u64(640, pacing_limit);
    }
}
