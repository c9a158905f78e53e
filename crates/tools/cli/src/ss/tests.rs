use std::collections::BTreeMap;

use serde_json::json;

use super::filter::Filter;
use super::line::{Columns, Services};
use super::names::Names;
use super::socket::{Program, Socket};
use super::summary;

const SERVICES: &str =
    "# names\nhttp\t80/tcp\twww # the web\ndomain 53/tcp\ndomain 53/udp\nssh 22/tcp\n";

fn programs() -> BTreeMap<u64, Program> {
    let nginx = json!({ "app": 1, "name": "nginx", "namespace": "web", "pids": [7, 8] });
    BTreeMap::from([(1, Program::of(&nginx))])
}

fn sockets() -> Vec<Socket> {
    let linux = json!({
        "options": 7, "snd_wscale": 7, "rcv_wscale": 9, "rto": 204_000, "rtt": 1_500, "rttvar": 250,
            "min_rtt": 1_000,
        "snd_mss": 1448, "pmtu": 1500, "snd_cwnd": 10, "snd_ssthresh": 0x7fff_ffff,
            "bytes_acked": 5000, "total_retrans": 2,
        "delivery_rate": 125_000, "pacing_rate": u64::MAX, "snd_wnd": 65_536,
    });
    let stream = |local: &str, remote: &str, state: &str| {
        json!({ "id": "0:3", "app": 1, "kind": "stream", "local": local, "remote": remote,
            "state": state, "processes": 1,
            "rx-fifo": 5, "rx-fifo-size": 65_536, "tx-fifo": 9, "tx-fifo-size": 131_072, "drops": 0,
                "cut-through": false,
            "tcp": { "congestion": "cubic", "linux": linux.clone() } })
    };
    let all = [
        json!({ "id": "0:1", "app": 1, "kind": "listener", "local": "0.0.0.0:80", "remote": null,
            "state": "LISTEN",
            "processes": 2, "rx-fifo": 3, "rx-fifo-size": 511, "tx-fifo": 0, "tx-fifo-size": 0,
                "drops": 0 }),
        stream("10.0.0.2:80", "10.0.0.9:40000", "ESTABLISHED"),
        stream("[fd00::2]:22", "[fd00::9]:40001", "CLOSE-WAIT"),
        json!({ "id": "1:4", "app": 2, "kind": "datagram", "local": "10.0.0.2:53", "remote": null,
            "state": "UNCONNECTED",
            "processes": 1, "rx-fifo": 0, "rx-fifo-size": 4096, "tx-fifo": 0, "tx-fifo-size": 4096,
                "drops": 12 }),
        json!({ "id": "1:5", "app": 1, "kind": "fresh", "local": null, "remote": null,
            "state": "CLOSED" }),
    ];
    all.iter().filter_map(|session| Socket::of(session, &programs())).collect()
}

fn plain() -> Columns {
    Columns {
        netid: true,
        options: false,
        names: Names::default(),
        numeric: true,
        processes: false,
        info: false,
        memory: false,
        extended: false,
        oneline: false,
        header: true,
    }
}

fn text(columns: &Columns) -> String {
    let sockets = sockets();
    columns.text(&sockets.iter().collect::<Vec<_>>(), &Services::read(SERVICES))
}

#[test]
fn sockets_stand_in_the_columns_of_ss() {
    let expected = "\
Netid State      Recv-Q Send-Q Local Address:Port Peer Address:Port Process
tcp   LISTEN     3      511    0.0.0.0:80         0.0.0.0:*
tcp   ESTAB      5      9      10.0.0.2:80        10.0.0.9:40000
tcp   CLOSE-WAIT 5      9      [fd00::2]:22       [fd00::9]:40001
udp   UNCONN     0      0      10.0.0.2:53        0.0.0.0:*
";
    assert_eq!(text(&plain()), expected);
}

#[test]
fn ports_have_names_and_programs_their_processes() {
    let columns =
        Columns { netid: false, numeric: false, processes: true, header: false, ..plain() };
    let text = text(&columns);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("0.0.0.0:http")
            && lines[0].ends_with(r#"users:(("nginx",pid=7),("nginx",pid=8))"#),
        "{text}"
    );
    assert!(lines[2].contains("[fd00::2]:ssh") && lines[3].contains("10.0.0.2:domain"), "{text}");
    assert!(
        !text.contains("Netid") && !lines[3].contains("users"),
        "the program of the last is gone: {text}"
    );
}

