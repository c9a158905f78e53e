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

/// What a test program printed about its tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many ended how, over all that printed a result.
    pub tally: Tally,
    /// The tests that failed, by name.
    pub failed: Vec<String>,
    /// The tests that it called slow and of which no end was told.
    pub under_way: Vec<String>,
}

impl Report {
    /// Reads all that a test program printed, or several of them one after the other.
    pub fn read(printed: &str) -> Report {
        let mut report = Report::default();
        // The list of names stands last before the result; what the tests printed stands in a list
        // with the same heading before.
        let mut listed: Option<Vec<String>> = None;
        for line in printed.lines() {
            if let Some(tally) = Tally::from_line(line) {
                report.tally.add(tally);
                report.failed.extend(listed.take().unwrap_or_default());
            } else if line == "failures:" {
                listed = Some(Vec::new());
            } else if let (Some(names), Some(name)) = (&mut listed, line.strip_prefix("    ")) {
                names.push(name.to_owned());
            } else if let Some(test) = line.strip_prefix("test ") {
                match test.split_once(SLOW) {
                    Some((name, _)) => report.under_way.push(name.to_owned()),
                    None => report.under_way.retain(|name| !ends(test, name)),
                }
            }
        }
        report
    }
}

/// How much of a panic's message is shown.
const MESSAGE: usize = 400;

/// What the test `name` said as it failed, in one line: where it panicked first, and the message, as
/// far as that is not long. None: nothing was kept of it.
pub fn reason(printed: &str, name: &str) -> Option<String> {
    let section = printed.split_once(&format!("---- {name} stdout ----\n"))?.1;
    let section = section.split("\n---- ").next()?;
    let (_, panic) = section.split_once("panicked at ")?;
    let is_over = |line: &&str| line.starts_with("stack backtrace:") || line.starts_with("note: ");
    let message: Vec<&str> =
        panic.lines().take_while(|line| !is_over(line)).filter(|line| !line.is_empty()).collect();
    let message = message.join(" ");
    Some(match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    })
}

/// What the harness says of a test that takes long.
const SLOW: &str = " has been running for over";

/// Whether `test` is the end of the line that tells how the test `name` ended.
fn ends(test: &str, name: &str) -> bool {
    test.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ... "))
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
