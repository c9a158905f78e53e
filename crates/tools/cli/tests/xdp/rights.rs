//! Who may, and what is said to who may not.

use crate::netns::root;
use crate::world::{CLEARWAY, pair};

/// A user without rights of his own.
const NOBODY: [&str; 5] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=+all"];

fn as_nobody<'a>(rights: &'a [&'a str]) -> Vec<&'a str> {
    NOBODY.iter().chain(rights).copied().collect()
}

#[test]
fn a_user_with_three_rights_needs_not_be_root() {
    if !root() {
        return;
    }
    let pair = pair(1);
    let rights = ["--inh-caps=+net_raw,+net_admin,+bpf", "--ambient-caps=+net_raw,+net_admin,+bpf"];
    let words = "http --port xdp:ours -a 10.97.0.2/24 -l 100000";
    let server = pair.start_by(&as_nobody(&rights), words);
    let page = pair.by_linux("curl --silent --show-error --max-time 60 http://10.97.0.2/");
    assert_eq!(page.len(), 100_000);
    assert_eq!(server.stop()["requests"], 1);
}

#[test]
fn who_has_no_rights_hears_which_are_missing() {
    if !root() {
        return;
    }
    let pair = pair(1);
    pair.near.ip("link set ours up");
    let mut words = as_nobody(&[]);
    words.extend([CLEARWAY, "http", "--port", "xdp:ours", "-a", "10.97.0.2/24"]);
    let output = pair.near.run(words[0], &words[1..]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("xdp:ours: the rights for AF_XDP are missing"), "{said}");
    assert!(said.contains("setcap cap_net_raw,cap_net_admin,cap_bpf+ep"), "{said}");
}

#[test]
fn more_cores_than_queues_are_refused_with_what_helps() {
    if !root() {
        return;
    }
    let pair = pair(1);
    let words = ["http", "--port", "xdp:ours", "-a", "10.97.0.2/24", "--cores", "0,1"];
    let output = pair.near.run(CLEARWAY, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("xdp:ours has 1 queue(s) for 2 cores"), "{said}");
}
