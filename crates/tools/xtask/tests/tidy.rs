//! `tidy` refuses each thing that its rules name, and nothing that only looks like it.

use clearway_xtask::finding::Finding;
use clearway_xtask::tidy::tidy;

mod common;

use common::{Tree, assert_clean, assert_refused};

/// The findings in a clean tree where the `lib.rs` of a crate is this text.
fn with_lib(name: &str, text: &str) -> Vec<Finding> {
    let tree = Tree::clean();
    tree.lib(name, text);
    tidy(tree.root()).unwrap().findings
}

/// The text of a `lib.rs` of the core, with these lines from the third on.
fn core(text: &str) -> String {
    format!("#![no_std]\n#![forbid(unsafe_code)]\n{text}")
}

#[test]
fn a_clean_workspace_passes() {
    assert_clean(&tidy(Tree::clean().root()).unwrap().findings);
}

// ---- the Rust of Debian 13

#[test]
fn a_chain_of_lets_is_refused_in_tests_too() {
    let refused = |text: &str, line: usize| {
        let place = format!("crates/services/engine/src/lib.rs:{line}");
        assert_refused(&with_lib("engine", text), &place, &["Rust 1.88", "one `if` in another"]);
    };
    refused(
        "fn f(a: Option<u8>) {\n    if a.is_some()\n        && let Some(_) = a\n    {\n    }\n}\n",
        3,
    );
    refused("fn f(a: Option<u8>) {\n    if let Some(b) = a && b > 1 {}\n}\n", 2);
    let text =
        "fn f() {\n    // SAFETY: a test.\n    if let Some(a) = unsafe { g() } && a > 1 {}\n}\n";
    assert_refused(&with_lib("tap", text), "crates/ports/tap/src/lib.rs:3", &["Rust 1.88"]);
    refused(
        "#[cfg(test)]\nmod tests {\n    fn f() {\n        while let Some(_) = g(1 & 2) && h() {}\n    }\n}\n",
        4,
    );
}

#[test]
fn what_only_looks_like_a_chain_of_lets_is_none() {
    for text in [
        "fn f(a: bool, b: bool) {\n    let c = a && b;\n    if c && a {}\n}\n",
        "fn f(a: Option<bool>) {\n    if let Some(b) = a.filter(|c| *c && true) {}\n}\n",
        "fn f(a: &&u8) {\n    if let &&1 = a {}\n    if let 1 = g(&&2) {}\n}\n",
        "fn f(a: Option<u8>) {\n    if let Some(b) = a {\n        if b > 1 && b < 9 {}\n    }\n}\n",
    ] {
        assert_clean(&with_lib("engine", text));
    }
}

// ---- unsafe

const READ: &str =
    "pub fn read(from: *const u8) -> u8 {\n    // SAFETY: not really.\n    unsafe { *from }\n}\n";

#[test]
fn unsafe_outside_of_its_crates_is_refused() {
    assert_refused(
        &with_lib("engine", READ),
        "crates/services/engine/src/lib.rs:3",
        &["`unsafe` outside", "crates/ports/tap/"],
    );
    assert_clean(&with_lib("tap", READ));
}

#[test]
fn unsafe_in_tests_and_in_macros_is_refused_too() {
    let text = "#[cfg(test)]\nmod tests {\n    fn f() {\n        unsafe { g() }\n    }\n}\n";
    assert_refused(
        &with_lib("engine", text),
        "crates/services/engine/src/lib.rs:4",
        &["`unsafe` outside"],
    );
    let text = "macro_rules! m {\n    () => {\n        unsafe { g() }\n    };\n}\n";
    assert_refused(
        &with_lib("engine", text),
        "crates/services/engine/src/lib.rs:3",
        &["`unsafe` outside"],
    );
    let text = "#[unsafe(no_mangle)]\npub fn f() {}\n";
    assert_refused(
        &with_lib("engine", text),
        "crates/services/engine/src/lib.rs:1",
        &["`unsafe` outside"],
    );
}

#[test]
fn the_word_unsafe_in_comments_and_strings_is_no_unsafe() {
    assert_clean(&with_lib(
        "engine",
        "//! Nothing unsafe.\n/* unsafe { } */\npub const A: &str = \"unsafe { }\";\n",
    ));
}

