//! Holding the words of a line against the grammar.
//!
//! All readings that are still possible are followed at once: each is a stack of what must come,
//! and what was read so far. A word keeps those readings that take it. What the readings would take
//! next is what help and completion show.

use crate::args::Value;
use crate::error::{ParseError, Problem};
use crate::lex::Word;
use crate::pattern::{Leaf, Node};

/// What must still come, the next thing last.
#[derive(Clone, Copy)]
enum Todo<'g> {
    Node(&'g Node),
    /// Parts of an any-order list; a set bit marks a part that was taken.
    Rest(&'g [Node], u32),
}

/// What a word was read as.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) leaf: Leaf,
    /// None for a word of the grammar.
    pub(crate) value: Option<Value>,
    /// Which word of the line it is.
    pub(crate) index: usize,
}

/// One reading.
#[derive(Clone)]
pub(crate) struct Reading<'g> {
    /// Which pattern.
    pub(crate) form: usize,
    todo: Vec<Todo<'g>>,
    pub(crate) taken: Vec<Taken>,
}

/// A place where a reading can go on.
struct Step<'g> {
    reading: usize,
    leaf: Leaf,
    after: Vec<Todo<'g>>,
}

impl<'g> Reading<'g> {
    /// The beginning of a pattern.
    pub(crate) fn new(form: usize, node: &'g Node) -> Reading<'g> {
        Reading { form, todo: vec![Todo::Node(node)], taken: Vec::new() }
    }

    /// Whether the line may end here.
    pub(crate) fn complete(&self) -> bool {
        expand(self.todo.clone(), &mut |_, _| {})
    }

    /// What may come next.
    pub(crate) fn next(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        expand(self.todo.clone(), &mut |leaf, _| leaves.push(leaf));
        leaves
    }
}

/// Calls `found` with everything that can come first in `todo`, and what comes after it. True when
/// `todo` may as well be nothing.
fn expand<'g>(mut todo: Vec<Todo<'g>>, found: &mut impl FnMut(Leaf, Vec<Todo<'g>>)) -> bool {
    match todo.pop() {
        None => true,
        Some(Todo::Node(Node::Leaf(leaf))) => {
            found(*leaf, todo);
            false
        }
        Some(Todo::Node(Node::Sequence(nodes))) => {
            todo.extend(nodes.iter().rev().map(Todo::Node));
            expand(todo, found)
        }
        Some(Todo::Node(Node::Maybe(node))) => {
            let without = expand(todo.clone(), found);
            todo.push(Todo::Node(node));
            expand(todo, found) | without
        }
        Some(Todo::Node(Node::OneOf(nodes))) => nodes.iter().fold(false, |ends, node| {
            let mut todo = todo.clone();
            todo.push(Todo::Node(node));
            expand(todo, found) | ends
        }),
        Some(Todo::Node(Node::AnyOrder(nodes))) => {
            todo.push(Todo::Rest(nodes, 0));
            expand(todo, found)
        }
        Some(Todo::Rest(nodes, taken)) => {
            let without = expand(todo.clone(), found);
            let left = nodes.iter().enumerate().filter(|(index, _)| taken & 1 << index == 0);
            left.fold(without, |ends, (index, node)| {
                let mut todo = todo.clone();
                todo.push(Todo::Rest(nodes, taken | 1 << index));
                todo.push(Todo::Node(node));
                expand(todo, found) | ends
            })
        }
    }
}

/// The readings that take `words`, or which word stops the last of them.
pub(crate) fn read<'g>(
    line: &str,
    words: &[Word],
    mut readings: Vec<Reading<'g>>,
) -> Result<Vec<Reading<'g>>, ParseError> {
    for (index, word) in words.iter().enumerate() {
        readings = take(line, word, index, &readings)?;
    }
    Ok(readings)
}

