//! Small workspaces in a temporary folder, to break one rule at a time in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clearway_xtask::finding::Finding;

/// A workspace that keeps every rule, until a test breaks one. It is removed when the test ends,
/// also when it fails.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The crates `base`, `wire`, `proto`, `tap`, `sim` and `engine`, each with a `lib.rs` that
    /// keeps every rule.
    pub(crate) fn clean() -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "clearway-xtask-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let tree = Tree { root: std::env::temp_dir().join(name) };
        tree.write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*/*\"]\n");
        for name in ["base", "wire", "proto"] {
            tree.package(name, "");
            tree.lib(name, "#![no_std]\n#![forbid(unsafe_code)]\n");
        }
        for name in ["tap", "sim", "engine"] {
            tree.package(name, "");
            tree.lib(name, "//! A crate.\n");
        }
        tree
    }

    /// The root folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes the manifest of the crate `name`, with these lines at its end.
    pub(crate) fn package(&self, name: &str, end: &str) {
        let head = format!(
            "[package]\nname = \"clearway-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n"
        );
        self.write(&format!("{}/Cargo.toml", folder(name)), &(head + end));
    }

    /// Writes the `lib.rs` of the crate `name`.
    pub(crate) fn lib(&self, name: &str, text: &str) {
        self.write(&format!("{}/src/lib.rs", folder(name)), text);
    }

    /// Writes a file, and the folders that it lies in.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a path below the root"))
            .expect("a folder in the temporary folder");
        fs::write(path, text).expect("a file in the temporary folder");
    }
}

/// Where the crate `name` lies, as in the real workspace.
pub(crate) fn folder(name: &str) -> String {
    let floor = match name {
        "base" | "wire" | "proto" => "core",
        "tap" => "ports",
        "engine" => "services",
        "host" => "host",
        "sim" => "testing",
        _ => "tools",
    };
    format!("crates/{floor}/{name}")
}

impl Drop for Tree {
    fn drop(&mut self) {
        // When this fails the temporary folder keeps a few small files; the result of the test
        // stands.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Asserts that there is one finding, at this place, and that its message contains each of `parts`.
#[track_caller]
pub(crate) fn assert_refused(findings: &[Finding], place: &str, parts: &[&str]) {
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(all.len(), 1, "one finding at {place} was expected: {all:#?}");
    assert!(all[0].starts_with(&format!("{place}: ")), "{} is not at {place}", all[0]);
    for part in parts {
        assert!(all[0].contains(part), "`{}` does not say `{part}`", all[0]);
    }
}

/// Asserts that nothing was refused.
#[track_caller]
pub(crate) fn assert_clean(findings: &[Finding]) {
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(all.is_empty(), "nothing should be refused: {all:#?}");
}
