//! Whose memory is whose, and what becomes of it when there is little.

use clearway_base::Duration;
use clearway_host::{ProgramInfo, Setup};
use clearway_shm::attach_socket::Kind;
use clearway_shm::layout::{FifoHead, SessionHead, request, state};
use nix::errno::Errno;

use crate::guest::{Guest, Sock, hello};
use crate::minute::StillHost;

/// Programs with the limits that they have by default.
fn guests(host: &StillHost) -> (Guest, Guest) {
    let guest = |namespace| Guest::attach(&host.attach_socket, hello(namespace, None)).unwrap();
    (guest("server"), guest("client"))
}

fn programs(host: &StillHost) -> Vec<ProgramInfo> {
    host.ask(|host, _| host.programs())
}

/// Memory that the system has given for all programs.
fn resident(host: &StillHost) -> u64 {
    programs(host).iter().map(|program| program.resident).sum()
}

/// Several rounds of looking at all sessions are over.
fn rounds(host: &StillHost, seconds: u64) {
    for _ in 0..seconds {
        host.pass(1);
        host.pass(0);
    }
}

fn pairs(server: &Guest, client: &Guest, count: usize) -> Vec<(Sock, Sock)> {
    let mut listener = server.listener("172.16.1.1:80");
    (0..count)
        .map(|_| (client.connect("172.16.1.1:80").unwrap(), server.accept(&mut listener)))
        .collect()
}

/// A question and an answer of 64 bytes, a thousand times, over FIFOs of a MiB: one page of each of
/// the four FIFOs is the system's memory, and is charged, and no more.
#[test]
fn a_session_that_asks_and_answers_64_bytes_touches_one_page_each_way() {
    const PAGE: u64 = 4096;
    let host = StillHost::new("pages");
    let (server, client) = guests(&host);
    let mut listener = server.listener("172.16.1.1:80");
    let held = |host: &StillHost| {
        let all = programs(host);
        (all.iter().map(|p| p.memory).sum::<u64>(), all.iter().map(|p| p.resident).sum::<u64>())
    };
    let mut pair = || (client.connect("172.16.1.1:80").unwrap(), server.accept(&mut listener));
    // The first one pays for the pages in which words of others lie as well.
    let _first = pair();
    let before = held(&host);
    let (mut ours, mut theirs) = pair();
    let mut seen = [0; 64];
    for round in 0..1_000u32 {
        let question = [round as u8; 64];
        assert!(client.write_all(&mut ours, &question) && server.read_all(&mut theirs, &mut seen));
        assert_eq!(seen, question);
        assert!(server.write_all(&mut theirs, &seen) && client.read_all(&mut ours, &mut seen));
    }
    assert_eq!(ours.rx.as_ref().unwrap().mem().limit(), 1 << 20, "the FIFO could hold more");
    let after = held(&host);
    let words = 2 * (size_of::<SessionHead>() + 2 * size_of::<FifoHead>()) as u64;
    assert_eq!(after.0 - before.0, 4 * PAGE + words, "charged: {before:?}, then {after:?}");
    assert!(after.1 - before.1 <= 5 * PAGE, "resident: {before:?}, then {after:?}");
}

#[test]
fn a_session_of_small_messages_has_a_few_pages_and_an_idle_one_none() {
    const PAIRS: usize = 100;
    let host = StillHost::new("small");
    let (server, client) = guests(&host);
    let mut pairs = pairs(&server, &client, PAIRS);
    // As much as goes once round a FIFO, a little at a time.
    let mut answer = [0; 100];
    for _ in 0..200 {
        for (ours, theirs) in &mut pairs[..4] {
            assert!(
                client.write_all(ours, &[1; 8_000]) && server.read_all(theirs, &mut [0; 8_000])
            );
            assert!(server.write_all(theirs, &[2; 100]) && client.read_all(ours, &mut answer));
        }
    }
    for (ours, theirs) in &mut pairs[4..] {
        assert!(client.write_all(ours, &[1; 100]) && server.read_all(theirs, &mut answer));
        assert!(server.write_all(theirs, &[2; 100]) && client.read_all(ours, &mut answer));
    }
    let each = resident(&host) / (2 * PAIRS as u64);
    assert!(each <= 24 << 10, "{each} bytes of memory for each session that said a little");
    rounds(&host, 4);
    let each = resident(&host) / (2 * PAIRS as u64);
    assert!(each <= 2 << 10, "{each} bytes of memory for each idle session");
    // What was given back is there again when it is needed.
    let (ours, theirs) = &mut pairs[0];
    let bytes: Vec<u8> = (0..500_000u32).map(|n| n as u8).collect();
    let mut got = vec![0; bytes.len()];
    assert!(
        client.write_all(ours, &bytes[..200_000]) && server.read_all(theirs, &mut got[..200_000])
    );
    assert!(
        client.write_all(ours, &bytes[200_000..]) && server.read_all(theirs, &mut got[200_000..])
    );
    assert!(got == bytes);
}

