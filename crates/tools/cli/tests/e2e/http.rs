//! What the server answers over a real connection, the unfriendly cases first.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::world::{OURS_V4, World, ours, read_response, read_to_end, root};

fn statuses(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect()
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["--sink", "-l", "5"]);
    let mut requests = String::new();
    for index in 0..200 {
        requests.push_str(&format!("GET /random/{index}?seed=1 HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    requests.push_str("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = world.ask(requests.as_bytes());
    let lengths: Vec<String> = answer
        .lines()
        .filter_map(|l| l.strip_prefix("Content-Length: "))
        .map(str::to_string)
        .collect();
    let mut expected: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    expected.push("5".into());
    assert_eq!(lengths, expected);
    assert_eq!(server.summary()["requests"], 201);
}

#[test]
fn malformed_and_oversized_requests_get_their_status_and_a_close() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&[]);
    let long = "a".repeat(10_000);
    for (request, status) in [
        ("NONSENSE\r\n\r\n".to_string(), "400"),
        ("GET / HTTP/1.1\r\n\r\n".to_string(), "400"),
        ("\x16\x03\x01\x02\x00\x01".to_string(), "400"),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"), "431"),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), "414"),
        ("BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n".to_string(), "501"),
        ("GET / HTTP/3.0\r\nHost: x\r\n\r\n".to_string(), "505"),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n".to_string(), "413"),
    ] {
        let answer = world.ask(request.as_bytes());
        assert_eq!(statuses(&answer), [status], "{:?}", &request[..request.len().min(60)]);
        assert!(answer.contains("Connection: close\r\n"));
    }
    server.summary();
}

#[test]
fn a_slow_request_gets_408_after_its_time() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["--head-timeout", "3"]);
    let mut stream = world.connect(ours()[0], 80).unwrap();
    let begun = Instant::now();
    // Two seconds and more are left for a machine that stands still meanwhile.
    for piece in ["GET / HTTP/1.1\r\n", "Host:", " x\r\n"] {
        stream.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(statuses(&read_to_end(&mut stream)), ["408"]);
    assert!(
        begun.elapsed() >= Duration::from_secs(3),
        "not before its time: {:?}",
        begun.elapsed()
    );
    assert_eq!(server.summary()["timeouts"], 1);
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["--idle-timeout", "1"]);
    let mut stream = world.connect(ours()[1], 80).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_response(&mut stream);
    assert_eq!(read_to_end(&mut stream), "");
    server.summary();
}

#[test]
fn a_request_cut_into_single_bytes_is_understood() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "9"]);
    let mut stream = world.connect(ours()[0], 80).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(read_response(&mut stream).ends_with("Clearway:"));
    server.summary();
}

#[test]
fn a_client_that_closes_its_side_first_still_gets_the_whole_answer() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "3M"]);
    let mut stream = world.connect(ours()[0], 80).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = read_to_end(&mut stream);
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), 3 << 20);
    server.summary();
}

#[test]
fn a_slow_reader_gets_everything_and_stops_nobody_else() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.serve(&["-l", "8M"]);
    let mut slow = world.connect(ours()[0], 80).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let out = world.text(
        "curl",
        &[
            "-s",
            "--max-time",
            "20",
            "-o",
            "/dev/null",
            "-w",
            "%{size_download}",
            &format!("http://{OURS_V4}/"),
        ],
    );
    assert_eq!(out, (8 << 20).to_string());
    let mut total = 0;
    let mut piece = vec![0; 60_000];
    loop {
        match slow.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => total += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {total} bytes"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(total > 8 << 20, "{total}");
    server.summary();
}

#[test]
fn files_ranges_and_escapes() {
    if !root() {
        return;
    }
    let world = World::new();
    let site = world.folder.join("site");
    std::fs::create_dir_all(site.join("sub")).unwrap();
    std::fs::write(world.folder.join("secret"), "secret").unwrap();
    std::fs::write(site.join("index.html"), "<h1>hello</h1>").unwrap();
    std::os::unix::fs::symlink("../secret", site.join("link")).unwrap();
    // Beyond 32 bits, and hardly any of it on the disk.
    let huge = std::fs::File::create(site.join("huge.bin")).unwrap();
    huge.set_len(5 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&huge, b"far away", (5 << 30) - 8).unwrap();
    let server = world.serve(&["--root", site.to_str().unwrap()]);
    let curl = |args: &[&str], path: &str| {
        let url = format!("http://{OURS_V4}{path}");
        let mut all =
            vec!["-s", "--path-as-is", "--max-time", "10", "-w", "|%{http_code}|%{content_type}"];
        all.extend(args);
        all.push(&url);
        world.text("curl", &all)
    };
    assert_eq!(curl(&[], "/"), "<h1>hello</h1>|200|text/html; charset=utf-8");
    assert_eq!(curl(&["-r", "5368709112-"], "/huge.bin"), "far away|206|application/octet-stream");
    assert_eq!(curl(&["-r", "1-4"], "/index.html"), "h1>h|206|text/html; charset=utf-8");
    assert!(curl(&["-I"], "/huge.bin").contains("Content-Length: 5368709120\r\n"));
    for path in ["/../secret", "/%2e%2e/secret", "/sub/..%2f..%2fsecret", "/link", "/nothing"] {
        let answer = curl(&[], path);
        assert!(answer.contains("|404|") || answer.contains("|400|"), "{path}: {answer}");
        assert!(!answer.contains("secret"), "{path}");
    }
    server.summary();
}
