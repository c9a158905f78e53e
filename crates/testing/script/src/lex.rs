//! Words of a script, each with its place.

use std::fmt;

/// A place in a script, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pos {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong with the text of a script, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Where.
    pub pos: Pos,
    /// What was expected instead.
    pub what: String,
}

impl ParseError {
    pub(crate) fn new(pos: Pos, what: impl Into<String>) -> ParseError {
        ParseError { pos, what: what.into() }
    }
}

/// One word.
#[derive(Clone, PartialEq, Debug)]
pub enum Token {
    /// A name, perhaps with digits in it.
    Word(String),
    /// A number as it stands: digits, perhaps with a dot in them or `0x` before them.
    Number(String),
    /// Text between double quotes.
    Text(String),
    /// A command between backticks.
    Command(String),
    /// What stands between `%{` and `}%`.
    Code(String),
    /// `...`
    Ellipsis,
    /// `--name` or `--name=value`, from the beginning of a line.
    Option(String),
    /// Any other character.
    Sign(char),
    /// The end of the script.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::Text(text) => write!(f, "\"{text}\""),
            Token::Command(_) => f.write_str("a command"),
            Token::Code(_) => f.write_str("an assertion"),
            Token::Ellipsis => f.write_str("`...`"),
            Token::Option(text) => write!(f, "`--{text}`"),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => f.write_str("the end of the script"),
        }
    }
}

/// A word and where it begins; `glued` when nothing stands between it and the word before.
#[derive(Clone, PartialEq, Debug)]
pub struct Spanned {
    /// The word.
    pub token: Token,
    /// Where it begins.
    pub pos: Pos,
    /// Nothing, not even a space, stands before it.
    pub glued: bool,
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    pos: Pos,
    /// Lines of comment, without their marks.
    comments: Vec<String>,
}

/// The words of `text`, the last of them [`Token::End`], and its comments.
pub fn lex(text: &str) -> Result<(Vec<Spanned>, Vec<String>), ParseError> {
    let start = Pos { line: 1, column: 1 };
    let mut lexer = Lexer { rest: text.chars().peekable(), pos: start, comments: Vec::new() };
    let mut words = Vec::new();
    let mut end_of_last = None;
    loop {
        lexer.skip_space()?;
        let pos = lexer.pos;
        let token = lexer.word()?;
        let done = token == Token::End;
        words.push(Spanned { token, pos, glued: end_of_last == Some(pos) });
        end_of_last = Some(lexer.pos);
        if done {
            return Ok((words, lexer.comments));
        }
    }
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.pos = Pos { line: self.pos.line + 1, column: 1 };
        } else {
            self.pos.column += 1;
        }
        Some(next)
    }

    fn follows(&self, text: &str) -> bool {
        let mut rest = self.rest.clone();
        text.chars().all(|wanted| rest.next() == Some(wanted))
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    /// Everything up to `end`, which is taken too.
    fn until(&mut self, end: &str) -> Result<String, ParseError> {
        let start = self.pos;
        let mut text = String::new();
        while !self.follows(end) {
            match self.next() {
                Some(next) => text.push(next),
                None => {
                    return Err(ParseError::new(start, format!("what begins here has no `{end}`")));
                }
            }
        }
        self.skip(end.chars().count());
        Ok(text)
    }

    fn take_while(&mut self, mut good: impl FnMut(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(next) = self.rest.peek().copied().filter(|next| good(*next)) {
            text.push(next);
            self.next();
        }
        text
    }

    fn skip_space(&mut self) -> Result<(), ParseError> {
        loop {
            self.take_while(char::is_whitespace);
            if self.follows("//") {
                self.skip(2);
                let line = self.take_while(|next| next != '\n');
                self.comments.push(line.trim().to_owned());
            } else if self.follows("/*") {
                self.skip(2);
                let text = self.until("*/")?;
                self.comments.extend(
                    text.lines().map(|line| line.trim_start_matches([' ', '*']).trim().to_owned()),
                );
            } else {
                return Ok(());
            }
        }
    }

    fn word(&mut self) -> Result<Token, ParseError> {
        let at_line_start = self.pos.column == 1;
        let Some(&first) = self.rest.peek() else { return Ok(Token::End) };
        if first.is_ascii_digit() || (first == '.' && self.digit_after_dot()) {
            return Ok(Token::Number(self.number()));
        }
        if first.is_alphabetic() || first == '_' {
            return Ok(Token::Word(self.take_while(|next| next.is_alphanumeric() || next == '_')));
        }
        if self.follows("...") {
            self.skip(3);
            return Ok(Token::Ellipsis);
        }
        if at_line_start && self.follows("--") {
            self.skip(2);
            return Ok(Token::Option(self.take_while(|next| !next.is_whitespace())));
        }
        match first {
            '"' => {
                self.skip(1);
                self.until("\"").map(Token::Text)
            }
            '`' => {
                self.skip(1);
                self.until("`").map(Token::Command)
            }
            '%' if self.follows("%{") => {
                self.skip(2);
                self.until("}%").map(Token::Code)
            }
            sign => {
                self.skip(1);
                Ok(Token::Sign(sign))
            }
        }
    }

    fn digit_after_dot(&self) -> bool {
        self.rest.clone().nth(1).is_some_and(|next| next.is_ascii_digit())
    }

    /// Digits, a dot that is not the first of `...`, and hexadecimal digits behind `0x`.
    fn number(&mut self) -> String {
        if self.follows("0x") {
            self.skip(2);
            return format!("0x{}", self.take_while(|next| next.is_ascii_hexdigit()));
        }
        let mut text = self.take_while(|next| next.is_ascii_digit());
        if self.rest.peek() == Some(&'.') && !self.follows("...") {
            self.skip(1);
            text.push('.');
            text.push_str(&self.take_while(|next| next.is_ascii_digit()));
        }
        text
    }
}