#[test]
fn unsafe_without_a_safety_comment_is_refused() {
    let refused = |text: &str, line: usize| {
        let place = format!("crates/ports/tap/src/lib.rs:{line}");
        assert_refused(&with_lib("tap", text), &place, &["without a `// SAFETY:` comment"]);
    };
    refused("pub fn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n", 2);
    refused("pub struct A;\n\nunsafe impl Send for A {}\n", 3);
    refused("unsafe extern \"C\" {\n    fn g();\n}\n", 1);
    // The comment belongs to another statement, or stands apart.
    refused(
        "fn f(p: *const u8) {\n    // SAFETY: for g only.\n    g();\n    let a = unsafe { *p };\n}\n",
        4,
    );
    refused("// SAFETY: apart.\n\nunsafe impl Send for A {}\n", 3);
    // The word in a string is no comment.
    refused("fn f() {\n    g(\"// SAFETY: no\"); unsafe { h() }\n}\n", 2);
}

#[test]
fn a_safety_comment_above_the_statement_counts() {
    assert_clean(&with_lib(
        "tap",
        "fn f(p: *const u8) -> u8 {\n    // SAFETY: p is\n    // alive.\n    #[allow(unused)]\n    let a =\n        unsafe { *p };\n    a\n}\n",
    ));
    assert_clean(&with_lib("tap", "// SAFETY: A holds no pointer.\nunsafe impl Send for A {}\n"));
    assert_clean(&with_lib(
        "tap",
        "fn f() {\n    unsafe { g() } // SAFETY: g asks for nothing.\n}\n",
    ));
}

#[test]
fn an_unsafe_function_says_what_it_asks_for() {
    let refused = with_lib("tap", "/// Reads.\npub unsafe fn f() {}\n");
    assert_refused(&refused, "crates/ports/tap/src/lib.rs:2", &["without a `# Safety` section"]);
    assert_clean(&with_lib(
        "tap",
        "/// Reads.\n///\n/// # Safety\n///\n/// `p` is alive.\npub unsafe fn f() {}\n",
    ));
    assert_clean(&with_lib("tap", "pub type Call = unsafe extern \"C\" fn(u8);\n"));
}

#[test]
fn only_the_named_file_of_tests_may_hold_a_counting_allocator() {
    let text = "// SAFETY: hands everything on.\nunsafe impl GlobalAlloc for Counting {}\n";
    let tree = Tree::clean();
    tree.write("crates/testing/sim/tests/counting.rs", "mod counting_alloc;\n");
    tree.write("crates/testing/sim/tests/counting_alloc.rs", text);
    assert_clean(&tidy(tree.root()).unwrap().findings);
    let tree = Tree::clean();
    tree.lib("sim", "mod counting_alloc;\n");
    tree.write("crates/testing/sim/src/counting_alloc.rs", text);
    assert_refused(
        &tidy(tree.root()).unwrap().findings,
        "crates/testing/sim/src/counting_alloc.rs:2",
        &["`unsafe` outside of the crates"],
    );
}

// ---- std and clocks

#[test]
fn std_in_the_core_is_refused() {
    for text in [
        "extern crate std;\n",
        "use std::vec::Vec;\n",
        "pub fn f() -> std::string::String { g() }\n",
    ] {
        assert_refused(
            &with_lib("wire", &core(text)),
            "crates/core/wire/src/lib.rs:3",
            &["`std` in the core", "use `core`"],
        );
        assert_clean(&with_lib("engine", text));
    }
}

#[test]
fn std_in_the_tests_of_the_core_passes() {
    assert_clean(&with_lib("wire", &core("#[cfg(test)]\nextern crate std;\n")));
    assert_clean(&with_lib(
        "wire",
        &core("#[cfg(all(test, unix))]\nmod tests {\n    use std::vec::Vec;\n}\n"),
    ));
    let tree = Tree::clean();
    tree.lib("wire", &core("#[cfg(test)]\nmod tests;\n"));
    tree.write("crates/core/wire/src/tests.rs", "use std::vec::Vec;\nmod more;\n");
    tree.write("crates/core/wire/src/tests/more.rs", "use std::vec::Vec;\n");
    tree.write("crates/core/wire/tests/all.rs", "use std::vec::Vec;\n");
    assert_clean(&tidy(tree.root()).unwrap().findings);
}

#[test]
fn code_for_everything_but_tests_is_no_test() {
    let text = core("#[cfg(not(test))]\nextern crate std;\n");
    assert_refused(
        &with_lib("wire", &text),
        "crates/core/wire/src/lib.rs:4",
        &["`std` in the core"],
    );
    let text = core("#[cfg(any(test, unix))]\nextern crate std;\n");
    assert_refused(
        &with_lib("wire", &text),
        "crates/core/wire/src/lib.rs:4",
        &["`std` in the core"],
    );
}

