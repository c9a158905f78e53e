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
}

impl Seldom {
    /// None was given.
    pub(crate) const NONE: Seldom = Seldom { syn_retries: 0, fin_wait_2: None, linear_timeouts: false };

    /// Those among a connection's options.
    pub(crate) fn of(options: &ConnOptions) -> Seldom {
        let &ConnOptions { syn_retries, fin_wait_2, linear_timeouts, .. } = options;
        Seldom { syn_retries, fin_wait_2, linear_timeouts }
    }

    /// Their part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Seldom { syn_retries, fin_wait_2, linear_timeouts } = self;
        f.u8(470, syn_retries);
        let (mut is_set, mut time) = (fin_wait_2.is_some(), fin_wait_2.unwrap_or(Duration::ZERO));
        f.bool(471, &mut is_set);
        f.duration(472, &mut time);
        *fin_wait_2 = is_set.then_some(time);
        f.bool(473, linear_timeouts);
    }
}
