//! Calls: `setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0`.

use super::Parser;
use crate::ast::{Arg, Call};
use crate::lex::{ParseError, Token};

impl Parser {
    pub(super) fn call(&mut self, name: String) -> Result<Call, ParseError> {
        self.expect('(')?;
        let args = self.args(')')?;
        self.expect('=')?;
        let mut call = Call { name, args, result: None, errno: None };
        if !self.takes('*') {
            call.result = Some(self.integer()?);
        }
        if let Token::Word(errno) = self.peek().clone() {
            self.skip();
            call.errno = Some(errno);
        }
        // What the error means, for human readers.
        if self.takes('(') {
            while !self.takes(')') {
                if self.next() == Token::End {
                    return self.error("`)`");
                }
            }
        }
        Ok(call)
    }

    fn args(&mut self, end: char) -> Result<Vec<Arg>, ParseError> {
        let mut args = Vec::new();
        while !self.takes(end) {
            args.push(self.arg()?);
            if !self.takes(',') && !self.is_sign(end) {
                return self.error(&format!("`,` or `{end}`"));
            }
        }
        Ok(args)
    }

    fn arg(&mut self) -> Result<Arg, ParseError> {
        match self.peek().clone() {
            Token::Ellipsis => {
                self.skip();
                Ok(Arg::Whatever)
            }
            Token::Text(text) => {
                self.skip();
                Ok(Arg::Text(text))
            }
            Token::Sign('[') => {
                self.skip();
                Ok(Arg::List(self.args(']')?))
            }
            Token::Sign('{') => {
                self.skip();
                self.fields().map(Arg::Fields)
            }
            Token::Word(_) => self.names().map(Arg::Names),
            _ => self.integer().map(Arg::Number),
        }
    }

    fn names(&mut self) -> Result<Vec<String>, ParseError> {
        let mut names = Vec::new();
        loop {
            let Token::Word(name) = self.peek().clone() else {
                return self.error("the name of a constant");
            };
            self.skip();
            names.push(name);
            if !self.takes('|') {
                return Ok(names);
            }
        }
    }

    fn fields(&mut self) -> Result<Vec<(String, Arg)>, ParseError> {
        let mut fields = Vec::new();
        while !self.takes('}') {
            self.takes('.');
            let Token::Word(name) = self.peek().clone() else {
                return self.error("the name of a field");
            };
            self.skip();
            self.expect('=')?;
            fields.push((name, self.arg()?));
            if !self.takes(',') && !self.is_sign('}') {
                return self.error("`,` or `}`");
            }
        }
        Ok(fields)
    }
}
