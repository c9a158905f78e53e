//! What a test says that cannot run here.

use std::io::Write as _;
use std::thread;

/// A test that did nothing must not look as if it had held. So this says so where the harness does
/// not swallow it, and with `CI` set, where somebody relies on the tests having run, it is a
/// failure.
pub(crate) fn or_skip(can_run: bool, why_not: &str) -> bool {
    if !can_run {
        let name = thread::current().name().unwrap_or("a test").to_string();
        assert!(!in_ci(), "{name} cannot run, and with CI set it may not be skipped: {why_not}");
        // Not `eprintln!`: the harness keeps that to itself when a test ends well.
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why_not}");
    }
    can_run
}

/// Whether `CI` is set, as every service that builds for others sets it; `CI=` and `CI=false` are
/// the same as without.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}
