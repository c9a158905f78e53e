//! What pages say of the tree is so.

use std::path::Path;

#[test]
fn every_file_that_the_glossary_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let text = std::fs::read_to_string(root.join("docs/glossary.md")).unwrap();
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with("| **")) {
        let paths: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let mut folder = None;
        for path in paths {
            // A second path of a row may be short for one beside the first.
            let whole = if path.starts_with("crates/") {
                root.join(path)
            } else {
                folder.clone().unwrap_or(root.clone()).join(path)
            };
            assert!(whole.exists(), "{path} in: {row}");
            folder = whole.parent().map(Path::to_owned);
            named += 1;
        }
        for page in row.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(root.join("docs").join(page).exists(), "{page} in: {row}");
        }
    }
    assert!(named > 20, "{named}");
}

/// What the table below "Where is …?" of a page names and the tree does not have; how many names
/// were looked up. A name is looked for in the file that stands before it in its row.
fn missing_of_map(root: &Path, page: &str) -> (Vec<String>, usize) {
    let (_, map) = page.split_once("\n## Where is …?\n").unwrap();
    let map = map.split("\n## ").next().unwrap();
    let (mut missing, mut looked_up) = (Vec::new(), 0);
    for row in map.lines().filter(|line| line.starts_with("| ")) {
        let place = row.split('|').nth(2).unwrap();
        let (mut text, mut files) = (None, 0);
        for named in place.split('`').skip(1).step_by(2) {
            looked_up += 1;
            if named.contains('/') {
                files += 1;
                text = std::fs::read_to_string(root.join(named)).ok();
                if text.is_none() {
                    missing.push(format!("the file {named} in: {row}"));
                }
            } else if !text.as_ref().is_some_and(|text| declares(text, named)) {
                missing.push(format!("{named} in: {row}"));
            }
        }
        if files > 2 {
            missing.push(format!("more than two files in: {row}"));
        }
    }
    (missing, looked_up)
}

/// Whether a Rust file declares this: a function, a type, a constant, or a field.
fn declares(text: &str, name: &str) -> bool {
    let is_it = |line: &str| {
        let line = line.trim_start();
        if line.starts_with("//") {
            return false;
        }
        ["fn ", "const ", "static ", "struct ", "enum ", "trait "].iter().any(|kind| {
            let rest = line.split_once(kind).map(|(_, rest)| rest);
            rest.and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with(['(', '<', ':', ' ']))
        }) || line.trim_start_matches("pub ").starts_with(&format!("{name}:"))
    };
    text.lines().any(is_it)
}

#[test]
fn every_file_and_function_of_the_map_in_the_architecture_page_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (missing, looked_up) = missing_of_map(&root, &page);
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(looked_up > 40, "{looked_up}");
}

#[test]
fn a_map_that_names_what_is_gone_is_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let told = |place: &str| {
        let page =
            format!("\n## Where is …?\n\n| | |\n| --- | --- |\n| it | {place} |\n\n## Next\n");
        missing_of_map(&root, &page).0
    };
    let file = "crates/tools/xtask/tests/tree.rs";
    assert!(told(&format!("`{file}` (`declares`)")).is_empty());
    assert_eq!(told(&format!("`{file}` (`no_such_function`)")).len(), 1);
    assert_eq!(told("`crates/tools/xtask/tests/no_such_file.rs`").len(), 1);
    assert_eq!(told(&format!("`{file}`, `{file}`, `{file}`")).len(), 1, "three files");
    // A name that is only spoken of, as here: mentioned_only.
    assert_eq!(told(&format!("`{file}` (`mentioned_only`)")).len(), 1);
}
