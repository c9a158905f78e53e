//! The small language in which the grammar is written, and its trees.
//!
//! ```text
//! word            stands for itself; word/other also takes `other`, written in full
//! ARGUMENT        an argument of that kind; ARGUMENT:key is found under `key`
//! a b             one after the other
//! [ a ]           perhaps
//! ( a | b )       one of them
//! { a | b }       any of them in any order, each at most once
//! ```

use crate::args::Kind;

/// A tree of words and arguments.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Sequence(Vec<Node>),
    Maybe(Box<Node>),
    OneOf(Vec<Node>),
    AnyOrder(Vec<Node>),
}

/// What one word of a line is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaf {
    Word { word: &'static str, also: Option<&'static str> },
    Argument { kind: Kind, key: &'static str },
}

impl Leaf {
    /// How help and errors name it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Leaf::Word { word, .. } => word,
            Leaf::Argument { kind, .. } => kind.name(),
        }
    }
}

/// The tree of a pattern. The patterns are part of the program, and a test compiles each: a bad one
/// is a mistake of ours.
pub(crate) fn compile(pattern: &'static str) -> Result<Node, String> {
    let mut tokens = tokens(pattern).into_iter().peekable();
    let node = alternatives(&mut tokens, None)?;
    match (node.len(), tokens.next()) {
        (1, None) => Ok(node.into_iter().next().unwrap_or(Node::Sequence(Vec::new()))),
        (_, None) => Err(format!("`|` outside brackets in `{pattern}`")),
        (_, Some(token)) => Err(format!("`{token}` is left over in `{pattern}`")),
    }
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<&'static str>>;

fn tokens(pattern: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    for piece in pattern.split_whitespace() {
        let mut rest = piece;
        while let Some(at) = rest.find(['[', ']', '(', ')', '{', '}', '|']) {
            if at > 0 {
                tokens.push(&rest[..at]);
            }
            tokens.push(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            tokens.push(rest);
        }
    }
    tokens
}

fn alternatives(tokens: &mut Tokens, end: Option<&str>) -> Result<Vec<Node>, String> {
    let mut all = vec![sequence(tokens)?];
    while tokens.next_if_eq(&"|").is_some() {
        all.push(sequence(tokens)?);
    }
    match end {
        Some(end) if tokens.next_if_eq(&end).is_none() => Err(format!("`{end}` is missing")),
        _ => Ok(all),
    }
}

fn sequence(tokens: &mut Tokens) -> Result<Node, String> {
    let mut nodes = Vec::new();
    while let Some(token) = tokens.next_if(|token| !matches!(*token, "|" | ")" | "]" | "}")) {
        nodes.push(match token {
            "(" => Node::OneOf(alternatives(tokens, Some(")"))?),
            "[" => Node::Maybe(Box::new(Node::OneOf(alternatives(tokens, Some("]"))?))),
            "{" => Node::AnyOrder(alternatives(tokens, Some("}"))?),
            word => Node::Leaf(leaf(word)?),
        });
    }
    if nodes.is_empty() { Err("an empty part".into()) } else { Ok(Node::Sequence(nodes)) }
}

fn leaf(word: &'static str) -> Result<Leaf, String> {
    if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
        let (word, also) =
            word.split_once('/').map_or((word, None), |(word, also)| (word, Some(also)));
        return Ok(Leaf::Word { word, also });
    }
    let (name, key) = word.split_once(':').unwrap_or((word, word));
    let kind = Kind::of(name).ok_or_else(|| format!("`{name}` is no kind of argument"))?;
    Ok(Leaf::Argument { kind, key })
}

#[cfg(test)]
mod tests;
