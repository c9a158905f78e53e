//! Generator and reflector at the two ends of a link.

use nix::sys::signal::Signal;

use crate::netns::{Netns, root};
use crate::world::{bridged, number, reflector, start_in};

#[test]
fn every_frame_comes_back_in_every_mirror_family_and_protocol() {
    if !root() {
        return;
    }
    for mirror in ["", " --l3", " --as-is"] {
        // A bridge of its own: what it learned of exchanged addresses would keep it from carrying
        // those that are not.
        let netns = bridged();
        let far = reflector(&netns, mirror);
        let mut frames = 0;
        for (words, sizes) in
            [("", "64,1514"), (" --proto tcp", "64"), (" -6", "72"), (" -6 --proto tcp", "84,1000")]
        {
            let words = format!(
                "pktgen --port tap:near --drain 5 --wait 30 --seconds 0.2 --rate 2kpps --flows 3 \
                 --sizes {sizes}{words}"
            );
            let ended = start_in(&netns, &words).end();
            ended.summary();
            for row in ended.all("size") {
                assert_eq!(
                    number(row, "sent") + number(row, "short"),
                    400,
                    "{words}{mirror}: {row}"
                );
                assert_eq!(row["received"], row["sent"], "{words}{mirror}: {row}");
                for none in ["lost", "reordered", "duplicates", "damaged"] {
                    assert_eq!(row[none], 0, "{words}{mirror}: {none}: {row}");
                }
                frames += number(row, "received");
            }
        }
        let ended = far.stop(Signal::SIGTERM);
        let summary = ended.summary();
        assert!(number(summary, "returned") >= frames, "{summary}");
        let kept: u64 = summary["drops_by_reason"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(|n| n.as_u64())
            .sum();
        assert_eq!(number(summary, "frames"), number(summary, "returned") + kept, "{summary}");
    }
}

#[test]
fn what_a_bad_link_loses_is_lost_and_what_it_repeats_is_twice() {
    if !root() {
        return;
    }
    let netns = bridged();
    let far = reflector(&netns, " --fault rx.loss=10%,tx.dup=10%");
    // Without knocking, so that the reflector sees what is counted here and nothing else of ours.
    let words = "pktgen --port tap:near --wait 0 --drain 3 --seconds 1 --rate 2kpps --size 64";
    let ended = start_in(&netns, words).end();
    let row = ended.all("size")[0].clone();
    let ended = far.stop(Signal::SIGINT);
    let drops = &ended.summary()["drops_by_reason"];
    // Frames of the kernel's own (neighbour discovery) may be among those that were lost; a few at
    // most.
    let (lost, by_fault) = (number(&row, "lost"), number(drops, "port-rx-fault-loss"));
    assert!(lost > 100 && by_fault >= lost && by_fault - lost < 20, "{row} {drops}");
    assert_eq!(number(&row, "sent"), number(&row, "received") + lost);
    assert!((100..300).contains(&number(&row, "duplicates")), "{row}");
}

#[test]
fn two_queues_share_the_flows_and_each_has_a_thread() {
    if !root() {
        return;
    }
    let netns = bridged();
    let far = reflector(&netns, " --queues 2");
    let words = "pktgen --port tap:near --drain 5 --wait 30 --queues 2 --flows 32 --seconds 1 \
        --rate 4kpps --size 128";
    let ended = start_in(&netns, words).end();
    let row = ended.all("size")[0];
    assert_eq!(row["received"], row["sent"], "{row}");
    assert_eq!(number(row, "sent") + number(row, "short"), 4_000);
    assert!(
        row["queues"].as_array().unwrap().iter().all(|queue| number(queue, "sent") > 1_000),
        "{row}"
    );
    let ended = far.stop(Signal::SIGTERM);
    let queues = ended.summary()["queues"].as_array().unwrap();
    // The kernel spreads 32 flows over two queues; that all meet on one happens once in 2^31 times.
    assert!(
        queues.len() == 2 && queues.iter().all(|queue| number(queue, "returned") > 0),
        "{queues:?}"
    );
}

#[test]
fn who_sends_nothing_back_is_told_of_and_foreign_frames_are_counted() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwframes");
    netns.ip("tuntap add dev cw0 mode tap");
    netns.ip("addr add 10.99.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    let ended = start_in(&netns, "pktgen --port tap:cw0 --wait 0.3").end();
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.errors.contains("nothing came back over tap:cw0")
            && ended.errors.contains("clearway reflect"),
        "{}",
        ended.errors
    );
    let mut running = start_in(
        &netns,
        "pktgen --port tap:cw0 --wait 0 --seconds 2 --rate 1kpps --size 100 --drain 0.1",
    );
    running.wait_for("second");
    // The kernel asks who has the address: a frame that is not ours.
    let _ = netns.run("ping", &["-c", "1", "-W", "1", "10.99.0.77"]);
    let ended = running.end();
    let row = ended.all("size")[0];
    assert!(number(row, "foreign") > 0, "{row}");
    assert_eq!((number(row, "received"), number(row, "lost")), (0, number(row, "sent")));
    assert_eq!(number(row, "sent") + number(row, "short"), 2_000);
}

#[test]
fn a_signal_ends_a_sweep_with_what_there_is() {
    if !root() {
        return;
    }
    let netns = bridged();
    let far = reflector(&netns, "");
    let mut near = start_in(
        &netns,
        "pktgen --port tap:near --wait 30 --seconds 1.2 --rate 1kpps --sizes 64,128,256,512",
    );
    near.wait_for("size");
    near.wait_for("second");
    let ended = near.stop(Signal::SIGINT);
    let (summary, rows) = (ended.summary(), ended.all("size"));
    assert!((1..4).contains(&rows.len()), "{}", rows.len());
    assert_eq!(number(summary, "sent"), rows.iter().map(|row| number(row, "sent")).sum::<u64>());
    far.stop(Signal::SIGINT).summary();
}

#[test]
fn a_port_that_goes_away_is_told_of_with_exit_code_1() {
    if !root() {
        return;
    }
    let netns = bridged();
    let far = reflector(&netns, "");
    netns.ip("link del far");
    let ended = far.end();
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors.contains("tap:far"), "{}", ended.errors);
}
