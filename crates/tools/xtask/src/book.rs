//! `cargo xtask book`: every block of code in the pages says what it is, and the commands of this
//! tree that stand in it exist.
//!
//! What is run, compiled or read by `clearway` itself has tests of its own; here is seen to it that
//! no block escapes them. `CONTRIBUTING.md` has the list of tags. Links are followed by the tests
//! of `clearway-proto` (`tests/docs.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::finding::Finding;
use crate::page::{Block, blocks, simple_commands};

/// The pages beside those below docs/.
const FRONT: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Languages and what may stand behind each.
const TAGS: &[(&str, &[&str])] = &[
    ("sh", &["run", "unrun=", "tested=", "excerpt"]),
    ("console", &["run", "unrun=", "tested="]),
    ("commands", &["file="]),
    ("usage", &[]),
    ("toml", &["file=", "excerpt"]),
    ("rust", &["file=", "no_run"]),
    ("c", &["file=", "excerpt"]),
    ("yaml", &["excerpt"]),
    ("ini", &["excerpt"]),
    ("go", &["file="]),
    ("mermaid", &[]),
    ("text", &["file="]),
];

/// Why nobody types a block: what stands behind `unrun=`.
pub const REASONS: &[(&str, &str)] = &[
    ("gate", "a gate of `cargo xtask ci` does just this"),
    ("long", "minutes to hours, or more memory than a machine for tests has"),
    ("release", "a release build, which no gate makes"),
    ("hardware", "a card, another machine, or counters of a processor of its own"),
    ("network", "something is fetched over the internet"),
    ("machine", "the machine is changed: packages, users, services"),
    ("foreign", "a program that Debian 12 does not have"),
];

/// What the book holds.
#[derive(Debug, Default)]
pub struct Report {
    /// What is refused.
    pub findings: Vec<Finding>,
    /// The tasks that the pages name, with the words behind `cargo xtask`; the command line knows
    /// whether there are such ([`crate::cli::judge`]).
    pub tasks: Vec<(PathBuf, usize, Vec<String>)>,
    /// How many blocks there are of each tag.
    pub blocks: BTreeMap<String, usize>,
}

/// The pages of the tree, relative to its root.
///
/// # Errors
/// When a folder of pages cannot be read.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = FRONT.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/decisions"] {
        let path = root.join(folder);
        if !path.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&path).with_context(|| format!("cannot read {folder}"))? {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_some_and(|ending| ending == "md") {
                pages.push(Path::new(folder).join(name));
            }
        }
    }
    pages.retain(|page| root.join(page).is_file());
    pages.sort();
    Ok(pages)
}

/// Looks at the pages of the tree at `root`.
///
/// # Errors
/// When a page cannot be read.
pub fn book(root: &Path) -> Result<Report> {
    let mut report = Report::default();
    let targets = make_targets(root);
    let compiled = doctests(root)?;
    for page in pages(root)? {
        let text = fs::read_to_string(root.join(&page))?;
        for block in blocks(&text) {
            *report.blocks.entry(counted(&block)).or_default() += 1;
            let mut refuse = |line: usize, why: String| {
                report.findings.push(Finding::new(&page, line, why));
            };
            if let Err(why) = tag(&block).and_then(|()| typed(root, &block)) {
                refuse(block.line, why);
                continue;
            }
            match block.language() {
                "sh" | "console" => {
                    shell(root, &block, &targets, &mut refuse)?;
                    report.tasks.extend(tasks(&page, &block));
                }
                "rust" if !block.tag.contains("file=") && !compiled.contains(&page) => {
                    refuse(block.line, nobody_compiles(&page));
                }
                _ => {}
            }
        }
    }
    Ok(report)
}

/// Whether the tag is one that says what the block is.
fn tag(block: &Block<'_>) -> Result<(), String> {
    let words = block.words();
    let languages = || TAGS.iter().map(|(language, _)| *language).collect::<Vec<_>>().join(", ");
    let Some((language, more)) = words.split_first() else {
        return Err(format!(
            "a block of code without a tag: say behind the backticks what it is ({}); `text` is \
             what nobody types, such as a drawing or what a program says",
            languages()
        ));
    };
    let Some((_, known)) = TAGS.iter().find(|(name, _)| name == language) else {
        return Err(format!("`{language}` is no tag of a block: there are {}", languages()));
    };
    let is_known = |word: &&&str| {
        known.iter().any(|name| match name.strip_suffix('=') {
            Some(_) => word.starts_with(name) && word.len() > name.len(),
            None => *word == name,
        })
    };
    match more.iter().find(|word| !is_known(word)) {
        None => Ok(()),
        Some(word) if known.is_empty() => {
            Err(format!("`{word}`: nothing may stand behind `{language}`"))
        }
        Some(word) => {
            Err(format!("`{word}` says nothing of `{language}`: there are {}", known.join(", ")))
        }
    }
}

/// A tag, and what its reason means.
pub fn told(tag: &str) -> String {
    let reason = tag.split_once("unrun=").map(|(_, reason)| reason);
    match REASONS.iter().find(|(name, _)| Some(*name) == reason) {
        Some((_, meaning)) => format!("{tag}: {meaning}"),
        None => tag.to_owned(),
    }
}

