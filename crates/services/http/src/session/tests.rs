use std::path::Path;

use clearway_base::Duration;
use proptest::prelude::*;

use super::*;
use crate::config::Config;

/// A connection made of two byte vectors; `limit` is how many bytes its send queue holds before
/// somebody drains it.
struct Wire {
    arrived: Vec<u8>,
    sent: Vec<u8>,
    drained: usize,
    limit: usize,
    // How many bytes lie together at most, as in a chain of packet buffers.
    piece: usize,
    peer_closed: bool,
    shut: bool,
}

impl Wire {
    fn new() -> Wire {
        Wire {
            arrived: Vec::new(),
            sent: Vec::new(),
            drained: 0,
            limit: usize::MAX,
            piece: usize::MAX,
            peer_closed: false,
            shut: false,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }

    fn statuses(&self) -> Vec<String> {
        self.text().split("HTTP/1.1 ").skip(1).map(|r| r[..3].to_string()).collect()
    }
}

impl Io for Wire {
    fn recv(&self) -> &[u8] {
        &self.arrived[..self.arrived.len().min(self.piece)]
    }
    fn consumed(&mut self, n: usize) {
        self.arrived.drain(..n);
    }
    fn peer_closed(&self) -> bool {
        self.peer_closed
    }
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.sent.len() - self.drained)
    }
    fn send(&mut self, bytes: &[u8]) -> usize {
        assert!(!self.shut, "bytes after the end of the stream");
        let n = bytes.len().min(self.room());
        self.sent.extend_from_slice(&bytes[..n]);
        n
    }
    fn shutdown(&mut self) {
        self.shut = true;
    }
}

const T0: Instant = Instant::from_millis(1_000);

fn server(config: Config) -> Server {
    Server::new(config).unwrap()
}

fn page_server() -> Server {
    server(Config { page_len: 10, ..Config::default() })
}

// One conversation that gets `request` at once.
fn talk(server: &mut Server, request: &[u8]) -> (Wire, Session, Next) {
    let mut wire = Wire::new();
    let mut session = Session::new(T0, server.timeouts());
    wire.arrived.extend_from_slice(request);
    let next = session.on_ready(T0, server, &mut wire);
    (wire, session, next)
}

