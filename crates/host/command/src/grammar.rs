//! The grammar: every command, once.

use std::path::PathBuf;
use std::sync::OnceLock;

use clearway_wire::{Addr, Cidr, Mac};
use zeroize::Zeroizing;

use crate::args::{PortRange, SessionName, Value};
use crate::command::*;
use crate::error::{ParseError, Problem};
use crate::lex::{self, Word};
use crate::matcher::{self, Reading, Taken};
use crate::pattern::{self, Leaf, Node};

mod forms;

/// One form of command.
pub struct Form {
    /// How it is written; see the crate's documentation.
    pub pattern: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// What it means.
    pub(crate) make: fn(&Got<'_>) -> Made,
}

/// The command, or the argument that it refuses (by its key, or none for the whole line) and why.
pub(crate) type Made = Result<Command, Refusal>;

pub(crate) struct Refusal {
    key: Option<&'static str>,
    why: String,
}

impl Refusal {
    pub(crate) fn of(key: &'static str, why: impl Into<String>) -> Refusal {
        Refusal { key: Some(key), why: why.into() }
    }

    pub(crate) fn line(why: impl Into<String>) -> Refusal {
        Refusal { key: None, why: why.into() }
    }
}

/// What was read of a line.
pub(crate) struct Got<'a> {
    taken: &'a [Taken],
}

impl Got<'_> {
    /// Whether a word of the grammar was there.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.taken
            .iter()
            .any(|taken| matches!(taken.leaf, Leaf::Word { word, .. } if word == wanted))
    }

    fn value(&self, wanted: &str) -> Option<&Value> {
        self.values(wanted).next()
    }

    fn values(&self, wanted: &str) -> impl Iterator<Item = &Value> {
        let found = move |taken: &'_ &Taken| {
            matches!(taken.leaf,
            Leaf::Argument { key, .. } if key == wanted)
        };
        self.taken.iter().filter(found).filter_map(|taken| taken.value.as_ref())
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn secret(&self, key: &str) -> Option<Zeroizing<String>> {
        match self.value(key)? {
            Value::Secret(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::Number(n) => Some(*n),
            _ => None,
        }
    }

    pub(crate) fn small<N: TryFrom<u64>>(&self, key: &'static str) -> Result<Option<N>, Refusal> {
        let convert =
            |n| N::try_from(n).map_err(|_| Refusal::of(key, format!("{n} is too large here")));
        self.number(key).map(convert).transpose()
    }

    pub(crate) fn table(&self, key: &'static str) -> Result<Option<u32>, Refusal> {
        self.small(key)
    }

    pub(crate) fn prefix(&self, key: &str) -> Option<Cidr> {
        match self.value(key)? {
            Value::Prefix(prefix) => Some(*prefix),
            _ => None,
        }
    }

    pub(crate) fn prefixes(&self, key: &str) -> Vec<Cidr> {
        let prefix =
            |value: &Value| if let Value::Prefix(prefix) = value { Some(*prefix) } else { None };
        self.values(key).filter_map(prefix).collect()
    }

    pub(crate) fn address(&self, key: &str) -> Option<Addr> {
        match self.value(key)? {
            Value::Address(address) => Some(*address),
            _ => None,
        }
    }

    pub(crate) fn mac(&self, key: &str) -> Option<Mac> {
        match self.value(key)? {
            Value::Mac(mac) => Some(*mac),
            _ => None,
        }
    }

    pub(crate) fn ports(&self, key: &str) -> Option<PortRange> {
        match self.value(key)? {
            Value::Ports(ports) => Some(*ports),
            _ => None,
        }
    }

    pub(crate) fn protocol(&self, key: &str) -> Option<u8> {
        match self.value(key)? {
            Value::Protocol(protocol) => Some(*protocol),
            _ => None,
        }
    }

    pub(crate) fn session(&self, key: &str) -> Option<SessionName> {
        match self.value(key)? {
            Value::Session(name) => Some(*name),
            _ => None,
        }
    }

    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.value(key)?.path()
    }

    pub(crate) fn interface(&self) -> String {
        self.text("INTERFACE").unwrap_or_default()
    }
}

/// Every form of command, in the order in which help shows them.
pub fn forms() -> &'static [Form] {
    forms::FORMS
}

fn trees() -> &'static [Node] {
    static TREES: OnceLock<Vec<Node>> = OnceLock::new();
    TREES.get_or_init(|| {
        let tree = |form: &Form| {
            pattern::compile(form.pattern).expect("the patterns are ours, and a test compiles each")
        };
        forms().iter().map(tree).collect()
    })
}

/// Every form, with nothing read yet.
pub(crate) fn beginnings() -> Vec<Reading<'static>> {
    trees().iter().enumerate().map(|(form, node)| Reading::new(form, node)).collect()
}

/// The word that asks for JSON, wherever it stands.
pub(crate) const JSON: &str = "--json";

/// What a line asks for.
pub fn parse(line: &str) -> Result<Line, ParseError> {
    let mut words = lex::words(line)?;
    let json = words.iter().any(is_json);
    words.retain(|word| !is_json(word));
    let command = match words.as_slice() {
        [] => Command::Nothing,
        [.., last] if last.text.ends_with('?') && !last.quoted => {
            Command::Help(line[..last.at.end - 1].trim_start().into())
        }
        [first, ..] if first.text.as_str() == "comment" => remark(line, first)?,
        words => command(line, words)?,
    };
    Ok(Line { command, json })
}

fn is_json(word: &Word) -> bool {
    word.text.as_str() == JSON && !word.quoted
}

/// A remark of one line, `comment { … }`. Those of several lines are for [`crate::Statements`] to
/// leave out.
fn remark(line: &str, first: &Word) -> Result<Command, ParseError> {
    let rest = line[first.at.end..].trim();
    if rest.starts_with('{') && rest.ends_with('}') {
        return Ok(Command::Nothing);
    }
    let problem = Problem::Refused("a remark is written `comment { … }`".into());
    Err(ParseError::new(line, first.at.end..line.len(), problem))
}

fn command(line: &str, words: &[Word]) -> Result<Command, ParseError> {
    let readings = matcher::read(line, words, beginnings())?;
    let Some(reading) = readings.iter().find(|reading| reading.complete()) else {
        let error = ParseError::new(line, line.len()..line.len(), Problem::Incomplete);
        return Err(error.expecting(matcher::expected(&readings)));
    };
    let got = Got { taken: &reading.taken };
    (forms()[reading.form].make)(&got).map_err(|refusal| {
        let place = refusal.key.and_then(|key| place(&reading.taken, words, key));
        let whole = words.first().map_or(0, |w| w.at.start)..words.last().map_or(0, |w| w.at.end);
        ParseError::new(line, place.unwrap_or(whole), Problem::Refused(refusal.why))
    })
}

/// Where the argument of that key stands.
fn place(taken: &[Taken], words: &[Word], wanted: &str) -> Option<std::ops::Range<usize>> {
    let is_it = |taken: &&Taken| matches!(taken.leaf, Leaf::Argument { key, .. } if key == wanted);
    taken.iter().find(is_it).and_then(|taken| words.get(taken.index)).map(|word| word.at.clone())
}

#[cfg(test)]
mod tests;
