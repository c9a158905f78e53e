//! `clearway bench`: client and server, each over our stack and over the kernel's sockets, with TAP
//! between them or nothing at all.

use serde_json::Value;

use crate::world::{KERNEL_V4, KERNEL_V6, OURS_V4, OURS_V6, Server, TAP, World, cores, root};

/// A server with these arguments; it is ready when this returns.
fn server(world: &World, args: &[&str]) -> Server {
    world.clearway(&[&["bench", "server", "--json"], args].concat())
}

/// Our stack's side of the device.
const OURS: [&str; 6] = ["--port", "tap:cw0", "-a", "10.99.0.2/24", "-a", "fd99::2/64"];

/// Runs a client to its end; every line of it.
pub(crate) fn client(world: &World, over: &[&str], args: &[&str]) -> Vec<Value> {
    let all = [&["bench", "client", "--json"], over, args].concat();
    let text = world.text(env!("CARGO_BIN_EXE_clearway"), &all);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no number {name}: {value}"))
}

/// What must hold of every summary, whatever was measured.
pub(crate) fn checked(lines: &[Value]) -> Value {
    let summary = lines.last().unwrap().clone();
    assert_eq!(
        (&summary["event"], &summary["error"]),
        (&"summary".into(), &Value::Null),
        "{summary}"
    );
    let n = |name| number(&summary, name);
    if summary["pattern"] == "ping-pong" {
        assert_eq!(
            n("requests"),
            n("answers") + n("timeouts") + n("failed") + n("unanswered"),
            "{summary}"
        );
        assert_eq!(number(&summary["latency_us"], "count"), n("answers"));
        let at = |name: &str| summary["latency_us"][name].as_f64().unwrap();
        let rising = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"].map(at);
        assert!(rising.windows(2).all(|pair| pair[0] <= pair[1]), "{summary}");
        let of_cores: u64 =
            summary["cores"].as_array().unwrap().iter().map(|core| number(core, "answers")).sum();
        assert_eq!(of_cores, n("answers"));
    }
    assert!((0.0..=1.01).contains(&summary["busy_share"].as_f64().unwrap()), "{summary}");
    summary
}

/// All were answered, and the server says the same.
pub(crate) fn all_answered(summary: &Value, server: &Value) {
    assert_eq!(number(summary, "requests"), number(summary, "answers"), "{summary}");
    assert!(number(summary, "answers") > 0, "{summary}");
    assert_eq!(number(server, "requests"), number(server, "answers"), "{server}");
    assert_eq!(number(server, "requests"), number(summary, "requests"), "{server} {summary}");
    assert_eq!(number(server, "bytes_in"), number(summary, "bytes_out"));
    assert_eq!(number(server, "bytes_out"), number(summary, "bytes_in"));
}

#[test]
fn every_request_has_its_answer_whoever_is_on_our_stack() {
    if !root() {
        return;
    }
    let world = World::new();
    for (server_over, client_over, addresses) in [
        (&OURS[..], &["--kernel"][..], [OURS_V4, OURS_V6]),
        (&["--kernel"], &OURS, [KERNEL_V4, KERNEL_V6]),
    ] {
        for address in addresses {
            for protocol in ["tcp", "17"] {
                let server = server(&world, &[server_over, &["-l", "100"]].concat());
                let args = [
                    "-s",
                    address,
                    "-n",
                    protocol,
                    "-c",
                    "16",
                    "-l",
                    "100",
                    "-t",
                    "0.4",
                    "--timeout",
                    "20",
                ];
                let summary = checked(&client(&world, client_over, &args));
                assert_eq!(summary["request_bytes"], 100);
                all_answered(&summary, &server.summary());
            }
        }
    }
}

#[test]
fn two_cores_begin_connections_over_one_device_and_each_gets_its_answers() {
    if !root() || !cores(2) {
        return;
    }
    let world = World::with("mode tap multi_queue");
    for address in [KERNEL_V4, KERNEL_V6] {
        for (protocol, more) in [("tcp", &[][..]), ("tcp", &["--close-after", "1"]), ("17", &[])] {
            let server = server(&world, &["--kernel", "-l", "100"]);
            let args = [
                "-s",
                address,
                "-n",
                protocol,
                "-c",
                "32",
                "-l",
                "100",
                "-t",
                "0.6",
                "--timeout",
                "20",
            ];
            let over = [&OURS[..], &["--cores", "0,1"]].concat();
            let summary = checked(&client(&world, &over, &[&args[..], more].concat()));
            all_answered(&summary, &server.summary());
            let each: Vec<u64> = summary["cores"]
                .as_array()
                .unwrap()
                .iter()
                .map(|core| number(core, "answers"))
                .collect();
            assert!(each.len() == 2 && each.iter().all(|answers| *answers > 0), "{summary}");
            assert_eq!(number(&summary, "failed"), 0, "{summary}");
        }
    }
}

