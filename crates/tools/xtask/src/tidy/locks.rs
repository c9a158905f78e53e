//! Lock files of the workspaces beside this one: what they say of our crates is what our manifests
//! say.
//!
//! Cargo mends such a file in silence whenever it builds there, so that a checkout is no longer
//! clean, and a build with `--locked` is refused. Nothing is asked of the network here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::Package;
use toml::{Table, Value};

use crate::finding::Finding;
use crate::packages::{BESIDE, only_for_tests, packages};

/// What the lock files beside leave out.
pub(super) fn check(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    let ours = packages(root)?;
    let present = BESIDE.iter().map(|beside| Path::new(beside).join("Cargo.lock"));
    for lock in present.filter(|lock| root.join(lock).is_file()) {
        let text = fs::read_to_string(root.join(&lock))?;
        let table: Table =
            text.parse().with_context(|| format!("cannot read {}", lock.display()))?;
        for package in &ours {
            for missing in missing(&table, package) {
                let manifest = lock.with_file_name("Cargo.toml");
                let message = format!(
                    "{} depends on {missing}, which this file does not say: cargo metadata \
                     --format-version 1 --manifest-path {} >/dev/null",
                    package.name,
                    manifest.display(),
                );
                findings.push(Finding::new(&lock, line(&text, &package.name), message));
            }
        }
    }
    Ok(())
}

/// What `package` always depends on outside of its tests, and the lock file does not say of it.
fn missing(lock: &Table, package: &Package) -> Vec<String> {
    let of_package = entries(lock).iter().find(|entry| {
        text(entry.get("name")) == package.name.as_str() && entry.get("source").is_none()
    });
    let Some(entry) = of_package else { return Vec::new() };
    let listed = entry.get("dependencies").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // "name", or "name version" where there are several of that name.
    let is_listed =
        |name: &str| listed.iter().any(|known| text(Some(known)).split(' ').next() == Some(name));
    let always = package
        .dependencies
        .iter()
        .filter(|dependency| !dependency.optional && !only_for_tests(dependency.kind));
    always.map(|dependency| dependency.name.clone()).filter(|name| !is_listed(name)).collect()
}

fn entries(lock: &Table) -> &[Value] {
    lock.get("package").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Where the entry of a package stands.
fn line(text: &str, name: &str) -> usize {
    let wanted = format!("name = \"{name}\"");
    text.lines().position(|line| line == wanted).map_or(1, |before| before + 1)
}
