//! Holds the tables of the documents against the code.

use clearway_proto::{Drop, Limits};

fn page(name: &str) -> String {
    let path = format!("{}/../../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of the rows between two headings whose first cell is code.
fn rows(page: &str, from: &str, to: &str) -> Vec<Vec<String>> {
    let start = page.find(from).unwrap_or_else(|| panic!("no heading {from:?}"));
    let end = page.find(to).unwrap_or_else(|| panic!("no heading {to:?}"));
    let lines = page[start..end].lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[test]
fn the_table_of_drops_has_every_reason_once() {
    let page = page("drops.md");
    let told: Vec<String> = rows(&page, "## Malformed", "## Lost at a port")
        .into_iter()
        .map(|mut row| row.remove(0))
        .collect();
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
    assert_eq!(
        format!("Limits {{ {} }}", told.join(", ")),
        known,
        "docs/limits.md lists the limits of the code"
    );
}

/// The counters of each group with what the code says of them.
fn counter_tables() -> String {
    let code = concat!(env!("CARGO_MANIFEST_DIR"), "/src/counters.rs");
    let code = std::fs::read_to_string(code).expect("the code");
    let mut tables = String::new();
    for part in code.split("\npub struct ").skip(1) {
        let (name, rest) = part.split_once(" {\n").expect("a struct");
        let Some(group) = name.strip_suffix("Counters").filter(|group| !group.is_empty()) else {
            continue;
        };
        let group = group.to_lowercase();
        tables.push_str(&format!("## {group}\n\n| counter | what |\n| --- | --- |\n"));
        let mut what = String::new();
        for line in rest.lines().map(str::trim).take_while(|line| *line != "}") {
            if let Some(more) = line.strip_prefix("///") {
                what.push_str(more);
            } else if let Some(field) = line.strip_prefix("pub ") {
                let field = field.trim_end_matches(": u64,").replace('_', "-");
                let told = what.trim().trim_end_matches('.');
                tables.push_str(&format!("| `{group}.{field}` | {told} |\n"));
                what.clear();
            }
        }
        tables.push('\n');
    }
    tables
}

#[test]
fn the_page_of_counters_is_made_of_the_code() {
    let told = page("counters.md");
    let begin = told.find("## ").expect("a heading");
    let end = told.find("## Where").expect("the end of the tables");
    let made = counter_tables();
    assert!(made.matches("| `").count() > 80, "{made}");
    if std::env::var_os("CLEARWAY_WRITE_PAGES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/counters.md");
        std::fs::write(path, format!("{}{made}{}", &told[..begin], &told[end..])).expect("written");
        return;
    }
    assert_eq!(&told[begin..end], made, "docs/counters.md is stale: CLEARWAY_WRITE_PAGES=1");
}

/// The names of all functions below a folder, tests among them, as far as a plain look at the text
/// finds them.
fn functions(folder: &std::path::Path, into: &mut std::collections::HashSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            into.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_page_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut known = std::collections::HashSet::new();
    functions(&root.join("crates"), &mut known);
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(root.join("docs")).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable page");
        // The page of threats names its tests in the rows of its tables.
        let threats = path.file_name().is_some_and(|name| name == "threats.md");
        let Some(start) = text.find(if threats { "## Blind" } else { "## Which tests" }) else {
            continue;
        };
        // Names between backticks with three words or more are those of tests; paths and types look
        // different.
        let words = text[start..].split('`').skip(1).step_by(2);
        let is_name = |word: &&str| {
            word.matches('_').count() >= 2
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let page = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        missing.extend(
            words
                .filter(is_name)
                .filter(|word| !known.contains(*word))
                .map(|word| format!("{page}: {word}")),
        );
    }
    assert!(missing.is_empty(), "tests that a page names and that are not there: {missing:#?}");
}

/// The targets of the links of a page, without what stands in code.
fn links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        // What stands between single marks of code is none either.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.map(|target| target.split(' ').next().unwrap_or("").to_owned()));
    }
    links
}

/// The name by which a link reaches a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The pages of the book: those of docs/ and of its decisions, by their paths below docs/.
fn pages() -> Vec<String> {
    let docs = format!("{}/../../../docs", env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    for folder in ["", "decisions/"] {
        for entry in std::fs::read_dir(format!("{docs}/{folder}")).expect("a folder").flatten() {
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            if name.ends_with(".md") && name != "SUMMARY.md" {
                pages.push(format!("{folder}{name}"));
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn the_book_has_every_page_once() {
    let told = links(&page("SUMMARY.md"));
    let pages = pages();
    let missing: Vec<_> = pages.iter().filter(|page| !told.contains(page)).collect();
    assert!(missing.is_empty(), "give each of these a line in docs/SUMMARY.md: {missing:?}");
    for (at, link) in told.iter().enumerate() {
        assert!(pages.contains(link), "docs/SUMMARY.md names {link}, which is not there");
        assert!(!told[..at].contains(link), "docs/SUMMARY.md names {link} twice");
    }
}

#[test]
fn every_link_between_pages_leads_to_a_page_and_a_heading() {
    let docs = format!("{}/../../../docs", env!("CARGO_MANIFEST_DIR"));
    let mut bad = Vec::new();
    for name in pages() {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in links(&page(&name)) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with('<') {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => format!("{docs}/{name}"),
                _ => format!("{docs}/{folder}/{file}"),
            };
            if !std::path::Path::new(&target).exists() {
                bad.push(format!("{name}: {link}: no such file"));
                continue;
            }
            if heading.is_empty() || !target.ends_with(".md") {
                continue;
            }
            let text = std::fs::read_to_string(&target).expect("a readable page");
            let is_there =
                text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
            if !is_there {
                bad.push(format!("{name}: {link}: no such heading"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
