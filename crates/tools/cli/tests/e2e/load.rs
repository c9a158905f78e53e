//! Many requests and many connections.

use std::io::{Read as _, Write as _};

use crate::world::{OURS_V4, OURS_V6, World, ours, root};

fn wrk(world: &World, args: &[&str]) -> String {
    let mut all = vec!["-t1"];
    all.extend(args);
    let out = world.text("wrk", &all);
    assert!(!out.contains("Socket errors") && !out.contains("Non-2xx"), "{out}");
    out
}

fn requests(out: &str) -> u64 {
    let line = out.lines().find(|line| line.contains(" requests in ")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn wrk_runs_without_errors_over_connections_that_stay() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    let mut seen = 0;
    for (connections, host) in [("-c1", OURS_V4.to_string()), ("-c64", format!("[{OURS_V6}]"))] {
        let out = wrk(&world, &[connections, "-d2", &format!("http://{host}/")]);
        assert!(requests(&out) > 1_000, "{out}");
        seen += requests(&out);
    }
    assert!(server.summary()["requests"].as_u64().unwrap() >= seen);
}

#[test]
fn wrk_runs_without_errors_over_large_pages() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "200k"]);
    let out = wrk(&world, &["-c16", "-d2", &format!("http://{OURS_V4}/")]);
    assert!(requests(&out) > 500, "{out}");
    server.summary();
}

#[test]
fn short_connections_come_and_go() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "10"]);
    for round in 0..2_000 {
        let mut stream = world_connect(&world, round);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.ends_with(b"Clearway: "), "round {round}: {}", String::from_utf8_lossy(&all));
    }
    let summary = server.summary();
    assert_eq!((&summary["requests"], &summary["failed_connections"]), (&2_000.into(), &0.into()));
}

fn world_connect(world: &World, round: usize) -> std::net::TcpStream {
    let address = ours()[round % 2];
    world.connect(address, 80).unwrap_or_else(|error| panic!("round {round} to {address}: {error}"))
}

#[test]
fn a_thousand_connections_are_open_at_once() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "10"]);
    let mut open: Vec<_> = (0..1_000).map(|round| world_connect(&world, round)).collect();
    for _ in 0..2 {
        for stream in &mut open {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
        for stream in &mut open {
            assert!(crate::world::read_response(stream).ends_with("Clearway: "));
        }
    }
    assert_eq!(server.summary()["requests"], 2_000);
}