#[test]
fn what_lies_in_a_fifo_stays_when_the_rest_of_it_is_given_back() {
    let host = StillHost::new("rest");
    let (server, client) = guests(&host);
    let mut pairs = pairs(&server, &client, 1);
    let (ours, theirs) = &mut pairs[0];
    let bytes: Vec<u8> = (0..900_000u32).map(|n| (n / 7) as u8).collect();
    assert!(client.write_all(ours, &bytes));
    let mut got = vec![0; 600_000];
    assert!(server.read_all(theirs, &mut got));
    rounds(&host, 4);
    let mut rest = vec![0; 300_000];
    assert!(server.read_all(theirs, &mut rest));
    assert!([got, rest].concat() == bytes);
}

#[test]
fn thousands_of_sessions_of_one_program_have_a_place_with_the_defaults() {
    const SESSIONS: usize = 9_000;
    let host = StillHost::new("many");
    let (server, _) = guests(&host);
    raise_descriptors().unwrap();
    let mut kept = Vec::new();
    for number in 0..SESSIONS {
        match server.open(Kind::Datagram, false) {
            Ok(sock) => kept.push(sock.session_fd.unwrap()),
            Err((errno, why)) => {
                // More descriptors than this system gives to one process are nobody's fault here;
                // UDP sockets have a table of their own.
                assert!(
                    why.contains("udp-sockets") || errno == Errno::EMFILE as i32,
                    "{number}: {why}"
                );
                break;
            }
        }
    }
    assert!(kept.len() >= 1_000, "{}", kept.len());
    let memory = programs(&host)[0].memory;
    assert!(
        memory < (kept.len() as u64) * 4096,
        "{memory} bytes are charged for {} sessions that did nothing",
        kept.len()
    );
}

/// As many descriptors as the system gives this process.
fn raise_descriptors() -> nix::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
}

#[test]
fn peers_that_read_nothing_hold_little_and_leave_room_to_others() {
    const STUCK: usize = 60;
    const MEMORY: u64 = 8 << 20;
    let small = |setup: &mut Setup| setup.memory = MEMORY;
    let host = StillHost::with("stuck", small);
    let (server, client) = guests(&host);
    let mut pairs = pairs(&server, &client, STUCK + 1);
    let (mut honest_ours, mut honest_theirs) = pairs.pop().unwrap();
    let answer = vec![7; 200_000];
    let mut sent = 0;
    for _ in 0..3 {
        for (_, theirs) in &mut pairs {
            sent += server.write_some(theirs, &answer) as u64;
        }
        host.pass(0);
    }
    assert!(sent > (STUCK as u64) * 4096, "each has its minimum: {sent}");
    let used = host.ask(|host, _| host.quotas()[0].rows.last().unwrap().used);
    assert!(used < MEMORY, "{used} of {MEMORY} are in use");
    // Who reads gets its answer, whatever the others do.
    for _ in 0..10 {
        assert!(client.write_all(&mut honest_ours, b"GET /"));
        assert!(server.read_all(&mut honest_theirs, &mut [0; 5]));
        let mut got = vec![0; 50_000];
        let (mut written, mut read) = (0, 0);
        while read < got.len() {
            written += server.write_some(&mut honest_theirs, &answer[written..got.len()]);
            let rx = honest_ours.rx.as_mut().unwrap();
            read += rx.read(&mut got[read..]).unwrap();
            if rx.room_wanted(1) {
                client.say(&honest_ours.session, request::CONSUMED, 0);
            }
            host.tick(Duration::from_millis(1));
        }
        assert!(got == answer[..50_000]);
    }
}