/// What a block is counted as: files have names of their own, which say nothing here.
fn counted(block: &Block<'_>) -> String {
    let words = block.words();
    let word = |word: &&str| match word.split_once('=') {
        Some((key @ ("file" | "tested"), _)) => format!("{key}=…"),
        _ => (*word).to_owned(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether a block of commands is typed, or says why not.
fn typed(root: &Path, block: &Block<'_>) -> Result<(), String> {
    if !matches!(block.language(), "sh" | "console") {
        return Ok(());
    }
    let reasons = || REASONS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    for word in &block.words()[1..] {
        match word.split_once('=') {
            Some(("tested", path)) if !root.join(path).is_file() => {
                return Err(format!("`{word}`: there is no such file that would test it"));
            }
            Some(("unrun", reason)) if !REASONS.iter().any(|(name, _)| *name == reason) => {
                return Err(format!("`{word}` is no reason: there are {}", reasons()));
            }
            _ => {}
        }
    }
    match block.words()[1..] {
        [_] => Ok(()),
        _ => Err(format!(
            "nobody types this block: tag it `{0} run`, or say in one word why not: `{0} \
             unrun=REASON` with one of {1}, or `{0} tested=FILE`, which does the same",
            block.language(),
            reasons()
        )),
    }
}

fn nobody_compiles(page: &Path) -> String {
    let page = page.display();
    format!(
        "nobody compiles this: tag it `text`, or let a crate take the page as documentation for \
         its doctests, `#[cfg(doctest)] #[doc = include_str!(\"…/{page}\")] struct Page;`"
    )
}

/// The pages that some crate takes as documentation.
fn doctests(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for file in crate::modules::files_below(root)? {
        if file.file_name().is_none_or(|name| name != "lib.rs") {
            continue;
        }
        for rest in fs::read_to_string(&file)?.split("include_str!(\"").skip(1) {
            let path = rest.split('"').next().unwrap_or_default();
            found.insert(PathBuf::from(path.trim_start_matches("../")));
        }
    }
    Ok(found)
}

/// The targets of the Makefile.
fn make_targets(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(root.join("Makefile")).unwrap_or_default();
    let name = |line: &str| Some(line.split_once(": ").or(line.split_once(':'))?.0.to_owned());
    text.lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(name)
        .collect()
}

/// Whether a shell can read the block, and whether what it starts of this tree is there.
fn shell(
    root: &Path,
    block: &Block<'_>,
    targets: &BTreeSet<String>,
    refuse: &mut dyn FnMut(usize, String),
) -> Result<()> {
    let commands = block.commands();
    if commands.is_empty() {
        refuse(block.line, "no command stands in this block: tag it `text`".into());
    }
    let whole: Vec<&str> = commands.iter().map(|(_, command)| command.as_str()).collect();
    if let Some(why) = unreadable(&whole.join("\n"))? {
        refuse(block.line, format!("bash cannot read this: {why}"));
    }
    for (line, command) in &commands {
        for words in simple_commands(command) {
            if let Err(why) = known(root, &words, targets) {
                refuse(*line, why);
            }
        }
    }
    Ok(())
}

/// The tasks of `cargo xtask` that the block names.
fn tasks(page: &Path, block: &Block<'_>) -> Vec<(PathBuf, usize, Vec<String>)> {
    let mut tasks = Vec::new();
    for (line, command) in block.commands() {
        for words in simple_commands(&command) {
            if words.len() > 2 && words[0] == "cargo" && words[1] == "xtask" {
                tasks.push((page.to_owned(), line, words[2..].to_vec()));
            }
        }
    }
    tasks
}

/// What bash has against a text.
fn unreadable(text: &str) -> Result<Option<String>> {
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start bash")?;
    if let Some(mut stdin) = bash.stdin.take() {
        stdin.write_all(text.as_bytes())?;
    }
    let output = bash.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((!output.status.success()).then_some(said))
}

/// Whether a command of this tree is there. Others are not looked at.
fn known(root: &Path, words: &[String], targets: &BTreeSet<String>) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", rest @ ..] => {
            let named = rest.iter().filter(|word| !word.contains('=') && !word.starts_with('-'));
            match named.into_iter().find(|name| !targets.contains(**name)) {
                Some(name) => Err(format!("`make {name}`: the Makefile has no such target")),
                None => Ok(()),
            }
        }
        ["cargo", rest @ ..] if rest.first() != Some(&"xtask") => {
            match rest.iter().position(|word| *word == "-p") {
                Some(at) if rest.get(at + 1).is_some_and(|name| !has_package(root, name)) => {
                    Err(format!("no package of this tree is named `{}`", rest[at + 1]))
                }
                _ => Ok(()),
            }
        }
        [program, ..] => {
            let ours = ["scripts/", "tests/", "baselines/", "examples/", "crates/", "packaging/"];
            if ours.iter().any(|folder| program.starts_with(folder)) && !root.join(program).exists()
            {
                return Err(format!("`{program}` is not in the tree"));
            }
            Ok(())
        }
        [] => Ok(()),
    }
}

fn has_package(root: &Path, name: &str) -> bool {
    let line = format!("name = \"{name}\"");
    let manifests = crate::modules::files_below(root).unwrap_or_default();
    manifests
        .iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "Cargo.toml"))
        .any(|file| fs::read_to_string(file).is_ok_and(|text| text.lines().any(|l| l == line)))
}
