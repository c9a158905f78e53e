//! What workers had done when somebody looked, so that the next look can tell rates.

use clearway_base::{Duration, Instant};

/// Rates are told of at least so long a time, so that who asks twice within a moment is not told
/// what happened in that moment.
const AT_LEAST: Duration = Duration::from_secs(1);

/// What a worker had done at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Done {
    pub(super) at: Instant,
    pub(super) turns: u64,
    pub(super) sleeps: u64,
    pub(super) busy: Duration,
}

/// What workers had done when somebody looked, so that the next look can tell rates.
#[derive(Debug, Default)]
pub(crate) struct LastLooks {
    /// The last, and the one before that.
    looks: [Vec<Done>; 2],
}

impl LastLooks {
    /// What is compared with the present: the newest look that is old enough.
    pub(super) fn before(&mut self, now: &[Done]) -> Vec<Done> {
        let is_old = |look: &[Done]| {
            look.iter().zip(now).all(|(then, now)| now.at.since(then.at) >= AT_LEAST)
        };
        if self.looks[0].is_empty() || is_old(&self.looks[0]) {
            self.looks.swap(0, 1);
            self.looks[0] = now.to_vec();
        }
        self.looks[1].clone()
    }
}

#[cfg(test)]
mod tests;
