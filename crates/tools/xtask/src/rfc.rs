//! `cargo xtask rfc`: every row of `docs/rfc.md` names code and tests that exist.
//!
//! The page says at its top how its rows are written; this file is what holds it to that.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::modules::{Module, modules};
use crate::packages::short;
use crate::source::{Kind, Source};

/// The page, relative to the root of the workspace.
pub const PAGE: &str = "docs/rfc.md";

const HEADER: &str = "| clause | what | function | test |";
const RULER: &str = "| --- | --- | --- | --- |";

/// What stands in a cell instead of a name, with the reason behind it.
const REASONS: &[&str] = &["not yet: ", "no: "];

/// How far the code follows one RFC.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The heading, such as `RFC 9293: Transmission Control Protocol (TCP)`.
    pub title: String,
    /// Rows whose function and test exist.
    pub done: usize,
    /// Rows with a function, and a reason instead of a test.
    pub untested: usize,
    /// Rows with `not yet`.
    pub not_yet: usize,
    /// Rows with `no`.
    pub no: usize,
}

/// What the page says, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Report {
    /// The sections in order.
    pub sections: Vec<Section>,
    /// What is refused.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Prints one line per RFC.
    pub fn tell(&self) {
        for Section { title, done, untested, not_yet, no } in &self.sections {
            if done + untested + not_yet + no == 0 {
                println!("{title}: no row yet");
            } else {
                println!(
                    "{title}: {done} done, {untested} without a test, {not_yet} not yet, {no} no"
                );
            }
        }
    }
}

/// Reads the page of the workspace at `root` and looks up every name in it.
pub fn rfc(root: &Path) -> Result<Report> {
    let page = root.join(PAGE);
    let text =
        fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let (modules, _) = modules(root)?;
    let mut reader = Reader {
        root,
        modules: &modules,
        tests: modules.iter().flat_map(|module| tests_in(&module.source)).collect(),
        rows: HashSet::new(),
        report: Report::default(),
        state: State::Preface,
    };
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    if reader.state == State::Ruler {
        reader.refuse(
            text.lines().count(),
            format!("the header of a table is followed by `{RULER}`"),
        );
    }
    Ok(reader.report)
}

/// Where in the page the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first RFC; anything goes.
    Preface,
    /// In a section, outside of its table.
    Section,
    /// The header was read, so the ruler follows.
    Ruler,
    /// In the table.
    Table,
}

struct Reader<'a> {
    root: &'a Path,
    modules: &'a [Module],
    tests: HashSet<String>,
    rows: HashSet<(String, String)>,
    report: Report,
    state: State,
}

impl Reader<'_> {
    fn refuse(&mut self, line: usize, message: impl Into<String>) {
        self.report.findings.push(Finding::new(PAGE, line, message));
    }

    fn line(&mut self, number: usize, line: &str) {
        if self.state == State::Ruler {
            if line != RULER {
                self.refuse(number, format!("the header of a table is followed by `{RULER}`"));
            }
            self.state = State::Table;
        } else if let Some(title) = line.strip_prefix("## ") {
            self.heading(number, title);
        } else if self.state == State::Preface {
            // How the page is to be read; nothing to check.
        } else if line == HEADER {
            self.state = State::Ruler;
        } else if line.starts_with('|') && self.state == State::Table {
            self.row(number, line);
        } else if line.starts_with('|') {
            self.refuse(number, format!("a table begins with `{HEADER}`"));
        } else {
            self.state = State::Section;
        }
    }

    fn heading(&mut self, number: usize, title: &str) {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let named = title.strip_prefix("RFC ").and_then(|rest| rest.split_once(": "));
        if named.is_some_and(|(rfc, name)| is_number(rfc) && !name.trim().is_empty()) {
            self.state = State::Section;
            if self.report.sections.iter().any(|section| section.title == title) {
                self.refuse(number, format!("`{title}` is there twice: one section per RFC"));
            }
            self.report.sections.push(Section { title: title.to_owned(), ..Section::default() });
        } else if self.state != State::Preface {
            self.refuse(number, "a section is headed `## RFC NUMBER: TITLE`");
        }
    }

    fn row(&mut self, number: usize, line: &str) {
        let cells: Vec<&str> =
            line.trim_end().trim_matches('|').split('|').map(str::trim).collect();
        let &[clause, what, function, test] = cells.as_slice() else {
            return self.refuse(
                number,
                format!("a row has the four cells {HEADER}, this one has {}", cells.len()),
            );
        };
        for (name, cell) in
            [("clause", clause), ("what", what), ("function", function), ("test", test)]
        {
            if cell.is_empty() {
                return self.refuse(number, format!("the cell `{name}` is empty"));
            }
        }
        let title =
            self.report.sections.last().map_or(String::new(), |section| section.title.clone());
        if !self.rows.insert((title, format!("{clause} | {what}"))) {
            self.refuse(
                number,
                format!("`{clause}` with the same words is there twice in this section"),
            );
        }
        if let Some(reason) = reason(function) {
            if test != "-" {
                self.refuse(
                    number,
                    "without a function there is nothing to test: the last cell is `-`",
                );
            }
            self.reason(number, function);
            let not_yet = reason == REASONS[0];
            self.count(|section| if not_yet { section.not_yet += 1 } else { section.no += 1 });
            return;
        }
        for path in names(function) {
            if let Err(message) = find_function(self.root, self.modules, path) {
                self.refuse(number, message);
            }
        }
        if reason(test).is_some() {
            self.reason(number, test);
            return self.count(|section| section.untested += 1);
        }
        for name in names(test) {
            if let Err(message) = self.find_test(name) {
                self.refuse(number, message);
            }
        }
        self.count(|section| section.done += 1);
    }

    fn count(&mut self, count: impl FnOnce(&mut Section)) {
        if let Some(section) = self.report.sections.last_mut() {
            count(section);
        }
    }

    /// A reason must be there after the colon.
    fn reason(&mut self, number: usize, cell: &str) {
        if cell.split_once(':').is_none_or(|(_, reason)| reason.trim().is_empty()) {
            self.refuse(number, "say the reason after the colon");
        }
    }

    /// A test is a function with `#[test]` anywhere in the tree, or a script below `tests/scripts`.
    fn find_test(&self, name: &str) -> Result<(), String> {
        if name.ends_with(".pkt") {
            let there = self.root.join(name).is_file();
            return if there { Ok(()) } else { Err(format!("there is no script `{name}`")) };
        }
        let function = name.rsplit("::").next().unwrap_or(name);
        if self.tests.contains(function) {
            return Ok(());
        }
        Err(format!(
            "there is no test named `{function}` in the tree; name one, or write `not yet: ` and \
             the reason"
        ))
    }
}

