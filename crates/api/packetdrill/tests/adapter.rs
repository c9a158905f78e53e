//! The adapter behind packetdrill's interface, driven by a C program that does what packetdrill
//! does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The adapter, built once: cargo builds none for the tests of a package that has no Rust library.
fn adapter() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "clearway-packetdrill", "--lib"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // `cargo xtask ci` builds it with the features of the whole workspace.
        let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
        let built = is_built || cargo.status().unwrap().success();
        assert!(built, "building libclearway_packetdrill.so failed");
        let exe = std::env::current_exe().unwrap();
        // The test programs lie in `deps`.
        exe.parent().and_then(Path::parent).unwrap().join("libclearway_packetdrill.so")
    });
    path.clone()
}

/// A program that was made for one test, and goes with it.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        // It may not have come to be.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The driver, built as strictly as can be.
fn driver() -> Program {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drive.c");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("drive-{}-{number}", std::process::id()));
    let program = Program(program);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&program.0);
    let output = gcc.arg("-ldl").output().expect("gcc cannot be started; `make setup` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn drive(flags: &str) -> Output {
    let driver = driver();
    Command::new(&driver.0).arg(adapter()).arg(flags).output().unwrap()
}

fn holds(flags: &str) {
    let output = drive(flags);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out == format!("all scripts hold: {flags}\n"),
        "{flags}: {out}{err}"
    );
}

#[test]
fn scripts_hold_over_ipv4() {
    holds("local=192.168.0.1,remote=192.0.2.1,mtu=1500,timeout=5,grace=300");
}

#[test]
fn scripts_hold_over_ipv6() {
    holds("ip_version=ipv6,local=fd00::1,remote=fd01::1,mtu=1520,timeout=5,grace=300");
}

#[test]
fn scripts_hold_with_ipv6_sockets_over_ipv4() {
    holds("ip_version=ipv4-mapped-ipv6,timeout=5,grace=300");
}

#[test]
fn flags_that_make_no_sense_end_the_program_with_a_sentence() {
    let output = drive("mtu=12");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("mtu=12"), "{err}");
}
