//! `layers` refuses each kind of arrow that must not be, and nothing else.

use clearway_xtask::layers::layers;

mod common;

use common::{Tree, assert_clean, assert_refused};

#[test]
fn a_clean_workspace_passes() {
    assert_clean(&layers(Tree::clean().root()).unwrap());
}

#[test]
fn arrows_down_pass() {
    let tree = Tree::clean();
    tree.package("wire", "[dependencies]\nclearway-base = { path = \"../../core/base\" }\n");
    tree.package("proto", "[dependencies.clearway-wire]\npath = \"../../core/wire\"\n");
    tree.package(
        "engine",
        "[dependencies]\nclearway-proto = { path = \"../../core/proto\" }\nlibc = \"0.2\"\n",
    );
    assert_clean(&layers(tree.root()).unwrap());
}

#[test]
fn an_arrow_up_is_refused_with_what_is_allowed_instead() {
    let tree = Tree::clean();
    tree.package("wire", "[dependencies]\nclearway-proto = { path = \"../../core/proto\" }\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/core/wire/Cargo.toml:7",
        &["wire → proto", "wire may use: base"],
    );
}

#[test]
fn an_arrow_sideways_is_refused() {
    let tree = Tree::clean();
    tree.package("tap", "[dependencies]\nclearway-proto = { path = \"../../core/proto\" }\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/ports/tap/Cargo.toml:7",
        &["tap → proto", "tap may use: base wire pkt dev"],
    );
}

#[test]
fn an_arrow_is_found_however_it_is_written() {
    for manifest in [
        "[dependencies]\nother = { package = \"clearway-engine\", path = \"../../services/engine\" }\n",
        "[dependencies.clearway-engine]\npath = \"../../services/engine\"\n",
        "[target.'cfg(unix)'.dependencies]\nclearway-engine = { path = \"../../services/engine\" }\n",
        "[build-dependencies]\nclearway-engine = { path = \"../../services/engine\" }\n",
        "[dependencies]\nclearway-engine = { path = \"../../services/engine\", optional = true }\n",
    ] {
        let tree = Tree::clean();
        tree.package("sim", manifest);
        let findings = layers(tree.root()).unwrap();
        assert_eq!(findings.len(), 1, "{manifest}");
        assert!(findings[0].message.contains("sim → engine"), "{}", findings[0]);
    }
}

#[test]
fn a_crate_lies_in_a_folder_that_has_a_floor() {
    let tree = Tree::clean();
    tree.write(
        "crates/odd/pkt/Cargo.toml",
        "[package]\nname = \"clearway-pkt\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    tree.write("crates/odd/pkt/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/odd/pkt/Cargo.toml:1",
        &["`pkt`", "core ports services"],
    );
}

#[test]
fn an_arrow_to_a_higher_folder_is_refused_also_where_the_table_allows_it() {
    let tree = Tree::clean();
    tree.write(
        "crates/tools/pkt/Cargo.toml",
        "[package]\nname = \"clearway-pkt\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    tree.write("crates/tools/pkt/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\n");
    tree.package("proto", "[dependencies]\nclearway-pkt = { path = \"../../tools/pkt\" }\n");
    let place = "crates/core/proto/Cargo.toml:7";
    assert_refused(
        &layers(tree.root()).unwrap(),
        place,
        &["crates/core/proto → crates/tools/pkt", "higher"],
    );
}

#[test]
fn tests_of_crates_above_may_use_the_simulator() {
    let tree = Tree::clean();
    tree.package("engine", "[dev-dependencies]\nclearway-sim = { path = \"../../testing/sim\" }\n");
    assert_clean(&layers(tree.root()).unwrap());
}

#[test]
fn code_may_not_use_the_simulator() {
    let tree = Tree::clean();
    tree.package("engine", "[dependencies]\nclearway-sim = { path = \"../../testing/sim\" }\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/services/engine/Cargo.toml:7",
        &["engine → sim", "its tests also: sim script"],
    );
}

#[test]
fn tests_of_crates_below_may_not_use_the_simulator() {
    let tree = Tree::clean();
    tree.package("proto", "[dev-dependencies]\nclearway-sim = { path = \"../../testing/sim\" }\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/core/proto/Cargo.toml:7",
        &["proto → sim", "put the test into crates/testing/sim/tests"],
    );
}

#[test]
fn tests_obey_the_same_table() {
    let tree = Tree::clean();
    tree.package("wire", "[dev-dependencies]\nclearway-tap = { path = \"../../ports/tap\" }\n");
    assert_refused(&layers(tree.root()).unwrap(), "crates/core/wire/Cargo.toml:7", &["wire → tap"]);
}

#[test]
fn the_core_takes_nothing_from_outside() {
    let tree = Tree::clean();
    tree.package("proto", "[dependencies]\nlibc = \"0.2\"\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/core/proto/Cargo.toml:7",
        &["proto → libc", "nothing outside the workspace"],
    );
}

#[test]
fn the_tests_of_the_core_may_take_anything_from_outside() {
    let tree = Tree::clean();
    tree.package("wire", "[dev-dependencies]\nproptest = \"1\"\n");
    assert_clean(&layers(tree.root()).unwrap());
}

#[test]
fn a_crate_without_a_place_is_refused() {
    let tree = Tree::clean();
    tree.package("stray", "");
    tree.lib("stray", "");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/tools/stray/Cargo.toml:1",
        &["`stray` has no place", "add a row"],
    );
}

#[test]
fn the_core_carries_its_attributes() {
    let tree = Tree::clean();
    tree.lib("wire", "#![forbid(unsafe_code)]\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/core/wire/src/lib.rs:1",
        &["`wire`", "#![no_std]"],
    );
    tree.lib("wire", "#![no_std]\n// #![forbid(unsafe_code)]\n");
    assert_refused(
        &layers(tree.root()).unwrap(),
        "crates/core/wire/src/lib.rs:1",
        &["`wire`", "#![forbid(unsafe_code)]"],
    );
    tree.lib("wire", "#![cfg_attr(not(test), no_std)]\n#![forbid(unsafe_code)]\n");
    assert_refused(&layers(tree.root()).unwrap(), "crates/core/wire/src/lib.rs:1", &["#![no_std]"]);
}
