//! Every class of error that users see, once: its code, what it means, and what to do.
//!
//! A message says what is wrong here and now; its code says of which class that is, stays the same
//! whatever becomes of the words, and has a text that is longer than a message may be:
//! `clearway help E0103`, and the page docs/errors.md, which is made of this table.

#![no_std]
#![forbid(unsafe_code)]

use core::fmt;

mod table;

pub use table::Code;

/// A row of the table.
struct Row {
    /// The name in the code.
    name: &'static str,
    title: &'static str,
    means: &'static str,
    causes: &'static str,
    remedy: &'static str,
}

impl Code {
    /// Its number, which never becomes another class's.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// What the class is called.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What it means, in whole sentences.
    pub fn means(self) -> &'static str {
        self.row().means
    }

    /// What usually causes it.
    pub fn causes(self) -> &'static str {
        self.row().causes
    }

    /// What to do.
    pub fn remedy(self) -> &'static str {
        self.row().remedy
    }

    /// Its name in the code.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The class of a code as people write it: `E0103`, `e103` or `103`.
    pub fn of(text: &str) -> Option<Code> {
        let digits = text.strip_prefix(['E', 'e']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: u16 = digits.parse().ok()?;
        Code::ALL.iter().copied().find(|code| code.number() == number)
    }

    /// Takes a message apart that begins with its class, as [`Code::before`] writes it.
    pub fn split(message: &str) -> (Option<Code>, &str) {
        let split = message.strip_prefix("error[").and_then(|rest| rest.split_once("]: "));
        match split.and_then(|(code, rest)| Some((Code::of(code)?, rest))) {
            Some((code, rest)) => (Some(code), rest),
            None => (None, message),
        }
    }

    /// A message with its class before it: `error[E0103]: …`.
    pub fn before<M: fmt::Display>(self, message: M) -> WithCode<M> {
        WithCode { code: self, message }
    }

    /// The text that `clearway help` prints of it.
    pub fn explained(self) -> Explained {
        Explained(self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.number())
    }
}

/// A message with its class before it.
pub struct WithCode<M> {
    code: Code,
    message: M,
}

impl<M: fmt::Display> fmt::Display for WithCode<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)
    }
}

/// What there is to say about a class.
pub struct Explained(Code);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explained(code) = self;
        writeln!(f, "{code}: {}", code.title())?;
        let parts = [
            ("What it means", code.means()),
            ("What usually causes it", code.causes()),
            ("What to do", code.remedy()),
        ];
        parts.iter().try_for_each(|(head, text)| {
            writeln!(f, "\n{head}:")?;
            filled(f, text)
        })
    }
}

/// Columns of a line on a terminal.
const WIDTH: usize = 78;

/// Text in lines, set in by two columns.
fn filled(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column == 0 || column + 1 + width > WIDTH {
            let end = if column == 0 { "" } else { "\n" };
            write!(f, "{end}  {word}")?;
            column = 2 + width;
        } else {
            write!(f, " {word}")?;
            column += 1 + width;
        }
    }
    writeln!(f)
}

/// All classes in Markdown, for the documentation.
pub struct Markdown;

impl fmt::Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| code | class |\n| --- | --- |")?;
        for code in Code::ALL {
            writeln!(f, "| [{code}](#{}) | {} |", Anchor(*code), code.title())?;
        }
        for code in Code::ALL {
            writeln!(f, "\n## {code}\n\n**{}.** {}\n", Capital(code.title()), code.means())?;
            writeln!(f, "*What usually causes it:* {}\n", code.causes())?;
            writeln!(f, "*What to do:* {}", code.remedy())?;
        }
        Ok(())
    }
}

/// A heading's place in a page.
struct Anchor(Code);

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{:04}", self.0.number())
    }
}

/// A text as the beginning of a sentence.
struct Capital<'a>(&'a str);

impl fmt::Display for Capital<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = self.0.chars();
        letters.next().map_or(Ok(()), |first| write!(f, "{}", first.to_uppercase()))?;
        f.write_str(letters.as_str())
    }
}

#[cfg(test)]
mod tests;
