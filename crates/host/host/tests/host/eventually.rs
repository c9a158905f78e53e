//! Waiting for what is going to be so.

use std::time::{Duration, Instant};

/// Looks until it is so. Panics when it takes far too long.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
