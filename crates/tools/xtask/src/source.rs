//! One Rust file, taken apart: its words, its comments, and which of its lines are compiled for
//! tests only.

use std::ops::Range;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What a word of the source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword.
    Name,
    /// One character of punctuation.
    Sign,
    /// A number, a string, a character.
    Literal,
    /// An opening bracket.
    Open,
    /// A closing bracket.
    Close,
}

/// One word of the source. Words inside of macro calls and macro definitions are there too;
/// comments are not.
#[derive(Clone, Debug)]
pub struct Word {
    /// What it is.
    pub kind: Kind,
    /// How it is spelled.
    pub text: String,
    /// The line on which it begins, counted from 1.
    pub line: usize,
}

/// A function and where it stands.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The lines from its signature to its closing bracket.
    pub lines: Range<usize>,
}

/// One line of the source, split into what is compiled and what is said.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The last character of code on the line, if there is any code.
    pub last_code: Option<char>,
    /// The comment on the line, with its slashes; empty when there is none.
    pub comment: String,
}

/// One Rust file, taken apart.
pub struct Source {
    /// Its path, relative to the root of the workspace.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its syntax tree.
    pub syntax: syn::File,
    /// Its words in order.
    pub words: Vec<Word>,
    /// Its lines in order.
    pub lines: Vec<Line>,
    /// The lines, counted from 1, that are compiled for tests only.
    tests: Vec<Range<usize>>,
}

impl Source {
    /// Takes `text` apart. `path` is only remembered. Fails with the line and the reason when the
    /// text is not Rust.
    pub fn parse(path: &Path, text: String) -> Result<Source, (usize, String)> {
        let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            (error.span().start().line, error.to_string())
        })?;
        let syntax = syn::parse2::<syn::File>(tokens.clone())
            .map_err(|error: syn::Error| (error.span().start().line, error.to_string()))?;
        let mut taken = Taken { text: &text, words: Vec::new(), code: vec![false; text.len()] };
        taken.take(tokens);
        let Taken { words, code, .. } = taken;
        let lines = lines(&text, &code);
        let mut finder = TestFinder::default();
        finder.visit_file(&syntax);
        let whole = syntax.attrs.iter().any(only_for_tests);
        let tests = if whole { std::iter::once(0..usize::MAX).collect() } else { finder.found };
        Ok(Source { path: path.to_path_buf(), text, syntax, words, lines, tests })
    }

    /// Whether the line is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Whether the file carries the attribute, spelled as in `#![no_std]`, for itself as a whole.
    pub fn has_inner_attribute(&self, wanted: &str) -> bool {
        self.syntax.attrs.iter().any(|attribute| {
            let spelled = attribute.span().source_text().unwrap_or_default();
            spelled.split_whitespace().collect::<String>() == wanted
        })
    }

    /// The words from `index` on begin with `spelled`.
    pub fn reads(&self, index: usize, spelled: &[&str]) -> bool {
        self.words
            .get(index..index + spelled.len())
            .is_some_and(|words| words.iter().zip(spelled).all(|(word, text)| word.text == *text))
    }

    /// The word `distance` places before `index`, or nothing.
    pub fn before(&self, index: usize, distance: usize) -> &str {
        index.checked_sub(distance).map_or("", |index| &self.words[index].text)
    }

    /// The functions of the file, methods and functions inside of functions included.
    pub fn functions(&self) -> Vec<Function> {
        let mut finder = FunctionFinder::default();
        finder.visit_file(&self.syntax);
        finder.found
    }
}

/// Whether the attribute says that what follows is compiled for tests only: `#[cfg(test)]`,
/// `#[cfg(all(test, …))]`, `#[test]`.
pub fn only_for_tests(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Meta>().is_ok_and(|meta| needs_test(&meta))
}

fn needs_test(meta: &syn::Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(
            syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
        )
        .map(|parts| parts.into_iter().collect::<Vec<_>>())
        .unwrap_or_default()
    };
    match meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        syn::Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && parts.iter().all(needs_test)
        }
        _ => false,
    }
}

/// Walks the tokens, and keeps the words and which bytes of the text are code.
struct Taken<'a> {
    text: &'a str,
    words: Vec<Word>,
    code: Vec<bool>,
}

impl Taken<'_> {
    fn take(&mut self, tokens: TokenStream) {
        for token in tokens {
            // A documentation comment arrives as the words of a `#[doc = …]` attribute that all
            // stand where the comment stands.
            let spelled = self.text.get(token.span().byte_range()).unwrap_or_default();
            if spelled.starts_with("//") || spelled.starts_with("/*") {
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    self.word(Kind::Open, open, group.span_open());
                    self.take(group.stream());
                    self.word(Kind::Close, close, group.span_close());
                }
                TokenTree::Ident(ident) => self.word(Kind::Name, &ident.to_string(), ident.span()),
                TokenTree::Punct(punct) => {
                    self.word(Kind::Sign, &punct.as_char().to_string(), punct.span())
                }
                TokenTree::Literal(literal) => {
                    self.word(Kind::Literal, &literal.to_string(), literal.span())
                }
            }
        }
    }

    fn word(&mut self, kind: Kind, text: &str, span: proc_macro2::Span) {
        self.code[span.byte_range()].fill(true);
        self.words.push(Word { kind, text: text.to_owned(), line: span.start().line });
    }
}

fn lines(text: &str, code: &[bool]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::default();
    for (index, character) in text.char_indices() {
        if character == '\n' {
            lines.push(std::mem::take(&mut line));
        } else if code[index] {
            line.last_code =
                if character.is_whitespace() { line.last_code } else { Some(character) };
        } else {
            line.comment.push(character);
        }
    }
    lines.push(line);
    for line in &mut lines {
        line.comment = line.comment.trim().to_owned();
    }
    lines
}

/// Finds what is compiled for tests only.
#[derive(Default)]
struct TestFinder {
    found: Vec<Range<usize>>,
}

impl TestFinder {
    /// Keeps the lines of `node` when its attributes say that it is for tests only, and says so.
    fn keep(&mut self, attributes: &[syn::Attribute], node: &impl Spanned) -> bool {
        let yes = attributes.iter().any(only_for_tests);
        if yes {
            self.found.push(span_lines(node.span()));
        }
        yes
    }
}

impl<'ast> Visit<'ast> for TestFinder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !self.keep(attributes(item), item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.keep(&item.attrs, item) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.keep(&field.attrs, field);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !self.keep(&local.attrs, local) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !self.keep(&block.attrs, block) {
            visit::visit_expr_block(self, block);
        }
    }
}

/// The attributes of an item of any kind.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Finds the functions with a body.
#[derive(Default)]
struct FunctionFinder {
    found: Vec<Function>,
}

impl FunctionFinder {
    fn keep(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let lines = span_lines(signature.span()).start..span_lines(body.span()).end;
        self.found.push(Function { name: signature.ident.to_string(), lines });
    }
}

impl<'ast> Visit<'ast> for FunctionFinder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.keep(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.keep(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.keep(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn span_lines(span: proc_macro2::Span) -> Range<usize> {
    span.start().line..span.end().line + 1
}

#[cfg(test)]
mod tests;
