//! Rules about text in any language.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::finding::Finding;
use crate::modules::Module;

/// Endings of the files that are read as text.
const ENDINGS: &[&str] = &["rs", "md", "toml", "sh", "pkt", "yml", "yaml"];

/// Files without an ending that are read as text.
const NAMES: &[&str] = &["Makefile", ".gitignore"];

/// Words with which one tells oneself that something is left to do.
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Checks the text of one file, and says whether it is one that this rule looks at.
pub(super) fn check(
    root: &Path,
    file: &Path,
    modules: &[Module],
    findings: &mut Vec<Finding>,
) -> Result<bool> {
    let path = file.strip_prefix(root).unwrap_or(file);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let ours = ENDINGS.contains(&&*ending) || NAMES.contains(&&*name) || path.starts_with(".ci");
    if !ours {
        return Ok(false);
    }
    let Ok(text) = String::from_utf8(fs::read(file)?) else {
        findings.push(Finding::new(path, 1, "this file is not UTF-8: save it as such"));
        return Ok(true);
    };
    // Strings of a Rust file may hold such words; only what is said in comments counts, where the
    // file could be taken apart.
    let module = modules.iter().find(|module| module.source.path == path);
    for (index, line) in text.split('\n').enumerate() {
        let mut refuse = |message: &str| findings.push(Finding::new(path, index + 1, message));
        if line.ends_with([' ', '\t', '\r']) {
            refuse("white space at the end of the line: remove it");
        }
        if ending == "rs" && line.contains('\t') {
            refuse("a tab: indent with spaces (`cargo fmt` does), and write `\\t` in strings");
        }
        let said = match module {
            Some(module) => module.source.lines.get(index).map_or("", |line| line.comment.as_str()),
            None => line,
        };
        if let Some(mark) = open_mark(said) {
            refuse(&format!(
                "`{mark}` without an issue: do it, or open an issue and write its number: `{mark} \
                 #12: …`"
            ));
        }
    }
    Ok(true)
}

/// The first mark of work left to do in the line, unless the line names an issue. What stands
/// between backticks is quoted.
fn open_mark(line: &str) -> Option<&'static str> {
    let said: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let names_issue = said
        .split('#')
        .skip(1)
        .any(|rest| rest.starts_with(|character: char| character.is_ascii_digit()));
    if names_issue {
        return None;
    }
    let word = |character: char| character.is_alphanumeric() || character == '_';
    MARKS
        .iter()
        .copied()
        .find(|mark| said.split(|character| !word(character)).any(|part| part == *mark))
}
