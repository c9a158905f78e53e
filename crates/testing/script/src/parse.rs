//! The text of a script taken apart.

mod call;
mod packet;

use crate::ast::{Between, Event, Micros, Script, What, When};
use crate::lex::{ParseError, Pos, Spanned, Token, lex};
use crate::settings::Settings;

/// Takes a script apart.
pub fn parse(text: &str) -> Result<Script, ParseError> {
    let (words, comments) = lex(text)?;
    let mut parser = Parser { words, at: 0 };
    let mut settings = Settings::default();
    for comment in &comments {
        settings.comment(comment);
    }
    let mut events = Vec::new();
    loop {
        match parser.peek().clone() {
            Token::End => break,
            Token::Option(text) => {
                let pos = parser.pos();
                settings.option(&text).map_err(|what| ParseError::new(pos, what))?;
                parser.skip();
            }
            Token::Command(text) if events.is_empty() => {
                settings.commands.push(text);
                parser.skip();
            }
            _ => events.push(parser.event()?),
        }
    }
    Ok(Script { settings, events })
}

struct Parser {
    words: Vec<Spanned>,
    at: usize,
}

impl Parser {
    fn here(&self) -> &Spanned {
        &self.words[self.at.min(self.words.len() - 1)]
    }

    fn peek(&self) -> &Token {
        &self.here().token
    }

    fn pos(&self) -> Pos {
        self.here().pos
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.skip();
        token
    }

    fn error<T>(&self, wanted: &str) -> Result<T, ParseError> {
        Err(ParseError::new(self.pos(), format!("{wanted} was expected here, not {}", self.peek())))
    }

    fn is_sign(&self, sign: char) -> bool {
        *self.peek() == Token::Sign(sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(text) if text == word)
    }

    /// Takes the sign when it is there.
    fn takes(&mut self, sign: char) -> bool {
        let there = self.is_sign(sign);
        self.at += usize::from(there);
        there
    }

    /// Takes the word when it is there.
    fn takes_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: char) -> Result<(), ParseError> {
        if self.takes(sign) { Ok(()) } else { self.error(&format!("`{sign}`")) }
    }

    fn integer(&mut self) -> Result<i64, ParseError> {
        let minus = self.takes('-');
        let Token::Number(text) = self.peek() else { return self.error("a number") };
        let value = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let Ok(value) = value else { return self.error("a whole number") };
        self.skip();
        Ok(if minus { -value } else { value })
    }

    /// A number that fits `T`.
    fn number<T: TryFrom<i64>>(&mut self) -> Result<T, ParseError> {
        let pos = self.pos();
        let value = self.integer()?;
        T::try_from(value)
            .map_err(|_| ParseError::new(pos, format!("{value} is out of range here")))
    }

    fn event(&mut self) -> Result<Event, ParseError> {
        let pos = self.pos();
        let when = self.when()?;
        let until = if *self.peek() == Token::Ellipsis {
            self.skip();
            self.takes('+');
            Some(self.micros()?)
        } else {
            None
        };
        let what = self.what()?;
        if until.is_some() && !matches!(what, What::Call(_)) {
            return Err(ParseError::new(pos, "only a call may take time (`...`)"));
        }
        Ok(Event { pos, when, until, what })
    }

    fn when(&mut self) -> Result<When, ParseError> {
        if self.takes('*') {
            return Ok(When::Any);
        }
        let relative = self.takes('+');
        let from = self.micros()?;
        let to = if self.takes('~') {
            self.takes('+');
            self.micros()?
        } else {
            from
        };
        if to < from {
            return self.error("a range of times that does not end before it begins");
        }
        let between = Between { from, to };
        Ok(if relative { When::Relative(between) } else { When::Absolute(between) })
    }

    /// Seconds with up to six digits behind the dot.
    fn micros(&mut self) -> Result<Micros, ParseError> {
        let Token::Number(text) = self.peek() else { return self.error("a time in seconds") };
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = part.chars().chain("000000".chars()).take(6).collect();
        let whole = if whole.is_empty() { "0" } else { whole };
        match (whole.parse::<i64>(), digits.parse::<i64>()) {
            (Ok(seconds), Ok(micros)) if part.len() <= 6 && seconds < 1_000_000 => {
                self.skip();
                Ok(seconds * 1_000_000 + micros)
            }
            _ => self.error("a time in seconds"),
        }
    }

    fn what(&mut self) -> Result<What, ParseError> {
        let pos = self.pos();
        match self.next() {
            Token::Sign('<') => Ok(What::Inbound(self.packet(true)?)),
            Token::Sign('>') => Ok(What::Outbound(self.packet(false)?)),
            Token::Code(code) => crate::expr::parse(&code, pos).map(What::Assert),
            Token::Command(text) => Ok(What::Command(text)),
            Token::Word(name) => Ok(What::Call(self.call(name)?)),
            _ => {
                self.at -= 1;
                self.error("a packet (`<` or `>`), a call, an assertion (`%{`) or a command")
            }
        }
    }
}

#[cfg(test)]
mod tests;
