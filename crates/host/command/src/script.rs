//! Commands out of a file or a stream of lines: one command per line, remarks over several.

use clearway_errors::Code;

use crate::error::ParseError;
use crate::{Line, parse};

/// A line of a script that is a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement<'a> {
    /// Its number, counted from 1.
    pub number: usize,
    /// The line.
    pub text: &'a str,
}

/// Leaves remarks out of a stream of lines. A remark begins with `comment {` and goes on to the
/// brace that closes it, over as many lines as it takes. It keeps count only; nothing of a remark
/// is kept.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statements {
    /// Braces of a remark that are open.
    open: usize,
}

impl Statements {
    /// The part of `line` that is a command, if any of it is outside remarks.
    pub fn feed<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let mut rest = line;
        loop {
            if self.open == 0 {
                match remark(rest) {
                    None => {
                        return Some(rest.trim())
                            .filter(|text| !text.is_empty() && !text.starts_with('#'));
                    }
                    Some(inside) => {
                        self.open = 1;
                        rest = inside;
                    }
                }
            }
            rest = self.skip(rest)?;
        }
    }

    /// Whether a remark is open.
    pub fn inside(&self) -> bool {
        self.open > 0
    }

    /// What stands behind the end of the remark, if it ends in this line.
    fn skip<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        for (at, c) in line.char_indices() {
            match c {
                '{' => self.open += 1,
                '}' => self.open -= 1,
                _ => {}
            }
            if self.open == 0 {
                return Some(&line[at + 1..]);
            }
        }
        None
    }
}

/// What stands behind the brace that opens a remark.
fn remark(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("comment")?.trim_start().strip_prefix('{')
}

/// Why a script cannot be carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScriptError {
    /// A line is no command.
    #[error("line {number}: {error}")]
    Line {
        /// Which, counted from 1.
        number: usize,
        /// Why.
        error: Box<ParseError>,
    },
    /// A remark is not closed.
    #[error(
        "line {number}: the remark that begins here is not closed. Write `}}` behind its last line."
    )]
    OpenRemark {
        /// Where it begins, counted from 1.
        number: usize,
    },
}

impl ScriptError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            ScriptError::Line { error, .. } => error.code(),
            ScriptError::OpenRemark { .. } => Code::Incomplete,
        }
    }
}

/// The commands of a whole script, every line checked before the first is carried out.
pub fn statements(script: &str) -> Result<Vec<(Statement<'_>, Line)>, ScriptError> {
    let mut state = Statements::default();
    let mut all = Vec::new();
    let mut opened = 0;
    for (index, line) in script.lines().enumerate() {
        let (number, was_inside) = (index + 1, state.inside());
        if let Some(text) = state.feed(line) {
            let line = parse(text)
                .map_err(|error| ScriptError::Line { number, error: Box::new(error) })?;
            all.push((Statement { number, text }, line));
        }
        if state.inside() && !was_inside {
            opened = number;
        }
    }
    if state.inside() { Err(ScriptError::OpenRemark { number: opened }) } else { Ok(all) }
}

#[cfg(test)]
mod tests;
