//! What a gate is.

use std::path::Path;

use anyhow::Result;

use crate::tally::Tally;

/// One gate.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) run: fn(&Path) -> Result<Outcome>,
}

/// How a gate ended, when it could be run at all.
pub(super) enum Outcome {
    /// It holds; the text says what was looked at, and may be empty.
    Holds(String),
    /// It does not hold, and has said why.
    Refused(String),
    /// What the gate would run is not in this tree.
    Absent(String),
    /// Tests ran. The text says how the command failed, if it did.
    Tested(Tally, Option<String>),
}