/// The names of everything that may come next, each once, in the order of the grammar.
pub(crate) fn expected(readings: &[Reading<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for leaf in readings.iter().flat_map(Reading::next) {
        if !names.iter().any(|name| name == leaf.name()) {
            names.push(leaf.name().into());
        }
    }
    names
}

/// The readings that take `word`. A word of the grammar in full comes before an argument that can
/// be recognised (a number, an address), this before a word of the grammar in short, and this
/// before an argument that can be anything (a name).
fn take<'g>(
    line: &str,
    word: &Word,
    index: usize,
    readings: &[Reading<'g>],
) -> Result<Vec<Reading<'g>>, ParseError> {
    let mut steps = Vec::new();
    for (reading, from) in readings.iter().enumerate() {
        expand(from.todo.clone(), &mut |leaf, after| steps.push(Step { reading, leaf, after }));
    }
    let go_on = |picked: Vec<(Step<'g>, Option<Value>)>| -> Vec<Reading<'g>> {
        let step = |(step, value): (Step<'g>, Option<Value>)| {
            let from = &readings[step.reading];
            let mut taken = from.taken.clone();
            taken.push(Taken { leaf: step.leaf, value, index });
            Reading { form: from.form, todo: step.after, taken }
        };
        picked.into_iter().map(step).collect()
    };

    if !word.quoted {
        let full = |leaf: &Leaf| {
            matches!(leaf,
            Leaf::Word { word: w, also } if *w == word.text.as_str()
                || *also == Some(word.text.as_str()))
        };
        if steps.iter().any(|step| full(&step.leaf)) {
            return Ok(go_on(
                steps
                    .into_iter()
                    .filter(|step| full(&step.leaf))
                    .map(|step| (step, None))
                    .collect(),
            ));
        }
    }
    if steps.iter().any(|step| value(&step.leaf, word, true).is_some()) {
        return Ok(go_on(
            steps
                .into_iter()
                .filter_map(|s| value(&s.leaf, word, true).map(|v| (s, Some(v))))
                .collect(),
        ));
    }
    let short = if word.quoted { Vec::new() } else { words_like(&steps, &word.text) };
    match short.as_slice() {
        [] => {}
        [only] => {
            let fits =
                |step: &Step<'_>| matches!(step.leaf, Leaf::Word { word, .. } if word == only);
            return Ok(go_on(steps.into_iter().filter(fits).map(|step| (step, None)).collect()));
        }
        several => {
            return Err(ParseError::new(
                line,
                word.at.clone(),
                Problem::Ambiguous(several.to_vec()),
            ));
        }
    }
    if steps.iter().any(|step| value(&step.leaf, word, false).is_some()) {
        return Ok(go_on(
            steps
                .into_iter()
                .filter_map(|s| value(&s.leaf, word, false).map(|v| (s, Some(v))))
                .collect(),
        ));
    }
    Err(refuse(line, word, &steps).expecting(expected(readings)))
}

fn words_like(steps: &[Step<'_>], text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for step in steps {
        match step.leaf {
            Leaf::Word { word, .. }
                if word.starts_with(text) && !words.iter().any(|w| w == word) =>
            {
                words.push(word.into());
            }
            _ => {}
        }
    }
    words
}

fn value(leaf: &Leaf, word: &Word, recognisable: bool) -> Option<Value> {
    match leaf {
        Leaf::Argument { kind, .. } if kind.recognisable() == recognisable => {
            kind.check(&word.text).ok()
        }
        _ => None,
    }
}

fn refuse(line: &str, word: &Word, steps: &[Step<'_>]) -> ParseError {
    let mut arguments = steps.iter().filter_map(|step| match step.leaf {
        Leaf::Argument { kind, .. } => Some(kind),
        Leaf::Word { .. } => None,
    });
    let text = if crate::mask::is_secret(line, &word.at) { crate::mask::MASK } else { &word.text };
    let problem = match (steps.len(), arguments.next(), arguments.next()) {
        (0, ..) => Problem::NothingFollows,
        // Where only an argument can stand, what is wrong with it is the better answer.
        (1, Some(kind), None) => Problem::BadValue(match kind.check(&word.text) {
            Err(why) => format!("`{text}` is no {}: {why}", kind.name()),
            Ok(_) => format!("`{text}` is no {}", kind.name()),
        }),
        _ => Problem::Unknown,
    };
    ParseError::new(line, word.at.clone(), problem)
}
