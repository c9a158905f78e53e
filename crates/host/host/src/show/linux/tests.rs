use std::collections::BTreeSet;
use std::path::Path;

use super::super::counters::Counted;
use super::{ROWS, values};

#[test]
fn every_counter_of_linux_is_made_of_counters_that_exist() {
    let counted = Counted::of_nothing();
    for row in ROWS {
        assert!(!row.ours.is_empty(), "{}", row.name);
        for path in row.ours {
            assert!(counted.get(path.trim_start_matches('-')).is_some(), "{}: {path}", row.name);
        }
    }
    let names: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), ROWS.len(), "a name stands twice");
    assert_eq!(values(&counted).len(), ROWS.len());
}

#[test]
fn the_page_has_the_same_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/nstat.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table: String = ROWS
        .iter()
        .map(|row| {
            let ours = row.ours.iter().map(|path| match path.strip_prefix('-') {
                Some(path) => format!(" − `{path}`"),
                None => format!(" + `{path}`"),
            });
            let ours: String = ours.collect();
            let ours = ours.trim_start_matches(" + ");
            format!("| `{}` | {ours} | {} |\n", row.name, row.note)
        })
        .collect();
    assert!(page.contains(&table), "docs/nstat.md should hold:\n{table}");
}
