//! What can be wrong with a file of settings.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clearway_errors::Code;

/// Why settings were not taken. Printed, it says file, line and what to write.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Of which class it is.
        code: Code,
        /// What is wrong.
        what: String,
    },
}

impl SettingsError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            SettingsError::Unreadable { .. } => Code::SettingsUnreadable,
            SettingsError::Wrong { code, .. } => *code,
        }
    }
}

/// Something wrong at a place of the text.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: Range<usize>,
    pub(super) code: Code,
    pub(super) what: String,
}

impl Wrong {
    /// A value that is not allowed.
    pub(super) fn new(at: Range<usize>, what: impl Into<String>) -> Wrong {
        Wrong { at, code: Code::SettingsValue, what: what.into() }
    }

    /// Something else.
    pub(super) fn of(code: Code, at: Range<usize>, what: impl Into<String>) -> Wrong {
        Wrong { at, code, what: what.into() }
    }

    pub(super) fn at(self, text: &str, path: &Path) -> SettingsError {
        let before = text.get(..self.at.start).unwrap_or(text);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        SettingsError::Wrong { path: path.to_owned(), line, code: self.code, what: self.what }
    }
}
