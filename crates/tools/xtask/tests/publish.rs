//! The crates for others are as a registry wants them.

use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

#[path = "../../cli/tests/common/skip.rs"]
mod skip;

fn workspace() -> Metadata {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap()
}

fn is_public(package: &&Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

#[test]
fn a_public_crate_says_what_a_registry_asks_for() {
    let metadata = workspace();
    let mut count = 0;
    for package in metadata.packages.iter().filter(is_public) {
        count += 1;
        let name = &package.name;
        assert!(package.description.as_ref().is_some_and(|text| text.len() > 20), "{name}");
        assert_eq!(package.license.as_deref(), Some("Apache-2.0 OR MIT"), "{name}");
        assert_eq!(package.documentation, Some(format!("https://docs.rs/{name}")), "{name}");
        // What crates.io takes: five keywords of twenty characters, five categories.
        assert!((1..=5).contains(&package.keywords.len()), "{name}: {:?}", package.keywords);
        let is_short = |word: &String| word.len() <= 20;
        assert!(package.keywords.iter().all(is_short), "{name}: {:?}", package.keywords);
        assert!((1..=5).contains(&package.categories.len()), "{name}: {:?}", package.categories);
        let readme = package.readme().unwrap_or_else(|| panic!("{name} has a README"));
        let text = std::fs::read_to_string(readme).unwrap();
        assert!(text.starts_with(&format!("# {name}\n")), "{name}");
    }
    assert_eq!(count, 18, "docs/crates.md says how many there are");
}

#[test]
fn a_public_crate_depends_on_public_crates_of_a_version() {
    let metadata = workspace();
    let public: Vec<&str> =
        metadata.packages.iter().filter(is_public).map(|package| package.name.as_str()).collect();
    for package in metadata.packages.iter().filter(is_public) {
        for dependency in &package.dependencies {
            // What only tests use is left out when it has no version.
            if dependency.path.is_none() || dependency.kind == DependencyKind::Development {
                continue;
            }
            let (name, of) = (&dependency.name, &package.name);
            assert!(public.contains(&name.as_str()), "{of} needs {name}, which is for us alone");
            assert_ne!(dependency.req.to_string(), "*", "{of} needs a version of {name}");
        }
    }
}

#[test]
fn the_core_is_documented_for_a_target_without_std() {
    let metadata = workspace();
    let mut count = 0;
    for package in metadata.packages.iter().filter(is_public) {
        let manifest = package.manifest_path.as_std_path();
        let lib = manifest.parent().unwrap().join("src/lib.rs");
        if std::fs::read_to_string(lib).unwrap().contains("#![no_std]") {
            count += 1;
            let target = &package.metadata["docs"]["rs"]["default-target"];
            assert_eq!(target.as_str(), Some("x86_64-unknown-none"), "{}", package.name);
        }
    }
    assert_eq!(count, 7);
}

#[test]
fn every_public_crate_can_be_packed_in_the_order_of_dependencies() {
    // Several at a time, which are not in a registry yet, can be packed since 1.90.
    let version = Command::new(env!("CARGO")).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()).unwrap();
    if !skip::or_skip(minor >= 90, &format!("cargo 1.90 or newer packs a workspace, not {version}"))
    {
        return;
    }
    let metadata = workspace();
    let public = metadata.packages.iter().filter(is_public);
    let names: Vec<&str> = public.flat_map(|package| ["-p", package.name.as_str()]).collect();
    let output = Command::new(env!("CARGO"))
        .args(["package", "--no-verify", "--allow-dirty", "--offline"])
        .args(names)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("publish"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let packed: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Packaging ")?.split(' ').next())
        .collect();
    assert_eq!(packed.len(), 18, "{said}");
    let place = |name: &str| packed.iter().position(|packed| *packed == name).unwrap();
    assert!(place("clearway-proto") < place("clearway-engine"), "{packed:?}");
    assert!(place("clearway-engine") < place("clearway"), "{packed:?}");
}
