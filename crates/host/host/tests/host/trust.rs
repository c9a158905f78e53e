//! Programs that write whatever they like into the memory that they share with the host.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clearway_base::Rng;
use clearway_shm::attach_socket::{Kind, Reply, Request};
use clearway_shm::layout::request;
use clearway_shm::socket;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::MsgFlags;

use crate::guest::{Guest, Sock, hello};
use crate::world::World;

/// How long the hostile programs go on.
const FURY: Duration = Duration::from_secs(4);

/// And how often each at least, however slow the machine is just now.
const ROUNDS: u32 = 3;

/// What is sent beside them at least.
const BYTES: u64 = 1_000_000;

/// Fills every page that the program shares with the host with random words, again and again, and
/// every word of its own sessions more often.
fn scribble(guest: &Guest, socks: &[&Sock], rng: &mut Rng) {
    for _ in 0..200 {
        let sock = socks[rng.below(socks.len() as u64) as usize];
        let fifos = [
            sock.rx.as_ref().map(|end| end.mem().head()),
            sock.tx.as_ref().map(|end| end.mem().head()),
        ];
        for head in fifos.into_iter().flatten() {
            let word =
                [&head.tail, &head.head, &head.kicked, &head.want_room][rng.below(4) as usize];
            word.store(rng.next_u64() as u32, Ordering::Relaxed);
        }
        sock.head.state.store(rng.next_u64() as u32, Ordering::Relaxed);
        sock.head.flags.store(rng.next_u64() as u32, Ordering::Relaxed);
        guest.say(&sock.session, rng.below(8) as u32, rng.next_u64() as u32);
    }
    guest.scribble_rings(rng);
}

/// One program after the other attaches, makes sessions, scribbles, and is cut off.
fn rage(world_attach_socket: &std::path::Path, cut_through: bool, until: Instant, seed: u64) {
    let mut rng = Rng::seed(seed);
    let mut rounds = 0;
    while Instant::now() < until || rounds < ROUNDS {
        let mut hello = hello("client", Some("5678"));
        hello.cut_through = cut_through;
        let guest = Guest::attach(world_attach_socket, hello).unwrap();
        let stream = guest.connect("172.16.1.1:9").ok();
        // At a port that is free: the other hostile one has its own, and that of the round before
        // may not be free yet.
        let listener = guest.listener("172.16.2.1:0");
        let datagrams = guest.open(Kind::Datagram, false).unwrap();
        let _ = guest.bind(&datagrams, "172.16.2.1:0");
        let socks: Vec<&Sock> = stream.iter().chain([&listener, &datagrams]).collect();
        scribble(&guest, &socks, &mut rng);
        // What a program that was cut off asks is answered by nobody.
        let _ = guest.ask(Request::Prefixes);
        rounds += 1;
    }
}

#[test]
fn scribbling_harms_nobody_else() {
    fury(false);
}

#[test]
fn scribbling_harms_nobody_else_where_bytes_go_round_the_stack() {
    fury(true);
}

