//! What a command answers.

use std::fmt::Write as _;

use clearway_command::ParseError;
use clearway_errors::Code;
use serde_json::{Value, json};

use super::CommandError;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done.
    Done,
    /// Understood, and not done.
    Failed,
    /// Not understood.
    WrongUse,
    /// Done, and the conversation ends.
    Quit,
}

impl Outcome {
    /// Its word at the end of an answer.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::Done => "ok",
            Outcome::Failed => "failed",
            Outcome::WrongUse => "wrong use",
            Outcome::Quit => "bye",
        }
    }

    /// The outcome of that word.
    pub fn of_word(word: &str) -> Option<Outcome> {
        [Outcome::Done, Outcome::Failed, Outcome::WrongUse, Outcome::Quit]
            .into_iter()
            .find(|o| o.word() == word)
    }
}

/// What a command has to say, for people and for programs.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Lines, each with its end.
    pub text: String,
    /// The same as JSON.
    pub json: Value,
    quit: bool,
}

impl Output {
    /// Both forms.
    pub fn new(text: String, json: Value) -> Output {
        Output { text, json, quit: false }
    }

    /// Nothing to say.
    pub(crate) fn done() -> Output {
        Output::new(String::new(), json!({}))
    }

    /// A text that has no better form for programs.
    pub(crate) fn text(text: impl Into<String>) -> Output {
        let text = text.into();
        Output::new(text.clone(), json!({ "text": text }))
    }

    pub(crate) fn quit() -> Output {
        Output { quit: true, ..Output::done() }
    }
}

/// What goes back to who gave the command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Lines, each with its end.
    pub text: String,
    /// How it ended.
    pub outcome: Outcome,
}

impl Answer {
    pub(crate) fn of(output: Output, as_json: bool) -> Answer {
        let outcome = if output.quit { Outcome::Quit } else { Outcome::Done };
        Answer { text: if as_json { lines(&output.json) } else { output.text }, outcome }
    }

    pub(crate) fn failed(error: &CommandError, as_json: bool) -> Answer {
        let text = if as_json {
            lines(&json!({ "error": error.to_string(), "code": error.code().to_string() }))
        } else {
            format!("{}\n", error.code().before(error))
        };
        Answer {
            text,
            outcome: if error.is_wrong_use() { Outcome::WrongUse } else { Outcome::Failed },
        }
    }

    /// To somebody who may not give commands. `user` is who runs the host.
    pub(crate) fn not_heard(user: u32) -> Answer {
        let text = format!(
            "{}\n",
            Code::NotHeard.before(format_args!(
                "permission denied: commands are taken of root and of the user who runs the host \
                 (uid {user}) only"
            ))
        );
        Answer { text, outcome: Outcome::Failed }
    }

    pub(crate) fn wrong_use(error: &ParseError, as_json: bool) -> Answer {
        let text = match as_json {
            false => format!("{}\n", error.code().before(error)),
            true => lines(&json!({
                "error": error.message(),
                "code": error.code().to_string(),
                "from": error.at().start,
                "to": error.at().end,
                "expected": error.expected(),
                "nearest": error.nearest(),
            })),
        };
        Answer { text, outcome: Outcome::WrongUse }
    }

    /// As it goes over a socket: its lines, and then a line `. ` with the outcome. A line that
    /// begins with a dot gets one more (as in RFC 5321 4.5.2), so that the end cannot be mistaken.
    pub fn framed(&self) -> String {
        let mut framed = String::with_capacity(self.text.len() + 16);
        for line in self.text.lines() {
            let dot = if line.starts_with('.') { "." } else { "" };
            let _ = writeln!(framed, "{dot}{line}");
        }
        let _ = writeln!(framed, ". {}", self.outcome.word());
        framed
    }

    /// Reads a framed answer, line by line; None when it ends too early or its end is unknown.
    pub fn read(
        lines: impl Iterator<Item = std::io::Result<String>>,
    ) -> std::io::Result<Option<Answer>> {
        let mut text = String::new();
        for line in lines {
            let line = line?;
            if let Some(word) = line.strip_prefix(". ") {
                return Ok(Outcome::of_word(word).map(|outcome| Answer { text, outcome }));
            }
            text.push_str(line.strip_prefix('.').unwrap_or(&line));
            text.push('\n');
        }
        Ok(None)
    }
}

fn lines(json: &Value) -> String {
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests;
