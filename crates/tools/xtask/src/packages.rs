//! The packages of a workspace, as `cargo metadata` tells them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Every package in this workspace is named `clearway-NAME` and lies in `crates/NAME`.
pub const PREFIX: &str = "clearway-";

/// The workspaces beside this one: only cargo-fuzz can build the fuzz targets, and a baseline has
/// dependencies that nobody else has.
pub const BESIDE: &[&str] = &["fuzz", "baselines/smoltcp"];

/// The packages of the workspace at `root`. Nothing is fetched: what they depend on is known from
/// their manifests alone.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .with_context(|| format!("cannot read the workspace at {}", root.display()))?;
    Ok(metadata.packages)
}

/// The name that this workspace uses for a package among its own: `clearway-proto` is `proto`.
pub fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The folder of a package, relative to the root of its workspace.
///
/// Both paths are made plain first, since cargo may spell a path with symbolic links resolved.
pub fn folder(root: &Path, package: &Package) -> PathBuf {
    let manifest = plain(package.manifest_path.as_std_path());
    let folder = manifest.parent().unwrap_or(&manifest);
    folder.strip_prefix(plain(root)).unwrap_or(folder).to_path_buf()
}

/// A path without symbolic links, or the path itself where that is not to be had.
pub fn plain(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Whether a dependency is for tests only.
pub fn only_for_tests(kind: DependencyKind) -> bool {
    kind == DependencyKind::Development
}

/// Whether `package` has an example named `name`: such examples are the programs that `cargo xtask`
/// starts for other crates.
pub fn has_example(package: &Package, name: &str) -> bool {
    package.targets.iter().any(|target| target.is_example() && target.name == name)
}
