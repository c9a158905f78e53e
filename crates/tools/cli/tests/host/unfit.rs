//! Programs into which no library can be put.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::executable::executable;
use crate::netns::or_skip;
use crate::world::{Host, IN_CLIENT, eventually};

/// A program without a loader.
const STATIC: &str = "/bin/busybox";

/// What `clearway run` says of a program, and whether it ran it.
fn run(host: &Host, program: &Path, args: &[&str], required: bool) -> (String, bool) {
    let mut command = host.command(IN_CLIENT, program.to_str().unwrap(), args);
    if required {
        command.env("CLEARWAY_REQUIRED", "1");
    }
    let output = command.output().unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
}

/// It is run with a warning, and with `--required` it is not.
fn is_unfit(host: &Host, program: &Path, args: &[&str], why: &str) {
    let (said, ran) = run(host, program, args, false);
    assert!(
        ran && said.contains(why) && said.contains("stay with the kernel"),
        "{}: {said}",
        program.display()
    );
    let (said, ran) = run(host, program, args, true);
    assert!(
        !ran && said.contains(why) && said.contains("--required"),
        "{}: {said}",
        program.display()
    );
}

fn write(path: PathBuf, bytes: &[u8], mode: u32) -> PathBuf {
    executable(&path, bytes, mode);
    path
}

#[test]
fn programs_that_cannot_be_preloaded_are_recognised_before_they_start() {
    if !or_skip(
        Path::new(STATIC).exists(),
        "busybox-static is not here. Install it (make test does).",
    ) {
        return;
    }
    let host = Host::new();
    is_unfit(&host, Path::new(STATIC), &["true"], "statically linked");
    let script = |name: &str, text: &str| write(host.folder.join(name), text.as_bytes(), 0o755);
    is_unfit(
        &host,
        &script("direct", "#!/bin/busybox true\n"),
        &[],
        "/bin/busybox is statically linked",
    );
    is_unfit(
        &host,
        &script("by-env", "#!/usr/bin/env -S busybox true\n"),
        &[],
        "busybox is statically linked",
    );
    let fine = script("fine", "#!/bin/sh\nexit 0\n");
    for required in [false, true] {
        let (said, ran) = run(&host, &fine, &[], required);
        assert!(ran && said.is_empty(), "{said}");
    }
    // Another machine: the kernel refuses it in its own words unless we do first.
    let mut foreign = fs::read("/bin/true").unwrap();
    foreign[18] = if foreign[18] == 183 { 62 } else { 183 };
    let (said, ran) = run(&host, &write(host.folder.join("foreign"), &foreign, 0o755), &[], true);
    assert!(!ran && said.contains("is made for") && said.contains("--required"), "{said}");
    host.await_empty();
    host.stop();
}

#[test]
fn a_program_with_rights_of_its_own_is_recognised() {
    if !crate::netns::root() {
        return;
    }
    let host = Host::new();
    let program = write(host.folder.join("rights"), &fs::read("/bin/true").unwrap(), 0o755);
    std::os::unix::fs::chown(&program, Some(1), Some(1)).unwrap();
    for (mode, why) in [(0o4755, "set-uid"), (0o2755, "set-gid")] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        is_unfit(&host, &program, &[], why);
    }
    host.stop();
}

#[test]
fn explain_names_a_program_that_is_not_preloaded_as_long_as_it_runs() {
    if !or_skip(
        Path::new(STATIC).exists(),
        "busybox-static is not here. Install it (make test does).",
    ) {
        return;
    }
    let host = Host::new();
    let mut running = host.spawn(IN_CLIENT, STATIC, &["sleep", "60"]);
    eventually("explain says it", || {
        let said = host.ctl("show explain");
        said.contains("run /bin/busybox") && said.contains("statically linked")
    });
    running.kill();
    host.await_empty();
    host.stop();
}
