//! Completion and help for any place in a line.

use crate::args::Kind;
use crate::grammar::{beginnings, forms};
use crate::lex;
use crate::matcher::{self, Reading};
use crate::pattern::Leaf;

/// Something that may stand at the end of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The word, or the argument's kind in capitals.
    pub text: String,
    /// What it is or does.
    pub help: String,
    /// Where in the line the word begins that it would replace, in bytes.
    pub start: usize,
    /// It can be put into the line as it is; false for the kind of an argument.
    pub literal: bool,
}

/// Names that only the host knows.
pub trait Names {
    /// What arguments of this kind there are.
    fn of(&self, kind: Kind) -> Vec<String>;
}

/// Nobody is there to ask.
pub struct NoNames;

impl Names for NoNames {
    fn of(&self, _kind: Kind) -> Vec<String> {
        Vec::new()
    }
}

/// What may stand at the end of `line`: whole words when it ends with a space, else words that
/// begin as its last one does.
pub fn complete(line: &str, names: &dyn Names) -> Vec<Candidate> {
    let Ok(mut words) = lex::words(line) else { return Vec::new() };
    let end = words.last().map_or(0, |word| word.at.end);
    if line[end..].contains('#') {
        // A remark has begun.
        return Vec::new();
    }
    let begun = if line.ends_with(char::is_whitespace) { None } else { words.pop() };
    let start = begun.as_ref().map_or(line.len(), |word| word.at.start);
    let prefix = begun.map_or(String::new(), |word| String::clone(&word.text));
    words.retain(|word| word.text.as_str() != crate::grammar::JSON);
    let Ok(readings) = matcher::read(line, &words, beginnings()) else { return Vec::new() };
    let mut found: Vec<Candidate> = Vec::new();
    for reading in &readings {
        for leaf in reading.next() {
            for candidate in candidates(reading, leaf, start, &prefix, names) {
                if !found.iter().any(|other| other.text == candidate.text) {
                    found.push(candidate);
                }
            }
        }
    }
    found
}

fn candidates(
    reading: &Reading<'_>,
    leaf: Leaf,
    start: usize,
    prefix: &str,
    names: &dyn Names,
) -> Vec<Candidate> {
    match leaf {
        Leaf::Word { word, .. } if word.starts_with(prefix) => {
            let help = forms()[reading.form].help.to_owned();
            vec![Candidate { text: word.into(), help, start, literal: true }]
        }
        Leaf::Word { .. } => Vec::new(),
        Leaf::Argument { kind, .. } => {
            let known = names.of(kind).into_iter().filter(|name| name.starts_with(prefix));
            let literal = |text| Candidate { text, help: kind.what().into(), start, literal: true };
            let mut all: Vec<Candidate> = known.map(literal).collect();
            if all.is_empty() && (prefix.is_empty() || kind.check(prefix).is_ok()) {
                all.push(Candidate {
                    text: kind.name().into(),
                    help: kind.what().into(),
                    start,
                    literal: false,
                });
            }
            all
        }
    }
}

/// What may stand behind `line`, for people: the next words with what they do, and whether the line
/// may end.
pub fn help(line: &str, names: &dyn Names) -> String {
    let mut text = String::new();
    let candidates = complete(line, names);
    let width = candidates.iter().map(|c| c.text.chars().count()).max().unwrap_or(0);
    let several = |candidate: &Candidate| forms_with(line, &candidate.text) > 1;
    for candidate in &candidates {
        // A word that begins several commands is explained by what may follow it.
        let what = if candidate.literal && several(candidate) {
            following(line, candidate)
        } else {
            candidate.help.clone()
        };
        text.push_str(&format!("  {:width$}  {what}\n", candidate.text));
    }
    let ends = lex::words(line)
        .ok()
        .filter(|words| !words.is_empty() && line.ends_with(char::is_whitespace))
        .and_then(|words| matcher::read(line, &words, beginnings()).ok())
        .and_then(|readings| {
            readings.iter().find(|reading| reading.complete()).map(|reading| reading.form)
        });
    if let Some(form) = ends {
        text.push_str(&format!("  <end>  {}\n", forms()[form].help));
    }
    if text.is_empty() {
        text.push_str("  Nothing can stand here.\n");
    }
    text
}

fn with(line: &str, candidate: &Candidate) -> String {
    format!("{}{} ", &line[..candidate.start.min(line.len())], candidate.text)
}

fn forms_with(line: &str, word: &str) -> usize {
    let base = line.trim_end_matches(|c: char| !c.is_whitespace());
    let line = format!("{base}{word} ");
    let readings =
        lex::words(&line).ok().and_then(|words| matcher::read(&line, &words, beginnings()).ok());
    readings.map_or(0, |readings| {
        let mut forms: Vec<usize> = readings.iter().map(|reading| reading.form).collect();
        forms.dedup();
        forms.len()
    })
}

fn following(line: &str, candidate: &Candidate) -> String {
    let next = complete(&with(line, candidate), &NoNames);
    let words: Vec<&str> = next.iter().map(|candidate| candidate.text.as_str()).collect();
    words.join(" | ")
}

#[cfg(test)]
mod tests;
