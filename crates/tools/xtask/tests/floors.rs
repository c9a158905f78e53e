//! `floors` finds who names whom inside of a crate, and `circles` refuses a circle where there is
//! to be none.

use clearway_xtask::floors::{Floor, circles, floors};

mod common;

use common::{Tree, assert_clean, assert_refused};

const CORE: &str = "#![no_std]\n#![forbid(unsafe_code)]\n";

fn tree(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::clean();
    for (file, text) in files {
        tree.write(&format!("crates/core/base/src/{file}"), text);
    }
    tree
}

fn floor(tree: &Tree, scope: &str) -> Floor {
    let floors = floors(tree.root()).unwrap();
    floors
        .into_iter()
        .find(|floor| floor.package == "base" && floor.scope == scope)
        .expect("this folder of modules")
}

#[track_caller]
fn assert_circle(files: &[(&str, &str)], scope: &str, circle: &[&str]) {
    let tree = tree(files);
    let circles: Vec<Vec<String>> = floor(&tree, scope)
        .circles()
        .iter()
        .map(|circle| circle.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(circles, [circle]);
}

#[test]
fn arrows_down_are_found_and_pass() {
    let lib = format!("{CORE}mod a;\nmod b;\nmod c;\n");
    let tree = tree(&[
        ("lib.rs", &lib),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "pub struct B;\nfn f() { let _ = super::c::C; }\n"),
        ("c.rs", "pub struct C;\n"),
    ]);
    let floor = floor(&tree, "");
    let arrows: Vec<(&str, &str)> =
        floor.arrows.keys().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    assert_eq!(arrows, [("a", "b"), ("b", "c")]);
    let heights = floor.heights();
    assert_eq!((heights["a"], heights["b"], heights["c"]), (3, 2, 1));
    assert_clean(&circles(&floors(tree.root()).unwrap()));
}

#[test]
fn a_planted_circle_is_refused_at_each_of_its_arrows() {
    let lib = format!("{CORE}mod a;\nmod b;\n");
    let tree = tree(&[
        ("lib.rs", &lib),
        ("a.rs", "\nuse crate::b;\n"),
        ("b.rs", "fn f() { crate::a::g() }\n"),
    ]);
    for (file, place, arrow) in [
        ("a.rs", "crates/core/base/src/a.rs:2", "a → b"),
        ("b.rs", "crates/core/base/src/b.rs:1", "b → a"),
    ] {
        let found = circles(&floors(tree.root()).unwrap())
            .into_iter()
            .filter(|finding| finding.file.ends_with(file));
        assert_refused(
            &found.collect::<Vec<_>>(),
            place,
            &[arrow, "these modules of base name each other in a circle"],
        );
    }
}

#[test]
fn a_name_that_is_handed_on_counts_for_who_defines_it() {
    // `b` names `B2` by way of the root, which only hands it on.
    let lib = format!("{CORE}mod a;\nmod b;\npub use a::A;\n");
    assert_circle(
        &[
            ("lib.rs", &lib),
            ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
            ("b.rs", "use crate::A;\npub struct B;\n"),
        ],
        "",
        &["a", "b"],
    );
}

#[test]
fn circles_are_found_through_macros_and_in_folders() {
    let lib = format!("{CORE}mod a;\n");
    assert_circle(
        &[
            ("lib.rs", &lib),
            ("a.rs", "mod x;\nmod y;\n"),
            ("a/x.rs", "fn f() { assert!(super::y::g()) }\n"),
            ("a/y.rs", "use super::x;\n"),
        ],
        "a",
        &["x", "y"],
    );
}

#[test]
fn who_uses_what_its_folder_defines_stands_in_a_circle_with_it() {
    let lib = format!("{CORE}mod a;\n");
    assert_circle(
        &[
            ("lib.rs", &lib),
            ("a.rs", "mod x;\nuse x::X;\npub struct A(X);\n"),
            ("a/x.rs", "use super::A;\npub struct X;\n"),
        ],
        "a",
        &["mod", "x"],
    );
}

#[test]
fn tests_have_no_arrows() {
    let lib = format!("{CORE}mod a;\nmod b;\n");
    let tree = tree(&[
        ("lib.rs", &lib),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
    ]);
    assert!(floor(&tree, "").circles().is_empty());
}