#[test]
fn a_get_is_answered_and_the_connection_stays() {
    let mut server = page_server();
    let (wire, session, next) = talk(&mut server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(next, Next::Wait);
    assert!(
        wire.text().starts_with("HTTP/1.1 200 OK\r\n")
            && wire.text().ends_with("\r\n\r\nClearway: ")
    );
    assert_eq!(session.deadline(), T0 + server.timeouts().idle);
    assert_eq!(server.stats.requests(), 1);
    assert_eq!(server.stats.body_out, 10);
}

#[test]
fn head_gets_the_head_alone() {
    let mut server = page_server();
    let (wire, ..) = talk(&mut server, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(wire.text().contains("Content-Length: 10\r\n") && wire.text().ends_with("\r\n\r\n"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut server = server(Config { sink: true, page_len: 3, ..Config::default() });
    let requests = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcDELETE /c HTTP/1.1\r\nHost: x\r\n\r\nGET /d HTTP/1.1\r\nHost: x\r\n\r\n";
    let (wire, _, next) = talk(&mut server, requests);
    assert_eq!(
        (wire.statuses(), next),
        (vec!["200".into(), "200".into(), "405".into(), "200".into()], Next::Wait)
    );
}

#[test]
fn close_and_old_clients_end_the_connection() {
    for request in
        ["GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"]
    {
        let (wire, _, next) = talk(&mut page_server(), request.as_bytes());
        assert_eq!(next, Next::Close);
        assert!(wire.text().contains("Connection: close\r\n"));
    }
    let (wire, _, next) =
        talk(&mut page_server(), b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(next, Next::Wait);
    assert!(wire.text().contains("Connection: keep-alive\r\n"));
}

#[test]
fn a_malformed_request_gets_400_and_the_rest_is_thrown_away_until_the_peer_closes() {
    let mut server = page_server();
    let (mut wire, mut session, next) =
        talk(&mut server, b"GARBAGE\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((wire.statuses(), next, wire.shut), (vec!["400".to_string()], Next::Wait, true));
    assert!(wire.text().contains("Connection: close\r\n") && wire.arrived.is_empty());
    wire.peer_closed = true;
    assert_eq!(session.on_ready(T0, &mut server, &mut wire), Next::Close);
}

#[test]
fn too_long_heads_get_431_and_414() {
    let long = "a".repeat(9_000);
    let (wire, ..) = talk(
        &mut page_server(),
        format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n").as_bytes(),
    );
    assert_eq!(wire.statuses(), ["431"]);
    let (wire, ..) =
        talk(&mut page_server(), format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    assert_eq!(wire.statuses(), ["414"]);
}

#[test]
fn a_slow_head_gets_408_and_its_time_is_not_prolonged_by_dripping() {
    let mut server = page_server();
    let (mut wire, mut session, _) = talk(&mut server, b"GET / HT");
    let due = T0 + server.timeouts().head;
    assert_eq!(session.deadline(), due);
    wire.arrived.extend_from_slice(b"TP");
    session.on_ready(T0 + Duration::from_secs(5), &mut server, &mut wire);
    assert_eq!(session.deadline(), due);
    assert_eq!(session.on_timeout(due, &mut server, &mut wire), Next::Wait);
    assert_eq!((wire.statuses(), wire.shut), (vec!["408".to_string()], true));
    assert_eq!(session.on_timeout(session.deadline(), &mut server, &mut wire), Next::Close);
}

#[test]
fn an_idle_connection_is_closed_without_words() {
    let mut server = page_server();
    let (mut wire, mut session, _) = talk(&mut server, b"\r\n");
    assert_eq!(session.deadline(), T0 + server.timeouts().idle);
    assert_eq!(session.on_timeout(session.deadline(), &mut server, &mut wire), Next::Close);
    assert!(wire.sent.is_empty());
}

#[test]
fn a_response_goes_on_as_room_appears() {
    for len in [10u64, 5_000, 3 << 20] {
        let mut server = server(Config { page_len: len, ..Config::default() });
        let mut wire = Wire { limit: 100, ..Wire::new() };
        let mut session = Session::new(T0, server.timeouts());
        wire.arrived.extend_from_slice(
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        let mut room = 1;
        while session.on_ready(T0, &mut server, &mut wire) == Next::Wait {
            wire.drained = wire.sent.len();
            wire.limit = room;
            room = room * 3 % 200_003;
        }
        let mut whole = vec![0; len as usize];
        crate::body::text(0, &mut whole);
        let bodies: Vec<&[u8]> = split_responses(&wire.sent);
        assert_eq!(bodies.len(), 2);
        assert!(bodies.iter().all(|body| *body == whole), "length {len}");
        assert_eq!(server.stats.body_out, 2 * len);
    }
}

fn split_responses(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut bodies = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let len: usize =
            head.lines().find_map(|l| l.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
        bodies.push(&bytes[end..end + len]);
        bytes = &bytes[end + len..];
    }
    bodies
}

#[test]
fn a_response_that_the_peer_does_not_read_ends_in_a_reset() {
    let mut server = page_server();
    let mut wire = Wire { limit: 5, ..Wire::new() };
    let mut session = Session::new(T0, server.timeouts());
    wire.arrived.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(session.on_ready(T0, &mut server, &mut wire), Next::Wait);
    assert_eq!(session.deadline(), T0 + server.timeouts().stall);
    assert_eq!(session.on_timeout(session.deadline(), &mut server, &mut wire), Next::Abort);
}

#[test]
fn uploads_are_counted_and_hashed_after_a_continue() {
    let mut server = server(Config { sink: true, ..Config::default() });
    let (mut wire, mut session, _) = talk(
        &mut server,
        b"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(wire.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    for byte in b"abc" {
        wire.arrived.push(*byte);
        session.on_ready(T0, &mut server, &mut wire);
    }
    // FIPS 180-2, appendix B.1.
    assert!(
        wire.text().ends_with(
            "{\"bytes\":3,\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}\n"
        ),
        "{}",
        wire.text()
    );
    assert_eq!(server.stats.body_in, 3);
}

#[test]
fn bodies_that_nobody_wants_are_skipped_within_a_limit() {
    let (wire, ..) = talk(
        &mut page_server(),
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert_eq!(wire.statuses(), ["200", "200"]);
    let (wire, ..) =
        talk(&mut page_server(), b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n");
    assert_eq!((wire.statuses(), wire.shut), (vec!["413".to_string()], true));
    let (wire, ..) =
        talk(&mut page_server(), b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert!(
        wire.text().contains("405 Method Not Allowed")
            && wire.text().contains("Allow: GET, HEAD\r\n")
    );
}

#[test]
fn a_body_cut_off_by_the_peer_ends_in_a_reset() {
    let mut server = server(Config { sink: true, ..Config::default() });
    let (mut wire, mut session, _) =
        talk(&mut server, b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
    wire.peer_closed = true;
    assert_eq!(session.on_ready(T0, &mut server, &mut wire), Next::Abort);
}

#[test]
fn random_bytes_are_those_of_the_seed() {
    let mut server = server(Config { sink: true, ..Config::default() });
    let (wire, ..) = talk(&mut server, b"GET /random/1000?seed=9 HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut whole = vec![0; 1000];
    crate::body::random(9, 0, &mut whole);
    assert!(wire.sent.ends_with(&whole));
}

fn with_root(test: impl FnOnce(&mut Server, &Path)) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = std::env::temp_dir().join(format!(
        "clearway-root-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::create_dir_all(path.join("sub")).unwrap();
    std::fs::write(path.join("a.txt"), "0123456789").unwrap();
    std::fs::write(path.join("sub/index.html"), "<p>").unwrap();
    test(&mut server(Config { root: Some(path.clone()), ..Config::default() }), &path);
    std::fs::remove_dir_all(path).unwrap();
}

fn get(server: &mut Server, path: &str, fields: &str) -> String {
    talk(server, format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes()).0.text()
}

#[test]
fn files_ranges_and_conditions_follow_rfc_9110() {
    with_root(|server, _| {
        let whole = get(server, "/a.txt", "");
        assert!(
            whole.starts_with("HTTP/1.1 200")
                && whole.ends_with("\r\n\r\n0123456789")
                && whole.contains("Accept-Ranges: bytes\r\n")
        );
        let field =
            |name: &str| whole.lines().find_map(|l| l.strip_prefix(name)).unwrap().to_string();
        let (etag, modified) = (field("ETag: "), field("Last-Modified: "));
        let part = get(server, "/a.txt", "Range: bytes=2-4\r\n");
        assert!(
            part.starts_with("HTTP/1.1 206")
                && part.ends_with("\r\n\r\n234")
                && part.contains("Content-Range: bytes 2-4/10\r\n")
        );
        let outside = get(server, "/a.txt", "Range: bytes=10-\r\n");
        assert!(
            outside.starts_with("HTTP/1.1 416")
                && outside.contains("Content-Range: bytes */10\r\n")
        );
        assert!(
            get(server, "/a.txt", &format!("If-Range: {etag}\r\nRange: bytes=-1\r\n"))
                .starts_with("HTTP/1.1 206")
        );
        assert!(
            get(server, "/a.txt", "If-Range: \"other\"\r\nRange: bytes=-1\r\n")
                .starts_with("HTTP/1.1 200")
        );
        assert!(
            get(server, "/a.txt", &format!("If-None-Match: \"x\", W/{etag}\r\n"))
                .starts_with("HTTP/1.1 304")
        );
        assert!(
            get(server, "/a.txt", &format!("If-Modified-Since: {modified}\r\n"))
                .starts_with("HTTP/1.1 304")
        );
        assert!(
            get(
                server,
                "/a.txt",
                &format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n")
            )
            .starts_with("HTTP/1.1 200")
        );
    });
}

#[test]
fn folders_redirect_to_their_slash_on_this_host() {
    with_root(|server, _| {
        assert!(get(server, "/sub/", "").ends_with("\r\n\r\n<p>"));
        assert!(get(server, "/sub", "").contains("Location: /sub/\r\n"));
        assert!(get(server, "//sub", "").contains("Location: /sub/\r\n"));
        for (path, status) in [
            ("/nothing", "404"),
            ("/../a.txt", "400"),
            ("/%2e%2e/a.txt", "400"),
            ("/a.txt%00", "400"),
            ("/", "404"),
            ("*", "400"),
        ] {
            assert!(get(server, path, "").starts_with(&format!("HTTP/1.1 {status}")), "{path}");
        }
    });
}

proptest! {
    #[test]
    fn the_answers_do_not_depend_on_how_bytes_arrive(pieces in prop::collection::vec(1usize..40,
        1..40), together in 1usize..60) {
        let requests = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde\r\nHEAD /random/5 HTTP/1.1\r\nHost: x\r\n\r\nGET /random/9?seed=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nBAD\r\n\r\n";
        let config = Config { sink: true, page_len: 100, ..Config::default() };
        let (whole, ..) = talk(&mut server(config.clone()), requests);
        let mut server = server(config);
        let mut wire = Wire { piece: together, ..Wire::new() };
        let mut session = Session::new(T0, server.timeouts());
        let mut left = &requests[..];
        for len in pieces.into_iter().cycle() {
            let (now, later) = left.split_at(len.min(left.len()));
            wire.arrived.extend_from_slice(now);
            prop_assert_eq!(session.on_ready(T0, &mut server, &mut wire), Next::Wait);
            left = later;
            if left.is_empty() {
                break;
            }
        }
        prop_assert_eq!(wire.text(), whole.text());
    }

    #[test]
    fn no_bytes_make_a_conversation_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        talk(&mut page_server(), &bytes);
        let mut request = b"GET /".to_vec();
        request.extend_from_slice(&bytes);
        request.extend_from_slice(b"\r\n\r\n");
        talk(&mut page_server(), &request);
    }
}