/// The beginning of a cell that gives a reason instead of names.
fn reason(cell: &str) -> Option<&'static str> {
    REASONS.iter().copied().find(|begin| cell.starts_with(begin.trim_end()))
}

/// The names in a cell, several of them separated by commas, with or without backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(',').map(|name| name.trim().trim_matches('`'))
}

/// Looks for `proto::tcp::open::step_1_sequence` or `proto::stack::Stack::ingest`: the crate, its
/// modules, then an item of that file, or a type of that file and one of its functions.
fn find_function(root: &Path, modules: &[Module], path: &str) -> Result<(), String> {
    let parts: Vec<&str> = path.split("::").collect();
    let plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if parts.len() < 2 || !parts.iter().all(plain) {
        return Err(format!(
            "`{path}` is not a path like `proto::tcp::open::step_1_sequence`; else write `not yet: \
             ` or `no: ` and the reason"
        ));
    }
    let package = short(parts[0]);
    let is_root =
        |module: &&Module| module.package == package && module.source.path.ends_with("src/lib.rs");
    let Some(mut file) = modules.iter().find(is_root).map(|module| module.source.path.clone())
    else {
        return Err(format!("`{path}`: there is no crate `{package}` with a library in crates/"));
    };
    let mut folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut rest = &parts[1..];
    while let [module, more @ ..] = rest {
        let inner = folder.join(module);
        let Some(next) = [inner.with_extension("rs"), inner.join("mod.rs")]
            .into_iter()
            .find(|file| root.join(file).is_file())
        else {
            break;
        };
        (folder, file, rest) = (inner, next, more);
    }
    let Some(module) = modules.iter().find(|module| module.source.path == file) else {
        return Err(format!("`{path}`: {} is in no module tree", file.display()));
    };
    let defined = |name: &str| defines(&module.source, name);
    match rest {
        [item] if defined(item) => Ok(()),
        [owner, item] if (defined(owner) || implements(&module.source, owner)) && defined(item) => {
            Ok(())
        }
        [] => Err(format!("`{path}` names a module: name a function or a type in it")),
        _ => Err(format!("`{path}`: {} holds no `{}`", file.display(), rest.join("::"))),
    }
}

/// Whether the file defines an item of this name, at any depth.
fn defines(source: &Source, name: &str) -> bool {
    const DEFINING: &[&str] = &[
        "fn",
        "struct",
        "enum",
        "union",
        "trait",
        "type",
        "const",
        "static",
        "mod",
        "macro_rules",
    ];
    source.words.iter().enumerate().any(|(index, word)| {
        let by = if source.before(index, 1) == "!" {
            source.before(index, 2)
        } else {
            source.before(index, 1)
        };
        word.kind == Kind::Name && word.text == name && DEFINING.contains(&by)
    })
}

/// Whether the file has an `impl` block for a type that is defined elsewhere.
fn implements(source: &Source, name: &str) -> bool {
    source.syntax.items.iter().any(|item| match item {
        syn::Item::Impl(item) => match &*item.self_ty {
            syn::Type::Path(path) => {
                path.path.segments.last().is_some_and(|last| last.ident == name)
            }
            _ => false,
        },
        _ => false,
    })
}

/// The names of the functions with `#[test]` in the file, those inside of macro calls included.
fn tests_in(source: &Source) -> Vec<String> {
    let begins =
        (0..source.words.len()).filter(|&index| source.reads(index, &["#", "[", "test", "]"]));
    let named = begins.filter_map(|index| {
        let rest = &source.words[index..];
        let keyword = rest.iter().position(|word| word.text == "fn")?;
        rest.get(keyword + 1).map(|word| word.text.clone())
    });
    named.collect()
}
