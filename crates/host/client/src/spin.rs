//! How long a thread looks before it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clearway_shm::interrupt;

/// The environment's word for it, in microseconds.
pub(crate) const VARIABLE: &str = "CLEARWAY_SPIN_US";

/// What is looked for when nobody says otherwise. Sleeping and being woken costs a few
/// microseconds; looking longer than that is only worth it where there are processors to spare.
const DEFAULT: Duration = Duration::from_micros(10);

/// After a look that found something, so many more are taken; each that finds nothing costs one.
const CREDIT: u32 = 4;

/// Without credit, one wait in so many looks nevertheless, to see whether times have changed.
const PROBE: u32 = 32;

/// Looks before sleeping while that has been worth it lately.
pub(crate) struct Spin {
    longest: Duration,
    credit: AtomicU32,
    waits: AtomicU32,
}

impl Spin {
    /// Looks for so many microseconds, or as the number of processors suggests: with one, who looks
    /// keeps away whom it waits for.
    pub(crate) fn new(micros: Option<u32>) -> Spin {
        let longest = match micros {
            Some(micros) => Duration::from_micros(micros.into()),
            None if processors() < 2 => Duration::ZERO,
            None => DEFAULT,
        };
        Spin { longest, credit: AtomicU32::new(CREDIT), waits: AtomicU32::new(0) }
    }

    /// Looks until `found` says yes, the time is over, or a signal's handler ran; says whether it was
    /// found.
    pub(crate) fn look(&self, mut found: impl FnMut() -> bool) -> bool {
        if self.longest.is_zero() || !self.is_worth_it() {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            if found() {
                self.credit.store(CREDIT, Ordering::Relaxed);
                return true;
            }
            if interrupt::came() || start.elapsed() >= self.longest {
                let credit = self.credit.load(Ordering::Relaxed);
                self.credit.store(credit.saturating_sub(1), Ordering::Relaxed);
                return false;
            }
        }
    }

    fn is_worth_it(&self) -> bool {
        let waits = self.waits.fetch_add(1, Ordering::Relaxed);
        self.credit.load(Ordering::Relaxed) > 0 || waits % PROBE == 0
    }
}

/// Processors that this thread may run on.
fn processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}
