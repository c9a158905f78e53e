//! Generator and reflector over links in shared memory, one queue and two, in plain memory and in
//! huge pages.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::netns::or_skip;
use crate::world::{Folder, HugePages, Memory, Running, clearway, finish, text};

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {event}"))
}

/// Sends frames of two sizes over a link whose ends are these two ports; every one that does not
/// come back is told of by one of the two sides. `one_core` puts all queues of the reflector into
/// one thread.
fn there_and_back(memory: Memory, near: &str, far: &str, queues: &str, one_core: bool) {
    let mut reflect = vec!["reflect", "--port", far, "--queues", queues, "--l3", "--json"];
    if one_core {
        reflect.extend(["--cores", "0"]);
    }
    let reflector = Running::start(clearway(memory, &reflect));
    let mut args = vec![
        "pktgen", "--port", near, "--queues", queues, "--sizes", "64,1500", "--flows", "16",
        "--json",
    ];
    // On a machine that is busy with other things frames may stay away for a while.
    args.extend(["--seconds", "0.5", "--rate", "4kpps", "--drain", "5", "--wait", "30"]);
    let output = finish(clearway(memory, &args));
    assert!(output.status.success(), "{far} {queues}: {} {}", output.status, text(&output));
    let out = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (reflected, _) = reflector.stop(Signal::SIGTERM);
    let rows: Vec<&Value> = events.iter().filter(|event| event["event"] == "size").collect();
    assert_eq!(rows.len(), 2);
    let mut lost = 0;
    for row in rows {
        assert_eq!(
            number(row, "sent") + number(row, "short") + number(row, "port_drops"),
            2_000,
            "{far} {queues}: {row}"
        );
        assert_eq!(number(row, "received") + number(row, "lost"), number(row, "sent"));
        for none in ["reordered", "duplicates", "damaged", "foreign"] {
            assert_eq!(row[none], 0, "{far} {queues}: {none}: {row}");
        }
        let of_queues = row["queues"].as_array().unwrap();
        assert_eq!(of_queues.len().to_string(), queues);
        assert!(
            of_queues
                .iter()
                .all(|queue| number(queue, "sent") > 0 && number(queue, "received") > 0),
            "{row}"
        );
        lost += number(row, "lost");
    }
    // A machine that is busy with something else makes queues full: then the reflector says so.
    let kept: u64 =
        reflected["drops_by_reason"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert!(lost <= kept, "{far} {queues}: {lost} lost, {reflected}");
}

fn over_memif_and_vhost(memory: Memory) {
    for (queues, one_core) in [("1", false), ("2", false), ("2", true)] {
        let folder = Folder::new();
        let (memif, vhost) = (folder.file("m"), folder.file("v"));
        let (near, far) =
            ("dpdk:net_memif0,role=client,socket=", "dpdk:net_memif0,role=server,socket=");
        there_and_back(
            memory,
            &format!("{near}{memif}"),
            &format!("{far}{memif}"),
            queues,
            one_core,
        );
        let (near, far) = ("dpdk:net_virtio_user0,path=", "dpdk:net_vhost0,iface=");
        there_and_back(
            memory,
            &format!("{near}{vhost}"),
            &format!("{far}{vhost}"),
            queues,
            one_core,
        );
        let left: Vec<_> = std::fs::read_dir(&folder.path).unwrap().collect();
        assert!(left.is_empty(), "sockets were left behind: {left:?}");
    }
}

#[test]
fn frames_come_back_over_memif_and_vhost_on_one_queue_and_two() {
    over_memif_and_vhost(Memory::Plain);
}

#[test]
fn and_so_they_do_in_huge_pages() {
    let pages = HugePages::reserve(256);
    if or_skip(pages.is_some(), "the system gives no 512 MiB of huge pages, or this is not root.") {
        over_memif_and_vhost(Memory::Huge);
    }
}