fn fury(cut_through: bool) {
    let world = World::new();
    let attach = |namespace: &str, secret: &str| {
        let mut hello = hello(namespace, Some(secret));
        hello.cut_through = cut_through;
        Guest::attach(&world.attach_socket(), hello).unwrap()
    };
    let (server, client) = (attach("server", "1234"), attach("client", "5678"));
    let victims = server.listener("172.16.1.1:9");
    let mut listener = server.listener("172.16.1.1:7");
    let mut ours = client.connect("172.16.1.1:7").unwrap();
    let mut theirs = server.accept(&mut listener);
    // Whose session is held by somebody is not gone.
    drop(listener);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let traffic = std::thread::spawn(move || {
        // All of it: a closure takes only the fields that it names, and the rest would hold the
        // session.
        let mut victims = victims;
        let (mut sent, mut rng) = (0u64, Rng::seed(1));
        while !stopped.load(Ordering::Relaxed) || sent < BYTES {
            let bytes: Vec<u8> = (0..30_000).map(|_| rng.next_u64() as u8).collect();
            assert!(client.write_all(&mut ours, &bytes));
            let mut seen = vec![0; bytes.len()];
            assert!(server.read_all(&mut theirs, &mut seen));
            assert!(seen == bytes, "bytes of an innocent changed");
            sent += bytes.len() as u64;
            // Connections of the hostile ones are taken, so that they have sessions at both ends.
            while let Some(record) = victims.rx.as_mut().unwrap().pop_accept().unwrap() {
                let _ = server.ask(Request::Claim { session: record.session });
            }
            if victims.rx.as_ref().unwrap().room_wanted(1) {
                server.say(&victims.session, request::CONSUMED, 0);
            }
        }
    });
    let until = Instant::now() + FURY;
    let hostile = [11, 12].map(|seed| {
        let attach_socket = world.attach_socket();
        std::thread::spawn(move || rage(&attach_socket, cut_through, until, seed))
    });
    hostile.into_iter().for_each(|thread| thread.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    traffic.join().unwrap();
    assert!(world.host.counts().unwrap().cut_off > 0);
    world.wait_until_empty();
}

#[test]
fn an_impossible_position_cuts_the_program_off() {
    let world = World::new();
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let mut listener = server.listener("172.16.1.1:80");
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let ours = client.connect("172.16.1.1:80").unwrap();
    let other = client.open(Kind::Stream, false).unwrap();
    let mut theirs = server.accept(&mut listener);
    ours.tx.as_ref().unwrap().mem().head().tail.store(1 << 30, Ordering::Release);
    client.say(&ours.session, request::WROTE, 0);
    assert!(client.is_alone(), "the program is still served");
    assert!(ours.has_hung_up() && other.has_hung_up());
    assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
    assert_eq!(theirs.error(), nix::errno::Errno::ECONNRESET as i32);
    assert_eq!(world.host.counts().unwrap().cut_off, 1);
    // The namespace is open to others as before.
    let again = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    again.connect("172.16.1.1:80").unwrap();
}

#[test]
fn asking_without_waiting_for_the_answer_ends_the_conversation() {
    let world = World::new();
    let guest = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    guest.ask_and_run(&[
        Request::Prefixes,
        Request::Prefixes,
        Request::Prefixes,
        Request::Prefixes,
    ]);
    // The worker may have been quick enough for some of them; what counts is that the host goes on.
    drop(guest);
    let guest = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    guest.ask(Request::Prefixes).unwrap();
}

#[test]
fn nonsense_at_the_attach_socket_ends_the_conversation() {
    let world = World::new();
    let mut rng = Rng::seed(5);
    for len in [0usize, 1, 7, 100, 8_192, 8_193, 60_000] {
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8 | 0x80).collect();
        assert!(
            crate::guest::knock_with(&world.attach_socket(), &bytes),
            "{len} bytes of nonsense were borne"
        );
    }
    Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
}

#[test]
fn what_is_written_into_a_session_fd_is_refused() {
    let world = World::new();
    let guest = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let listener = guest.listener("172.16.1.1:80");
    let session_fd = listener.session_fd.as_ref().unwrap();
    // Nobody would get it, so nobody takes it; and who reads waits for nothing.
    for flags in [MsgFlags::empty(), MsgFlags::MSG_DONTWAIT] {
        let sent = nix::sys::socket::send(session_fd.as_raw_fd(), &[0x5a; 4096], flags);
        assert_eq!(sent, Err(Errno::EPIPE));
        let read = nix::sys::socket::recv(session_fd.as_raw_fd(), &mut [0; 16], flags);
        assert_eq!(read, Err(Errno::EAGAIN));
    }
    // The host's answer still goes the other way, and the end is still seen.
    let cookie = socket::cookie(session_fd.as_fd()).unwrap();
    guest.ask(Request::Inherit { cookie }).unwrap();
    assert_eq!(socket::take_handoff(session_fd.as_fd()).unwrap().session, listener.session.id);
    assert_eq!(world.host.counts().unwrap().cut_off, 0);
    drop(listener);
    guest.listener("172.16.1.1:80");
}

#[test]
fn who_asks_again_before_it_has_read_the_answer_is_let_go() {
    let world = World::new();
    let attach_socket = Guest::knock(&world.attach_socket(), hello("server", Some("1234")));
    let readable = || {
        let mut fds = [PollFd::new(attach_socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(20_000u16)).unwrap();
        fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
    };
    let ask = |request: Request| socket::send(attach_socket.as_fd(), &request, &[]).is_ok();
    let hear = || socket::recv::<Reply>(attach_socket.as_fd(), 16).unwrap();
    assert!(matches!(hear(), Some((Reply::Welcome(_), _))));
    // One question, one answer: as often as one likes.
    for _ in 0..50 {
        assert!(ask(Request::Prefixes));
        assert!(matches!(hear(), Some((Reply::Prefixes(_), _))));
    }
    // Answers that nobody takes hold descriptors that the system counts against the host.
    assert!(ask(Request::Prefixes) && readable());
    assert!(ask(Request::Prefixes));
    // The first answer is not read before the host has seen the second question.
    let mut fds = [PollFd::new(attach_socket.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::from(20_000u16)).unwrap();
    assert!(
        fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)),
        "it is served on"
    );
    assert!(matches!(hear(), Some((Reply::Prefixes(_), _))));
    assert!(hear().is_none(), "it is served on");
}