#[test]
fn reading_a_clock_is_refused_outside_of_its_crates() {
    for text in [
        "pub fn f() { g(std::time::Instant::now()) }\n",
        "pub fn f() { g(SystemTime::now()) }\n",
        "pub fn f() { g(UNIX_EPOCH.elapsed()) }\n",
    ] {
        assert_refused(
            &with_lib("sim", text),
            "crates/testing/sim/src/lib.rs:1",
            &["reads the clock", "as an argument"],
        );
        assert_clean(&with_lib("engine", text));
        assert_clean(&with_lib("sim", &format!("#[cfg(test)]\nmod tests {{\n{text}}}\n")));
    }
}

#[test]
fn a_time_that_is_handed_in_reads_no_clock() {
    assert_clean(&with_lib(
        "sim",
        "use std::time::SystemTime;\npub fn f(modified: SystemTime) {\n    modified.elapsed(now)\n}\n",
    ));
}

// ---- modules

#[test]
fn a_file_outside_of_the_module_tree_is_refused() {
    let tree = Tree::clean();
    tree.write("crates/testing/sim/src/link.rs", "//! Forgotten.\n");
    let findings = tidy(tree.root()).unwrap().findings;
    assert_refused(
        &findings,
        "crates/testing/sim/src/link.rs:1",
        &["no `mod` reaches this file", "declare it"],
    );
}

#[test]
fn every_way_to_declare_a_module_is_followed() {
    let tree = Tree::clean();
    tree.lib(
        "sim",
        "mod a;\nmod b;\nmod c {\n    mod d;\n}\n#[path = \"else/where.rs\"]\nmod e;\ninclude!(\"f.rs\");\n",
    );
    tree.write("crates/testing/sim/src/a.rs", "mod inner;\n");
    tree.write("crates/testing/sim/src/a/inner.rs", "");
    tree.write("crates/testing/sim/src/b/mod.rs", "mod inner;\n");
    tree.write("crates/testing/sim/src/b/inner.rs", "");
    tree.write("crates/testing/sim/src/c/d.rs", "");
    tree.write("crates/testing/sim/src/else/where.rs", "");
    tree.write("crates/testing/sim/src/f.rs", "");
    tree.write("crates/testing/sim/src/bin/tool.rs", "fn main() {}\n");
    assert_clean(&tidy(tree.root()).unwrap().findings);
}

#[test]
fn a_declaration_in_a_comment_declares_nothing() {
    let tree = Tree::clean();
    tree.lib("sim", "// mod link;\n");
    tree.write("crates/testing/sim/src/link.rs", "");
    assert_refused(
        &tidy(tree.root()).unwrap().findings,
        "crates/testing/sim/src/link.rs:1",
        &["no `mod` reaches this file"],
    );
}

#[test]
fn a_file_that_is_not_rust_is_refused() {
    assert_refused(
        &with_lib("sim", "fn f( {\n"),
        "crates/testing/sim/src/lib.rs:1",
        &["cannot be parsed"],
    );
}

// ---- unfinished work

#[test]
fn a_mark_without_an_issue_is_refused() {
    for mark in ["TODO", "FIXME", "XXX"] {
        let text = format!("pub fn f() {{}} // {mark}: later\n");
        assert_refused(
            &with_lib("sim", &text),
            "crates/testing/sim/src/lib.rs:1",
            &[mark, "without an issue", "#12"],
        );
        assert_refused(
            &with_lib("sim", &format!("/// {mark}\npub fn f() {{}}\n")),
            "crates/testing/sim/src/lib.rs:1",
            &[mark],
        );
        assert_clean(&with_lib("sim", &format!("// {mark} #7: later\n")));
        assert_clean(&with_lib(
            "sim",
            &format!("// What `{mark}` means.\npub const A: &str = \"{mark}\";\n"),
        ));
        assert_clean(&with_lib("sim", &format!("// {mark}ABLE\n")));
    }
}

#[test]
fn a_mark_in_other_texts_is_refused() {
    for file in [
        "docs/page.md",
        "Makefile",
        ".ci/run",
        "scripts/a.sh",
        "tests/scripts/a.pkt",
        "fuzz/fuzz_targets/frame.rs",
    ] {
        let tree = Tree::clean();
        tree.write(file, "first\n# TODO write this\n");
        assert_refused(
            &tidy(tree.root()).unwrap().findings,
            &format!("{file}:2"),
            &["`TODO` without an issue"],
        );
    }
}