#[test]
fn depth_and_length_are_those_asked_for() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = server(&world, &[&OURS[..], &["-l", "20000", "--request", "3000"]].concat());
    let message = "x".repeat(3_000);
    let args = ["-s", OURS_V4, "-c", "3", "-d", "5", "-m", &message, "-l", "20000", "-t", "0.4"];
    let summary = checked(&client(&world, &["--kernel"], &args));
    all_answered(&summary, &server.summary());
    assert_eq!(number(&summary, "bytes_in"), number(&summary, "answers") * 20_000);
}

#[test]
fn an_open_loop_makes_the_requests_that_are_due_and_no_others() {
    if !root() {
        return;
    }
    let world = World::new();
    for (server_over, client_over, address) in
        [(&OURS[..], &["--kernel"][..], OURS_V4), (&["--kernel"], &OURS, KERNEL_V4)]
    {
        for protocol in ["tcp", "udp"] {
            let server = server(&world, server_over);
            let args = [
                "-s",
                address,
                "-n",
                protocol,
                "-c",
                "20",
                "-r",
                "2k",
                "-t",
                "0.5",
                "--timeout",
                "20",
            ];
            let summary = checked(&client(&world, client_over, &args));
            assert_eq!(
                number(&summary, "requests") + number(&summary, "not_sent"),
                1_000,
                "{summary}"
            );
            assert_eq!(
                (&summary["loop"], &summary["offered_per_second"]),
                (&"open".into(), &2000.0.into())
            );
            assert_eq!(number(&summary["delay_us"], "count"), number(&summary, "requests"));
            all_answered(&summary, &server.summary());
        }
    }
}

#[test]
fn connections_come_and_go_with_a_request_each() {
    if !root() {
        return;
    }
    let world = World::new();
    for (server_over, client_over, address) in
        [(&OURS[..], &["--kernel", "--reset"][..], OURS_V4), (&["--kernel"], &OURS, KERNEL_V4)]
    {
        let server = server(&world, server_over);
        let args = ["-s", address, "-c", "10", "--close-after", "1", "-t", "0.4"];
        let summary = checked(&client(&world, client_over, &args));
        let told = server.summary();
        all_answered(&summary, &told);
        assert_eq!(number(&summary, "connected"), number(&summary, "answers"), "{summary}");
        assert_eq!(number(&told, "accepted"), number(&summary, "connected"), "{told}");
        assert_eq!(number(&summary["connect_us"], "count"), number(&summary, "connected"));
    }
}

#[test]
fn ten_thousand_connections_exist_while_a_hundred_are_asked() {
    if !root() {
        return;
    }
    let world = World::new();
    // Linux drops the last acknowledgement of a handshake when the queue of those that wait to be
    // accepted is full, and sends its SYN-ACK again a second, three and seven seconds later: until
    // then a connection that is not asked exists for its client alone. A server that does not get
    // its turn on a busy machine fills the usual 4,096 (`nstat TcpExtListenOverflows` counted 1,966
    // of them), so the queue has room for all.
    world.text("sysctl", &["-q", "-w", "net.core.somaxconn=65535"]);
    let (port, range) = (format!("tap:{TAP}"), "10.99.0.10-10.99.0.20/24");
    let server = server(&world, &["--kernel"]);
    let over = ["--port", &port, "-a", range];
    let lines =
        client(&world, &over, &["-s", KERNEL_V4, "-c", "10000", "--active", "100", "-t", "3"]);
    let summary = checked(&lines);
    let told = server.summary();
    all_answered(&summary, &told);
    assert_eq!(
        (number(&summary, "connected"), number(&told, "accepted")),
        (10_000, 10_000),
        "{summary}"
    );
    // A line a second, and it says that all of them exist.
    let second = lines.iter().find(|line| line["event"] == "second").expect("a live line");
    assert_eq!(
        (&second["connections"], &second["in_flight"]),
        (&10_000.into(), &100.into()),
        "{second}"
    );
}

