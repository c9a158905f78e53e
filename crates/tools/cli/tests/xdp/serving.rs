//! Linux reaches us.

use serde_json::Value;

use crate::netns::root;
use crate::world::{CLEARWAY, Pair, pair};

const ADDRESSES: &str = "-a 10.97.0.2/24 -a fd97::2/64";

/// Linux pings us and fetches pages whole, in both families.
fn reaches(pair: &Pair) {
    for address in ["10.97.0.2", "fd97::2"] {
        pair.by_linux(&format!("ping -c 2 -i 0.2 -W 60 -s 1400 {address}"));
    }
    for url in ["http://10.97.0.2/", "http://[fd97::2]/"] {
        let page = pair.by_linux(&format!("curl --silent --show-error --max-time 60 {url}"));
        assert_eq!(page.len(), 2_000_000, "{url}");
    }
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {event}"))
}

#[test]
fn the_kernel_fetches_pages_in_both_families_however_frames_are_handed_over() {
    if !root() {
        return;
    }
    let pair = pair(1);
    for options in ["", ",mode=copy", ",mtu=1280"] {
        let server = pair.start(&format!("http --port xdp:ours{options} {ADDRESSES} -l 2000000"));
        assert!(pair.has_program());
        reaches(&pair);
        assert_eq!(number(&server.stop(), "requests"), 2, "{options}");
        assert!(!pair.has_program());
    }
}

#[test]
fn generic_mode_and_offload_off_work_with_a_peer_that_leaves_nothing() {
    if !root() {
        return;
    }
    let pair = pair(1);
    pair.by_linux("ethtool -K theirs tx off gso off tso off");
    for options in [",mode=generic", ",offload=off", ",mode=generic,offload=off"] {
        let server = pair.start(&format!("http --port xdp:ours{options} {ADDRESSES} -l 2000000"));
        reaches(&pair);
        assert_eq!(number(&server.stop(), "requests"), 2, "{options}");
    }
}

#[test]
fn many_connections_over_several_queues_lose_no_byte() {
    if !root() {
        return;
    }
    let pair = pair(4);
    for cores in ["0", "0,1"] {
        let words = format!("http --port xdp:ours --cores {cores} {ADDRESSES} -l 20000");
        let server = pair.start(&words);
        let url = "http://10.97.0.2/[1-2000]";
        let fetch = format!(
            "curl --silent --show-error --parallel --parallel-max 64 --max-time 280 \
             --output /dev/null --write-out %{{size_download}}\\n {url}"
        );
        let sizes = pair.by_linux(&fetch);
        assert_eq!(sizes.lines().filter(|size| *size == "20000").count(), 2_000, "cores {cores}");
        assert_eq!(number(&server.stop(), "requests"), 2_000);
    }
}

#[test]
fn a_stack_at_each_end_moves_bulk_both_ways() {
    if !root() {
        return;
    }
    let pair = pair(2);
    pair.far.ip("addr flush dev theirs");
    let far = |words: &str| {
        let mut args: Vec<&str> = words.split(' ').collect();
        args.extend(["-m", "GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"]);
        pair.far.text(CLEARWAY, &args)
    };
    let server = pair.start("http --port xdp:ours --cores 0,1 -a 10.97.0.2/24 -l 64000");
    // Both cores of the client begin connections, whose answers may come to either.
    let said =
        far("bench client --port xdp:theirs --cores 0,1 -a 10.97.0.3/24 -s 10.97.0.2 -p 80 \
         -c 32 -t 1 --json");
    let mut events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = events.next_back().unwrap();
    assert!(number(&last, "answers") > 0, "{last}");
    assert_eq!(last["requests"], last["answers"]);
    let served = number(&server.stop(), "requests");
    assert!(served >= number(&last, "requests"), "{served} served: {last}");
}

#[test]
fn a_program_that_is_killed_leaves_the_interface_as_it_was() {
    if !root() {
        return;
    }
    let pair = pair(2);
    for _ in 0..3 {
        let server = pair.start(&format!("http --port xdp:ours {ADDRESSES} -l 2000000"));
        assert!(pair.has_program());
        reaches(&pair);
        server.kill();
        crate::world::eventually("the program is gone", || !pair.has_program());
    }
    // What comes belongs to the kernel again.
    pair.near.ip("addr add 10.97.0.2/24 dev ours");
    pair.by_linux("ping -c 1 -W 60 10.97.0.2");
}

#[test]
fn an_interface_that_is_removed_ends_the_command_with_a_sentence() {
    if !root() {
        return;
    }
    let pair = pair(1);
    let server = pair.start(&format!("http --port xdp:ours {ADDRESSES}"));
    pair.far.ip("link del theirs");
    let said = server.failed();
    assert!(said.contains("xdp:ours: the interface was removed"), "{said}");
}

#[test]
fn frames_come_back_from_a_reflector() {
    if !root() {
        return;
    }
    let pair = pair(2);
    pair.far.ip("addr flush dev theirs");
    pair.far.ip("link set theirs addrgenmode none");
    let reflector = pair.start("reflect --port xdp:ours");
    let said = pair.far.text(
        CLEARWAY,
        &"pktgen --port xdp:theirs --sizes 64,1514 --seconds 0.2 --rate 2kpps --drain 5 --json"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let sizes: Vec<Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["event"] == "size")
        .collect();
    assert_eq!(sizes.len(), 2, "{said}");
    // All of them fit the rings, so none is lost however busy the machine is.
    for size in &sizes {
        assert_eq!(number(size, "sent") + number(size, "short"), 400, "{size}");
        assert_eq!(size["received"], size["sent"], "{size}");
        assert_eq!((&size["lost"], &size["damaged"]), (&0.into(), &0.into()), "{size}");
    }
    // The generator looks for the reflector by some frames before.
    let sent: u64 = sizes.iter().map(|size| number(size, "sent")).sum();
    assert!(number(&reflector.stop(), "returned") >= sent);
}
