//! What needs no other side: the loopback, where a generator meets its own frames, and wrong use.

use crate::world::{clearway, number};

#[test]
fn over_the_loopback_every_frame_comes_back_and_all_sums_agree() {
    let ended = clearway(
        "pktgen --port loop --sizes 64,512 --seconds 0.4 --rate 2kpps --queues 2 --flows 5 --proto \
         tcp --json",
    );
    let summary = ended.summary();
    let sizes = ended.all("size");
    assert_eq!(sizes.len(), 2);
    let mut sent = 0;
    for (row, size) in sizes.iter().zip([64, 512]) {
        assert_eq!(row["size"], size);
        // 2,000 frames a second for 0.4 seconds, exactly, however long the machine was busy with
        // something else.
        assert_eq!(number(row, "sent") + number(row, "short"), 800, "{row}");
        assert_eq!(row["received"], row["sent"], "{row}");
        for none in ["lost", "reordered", "duplicates", "damaged", "foreign", "port_drops"] {
            assert_eq!(row[none], 0, "{none}: {row}");
        }
        let queues = row["queues"].as_array().unwrap();
        assert_eq!(queues.len(), 2);
        assert_eq!(
            queues.iter().map(|queue| number(queue, "sent")).sum::<u64>(),
            number(row, "sent")
        );
        assert_eq!(
            queues.iter().map(|queue| number(queue, "received")).sum::<u64>(),
            number(row, "received")
        );
        let latency = &row["latency_us"];
        let times: Vec<f64> = ["min", "p50", "p90", "p99", "p99_9", "max"]
            .iter()
            .map(|key| latency[key].as_f64().unwrap())
            .collect();
        assert!(times.is_sorted() && times[0] >= 0.0, "{latency}");
        sent += number(row, "sent");
    }
    assert_eq!(
        (number(summary, "sent"), number(summary, "received"), number(summary, "lost")),
        (sent, sent, 0)
    );
    assert_eq!(summary["table"].as_array().unwrap().len(), 2);
    let ready = ended.all("ready")[0];
    assert_eq!((&ready["queues"], &ready["flows"]), (&2.into(), &5.into()));
}

#[test]
fn a_share_of_the_line_counts_what_the_line_carries() {
    // 1 % of 10 Mbit/s are 125 frames of 76 + 24 bytes each second.
    for (rate, frames) in [("1%", 50), ("76kbit/s", 50), ("125pps", 50)] {
        let ended = clearway(&format!(
            "pktgen --port loop --size 76 --seconds 0.4 --line 10M --rate {rate} -6 --json"
        ));
        let row = ended.all("size")[0];
        assert_eq!(number(row, "sent") + number(row, "short"), frames, "{rate}: {row}");
    }
    let ended =
        clearway("pktgen --port loop --size 76 --seconds 0.4 --wire --rate 100kbit/s --json");
    assert_eq!(number(ended.all("size")[0], "sent") + number(ended.all("size")[0], "short"), 50);
}

#[test]
fn without_a_rate_the_loopback_is_filled_and_nothing_is_lost() {
    let ended = clearway("pktgen --port loop --size 64 --seconds 0.2 --flows 100000 --json");
    let row = ended.all("size")[0];
    assert!(number(row, "sent") > 1_000, "{row}");
    assert_eq!((&row["received"], &row["lost"]), (&row["sent"], &0.into()));
    ended.summary();
}

#[test]
fn text_has_a_row_for_each_size_and_the_table_at_the_end() {
    let mut command = std::process::Command::new(crate::world::CLEARWAY);
    command.args("pktgen --port loop --sizes 64,128 --seconds 0.1 --rate 1kpps".split(' '));
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    assert!(
        out.contains("Sending udp over loop: 1 queue on any core, 1 flow, offering 1kpps."),
        "{out}"
    );
    let begin = |word: &str| out.lines().filter(|line| line.trim_start().starts_with(word)).count();
    assert_eq!(
        (begin("64 "), begin("128 "), begin("tx/rx "), begin("1Q (any core) ")),
        (1, 1, 1, 1),
        "{out}"
    );
}

#[test]
fn wrong_use_is_told_of_with_exit_code_2() {
    for (words, why) in [
        ("pktgen", "--port"),
        ("pktgen --port loop --size 37", "headers, number and time stamp take"),
        ("pktgen --port loop,x=1", "loop takes no name"),
        ("pktgen --port loop --size 64 --rate fast", "is no rate"),
        ("pktgen --port loop --rate 101%", "is no rate"),
        ("pktgen --port loop --line 10%", "is no line rate"),
        ("pktgen --port loop --src 10.0.0.1 --dst 2001:2::1", "both addresses are of one family"),
        ("pktgen --port loop --src 10.0.0.1 --dst 10.0.0.1", "the addresses of two hosts"),
        ("pktgen --port loop -6 --src 10.0.0.1", "both addresses are of one family"),
        ("pktgen --port loop --flows 0", "--flows"),
        ("pktgen --port loop --src-port 60000", "--src-port"),
        ("pktgen --port loop --mtu 1500 --size 1501", "carries frames of 1500 bytes at most"),
        ("pktgen --port loop --queues 1 --cores 0,1", "some cores would have none"),
        ("reflect", "--port"),
        ("reflect --port loop --l3 --as-is", "cannot be used with"),
        ("reflect --port pcap:x --queues 2", "can feed one core only"),
        ("doctor --frobnicate", "--frobnicate"),
    ] {
        let ended = clearway(words);
        assert_eq!(ended.code, Some(2), "{words}: {}", ended.errors);
        assert!(ended.errors.contains(why), "{words}: {}", ended.errors);
    }
}

#[test]
fn what_fails_is_told_of_with_exit_code_1() {
    for (words, why) in [
        ("reflect --port pcap:/nowhere/at/all", "/nowhere/at/all"),
        ("pktgen --port loop --cores 1000", "cannot run on core 1000"),
    ] {
        let ended = clearway(words);
        assert_eq!(ended.code, Some(1), "{words}: {}", ended.errors);
        assert!(ended.errors.contains(why), "{words}: {}", ended.errors);
    }
}
