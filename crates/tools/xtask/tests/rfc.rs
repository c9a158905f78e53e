//! `rfc` looks up every name in docs/rfc.md.

use clearway_xtask::rfc::{Report, rfc};

mod common;

use common::{Tree, assert_clean, assert_refused};

const TOP: &str = "# Page\n\n| any | table |\n\n## RFC 9293: TCP\n\n| clause | what | function | \
    test |\n| --- | --- | --- | --- |\n";

/// A tree with a stack, a test, a script, and a page with these lines from the ninth on.
fn with_rows(rows: &str) -> Report {
    let tree = Tree::clean();
    tree.lib("proto", "#![no_std]\n#![forbid(unsafe_code)]\nmod tcp;\npub fn at_the_root() {}\n");
    tree.write("crates/core/proto/src/tcp.rs", "pub mod open;\npub struct Segment;\n");
    tree.write(
        "crates/core/proto/src/tcp/open.rs",
        "use super::Segment;\nimpl Segment {\n    pub fn step_1_sequence() {}\n}\n#[cfg(test)]\nmod tests;\n",
    );
    tree.write(
        "crates/core/proto/src/tcp/open/tests.rs",
        "#[test]\nfn old_segments_are_answered() {}\nfn helper() {}\n",
    );
    tree.write(
        "crates/testing/sim/tests/close.rs",
        "proptest! {\n    #[test]\n    fn both_close(a in 0..9) {}\n}\n",
    );
    tree.write("tests/scripts/close/half.pkt", "0 socket\n");
    tree.write("docs/rfc.md", &format!("{TOP}{rows}"));
    rfc(tree.root()).unwrap()
}

fn refused(rows: &str, parts: &[&str]) {
    assert_refused(&with_rows(rows).findings, "docs/rfc.md:9", parts);
}

#[test]
fn rows_that_name_what_exists_pass_and_are_counted() {
    let report = with_rows(
        "| 3.10.7.4 | a | proto::tcp::open::step_1_sequence | old_segments_are_answered |\n\
         | 3.10.7.4 | b | `proto::tcp::open::Segment::step_1_sequence`, proto::at_the_root | \
         both_close, tests/scripts/close/half.pkt |\n\
         | 3.1 | c | proto::tcp::Segment | not yet: comes with the scripts |\n\
         | 3.8 | d | not yet: comes with issue 3 | - |\n\
         | 3.9 | e | no: nobody uses it | - |\n\
         \nWords.\n\n## RFC 768: UDP\n",
    );
    assert_clean(&report.findings);
    let [tcp, udp] = report.sections.as_slice() else {
        panic!("two sections: {:?}", report.sections)
    };
    assert_eq!(
        (tcp.title.as_str(), tcp.done, tcp.untested, tcp.not_yet, tcp.no),
        ("RFC 9293: TCP", 2, 1, 1, 1)
    );
    assert_eq!((udp.title.as_str(), udp.done), ("RFC 768: UDP", 0));
}

#[test]
fn a_function_that_is_not_there_is_refused() {
    refused(
        "| 1 | a | proto::tcp::open::step_9 | both_close |\n",
        &["crates/core/proto/src/tcp/open.rs holds no `step_9`"],
    );
    refused(
        "| 1 | a | proto::udp::on_packet | both_close |\n",
        &["crates/core/proto/src/lib.rs holds no `udp::on_packet`"],
    );
    refused("| 1 | a | stack::f | both_close |\n", &["no crate `stack`"]);
    refused("| 1 | a | proto::tcp::open | both_close |\n", &["names a module"]);
    refused(
        "| 1 | a | proto::tcp::open::Other::step_1_sequence | both_close |\n",
        &["holds no `Other::step_1_sequence`"],
    );
    refused("| 1 | a | see the code | both_close |\n", &["is not a path"]);
}

#[test]
fn a_test_that_is_not_there_is_refused() {
    refused(
        "| 1 | a | proto::at_the_root | nothing_tests_it |\n",
        &["no test named `nothing_tests_it`"],
    );
    refused("| 1 | a | proto::at_the_root | helper |\n", &["no test named `helper`"]);
    refused(
        "| 1 | a | proto::at_the_root | both_close, tests/scripts/x.pkt |\n",
        &["no script `tests/scripts/x.pkt`"],
    );
    refused("| 1 | a | proto::at_the_root | - |\n", &["no test named `-`"]);
}

#[test]
fn a_reason_must_be_given() {
    refused("| 1 | a | not yet: | - |\n", &["say the reason"]);
    refused("| 1 | a | proto::at_the_root | no: |\n", &["say the reason"]);
    refused("| 1 | a | no: nobody uses it | both_close |\n", &["the last cell is `-`"]);
}

#[test]
fn the_form_of_the_page_is_strict() {
    refused("| 1 | a | proto::at_the_root |\n", &["four cells", "has 3"]);
    refused("| 1 |  | proto::at_the_root | both_close |\n", &["`what` is empty"]);
    refused("## Other things\n", &["`## RFC NUMBER: TITLE`"]);
    refused("## RFC 9293: TCP\n", &["is there twice"]);
    let row = "| 1 | a | proto::at_the_root | both_close |\n";
    assert_refused(&with_rows(&row.repeat(2)).findings, "docs/rfc.md:10", &["is there twice"]);
    assert_refused(
        &with_rows(&format!("\n{row}")).findings,
        "docs/rfc.md:10",
        &["a table begins with"],
    );
    let second = "\n## RFC 768: UDP\n\n| clause | what | function | test |\n";
    assert_refused(
        &with_rows(&format!("{second}{row}")).findings,
        "docs/rfc.md:13",
        &["followed by `| --- |"],
    );
    assert_refused(&with_rows(second).findings, "docs/rfc.md:12", &["followed by `| --- |"]);
}
