//! Holds the tables of the documents against the code.

use clearway_proto::{Drop, Limits};

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of the rows between two headings whose first cell is code.
fn rows(page: &str, from: &str, to: &str) -> Vec<Vec<String>> {
    let start = page.find(from).unwrap_or_else(|| panic!("no heading {from:?}"));
    let end = page.find(to).unwrap_or_else(|| panic!("no heading {to:?}"));
    let lines = page[start..end].lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_table_of_drops_has_every_reason_once() {
    let page = page("drops.md");
    let told: Vec<String> =
        rows(&page, "## Malformed", "## Lost at a port").into_iter().map(|mut row| row.remove(0)).collect();
    let known: Vec<String> = Drop::all().map(|why| format!("`{}`", why.name())).collect();
    assert_eq!(told, known, "docs/drops.md lists the reasons of the code, in their order");
}

#[test]
fn the_table_of_limits_is_that_of_the_code() {
    let page = page("limits.md");
    let told: Vec<String> = rows(&page, "# Limits", "## Bounds that are not settings")
        .into_iter()
        .map(|row| format!("{}: {}", row[0].trim_matches('`'), row[1]))
        .collect();
    // The derived text names every field with its value: "Limits { connections: 65536, … }".
    let known = format!("{:?}", Limits::default());
    assert_eq!(format!("Limits {{ {} }}", told.join(", ")), known, "docs/limits.md lists the limits of the code");
}
