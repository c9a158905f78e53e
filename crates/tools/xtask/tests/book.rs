//! The commands of the book's first page, run as they stand (docs/start.md).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_commands_of_the_first_page_do_what_it_says() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        // As the other tests with namespaces of their own.
        assert!(std::env::var_os("CI").is_none(), "with CI set this may not be skipped: be root");
        eprintln!("SKIPPED: the namespaces of the page's parts need root");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    // `cargo xtask ci` builds both with the features of the whole workspace.
    if std::env::var_os("CLEARWAY_TESTS_BUILT").is_none() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "clearway-cli", "-p", "clearway-preload"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(&root).status().unwrap().success(), "clearway is built");
    }
    let here = std::env::current_exe().unwrap();
    let binaries = here.parent().and_then(Path::parent).unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut script = Command::new(root.join("scripts/book-start.sh"));
    let output = script.env("PATH", path).stdin(Stdio::null()).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    // Over the host, over the device, and all parts of the page that have commands.
    for wanted in ["Hello over Clearway.", "The host stops.", "64", "2 parts ran"] {
        let is_there = said.lines().any(|line| line.trim() == wanted);
        assert!(is_there, "no line `{wanted}` in:\n{said}\n{complained}");
    }
    assert!(said.contains("10.1.1.1:8080"), "the listener is shown:\n{said}");
    assert!(said.contains("requests/s"), "the generator tells a rate:\n{said}");
}
