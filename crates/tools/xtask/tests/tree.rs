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
