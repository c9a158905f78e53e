//! Why a line is no command, and what to write instead.

use std::fmt;
use std::ops::Range;

use clearway_errors::Code;

/// What is wrong with the marked part of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The line has more than [`crate::MAX_LINE`] bytes.
    TooLong,
    /// The line has more than [`crate::MAX_WORDS`] words.
    TooManyWords,
    /// A quotation mark has no partner.
    UnclosedQuote,
    /// No word like this can stand here.
    Unknown,
    /// Nothing can stand here any more.
    NothingFollows,
    /// The short form fits several words.
    Ambiguous(Vec<String>),
    /// The line ends too early.
    Incomplete,
    /// The argument is not what it must be; the text says what that is.
    BadValue(String),
    /// Words that do not go together; the text says why.
    Refused(String),
}

/// A line that is no command. Printed, it shows the line with the wrong word underlined, and
/// without the secrets that may be in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Without secrets.
    line: Box<str>,
    /// The wrong part, in the line as it was given.
    at: Range<usize>,
    /// The wrong part, in the line as it is shown.
    mark: Range<u32>,
    problem: Problem,
    expected: Vec<String>,
    nearest: Option<String>,
}

/// Words that are named as possible at most; `?` shows them all.
const MAX_NAMED: usize = 16;

impl ParseError {
    pub(crate) fn new(line: &str, at: Range<usize>, problem: Problem) -> ParseError {
        // From here on the line goes into answers and logs.
        let (line, mark) = crate::mask::masked(line, at.clone());
        // Lines are shorter than 4 GiB.
        let mark = mark.start as u32..mark.end as u32;
        ParseError { line: line.into(), at, mark, problem, expected: Vec::new(), nearest: None }
    }

    /// With what could stand there, and the one of these that was probably meant.
    pub(crate) fn expecting(mut self, expected: Vec<String>) -> ParseError {
        if self.problem == Problem::Unknown {
            let word = self.line.get(self.mark()).unwrap_or("");
            self.nearest = nearest(word, expected.iter().map(String::as_str)).map(str::to_owned);
        }
        self.expected = expected;
        self
    }

    /// Where the wrong word stands in the line, in bytes.
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    fn mark(&self) -> Range<usize> {
        self.mark.start as usize..self.mark.end as usize
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self.problem {
            Problem::TooLong | Problem::TooManyWords => Code::LineTooLong,
            Problem::UnclosedQuote => Code::Unquoted,
            Problem::Unknown => Code::UnknownWord,
            Problem::NothingFollows => Code::NothingFollows,
            Problem::Ambiguous(_) => Code::Ambiguous,
            Problem::Incomplete => Code::Incomplete,
            Problem::BadValue(_) => Code::BadArgument,
            Problem::Refused(_) => Code::Refused,
        }
    }

    /// What could stand there.
    pub fn expected(&self) -> &[String] {
        &self.expected
    }

    /// The word that was probably meant.
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }

    /// What is wrong, in one sentence without the line.
    pub fn message(&self) -> String {
        let word = self.line.get(self.mark()).unwrap_or("");
        match &self.problem {
            Problem::TooLong => format!("the line is longer than {} bytes", crate::MAX_LINE),
            Problem::TooManyWords => format!("the line has more than {} words", crate::MAX_WORDS),
            Problem::UnclosedQuote => "this quotation mark is not closed".into(),
            Problem::Unknown => format!("`{word}` cannot stand here"),
            Problem::NothingFollows => format!("the command is complete before `{word}`"),
            Problem::Ambiguous(words) => format!("`{word}` may be {}", list(words, "or")),
            Problem::Incomplete => "the command is not complete".into(),
            Problem::BadValue(why) | Problem::Refused(why) => why.clone(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        if !self.line.is_empty() {
            // Columns are characters, not bytes, so that the marks stand under the word in any
            // script.
            let column = self.line[..self.mark().start].chars().count();
            let width = self.line[self.mark()].chars().count().max(1);
            write!(f, "\n  {}\n  {:column$}{:^<width$}", self.line.replace('\t', " "), "", "")?;
        }
        if let Some(word) = &self.nearest {
            write!(f, "\nDid you mean `{word}`?")?;
        }
        match (&self.problem, self.expected.as_slice()) {
            (Problem::Ambiguous(_) | Problem::BadValue(_), _) | (_, []) => Ok(()),
            (_, words) => {
                let more = if words.len() > MAX_NAMED { " …" } else { "" };
                write!(
                    f,
                    "\nPossible here: {}{more}",
                    words[..words.len().min(MAX_NAMED)].join(", ")
                )
            }
        }
    }
}

impl std::error::Error for ParseError {}

/// "`a`, `b` or `c`".
pub(crate) fn list(words: &[String], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((end, others)) => format!("{} {last} {end}", others.join(", ")),
    }
}

/// The most similar of `words`, when one is similar enough to have been meant.
fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let enough = (word.chars().count() / 3).max(1);
    words
        .filter(|candidate| !candidate.chars().any(|c| c.is_ascii_uppercase()))
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
