//! Every class of errors is given by some code.

use std::fs;
use std::path::{Path, PathBuf};

use clearway_errors::Code;

/// Sources of all crates but this one, without their tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["errors", "tests", "target", "benches"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

#[test]
fn every_code_is_given_by_code() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut files);
    let texts: Vec<String> =
        files.iter().map(|file| fs::read_to_string(file).expect("a source")).collect();
    let is_used = |code: &Code| {
        let wanted = format!("Code::{}", code.name());
        texts.iter().any(|text| {
            text.match_indices(&wanted).any(|(at, _)| {
                !text[at + wanted.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    };
    let unused: Vec<&str> =
        Code::ALL.iter().filter(|code| !is_used(code)).map(|code| code.name()).collect();
    assert!(unused.is_empty(), "no code gives {unused:?}");
}