#[test]
fn macros_for_unfinished_work_are_refused() {
    for name in ["todo", "unimplemented", "dbg"] {
        let text = format!("pub fn f() {{\n    {name}!()\n}}\n");
        assert_refused(
            &with_lib("sim", &text),
            "crates/testing/sim/src/lib.rs:2",
            &[&format!("`{name}!` outside of tests")],
        );
        assert_clean(&with_lib("sim", &format!("#[cfg(test)]\n{text}")));
        let nested = format!("pub fn f() {{\n    println!(\"{{}}\", {name}!(1));\n}}\n");
        assert_refused(
            &with_lib("sim", &nested),
            "crates/testing/sim/src/lib.rs:2",
            &[&format!("`{name}!` outside of tests")],
        );
    }
}

#[test]
fn an_ignored_test_says_why() {
    let text = "#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore]\n    fn f() {}\n}\n";
    assert_refused(
        &with_lib("sim", text),
        "crates/testing/sim/src/lib.rs:4",
        &["`#[ignore]` without a reason"],
    );
    assert_clean(&with_lib("sim", &text.replace("[ignore]", "[ignore = \"takes an hour\"]")));
}

// ---- white space

#[test]
fn tabs_and_white_space_at_the_ends_of_lines_are_refused() {
    assert_refused(
        &with_lib("sim", "//! A.\nfn f() {} \n"),
        "crates/testing/sim/src/lib.rs:2",
        &["white space at the end"],
    );
    assert_refused(
        &with_lib("sim", "//! A.\r\n"),
        "crates/testing/sim/src/lib.rs:1",
        &["white space at the end"],
    );
    assert_refused(
        &with_lib("sim", "fn f() {\n\tg()\n}\n"),
        "crates/testing/sim/src/lib.rs:2",
        &["a tab"],
    );
    let tree = Tree::clean();
    tree.write("Makefile", "all:\n\techo\n");
    assert_clean(&tidy(tree.root()).unwrap().findings);
    tree.write("README.md", "Words.  \n");
    assert_refused(
        &tidy(tree.root()).unwrap().findings,
        "README.md:1",
        &["white space at the end"],
    );
}

// ---- what is only told

#[test]
fn the_longest_functions_and_files_are_told_and_not_refused() {
    let tree = Tree::clean();
    let long = format!("pub fn long() {{\n{}}}\n", "    g();\n".repeat(900));
    tree.lib(
        "sim",
        &format!(
            "fn short() {{\n}}\n{long}#[cfg(test)]\nmod tests {{\n{}}}\n",
            long.replace("long", "longer")
        ),
    );
    let report = tidy(tree.root()).unwrap();
    assert_clean(&report.findings);
    let (length, name, path, line) = &report.longest_functions[0];
    assert_eq!(
        (*length, name.as_str(), path.to_str(), *line),
        (902, "long", Some("crates/testing/sim/src/lib.rs"), 3)
    );
    assert_eq!(report.longest_functions[1].1, "short");
    assert_eq!(
        report.longest_files[0],
        (902 + 2 + 2 + 902 + 1, "crates/testing/sim/src/lib.rs".into())
    );
}

#[test]
fn what_builds_make_is_not_looked_at() {
    let tree = Tree::clean();
    tree.write("target/debug/build/out.rs", "// TODO\t\n");
    tree.write(".git/description.md", "TODO \n");
    assert_clean(&tidy(tree.root()).unwrap().findings);
}

// ---- the lock files of workspaces beside this one

#[test]
fn a_lock_file_beside_says_what_our_crates_depend_on() {
    let tree = Tree::clean();
    tree.package(
        "engine",
        "[dependencies]\nclearway-base = { path = \"../../core/base\" }\n\
         clearway-wire = { path = \"../../core/wire\", optional = true }\n\
         [dev-dependencies]\nclearway-proto = { path = \"../../core/proto\" }\n",
    );
    let lock = |listed: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"clearway-engine\"\nversion = \"0.1.0\"\n\
             dependencies = [{listed}]\n"
        )
    };
    tree.write("fuzz/Cargo.lock", &lock("\"libc\", \"clearway-base 0.1.0\""));
    assert_clean(&tidy(tree.root()).unwrap().findings);
    tree.write("fuzz/Cargo.lock", &lock("\"libc\", \"clearway-base-more\""));
    let findings = tidy(tree.root()).unwrap().findings;
    assert_refused(
        &findings,
        "fuzz/Cargo.lock:4",
        &["clearway-engine depends on clearway-base", "--manifest-path fuzz/Cargo.toml"],
    );
}
