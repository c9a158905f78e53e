//! Reaching the stack at all, and ending well.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::world::{OURS_V4, OURS_V6, TAP, TIME_LIMIT, World, cores, ours, read_response, root};

#[test]
fn both_families_answer_ping_small_large_and_fragmented() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    for address in [OURS_V4, OURS_V6] {
        for size in ["0", "56", "1400", "4000", "20000"] {
            let out =
                world.text("ping", &["-c", "3", "-i", "0.05", "-W", "2", "-s", size, address]);
            assert!(out.contains("3 received, 0% packet loss"), "{out}");
        }
    }
    server.summary();
}

#[test]
fn curl_gets_the_page_over_both_families() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "100"]);
    for url in [format!("http://{OURS_V4}/"), format!("http://[{OURS_V6}]/some/path?query")] {
        let out = world.text("curl", &["-si", "--max-time", "10", &url]);
        let (head, body) = out.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert_eq!(body.len(), 100);
        assert!(body.starts_with("Clearway: the road"));
    }
    let summary = server.summary();
    assert_eq!((&summary["requests"], &summary["responses"]["2xx"]), (&2.into(), &2.into()));
}

#[test]
fn it_serves_over_a_tun_device_without_ethernet() {
    if !root() {
        return;
    }
    let world = World::with("mode tun");
    let server = world.serve_on(&format!("tun:{TAP}"), &[]);
    for url in [format!("http://{OURS_V4}/"), format!("http://[{OURS_V6}]/")] {
        assert!(world.text("curl", &["-s", "--max-time", "10", &url]).starts_with("Clearway"));
    }
    server.summary();
}

#[test]
fn closed_ports_answer_with_a_reset_like_linux() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    world.inside(|| {
        for address in ours() {
            for port in (1..=1_500).filter(|&port| port != 80) {
                let error = TcpStream::connect_timeout(&SocketAddr::new(address, port), TIME_LIMIT)
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address} port {port}");
            }
        }
    });
    server.summary();
}

#[test]
fn an_idle_server_uses_no_measurable_processor_time() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    // One connection stays open and idle, so that timers run too.
    let mut stream = world.connect(ours()[0], 80).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_response(&mut stream);
    std::thread::sleep(Duration::from_secs(2));
    let before = server.cpu_ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = server.cpu_ticks() - before;
    assert!(used <= 3, "{used}0 ms of processor time in 3 s of idleness");
    server.summary();
}

#[test]
fn signals_end_it_with_a_summary_and_tell_the_peers() {
    if !root() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let world = World::new();
        let server = world.serve(&["-l", "7"]);
        let mut stream = world.connect(ours()[0], 80).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        read_response(&mut stream);
        let (code, summary) = server.stop(signal);
        assert_eq!(code, Some(0));
        assert_eq!((&summary["event"], &summary["requests"]), (&"summary".into(), &1.into()));
        // The idle connection was closed and not left to time out.
        assert_eq!(crate::world::read_to_end(&mut stream), "");
    }
}

#[test]
fn a_duration_ends_it_by_itself() {
    if !root() {
        return;
    }
    let world = World::new();
    let (code, summary) = world.serve(&["--duration", "0.5"]).wait();
    assert_eq!((code, &summary["event"]), (Some(0), &"summary".into()));
}

#[test]
fn packets_are_written_to_a_capture() {
    if !root() {
        return;
    }
    let world = World::new();
    let file = world.folder.join("out.pcap");
    let server = world.serve(&["--pcap", file.to_str().unwrap()]);
    world.text("curl", &["-s", "--max-time", "10", &format!("http://{OURS_V4}/")]);
    server.summary();
    let bytes = std::fs::read(&file).unwrap();
    // The block type of a pcapng section header.
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.windows(16).any(|w| w == b"Clearway: the ro"), "the page is in the capture");
}

#[test]
fn a_device_that_goes_away_ends_it_with_a_sentence() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    world.text("ip", &["link", "del", TAP]);
    let (code, _) = server.wait();
    assert_eq!(code, Some(1));
}

#[test]
fn two_ports_have_addresses_of_their_own() {
    if !root() {
        return;
    }
    let world = World::new();
    for line in ["tuntap add dev cw1 mode tap", "addr add 10.98.0.1/24 dev cw1", "link set cw1 up"]
    {
        world.text("ip", &line.split(' ').collect::<Vec<_>>());
    }
    let ours = format!("{OURS_V4}/24");
    let first = format!("tap:{TAP}");
    let args = [
        "http",
        "--port",
        &first,
        "--port",
        "tap:cw1",
        "-a",
        &ours,
        "-a",
        "10.98.0.2/24@1",
        "--json",
        "-l",
        "9",
    ];
    let server = world.clearway(&args);
    for address in [OURS_V4, "10.98.0.2"] {
        assert_eq!(
            world.text("curl", &["-s", "--max-time", "10", &format!("http://{address}/")]),
            "Clearway:"
        );
        assert!(
            world
                .text("ping", &["-c", "2", "-i", "0.05", "-W", "2", address])
                .contains("2 received")
        );
    }
    assert_eq!(server.summary()["requests"], 2);
}

#[test]
fn two_cores_share_a_port_with_two_queues() {
    if !root() || !cores(2) {
        return;
    }
    let world = World::with("mode tap multi_queue");
    let server = world.serve(&["--cores", "0,1"]);
    for address in [OURS_V4, OURS_V6] {
        let out = world.text("ping", &["-c", "5", "-i", "0.05", "-W", "2", address]);
        assert!(out.contains("5 received"), "{out}");
    }
    for round in 0..60 {
        for address in ours() {
            let mut stream = world
                .connect(address, 80)
                .unwrap_or_else(|error| panic!("{address} {round}: {error}"));
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert!(read_response(&mut stream).starts_with("HTTP/1.1 200"));
        }
    }
    assert_eq!(server.summary()["requests"], 120);
}

#[test]
fn wrong_use_gives_exit_code_2_and_a_remedy() {
    for (args, words) in [
        (vec!["http"], "--port tap:"),
        (vec!["http", "--port", "tap:x"], "-a 10.0.0.2/24"),
        (vec!["http", "--port", "nonsense"], "tap:NAME"),
        (vec!["http", "--port", "tap:x", "-a", "10.0.0.2"], "10.0.0.2/24"),
        (vec!["http", "--port", "tap:x", "-a", "10.0.0.2/24@1"], "no port 1"),
        (vec!["http", "--port", "loop", "-a", "10.0.0.2/24", "--cores", "0,0"], "named twice"),
        (vec!["http", "--kernel", "-l", "x"], "no size"),
        (vec!["frobnicate"], "Usage"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_clearway"))
            .args(&args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn failures_give_exit_code_1_and_help_gives_0() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_clearway"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let output = run(&["http", "--kernel", "--root", "/does/not/exist"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Name a folder that exists"));
    for args in [
        &["--help"][..],
        &["http", "--help"],
        &["bulk", "client", "--help"],
        &["version"],
        &["completions", "bash"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn the_help_of_every_command_has_examples() {
    let help = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_clearway"))
            .args([command, "--help"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for command in [
        "up", "run", "ctl", "explain", "ss", "http", "bulk", "bench", "lab", "reflect", "pktgen",
        "wire", "doctor", "man",
    ] {
        let text = help(command);
        assert!(text.contains(&format!("Examples:\n  clearway {command}")), "{text}");
    }
}
