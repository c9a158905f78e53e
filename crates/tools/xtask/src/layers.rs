//! `cargo xtask layers`: an arrow between two crates may only point down.
//!
//! The table below is the picture of ARCHITECTURE.md in a form that a machine can check. A crate
//! that is not in it is refused, so that a new crate gets its place on the day it is born.

use std::fs;
use std::path::Path;

use anyhow::Result;
use cargo_metadata::{Dependency, Package};

use crate::finding::Finding;
use crate::packages::{folder, only_for_tests, packages, short};
use crate::source::Source;

/// What one crate may depend on.
struct Row {
    name: &'static str,
    /// The workspace crates that its code may use.
    may_use: &'static [&'static str],
    /// The workspace crates that its tests may use besides.
    tests_may_use: &'static [&'static str],
}

const fn row(
    name: &'static str,
    may_use: &'static [&'static str],
    tests_may_use: &'static [&'static str],
) -> Row {
    Row { name, may_use, tests_may_use }
}

/// Stands for every crate of the workspace.
const ANY: &str = "*";

/// The whole order of the workspace, the lowest layer first.
///
/// `sim` and `script` are for tests, so only crates above them may use them, and only in their
/// tests. `proto` and `dev` never see each other: `engine` brings them together.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    //  crate      its code may use                                   its tests may use besides
    row("base",    &[],                                               &[]),
    row("hint",    &[],                                               &[]),
    row("options", &[],                                               &[]),
    row("errors",  &[],                                               &[]),
    row("wire",    &["base"],                                         &[]),
    row("pkt",     &["base", "wire"],                                 &[]),
    row("proto",   &["base", "hint", "options", "wire", "pkt"],       &[]),
    row("dev",     &["base", "errors", "wire", "pkt"],                &[]),
    row("traffic", &["base", "wire", "pkt", "dev"],                   &[]),
    row("tap",     &["base", "wire", "pkt", "dev"],                   &[]),
    row("dpdk",    &["base", "wire", "pkt", "dev"],                   &[]),
    row("xdp",     &["base", "wire", "pkt", "dev"],                   &["engine", "proto"]),
    row("sim",     &["base", "wire", "pkt", "proto"],                 &[]),
    row("script",  &["base", "options", "wire", "pkt", "proto", "dev", "tap"], &[]),
    row("cost",    &["base", "wire", "pkt", "proto"],                 &[]),
    row("engine",  &["base", "errors", "hint", "wire", "pkt", "proto", "dev"],  &["sim", "script"]),
    row("dhcp",    &["base", "wire"],                                 &[]),
    row("slaac",   &["base", "wire"],                                 &[]),
    row("http",    &["base", "wire", "pkt", "proto", "engine"],       &["sim", "script"]),
    row("bench",   &["base", "hint", "wire", "pkt", "proto", "engine"], &["dev"]),
    row("shm",     &["options"],                                      &[]),
    row("client",  &["errors", "shm"],                                          &["host", "engine", "proto",
        "ports", "pkt", "wire"]),
    row("program", &[],                                               &[]),
    row("trap",    &["program"],                                      &[]),
    row("preload", &["errors", "options", "client", "program", "trap"],         &[]),
    row("command", &["errors", "wire"],                               &[]),
    row("ports",   &["base", "errors", "wire", "pkt", "dev", "tap", "dpdk", "xdp"], &[]),
    row("probes",  &[],                                               &[]),
    row("session", &["base", "options", "wire", "pkt", "proto", "dev", "engine", "shm", "ports",
        "probes"],
        &["sim"]),
    row("host",    &["base", "errors", "wire", "pkt", "proto", "options", "dev", "dhcp", "engine", "shm", "slaac",
        "command", "ports", "probes", "session"], &["sim", "script"]),
    row("tokio",   &["client"],                                       &["dev", "engine", "host", "pkt",
        "ports", "proto", "shm", "wire"]),
    row("inproc",  &["base", "engine", "shm", "host"],                &[]),
    row("fuzz",    &["base", "wire", "pkt", "proto", "dev", "engine", "ports", "shm", "command",
        "client", "host", "script"], &[]),
    row("capi",    &["base", "wire", "pkt", "proto", "dev", "engine", "ports"], &[]),
    row("clearway", &["base", "wire", "pkt", "proto", "dev", "engine", "ports", "http"], &[]),
    row("lab",     &["hint", "engine"],                               &[]),
    row("packetdrill", &["options", "wire", "script"],                &[]),
    row("cli",     &[ANY],                                            &[]),
    row("xtask",   &["sim", "script"],                                &[]),
];

/// The folders of `crates/`, the lowest first, so that what `ls` prints is the picture of
/// ARCHITECTURE.md. Code uses crates of its own folder and of lower ones.
pub const FOLDERS: &[&str] = &["core", "ports", "services", "host", "testing", "api", "tools"];

/// The crates that can do nothing but compute: no operating system, no unsafe code, and next to
/// nothing from outside.
pub const CORE: &[&str] = &["base", "errors", "options", "wire", "pkt", "proto"];

/// The attributes that a crate of the core carries at the top of its `lib.rs`.
const CORE_CARRIES: &[&str] = &["#![no_std]", "#![forbid(unsafe_code)]"];

