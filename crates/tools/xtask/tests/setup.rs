//! `scripts/setup.sh` on machines without a Rust that will do. Nothing real is installed: the
//! programs that would are scripts of the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

#[path = "../../cli/tests/common/executable.rs"]
mod executable;

use executable::executable;

/// What the script uses of a machine.
const TOOLS: &[&str] =
    &["bash", "sh", "sed", "awk", "sort", "head", "cat", "dirname", "env", "mkdir", "chmod", "cp"];

/// A machine: folders for its programs and for its user. It is gone when the test is over.
struct Machine(PathBuf);

impl Machine {
    fn new() -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "clearway-setup-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let machine = Machine(std::env::temp_dir().join(name));
        for folder in ["bin", "home", "spare", "repo/scripts"] {
            fs::create_dir_all(machine.0.join(folder)).unwrap();
        }
        for tool in TOOLS {
            let found = ["/usr/bin", "/bin"]
                .map(|folder| Path::new(folder).join(tool))
                .into_iter()
                .find(|p| p.exists());
            symlink(
                found.unwrap_or_else(|| panic!("{tool} is not installed")),
                machine.0.join("bin").join(tool),
            )
            .unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/setup.sh");
        fs::copy(script, machine.0.join("repo/scripts/setup.sh")).unwrap();
        fs::write(
            machine.0.join("repo/Cargo.toml"),
            "[workspace.package]\nrust-version = \"1.85\"\n",
        )
        .unwrap();
        // The cargo that an installer would bring.
        machine.program("spare/cargo", "echo \"cargo 1.90.0 (0000000 2025-01-01)\"");
        machine
    }

    /// A program of the machine that is this script.
    fn program(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        executable(&path, format!("#!/bin/sh\n{text}\n").as_bytes(), 0o755);
    }

    /// The official installer can be had: it puts cargo where it does.
    fn has_installer(&self) {
        let spare = self.0.join("spare/cargo");
        let cargo =
            format!("mkdir -p \"$HOME/.cargo/bin\"; cp {} \"$HOME/.cargo/bin/\"", spare.display());
        self.program("bin/curl", &format!("echo '{cargo}; echo \"installer: $*\"'"));
    }

    /// Debian has a Rust of this version.
    fn has_debian(&self, version: &str) {
        self.program("bin/dpkg-query", "exit 1");
        self.program(
            "bin/apt-cache",
            &format!("echo 'rustc:'; echo '  Installed: (none)'; echo '  Candidate: {version}'"),
        );
        let (spare, bin) = (self.0.join("spare/cargo"), self.0.join("bin"));
        self.program("bin/sudo", "exec \"$@\"");
        self.program(
            "bin/apt-get",
            &format!("echo \"apt-get $*\"; cp {} {}/", spare.display(), bin.display()),
        );
    }

    fn setup(&self, rust: &str) -> (bool, String) {
        let mut command = Command::new(self.0.join("bin/bash"));
        command.arg(self.0.join("repo/scripts/setup.sh")).env_clear();
        command.env("PATH", self.0.join("bin")).env("HOME", self.0.join("home")).env("RUST", rust);
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.success(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn assert_said(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "`{word}` is not in:\n{said}");
    }
}

#[test]
fn without_cargo_the_official_installer_brings_it_and_that_is_said() {
    let machine = Machine::new();
    machine.has_installer();
    let (fine, said) = machine.setup("");
    assert!(fine, "{said}");
    assert_said(
        &said,
        &["cargo is not installed; RUST=keep", "installing the stable Rust into", "installer: -y"],
    );
    assert!(machine.0.join("home/.cargo/bin/cargo").exists());
    let (fine, said) = machine.setup("");
    assert!(
        fine && said.lines().all(|line| line.contains("not a Debian system")),
        "the second time: {said}"
    );
}

#[test]
fn a_cargo_that_is_too_old_is_replaced_by_debians_where_that_will_do() {
    let machine = Machine::new();
    machine.has_installer();
    machine.has_debian("1.85.0+dfsg3-1");
    machine.program("bin/cargo", "echo 'cargo 1.63.0'");
    let (fine, said) = machine.setup("");
    assert!(fine, "{said}");
    assert_said(
        &said,
        &["cargo 1.63.0 is too old", "Debian's Rust 1.85.0", "cargo rustc rustfmt rust-clippy"],
    );
    assert!(!said.contains("installer:"), "{said}");
}

#[test]
fn where_debians_rust_is_too_old_the_installer_is_taken() {
    let machine = Machine::new();
    machine.has_installer();
    machine.has_debian("1.63.0+dfsg1-2");
    let (fine, said) = machine.setup("");
    assert!(fine, "{said}");
    assert_said(&said, &["installer: -y"]);
    assert!(!said.contains("apt-get"), "{said}");
}

#[test]
fn rustup_that_is_there_updates_what_it_brought() {
    let machine = Machine::new();
    machine.has_installer();
    let (spare, bin) = (machine.0.join("spare/cargo"), machine.0.join("bin"));
    machine.program(
        "bin/rustup",
        &format!("echo \"rustup $*\"; cp {} {}/", spare.display(), bin.display()),
    );
    machine.program("bin/cargo", "exit 1");
    let (fine, said) = machine.setup("");
    assert!(fine, "{said}");
    assert_said(
        &said,
        &["'cargo --version' fails", "rustup update stable", "rustup component add rustfmt clippy"],
    );
}

#[test]
fn who_keeps_theirs_is_told_what_is_missing_and_how_to_get_it() {
    let machine = Machine::new();
    machine.has_installer();
    let (fine, said) = machine.setup("keep");
    assert!(!fine);
    assert_said(
        &said,
        &[
            "cargo is not installed. Clearway needs Rust 1.85 or newer",
            "sh.rustup.rs",
            "apt-get install cargo",
        ],
    );
    assert!(!machine.0.join("home/.cargo").exists());
}

#[test]
fn an_installer_that_fails_is_told() {
    let machine = Machine::new();
    machine.program("bin/curl", "exit 6");
    let (fine, said) = machine.setup("");
    assert!(!fine);
    assert_said(&said, &["cargo is not installed, and could not be installed"]);
}
