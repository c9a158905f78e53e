//! How many tests passed, failed and were skipped, added up over test programs.

use std::fmt;

/// A count of tests by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that ran and held.
    pub passed: u64,
    /// Tests that ran and did not hold.
    pub failed: u64,
    /// Tests that did not run (`#[ignore]`).
    pub skipped: u64,
}

impl Tally {
    /// Adds `other` to this count.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Reads the line with which a test program ends, or gives `None` for any other line:
    /// `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in
    /// 0.01s`.
    pub fn from_line(line: &str) -> Option<Tally> {
        let (_, counts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
        let mut tally = Tally::default();
        for part in counts.split(';') {
            let (number, word) = part.trim().split_once(' ')?;
            match word {
                "passed" => tally.passed = number.parse().ok()?,
                "failed" => tally.failed = number.parse().ok()?,
                "ignored" => tally.skipped = number.parse().ok()?,
                _ => break,
            }
        }
        Some(tally)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