#[test]
fn inner_values_follow_in_a_line_of_their_own_or_in_the_same() {
    let inner = "session:0:3 namespace:web processes:1 skmem:(r5,rb65536,t9,tb131072,d0) \
                 ts sack cubic wscale:7,9 rto:204 rtt:1.5/0.25 mss:1448 pmtu:1500 cwnd:10 \
                 bytes_acked:5000 send 77226667bps \
                 delivery_rate 1000000bps retrans:0/2 minrtt:1 snd_wnd:65536";
    let columns = Columns { info: true, memory: true, extended: true, ..plain() };
    let told = text(&columns);
    assert_eq!(told.lines().nth(4), Some(format!("\t {inner}").as_str()), "{told}");
    let told = text(&Columns { oneline: true, ..columns });
    assert_eq!(told.lines().count(), 5, "{told}");
    assert!(told.lines().nth(2).is_some_and(|line| line.ends_with(inner)), "{told}");
    let told = text(&Columns { info: true, numeric: false, ..plain() });
    assert!(told.contains(" send 77.2Mbps delivery_rate 1.0Mbps "), "{told}");
}

/// The local ports of those that fit.
fn fitting(words: &str) -> Vec<u16> {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let filter = Filter::parse(&words, &Services::read(SERVICES))
        .unwrap_or_else(|why| panic!("{words:?}: {why}"));
    sockets()
        .iter()
        .filter(|one| filter.fits(one))
        .map(|one| one.local.map_or(0, |addr| addr.port()))
        .collect()
}

#[test]
fn filters_choose_as_those_of_ss_do() {
    for (filter, expected) in [
        ("sport = :80", &[80, 80][..]),
        ("sport = :http", &[80, 80]),
        ("sport :22", &[22]),
        ("dport ge :40001", &[22]),
        ("dport != :40000", &[80, 22, 53]),
        ("dst 10.0.0.0/8", &[80]),
        ("dst != 10.0.0.0/8", &[80, 22, 53]),
        ("src 10.0.0.2:53", &[53]),
        ("src [fd00::2]:22", &[22]),
        ("src fd00::/16", &[22]),
        ("src :80", &[80, 80]),
        ("state established", &[80]),
        ("state listening state closed", &[80, 53]),
        ("state all", &[80, 80, 22, 53]),
        ("exclude listening", &[80, 22, 53]),
        ("state connected sport = :22", &[22]),
        ("state connected not ( sport = :22 or dport = :1 )", &[80]),
        ("!(sport = :22)", &[80, 80, 53]),
        ("sport = :80 and dport = :40000 or sport = :53", &[80, 53]),
        ("sport = :80 dport = :40000", &[80]),
    ] {
        assert_eq!(fitting(filter), expected, "{filter}");
    }
}

#[test]
fn a_filter_that_is_none_is_said_with_what_is_expected() {
    for (words, sentence) in [
        ("state asleep", "states are: all, connected"),
        ("state", "the name of a state is missing"),
        ("sport = :nowhere", "/etc/services does not name it"),
        ("sport =", "a port is missing"),
        ("dst 10.0.0.300", "is no address"),
        ("dst > 10.0.0.1", "= and != only"),
        ("( sport = :80", "a ) is missing"),
        ("sport = :80 )", "is not expected there"),
        ("port 80", "is none of src, dst, sport, dport"),
        ("not", "the filter ends"),
    ] {
        let list: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let why = Filter::parse(&list, &Services::default()).expect_err(words);
        assert!(why.contains(sentence), "{words}: {why}");
    }
}

#[test]
fn a_summary_counts_by_kind_state_and_family() {
    let text = summary(&sockets());
    assert!(text.starts_with("Total: 4\nTCP:   3 (estab 1, closed 0, listening 1)\n"), "{text}");
    assert!(text.contains("UDP         1         1         0"), "{text}");
    assert!(text.contains("TCP         3         2         1"), "{text}");
}

#[test]
fn times_of_timers_are_written_as_ss_does() {
    for (ms, expected) in [
        (0, ""),
        (7, "007ms"),
        (204, "204ms"),
        (1_204, "1.204ms"),
        (9_000, "9sec"),
        (12_345, "12sec"),
        (60_000, "1min"),
        (100_700, "1min40sec"),
        (7_199_000, "119min"),
    ] {
        assert_eq!(super::line::time(ms), expected, "{ms}");
    }
}

#[test]
fn names_of_hosts_are_taken_only_when_a_terminal_may_show_them() {
    assert_eq!(
        super::names::named("127.0.0.1       localhost loopback\n").as_deref(),
        Some("localhost")
    );
    assert_eq!(super::names::named("192.0.2.1 evil\u{1b}[2J\n"), None);
    assert_eq!(super::names::named(""), None);
}
