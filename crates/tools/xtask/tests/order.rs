//! The table of floors: an arrow up or sideways between modules is refused, and so is a module
//! without a place.

use std::path::Path;

use clearway_xtask::drawing::drawings;
use clearway_xtask::finding::Finding;
use clearway_xtask::floors::floors;
use clearway_xtask::order::{ORDERS, check, gone};

mod common;

use common::{Tree, assert_clean, assert_refused};

const CORE: &str = "#![no_std]\n#![forbid(unsafe_code)]\n";

/// Checks a tree whose crate `proto` has these files.
fn checked(lib: &str, files: &[(&str, &str)]) -> Vec<Finding> {
    let tree = Tree::clean();
    tree.lib("proto", &format!("{CORE}{lib}"));
    for (file, text) in files {
        tree.write(&format!("crates/core/proto/src/{file}"), text);
    }
    check(tree.root()).unwrap()
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap()
}

#[test]
fn an_arrow_down_passes() {
    assert_clean(&checked(
        "mod net;\nmod stack;\n",
        &[("net.rs", ""), ("stack.rs", "use crate::net::Ip;\n")],
    ));
}

#[test]
fn a_planted_arrow_up_is_refused_where_it_stands() {
    let found = checked(
        "mod net;\nmod stack;\n",
        &[("net.rs", "\nuse crate::stack::Stack;\n"), ("stack.rs", "")],
    );
    assert_refused(
        &found,
        "crates/core/proto/src/net.rs:2",
        &["net → stack", "points up in proto", "pass it in as an argument"],
    );
}

#[test]
fn a_planted_arrow_sideways_is_refused() {
    let found = checked(
        "mod tcp;\nmod udp;\n",
        &[("tcp.rs", ""), ("udp.rs", "fn f() { crate::tcp::g() }\n")],
    );
    assert_refused(
        &found,
        "crates/core/proto/src/udp.rs:1",
        &["udp → tcp", "points sideways in proto"],
    );
}

#[test]
fn an_arrow_up_inside_a_folder_is_refused() {
    let files =
        [("net.rs", "mod ip;\nmod arp;\n"), ("net/ip.rs", "use super::arp;\n"), ("net/arp.rs", "")];
    let found = checked("mod net;\n", &files);
    assert_refused(
        &found,
        "crates/core/proto/src/net/ip.rs:1",
        &["ip → arp", "points up in proto::net"],
    );
}

#[test]
fn a_module_without_a_floor_is_refused() {
    let found = checked("mod novelty;\n", &[("novelty.rs", "")]);
    assert_refused(
        &found,
        "crates/core/proto/src/novelty.rs:1",
        &["`novelty` has no floor in proto", "ORDERS"],
    );
}

#[test]
fn the_drawings_of_the_docs_are_those_of_the_code() {
    for (file, text) in drawings(workspace()).unwrap() {
        let drawn = std::fs::read_to_string(workspace().join(&file)).unwrap_or_default();
        assert!(drawn == text, "{} is not up to date: cargo xtask layers --svg", file.display());
    }
}

#[test]
fn the_table_names_only_modules_that_are_there() {
    assert_eq!(gone(&floors(workspace()).unwrap(), ORDERS), Vec::<String>::new());
}
