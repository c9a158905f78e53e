//! Assertions: `%{ assert tcpi_snd_cwnd == 10 and tcpi_unacked <= 3 }%`.

use crate::lex::{ParseError, Pos, Spanned, Token, lex};

/// One `assert` with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// Where.
    pub pos: Pos,
    /// As the script has it.
    pub text: String,
    expr: Expr,
}

#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Number(i64),
    Name(String),
    Not(Box<Expr>),
    Two(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    BitAnd,
    Plus,
    Minus,
    Times,
    Over,
}

/// Names of numbers that assertions may use.
const CONSTANTS: [(&str, i64); 18] = [
    ("True", 1),
    ("False", 0),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
];

/// Takes what stands between `%{` and `}%` apart; `pos` is where it begins.
pub fn parse(code: &str, pos: Pos) -> Result<Vec<Assertion>, ParseError> {
    let mut assertions = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for statement in
            line.split(';').map(str::trim).filter(|text| !text.is_empty() && !text.starts_with('#'))
        {
            let pos =
                if index == 0 { pos } else { Pos { line: pos.line + index as u32, column: 1 } };
            let Some(text) =
                statement.strip_prefix("assert").filter(|rest| rest.starts_with([' ', '(']))
            else {
                return Err(ParseError::new(
                    pos,
                    format!("`{statement}`: only `assert …` is known here"),
                ));
            };
            let at =
                |error: ParseError| ParseError::new(pos, format!("`{statement}`: {}", error.what));
            let (words, _) = lex(text).map_err(at)?;
            let mut parser = Parser { words: &words, at: 0 };
            let expr = parser.level(0).map_err(at)?;
            if !matches!(parser.token(), Token::End | Token::Sign(',')) {
                return Err(ParseError::new(
                    pos,
                    format!("`{statement}`: {} does not belong here", parser.token()),
                ));
            }
            assertions.push(Assertion { pos, text: text.trim().to_owned(), expr });
        }
    }
    Ok(assertions)
}

struct Parser<'a> {
    words: &'a [Spanned],
    at: usize,
}

/// Operators from the loosest to the tightest.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("&", Operator::BitAnd)],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("/", Operator::Over)],
];

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.words[self.at.min(self.words.len() - 1)].token
    }

    fn follows(&self, text: &str) -> bool {
        match self.token() {
            Token::Word(word) => word == text,
            Token::Sign(_) => text.chars().enumerate().all(|(index, wanted)| {
                let word = self.words.get(self.at + index);
                word.is_some_and(|word| {
                    word.token == Token::Sign(wanted) && (index == 0 || word.glued)
                })
            }),
            _ => false,
        }
    }

    fn take(&mut self, text: &str) {
        self.at += if text.starts_with(char::is_alphabetic) { 1 } else { text.chars().count() };
    }

    fn level(&mut self, level: usize) -> Result<Expr, ParseError> {
        let Some(operators) = LEVELS.get(level) else { return self.atom() };
        let mut left = self.level(level + 1)?;
        while let Some((text, operator)) = operators.iter().find(|(text, _)| self.follows(text)) {
            self.take(text);
            left = Expr::Two(*operator, Box::new(left), Box::new(self.level(level + 1)?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expr, ParseError> {
        let token = self.token().clone();
        self.at += 1;
        match token {
            Token::Word(word) if word == "not" => Ok(Expr::Not(Box::new(self.level(2)?))),
            Token::Word(word) => Ok(Expr::Name(word)),
            Token::Number(text) => {
                match text
                    .strip_prefix("0x")
                    .map_or(text.parse(), |hex| i64::from_str_radix(hex, 16))
                {
                    Ok(value) => Ok(Expr::Number(value)),
                    Err(_) => Err(ParseError::new(
                        Pos::default(),
                        format!("{text} is not a whole number"),
                    )),
                }
            }
            Token::Sign('-') => {
                Ok(Expr::Two(Operator::Minus, Box::new(Expr::Number(0)), Box::new(self.atom()?)))
            }
            Token::Sign('(') => {
                let inner = self.level(0)?;
                if !self.follows(")") {
                    return Err(ParseError::new(Pos::default(), "`)` is missing"));
                }
                self.take(")");
                Ok(inner)
            }
            other => {
                Err(ParseError::new(Pos::default(), format!("{other} where a value was expected")))
            }
        }
    }
}

/// Gives the value of a name, or None when there is none.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<i64>;

impl Assertion {
    /// Whether it holds; Err names what has no value.
    pub fn holds(&self, lookup: Lookup<'_>) -> Result<bool, String> {
        value(&self.expr, lookup).map(|value| value != 0)
    }

    /// Names that it uses, with their values, for a message.
    pub fn values(&self, lookup: Lookup<'_>) -> String {
        let mut names = Vec::new();
        collect(&self.expr, &mut names);
        let tell = |name: &&String| lookup(name).map(|value| format!("{name} is {value}"));
        names.iter().filter_map(tell).collect::<Vec<_>>().join(", ")
    }
}

fn collect<'a>(expr: &'a Expr, names: &mut Vec<&'a String>) {
    match expr {
        Expr::Number(_) => {}
        Expr::Name(name) => {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Expr::Not(inner) => collect(inner, names),
        Expr::Two(_, left, right) => {
            collect(left, names);
            collect(right, names);
        }
    }
}

fn value(expr: &Expr, lookup: Lookup<'_>) -> Result<i64, String> {
    let (operator, left, right) = match expr {
        Expr::Number(value) => return Ok(*value),
        Expr::Name(name) => {
            let constant =
                CONSTANTS.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            return constant.or_else(|| lookup(name)).ok_or(format!("`{name}` has no value here"));
        }
        Expr::Not(inner) => return Ok(i64::from(value(inner, lookup)? == 0)),
        Expr::Two(operator, left, right) => (operator, value(left, lookup)?, value(right, lookup)?),
    };
    Ok(match operator {
        Operator::Or => i64::from(left != 0 || right != 0),
        Operator::And => i64::from(left != 0 && right != 0),
        Operator::Equal => i64::from(left == right),
        Operator::Unequal => i64::from(left != right),
        Operator::LessEqual => i64::from(left <= right),
        Operator::GreaterEqual => i64::from(left >= right),
        Operator::Less => i64::from(left < right),
        Operator::Greater => i64::from(left > right),
        Operator::BitAnd => left & right,
        Operator::Plus => left.wrapping_add(right),
        Operator::Minus => left.wrapping_sub(right),
        Operator::Times => left.wrapping_mul(right),
        Operator::Over => left.checked_div(right).ok_or("division by zero")?,
    })
}

#[cfg(test)]
mod tests;