#[test]
fn who_moves_nothing_while_memory_is_short_is_ended_and_told() {
    let host = StillHost::with("ended", |setup: &mut Setup| setup.memory = 2 << 20);
    let (server, client) = guests(&host);
    let mut pairs = pairs(&server, &client, 40);
    for round in 0..30 {
        for (_, theirs) in &mut pairs {
            if theirs.state() & state::FAILED == 0 {
                server.write_some(theirs, &[7; 200_000]);
            }
        }
        host.pass(1);
        if pairs.iter().any(|(_, theirs)| theirs.state() & state::FAILED != 0) {
            assert!(round >= 2, "not at once");
            break;
        }
    }
    rounds(&host, 5);
    let ended: Vec<_> =
        pairs.iter().filter(|(_, theirs)| theirs.state() & state::FAILED != 0).collect();
    assert!(!ended.is_empty(), "somebody had to go");
    let counted = host.ask(|host, _| host.workers()[0].stack().counters().tcp.shortage_resets);
    assert_eq!(counted, ended.len() as u64);
    for (ours, theirs) in ended {
        assert_eq!(theirs.error(), Errno::ETIMEDOUT as i32);
        client.wait_for(|| ours.state() & state::FAILED != 0);
        assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    }
}

#[test]
fn one_program_with_all_the_udp_sockets_it_can_get_leaves_some_to_another() {
    let host = StillHost::with("sockets", |setup: &mut Setup| {
        (setup.programs, setup.stack.limits.udp_sockets) = (8, 256);
    });
    let guest = || Guest::attach(&host.attach_socket, hello("server", None)).unwrap();
    let (greedy, modest) = (guest(), guest());
    let mut kept = Vec::new();
    let why = loop {
        match greedy.open(Kind::Datagram, false) {
            Ok(sock) => {
                greedy.bind(&sock, "172.16.1.1:0").unwrap();
                kept.push(sock);
            }
            Err(why) => break why,
        }
    };
    assert_eq!(why.0, Errno::ENOBUFS as i32);
    assert!(why.1.contains("for others"), "{why:?}");
    for number in 0..10 {
        let sock = modest.open(Kind::Datagram, false).unwrap();
        modest.bind(&sock, "172.16.1.1:0").unwrap_or_else(|why| panic!("socket {number}: {why:?}"));
        kept.push(sock);
    }
    let quotas = host.ask(|host, _| host.quotas());
    assert_eq!(
        (quotas[0].level, quotas[0].rows[1].used, quotas[0].rows[1].limit),
        ("host", kept.len() as u64, 256)
    );
    assert_eq!(quotas.iter().filter(|quota| quota.level == "program").count(), 2);
}

#[test]
fn orphans_that_read_nothing_give_their_memory_back_in_a_minute() {
    let host = StillHost::new("orphans");
    let (server, client) = guests(&host);
    let mut pairs = pairs(&server, &client, 5);
    for (_, theirs) in &mut pairs {
        // What the peer's window takes, and then more.
        while server.write_some(theirs, &[7; 1 << 20]) > 0 {
            host.tick(Duration::from_millis(1));
        }
        host.tick(Duration::from_millis(1));
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    drop(theirs);
    crate::eventually::eventually("the server's sessions are closed", || {
        host.ask(|host, _| host.counts().session_fds) == 5
    });
    let orphans =
        |host: &StillHost| host.ask(|host, _| host.workers()[0].stack().population().orphans);
    assert_eq!(orphans(&host), 5);
    rounds(&host, 200);
    assert_eq!(orphans(&host), 0);
    let charged = programs(&host)[0].memory;
    assert!(charged < 64 << 10, "{charged} bytes are the server's still");
    client.wait_for(|| ours.iter().all(|sock| sock.state() & state::FAILED != 0));
}
