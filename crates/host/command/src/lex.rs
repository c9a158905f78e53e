//! A line as words, each with its place.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::error::{ParseError, Problem};

/// Bytes of a line at most.
pub const MAX_LINE: usize = 4096;

/// Words of a line at most.
pub const MAX_WORDS: usize = 64;

/// One word of a line. It may be a secret, so nothing of it stays in memory; the place for it is
/// large enough from the start, so that it is not copied as it grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// Without quotes.
    pub(crate) text: Zeroizing<String>,
    /// Where it stands, quotes included, in bytes.
    pub(crate) at: Range<usize>,
    /// Some of it stood in quotes, so it is an argument and never a word of the grammar.
    pub(crate) quoted: bool,
}

/// Cuts a line into words. White space separates them, quotes of both kinds keep it, a backslash
/// within double quotes keeps the next character, and `#` where a word would begin makes the rest a
/// remark.
pub(crate) fn words(line: &str) -> Result<Vec<Word>, ParseError> {
    if line.len() > MAX_LINE {
        // The line itself is left out of the answer: whoever sends so much shall not get it back.
        return Err(ParseError::new("", 0..0, Problem::TooLong));
    }
    let mut words = Vec::new();
    let mut rest = Cursor { line, at: 0 };
    while let Some(word) = rest.word()? {
        if words.len() == MAX_WORDS {
            return Err(ParseError::new(line, word.at, Problem::TooManyWords));
        }
        words.push(word);
    }
    Ok(words)
}

struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.line[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn word(&mut self) -> Result<Option<Word>, ParseError> {
        while self.peek().is_some_and(char::is_whitespace) {
            self.take();
        }
        if self.peek().is_none_or(|c| c == '#') {
            return Ok(None);
        }
        let start = self.at;
        let mut word = Word {
            text: Zeroizing::new(String::with_capacity(self.line.len() - start)),
            at: start..start,
            quoted: false,
        };
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace()) {
            self.take();
            if c == '"' || c == '\'' {
                word.quoted = true;
                self.quoted(c, &mut word.text)?;
            } else {
                word.text.push(c);
            }
        }
        word.at.end = self.at;
        Ok(Some(word))
    }

    /// What stands between quotes, the first of which is taken already.
    fn quoted(&mut self, quote: char, into: &mut String) -> Result<(), ParseError> {
        let start = self.at - quote.len_utf8();
        loop {
            match self.take() {
                None => {
                    return Err(ParseError::new(
                        self.line,
                        start..self.line.len(),
                        Problem::UnclosedQuote,
                    ));
                }
                Some(c) if c == quote => return Ok(()),
                Some('\\') if quote == '"' => match self.take() {
                    Some(c) => into.push(c),
                    None => {
                        return Err(ParseError::new(
                            self.line,
                            start..self.line.len(),
                            Problem::UnclosedQuote,
                        ));
                    }
                },
                Some(c) => into.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests;
