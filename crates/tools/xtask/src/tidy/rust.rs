//! Rules about the words of Rust files.

use crate::finding::Finding;
use crate::layers::CORE;
use crate::modules::Module;
use crate::source::{Kind, Source};

/// Where a clock of the operating system may be read. Everything else is handed the time as a
/// value, so that it can be replayed. Tests and benches may read clocks everywhere.
const MAY_READ_CLOCKS: &[(&str, &str)] = &[
    ("crates/services/engine/", "reads the clock once per turn"),
    ("crates/host/client/", "keeps the timeouts of the program's calls"),
    ("crates/host/preload/", "keeps the timeouts of the program's calls"),
    ("crates/tools/cli/", "shows live figures once per second"),
    ("crates/tools/lab/", "waits for programs, and times what they do"),
    ("crates/tools/xtask/", "says how long a gate took"),
    ("crates/tools/cost/", "measures how long things take"),
    ("crates/testing/script/", "runs scripts against the kernel, which lives in real time"),
];

/// Macros that stand for work that is not done, or that was meant for one's own eyes.
const UNFINISHED: &[(&str, &str)] = &[
    ("todo", "finish it, or return an error that says that it is not supported"),
    ("unimplemented", "finish it, or return an error that says that it is not supported"),
    ("dbg", "remove it"),
];

/// Checks the words of one file.
pub(super) fn check(module: &Module, findings: &mut Vec<Finding>) {
    let source = &module.source;
    let clocks_allowed = MAY_READ_CLOCKS.iter().any(|(path, _)| source.path.starts_with(path));
    let core = module.in_src && CORE.contains(&module.package.as_str());
    for (index, word) in source.words.iter().enumerate() {
        if word.text == "#" && source.reads(index, &["#", "[", "ignore", "]"]) {
            let message =
                "`#[ignore]` without a reason: write `#[ignore = \"why, and how to run it\"]`";
            findings.push(Finding::new(&source.path, word.line, message));
        }
        if word.text == "let" && chains(source, index) {
            let message = "a chain of `let` needs Rust 1.88, and `rust-version` is that of Debian \
                13: write one `if` in another";
            findings.push(Finding::new(&source.path, word.line, message));
        }
        if word.kind != Kind::Name || module.is_test(word.line) {
            continue;
        }
        let name = word.text.as_str();
        if let Some((_, remedy)) = UNFINISHED
            .iter()
            .find(|(name, _)| name == &word.text && source.reads(index + 1, &["!"]))
        {
            findings.push(Finding::new(
                &source.path,
                word.line,
                format!("`{name}!` outside of tests: {remedy}"),
            ));
        }
        let names_std = source.reads(index + 1, &[":", ":"])
            || source.before(index, 1) == "crate"
            || source.before(index, 1) == "use";
        if core && name == "std" && names_std {
            let message = "`std` in the core: use `core`, `alloc` at start only, or take what is \
                needed as an argument";
            findings.push(Finding::new(&source.path, word.line, message));
        }
        // A `SystemTime` that is a file's age is a value like any other; asking what time it is now
        // is what matters.
        let asks_now = ["Instant", "SystemTime"].contains(&name)
            && source.reads(index + 1, &[":", ":", "now"]);
        let asks_age = name == "elapsed"
            && source.before(index, 1) == "."
            && source.reads(index + 1, &["(", ")"]);
        let reads_clock = asks_now || asks_age;
        if reads_clock && !clocks_allowed {
            let message = format!(
                "`{name}` reads the clock of the operating system: take the time as an argument \
                 (`clearway_base::Instant`)"
            );
            findings.push(Finding::new(&source.path, word.line, message));
        }
    }
}

/// Whether the `let` at `index` is one of several conditions of an `if` or `while`.
fn chains(source: &Source, index: usize) -> bool {
    if source.before(index, 1) == "&" && source.before(index, 2) == "&" {
        return true;
    }
    if !["if", "while"].contains(&source.before(index, 1)) {
        return false;
    }
    // A pattern may begin with two references; behind the `=` two are an `and`.
    let (mut depth, mut is_behind) = (0, false);
    for (at, word) in source.words.iter().enumerate().skip(index) {
        match word.text.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" if depth > 0 => depth -= 1,
            // A block that is a value, such as one of `unsafe`, belongs to the condition.
            "{" if depth > 0 || source.before(at, 1) == "unsafe" => depth += 1,
            "{" => return false,
            "=" => is_behind = true,
            "&" if depth == 0
                && is_behind
                && source.before(at, 1) != "="
                && source.reads(at, &["&", "&"]) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}