/// Checks the workspace at `root` and tells every arrow that is not in the table.
pub fn layers(root: &Path) -> Result<Vec<Finding>> {
    let packages = packages(root)?;
    let mut findings = Vec::new();
    for package in &packages {
        let manifest = folder(root, package).join("Cargo.toml");
        let text = fs::read_to_string(root.join(&manifest))?;
        let name = short(&package.name);
        let Some(row) = TABLE.iter().find(|row| row.name == name) else {
            let message = format!(
                "crate `{name}` has no place: add a row for it to TABLE in \
                 crates/tools/xtask/src/layers.rs"
            );
            findings.push(Finding::new(&manifest, 1, message));
            continue;
        };
        if height(root, package).is_none() {
            let message = format!(
                "`{name}` lies in no known folder: put it into crates/FOLDER, one of: {}",
                list(FOLDERS)
            );
            findings.push(Finding::new(&manifest, 1, message));
        }
        let inside = |dependency: &Dependency| {
            packages.iter().any(|package| package.name.as_str() == dependency.name)
        };
        for dependency in &package.dependencies {
            let message = if inside(dependency) {
                refuse_inside(row, dependency)
                    .or_else(|| refuse_higher(root, &packages, package, dependency))
            } else {
                refuse_outside(row, dependency)
            };
            if let Some(message) = message {
                findings.push(Finding::new(&manifest, line_of(&text, &dependency.name), message));
            }
        }
        if CORE.contains(&name) {
            findings.extend(attributes(root, package)?);
        }
    }
    Ok(findings)
}

/// Says why an arrow inside the workspace is refused, or `None` when it is allowed.
fn refuse_inside(row: &Row, dependency: &Dependency) -> Option<String> {
    let to = short(&dependency.name);
    let in_tests = only_for_tests(dependency.kind);
    // A crate may name itself among the dependencies of its tests, to switch a feature on.
    let itself = in_tests && to == row.name;
    let allowed = row.may_use.contains(&ANY) || row.may_use.contains(&to);
    if allowed || itself || (in_tests && row.tests_may_use.contains(&to)) {
        return None;
    }
    let mut message = format!(
        "{} → {to}: this arrow points up or sideways; {} may use: {}",
        row.name,
        row.name,
        list(row.may_use)
    );
    if !row.tests_may_use.is_empty() {
        message += &format!(" (its tests also: {})", list(row.tests_may_use));
    }
    if to == "sim" || to == "script" {
        message +=
            &format!("; {to} is for tests: put the test into crates/testing/{to}/tests instead");
    } else {
        message += "; move what both need down into a crate that both may use, or pass it in as an \
            argument";
    }
    Some(message)
}

/// How high the folder of a package lies, or `None` when it is no folder of [`FOLDERS`].
fn height(root: &Path, package: &Package) -> Option<usize> {
    let path = folder(root, package);
    let inner = path.strip_prefix("crates").ok()?;
    FOLDERS.iter().position(|folder| inner.starts_with(folder))
}

/// Says why an arrow of the table may not be: code of a lower folder would use code of a higher
/// one. Tests may.
fn refuse_higher(
    root: &Path,
    packages: &[Package],
    from: &Package,
    dependency: &Dependency,
) -> Option<String> {
    let to = packages.iter().find(|package| package.name.as_str() == dependency.name)?;
    let is_up = !only_for_tests(dependency.kind) && height(root, to)? > height(root, from)?;
    is_up.then(|| {
        let (from, to) = (folder(root, from), folder(root, to));
        format!(
            "{} → {}: this arrow points from a lower folder to a higher one",
            from.display(),
            to.display()
        )
    })
}

/// Says why a crate of the core may not take a dependency from outside, or `None` when it may.
fn refuse_outside(row: &Row, dependency: &Dependency) -> Option<String> {
    let free = !CORE.contains(&row.name) || only_for_tests(dependency.kind);
    if free {
        return None;
    }
    Some(format!(
        "{} → {}: the core depends on nothing outside the workspace; write the little that is \
         needed, or do it in a crate above",
        row.name, dependency.name,
    ))
}

fn attributes(root: &Path, package: &Package) -> Result<Vec<Finding>> {
    let file = folder(root, package).join("src/lib.rs");
    let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
    let Ok(source) = Source::parse(&file, text) else {
        return Ok(vec![Finding::new(&file, 1, "this file cannot be parsed as Rust")]);
    };
    let missing = CORE_CARRIES.iter().filter(|wanted| !source.has_inner_attribute(wanted));
    Ok(missing
        .map(|wanted| {
            let message = format!(
                "`{}` belongs to the core: `{wanted}` must stand at the top of this file",
                short(&package.name)
            );
            Finding::new(&file, 1, message)
        })
        .collect())
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing of the workspace".to_owned() } else { names.join(" ") }
}

/// The line of a manifest on which a dependency is named, or the first line when it is not to be
/// found.
fn line_of(manifest: &str, name: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"']))
            || line.trim_end().ends_with(&format!(".{name}]"))
    };
    manifest.lines().position(names).map_or(1, |index| index + 1)
}