#[test]
fn a_burst_arrives_and_is_not_answered() {
    if !root() {
        return;
    }
    let world = World::new();
    for (server_over, client_over, address) in
        [(&OURS[..], &["--kernel"][..], OURS_V4), (&["--kernel"], &OURS, KERNEL_V6)]
    {
        let server = server(&world, &[server_over, &["-g", "2", "-l", "1000"]].concat());
        // So many that are not acknowledged over our stack; the kernel's queue is as long as it
        // likes.
        let depth: &[&str] = if client_over[0] == "--kernel" { &[] } else { &["-d", "20"] };
        let args =
            [&["-s", address, "-c", "2", "-g", "burst", "-l", "1000", "-t", "0.4"], depth].concat();
        let summary = checked(&client(&world, client_over, &args));
        let told = server.summary();
        assert_eq!(number(&told, "bytes_in"), number(&summary, "bytes_out"), "{told} {summary}");
        assert!(number(&told, "requests") > 0 && number(&told, "answers") == 0, "{told}");
    }
}

#[test]
fn http_servers_are_driven_too() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "500"]);
    let request = r"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let summary = checked(&client(
        &world,
        &["--kernel"],
        &["-s", OURS_V4, "-p", "80", "-c", "8", "-m", request, "-t", "0.4"],
    ));
    let told = server.summary();
    assert_eq!((number(&summary, "refused"), number(&summary, "failed")), (0, 0), "{summary}");
    assert_eq!(number(&told, "requests"), number(&summary, "answers"), "{told} {summary}");
    // A server that answers as HTTP does, with a text of ours.
    let server = server_of_text(&world);
    let summary = checked(&client(
        &world,
        &["--kernel"],
        &["-s", OURS_V4, "-c", "8", "-d", "4", "-m", request, "-t", "0.4"],
    ));
    all_answered(&summary, &server.summary());
}

fn server_of_text(world: &World) -> Server {
    let answer = r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nAA";
    server(world, &[&OURS[..], &["-m", answer]].concat())
}

#[cfg(feature = "dpdk")]
#[test]
fn client_and_server_meet_over_shared_memory() {
    if !root() {
        return;
    }
    let world = World::new();
    for (number, args) in [
        &["-c", "64", "-d", "2"][..],
        &["-c", "64", "-n", "udp", "--timeout", "20"],
        &["-c", "32", "--close-after", "1"],
        &["-c", "5000", "--active", "50", "-r", "10k"],
        &["-c", "64", "--cores", "0,1"],
    ]
    .iter()
    .enumerate()
    {
        if args.contains(&"--cores") && !crate::world::cores(2) {
            continue;
        }
        let socket = world.folder.join(format!("memif{number}"));
        let port = |role| format!("dpdk:net_memif0,role={role},socket={}", socket.display());
        let server = server(&world, &["--port", &port("server"), "-a", "10.98.0.1/16"]);
        let client_port = port("client");
        let over = ["--port", &client_port, "-a", "10.98.1.1-10.98.1.9/16"];
        let summary =
            checked(&client(&world, &over, &[&["-s", "10.98.0.1", "-t", "0.4"], *args].concat()));
        all_answered(&summary, &server.summary());
    }
}

#[test]
fn two_cores_share_the_work() {
    if !root() || !crate::world::cores(2) {
        return;
    }
    let world = World::with("mode tap multi_queue");
    let two = ["--cores", "0,1"];
    let server = server(&world, &[&OURS[..], &two].concat());
    let args = [&["-s", OURS_V4, "-c", "9", "-t", "0.4"], &two[..]].concat();
    let summary = checked(&client(&world, &["--kernel"], &args));
    let of_cores: Vec<u64> = summary["cores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|core| number(core, "connections"))
        .collect();
    assert_eq!(of_cores, [5, 4]);
    all_answered(&summary, &server.summary());
}

/// Cycles per request by stage add up to all of them.
fn stages_add_up(summary: &Value) {
    let stages = &summary["stages"];
    let each =
        stages["cycles_per_request"].as_object().unwrap_or_else(|| panic!("no stages: {summary}"));
    let names = [
        "driver_receive",
        "stack_in",
        "timers",
        "application",
        "stack_out",
        "driver_send",
        "other",
    ];
    let of = |name: &str| each[name].as_f64().unwrap();
    let sum: f64 = names.into_iter().map(of).sum();
    let all = stages["all"].as_f64().unwrap();
    assert!((sum - all).abs() < all / 1e6, "{stages}");
    assert!(
        names.into_iter().filter(|name| *name != "timers").all(|name| of(name) > 0.0),
        "{stages}"
    );
    assert!(number(stages, "requests") > 0 && number(stages, "turns") > 0);
}

#[test]
fn stages_tell_where_the_time_goes() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = server(&world, &[&OURS[..], &["--stages"]].concat());
    let summary =
        checked(&client(&world, &["--kernel"], &["-s", OURS_V4, "-c", "16", "-t", "0.5"]));
    assert_eq!(summary["stages"], Value::Null, "the kernel's sockets have none");
    let told = server.summary();
    all_answered(&summary, &told);
    stages_add_up(&told);
    let server = self::server(&world, &["--kernel"]);
    let summary = checked(&client(
        &world,
        &[&OURS[..], &["--stages"]].concat(),
        &["-s", KERNEL_V4, "-t", "0.5"],
    ));
    all_answered(&summary, &server.summary());
    stages_add_up(&summary);
    let server = world.serve(&["-l", "64", "--stages"]);
    let request = ["-p", "80", "-m", r"GET / HTTP/1.1\r\nHost: x\r\n\r\n"];
    let summary = checked(&client(
        &world,
        &["--kernel"],
        &[&["-s", OURS_V4, "-c", "16", "-t", "0.5"], &request[..]].concat(),
    ));
    let told = server.summary();
    assert_eq!(told["requests"], summary["answers"], "{told} {summary}");
    stages_add_up(&told);
}

