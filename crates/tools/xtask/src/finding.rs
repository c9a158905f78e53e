//! What a check found, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that a check refuses, printed as `file:line: message`, so that editors can jump to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the root of the workspace.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and how to mend it.
    pub message: String,
}

impl Finding {
    /// A finding at `line` of `file`.
    pub fn new(file: impl AsRef<Path>, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: file.as_ref().to_path_buf(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// Prints findings to standard error in the order of files and lines, and says whether there were
/// none.
pub fn print(findings: &mut [Finding]) -> bool {
    findings.sort();
    for finding in findings.iter() {
        eprintln!("{finding}");
    }
    findings.is_empty()
}
