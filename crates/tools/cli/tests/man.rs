//! The manual pages of the `clearway` binary, looked at by mandoc.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("clearway-man-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn clearway(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_clearway"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below `words`, as the help lists them.
fn listed(words: &[&str]) -> Vec<String> {
    let help = clearway(&[words, &["--help"]].concat());
    let list = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    // A long description goes on in lines that are set in further.
    let names =
        list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_has_a_page_without_a_fault() {
    let folder = Folder::new("pages");
    clearway(&["man", folder.0.to_str().unwrap()]);
    let pages: BTreeSet<String> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut wanted = BTreeSet::from(["clearway.1".to_owned()]);
    for command in listed(&[]) {
        wanted.insert(format!("clearway-{command}.1"));
        for inner in listed(&[&command]) {
            wanted.insert(format!("clearway-{command}-{inner}.1"));
        }
    }
    assert!(
        wanted.contains("clearway-http.1") && wanted.contains("clearway-bench-client.1"),
        "{wanted:?}"
    );
    assert_eq!(pages, wanted);
    for page in &pages {
        let lint =
            Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(folder.0.join(page)).output();
        let lint = lint.expect("the Debian package mandoc is installed (make setup)");
        let said = String::from_utf8(lint.stdout).unwrap();
        // They have no date on purpose, so that pages of one version are the same whenever they are
        // made.
        let faults: Vec<&str> =
            said.lines().filter(|line| !line.contains("missing date")).collect();
        assert!(faults.is_empty(), "{page}: {faults:#?}");
    }
}

#[test]
fn a_page_shows_what_the_help_shows() {
    let folder = Folder::new("shown");
    clearway(&["man", folder.0.to_str().unwrap()]);
    let shown = |page: &str| {
        let output = Command::new("mandoc")
            .args(["-Tascii", "-Owidth=200"])
            .arg(folder.0.join(page))
            .output()
            .unwrap();
        // Bold is a letter, a step back, and the letter again.
        let mut text = String::new();
        for letter in String::from_utf8(output.stdout).unwrap().chars() {
            if letter == '\u{8}' {
                text.pop();
            } else {
                text.push(letter);
            }
        }
        text
    };
    let http = shown("clearway-http.1");
    for words in
        ["--port", "--when-full", "EXAMPLES", "clearway http --kernel -p 8080 -l 64", "clearway(1)"]
    {
        assert!(http.contains(words), "{words} is not in {http}");
    }
    let client = shown("clearway-bench-client.1");
    assert!(client.contains("clearway bench client") && client.contains("--active"), "{client}");
    let whole = shown("clearway.1");
    assert!(whole.contains("clearway-up(1)") && whole.contains("Exit codes: 0 done"), "{whole}");
    assert_eq!(clearway(&["man"]), fs::read_to_string(folder.0.join("clearway.1")).unwrap());
}
