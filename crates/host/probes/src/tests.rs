use super::*;

#[test]
fn nobody_looks_and_nothing_is_made() {
    drop(|| unreachable!("made for nobody"));
    accept(|| unreachable!("made for nobody"));
}

#[test]
fn a_text_ends_with_a_zero_and_is_cut_between_characters() {
    let text = Text::of("10.0.0.1:80");
    assert_eq!((text.as_str(), text.register()), ("10.0.0.1:80", text.address()));
    assert_eq!(Text::of("ü".repeat(40)).as_str(), "ü".repeat(31));
    assert_eq!(Text::of_any(None::<u8>).as_str(), "-");
}

#[test]
fn a_probe_has_at_most_six_arguments() {
    assert!(PROBES.len() >= 20, "{}", PROBES.len());
    for probe in PROBES {
        assert!((2..=6).contains(&probe.arguments.len()), "{}", probe.name);
        assert!(!probe.about.trim().is_empty() && probe.about.ends_with('.'), "{}", probe.name);
    }
}

/// What `docs/trace.md` says of all probes.
fn table() -> String {
    let mut table = String::from("| probe | arguments | fires when |\n| --- | --- | --- |\n");
    for probe in PROBES {
        let arguments: Vec<String> =
            probe.arguments.iter().map(|(name, kind)| format!("`{name}` {kind}")).collect();
        table +=
            &format!("| `{}` | {} | {} |\n", probe.name, arguments.join(", "), probe.about.trim());
    }
    table
}

#[test]
fn the_page_has_the_table_of_all_probes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/trace.md");
    let page = std::fs::read_to_string(path).unwrap();
    let start = page.find("| probe |").expect("the page has no table of probes");
    let len = page[start..].find("\n\n").map_or(page.len() - start, |len| len + 1);
    let written = &page[start..start + len];
    if std::env::var_os("CLEARWAY_WRITE_DOCS").is_some() && written != table() {
        std::fs::write(path, page.replace(written, &table())).unwrap();
        return;
    }
    assert_eq!(
        written,
        table(),
        "docs/trace.md is stale: run this test with CLEARWAY_WRITE_DOCS=1"
    );
}

#[test]
fn ready_scripts_name_probes_that_there_are_and_no_argument_too_many() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/bpftrace");
    let mut scripts = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        let mut used = 0;
        // Each action is read with the probes that stand before it.
        let mut arguments: Option<usize> = None;
        for line in script.lines() {
            if let Some((_, name)) = line.split_once(":clearway:") {
                let name = name.trim_end_matches([',', ' ', '{']);
                let probe = PROBES.iter().find(|probe| probe.name == name);
                let probe = probe.unwrap_or_else(|| panic!("{path:?}: no probe {name:?}"));
                arguments = Some(arguments.unwrap_or(6).min(probe.arguments.len()));
                used += 1;
            }
            for (at, _) in line.match_indices("arg").filter(|_| arguments.is_some()) {
                let digit = line[at + 3..].chars().next().and_then(|c| c.to_digit(10));
                if let Some(digit) = digit {
                    assert!((digit as usize) < arguments.unwrap_or(0), "{path:?}: {line}");
                }
            }
            if line == "}" {
                arguments = None;
            }
        }
        assert!(used > 0, "{path:?} names no probe");
        scripts += 1;
    }
    assert!(scripts >= 5, "{scripts}");
}