#[test]
fn a_client_that_is_stopped_tells_what_it_has_seen() {
    if !root() {
        return;
    }
    let world = World::new();
    for (server_over, client_over, address) in
        [(&OURS[..], &["--kernel"][..], OURS_V4), (&["--kernel"], &OURS, KERNEL_V4)]
    {
        let server = server(&world, server_over);
        let all = [
            &["bench", "client", "--json"],
            client_over,
            &["-s", address, "-c", "20", "-t", "600"],
        ]
        .concat();
        let mut client = world.clearway(&all);
        client.wait_for("second");
        let summary = checked(&[client.summary()]);
        assert_eq!(summary["stopped"], true, "{summary}");
        assert!(number(&summary, "answers") > 0, "{summary}");
        assert_eq!(number(&summary, "unanswered"), 20, "{summary}");
        assert!(number(&server.summary(), "requests") >= number(&summary, "answers"));
    }
}

#[test]
fn a_server_that_is_not_there_is_told_of_with_exit_code_1() {
    if !root() {
        return;
    }
    let world = World::new();
    for (over, address) in [(&OURS[..], KERNEL_V4), (&["--kernel"], KERNEL_V4)] {
        for protocol in ["tcp", "udp"] {
            let args =
                [&["bench", "client", "-s", address, "-n", protocol, "-t", "2"], over].concat();
            let output = world.run(env!("CARGO_BIN_EXE_clearway"), &args);
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{over:?} {protocol}: {err}");
            assert!(err.contains("listening there?"), "{over:?} {protocol}: {err}");
        }
    }
}

#[test]
fn wrong_use_is_told_of_with_exit_code_2() {
    for (args, why) in [
        (&["client", "-s", "10.0.0.1"][..], "--port"),
        (&["client", "--kernel"], "--server"),
        (&["client", "--kernel", "-s", "10.0.0.1", "-c", "4", "--active", "5"], "cannot be active"),
        (
            &["client", "--kernel", "-s", "10.0.0.1", "-c", "1", "--cores", "0,1"],
            "as many active connections",
        ),
        (&["client", "--kernel", "-s", "10.0.0.1", "-r", "fast"], "requests per second"),
        (&["client", "--kernel", "-s", "10.0.0.1", "-m", "\\q"], "backslash"),
        (&["client", "--kernel", "-s", "10.0.0.1", "-l", "0"], "at least one byte"),
        (
            &["client", "--kernel", "-s", "10.0.0.1", "--close-after", "1", "-d", "2"],
            "--close-after",
        ),
        (&["client", "--kernel", "-s", "10.0.0.1", "-n", "udp", "-l", "70000"], "65507"),
        (&["client", "--kernel", "-s", "10.0.0.1", "-n", "5"], "invalid value"),
        (&["client", "--port", "loop", "-a", "10.0.0.1/24", "-s", "::1"], "IPv6"),
        (
            &["client", "--port", "loop", "-a", "10.0.0.1/24", "-s", "10.0.0.2", "-c", "100000"],
            "source addresses",
        ),
        (
            &["client", "--port", "loop", "-a", "10.0.0.9-10.0.0.1/24", "-s", "10.0.0.2"],
            "ends before it begins",
        ),
        (&["server", "--kernel", "--request", "never"], "end of a request"),
        (&["server", "--port", "loop"], "no address"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_clearway"))
            .arg("bench")
            .args(args)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
}
