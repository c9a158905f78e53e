extern crate std;
use std::fmt::Write;
use std::string::String;

use super::*;

fn page() -> String {
    let mut s = String::new();
    s.push_str("# TCP: the states of a connection\n\n");
    s.push_str(
        "Written by the test `the_document_shows_the_table_that_the_machine_runs_on` from \
        the table in `crates/core/proto/src/tcp/state.rs`;\n",
    );
    s.push_str(
        "run it with `CLEARWAY_WRITE_DOCS=1` after a change. The states and transitions are \
        those of RFC 9293 3.3.2, figure 5.\n\n",
    );
    s.push_str(
        "A handshake that a stranger began (SYN-RECEIVED) and TIME-WAIT live in small \
        records of their own: see `tcp/syn_rcvd.rs` and `tcp/time_wait.rs`.\n\n",
    );
    s.push_str("```mermaid\nstateDiagram-v2\n    [*] --> CLOSED\n");
    for (from, cause, to) in TRANSITIONS {
        // The ways that lead out of every state by reset or by a time limit would hide all others.
        if *to == State::Closed
            && matches!(cause, Cause::Reset | Cause::Timeout)
            && *from != State::TimeWait
        {
            continue;
        }
        let _ = writeln!(
            s,
            "    {} --> {}: {}",
            from.name().replace('-', "_"),
            to.name().replace('-', "_"),
            cause.name()
        );
    }
    s.push_str("```\n\n| from | cause | to |\n| --- | --- | --- |\n");
    for (from, cause, to) in TRANSITIONS {
        let _ = writeln!(s, "| {} | {} | {} |", from, cause.name(), to);
    }
    s.push_str(
        "\nWhere: `crates/core/proto/src/tcp/state.rs`. Tests: beside it, and \
         `crates/core/proto/src/tcp/tests/`.\n",
    );
    s
}

#[test]
fn the_document_shows_the_table_that_the_machine_runs_on() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tcp-states.md");
    let page = page();
    if std::env::var_os("CLEARWAY_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs")).unwrap();
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "docs/tcp-states.md is stale: run this test with CLEARWAY_WRITE_DOCS=1"
    );
}

#[test]
fn no_transition_is_declared_twice_and_the_function_agrees_with_the_table() {
    for (i, (from, cause, to)) in TRANSITIONS.iter().enumerate() {
        assert_eq!(after(*from, *cause), Some(*to));
        assert!(!TRANSITIONS[..i].iter().any(|(f, c, _)| f == from && c == cause));
    }
}

#[test]
fn every_state_but_listen_can_be_left_by_reset_or_timeout_and_is_reached() {
    for state in State::ALL {
        assert!(TRANSITIONS.iter().any(|(_, _, to)| *to == state), "{state} is never reached");
        if state != State::Closed {
            assert_eq!(after(state, Cause::Reset), Some(State::Closed));
        }
    }
}

#[test]
fn what_the_rfc_does_not_draw_does_not_exist() {
    assert_eq!(after(State::Established, Cause::SynAck), None);
    assert_eq!(after(State::TimeWait, Cause::Fin), None);
    assert_eq!(after(State::LastAck, Cause::Fin), None);
    assert_eq!(after(State::Closed, Cause::Fin), None);
}
