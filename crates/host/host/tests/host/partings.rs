//! What a session was given before nobody had it any more.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway_shm::attach_socket::{Kind, SocketOptions};
use clearway_shm::layout::{DatagramHead, state};
use nix::errno::Errno;

use crate::guest::{Guest, Sock, guests};
use crate::world::World;

/// Against hangs only.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Puts a datagram into the FIFO of a session, and tells nobody.
fn put(sock: &mut Sock, to: SocketAddr, payload: &[u8]) -> bool {
    let SocketAddr::V4(to) = to else { panic!("an IPv4 address") };
    let mut head = DatagramHead::default();
    (head.family, head.port) = (4, to.port());
    head.peer[..4].copy_from_slice(&to.ip().octets());
    sock.tx.as_mut().unwrap().push_datagram(head, &[IoSlice::new(payload)]).unwrap()
}

/// Takes datagrams until all these numbers came.
fn take(server: &Guest, sock: &mut Sock, mut missing: BTreeSet<u32>) {
    let until = Instant::now() + TIME_LIMIT;
    while !missing.is_empty() {
        assert!(
            Instant::now() < until,
            "{} did not come: {:?}",
            missing.len(),
            missing.iter().take(10)
        );
        let rx = sock.rx.as_mut().unwrap();
        server.wait_at_most(Duration::from_millis(50), || {
            rx.attend();
            rx.datagram().unwrap().is_some()
        });
        while let Some(head) = rx.datagram().unwrap() {
            let mut number = [0; 4];
            rx.peek_datagram(&head, 0, &mut number).unwrap();
            rx.consume_datagram(&head);
            assert!(missing.remove(&u32::from_le_bytes(number)), "one came twice");
        }
        if rx.room_wanted(rx.mem().limit() / 2) {
            server.say(&sock.session, clearway_shm::layout::request::CONSUMED, 0);
        }
    }
}

#[test]
fn a_datagram_leaves_also_when_its_session_is_closed_at_once() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut theirs = server.open(Kind::Datagram, false).unwrap();
    let to = server.bind(&theirs, "172.16.1.1:53").unwrap();
    for number in 0..300u32 {
        let mut ours = client.open(Kind::Datagram, false).unwrap();
        assert!(put(&mut ours, to, &number.to_le_bytes()));
        drop(ours);
        if number % 50 == 49 {
            take(&server, &mut theirs, (number - 49..=number).collect());
        }
    }
}

#[test]
fn more_datagrams_than_the_stack_takes_at_once_leave_after_their_session_was_closed() {
    let world = World::with(|setup| {
        setup.stack.limits.udp_queue_bytes = 64 << 10;
        setup.program.tx_fifo = 1 << 20;
        setup.program.rx_fifo = 4 << 20;
    });
    let (server, client) = guests(&world);
    let mut theirs = server.open(Kind::Datagram, false).unwrap();
    let to = server.bind(&theirs, "172.16.1.1:53").unwrap();
    let mut ours = client.open(Kind::Datagram, false).unwrap();
    client.bind(&ours, "172.16.2.1:5000").unwrap();
    let mut number = 0u32;
    let mut payload = vec![0; 1_000];
    loop {
        payload[..4].copy_from_slice(&number.to_le_bytes());
        if !put(&mut ours, to, &payload) {
            break;
        }
        number += 1;
    }
    assert!(number > 500, "{number} datagrams in a FIFO of a mebibyte");
    drop(ours);
    // The port is free although not all has left.
    let next = client.open(Kind::Datagram, false).unwrap();
    client.bind(&next, "172.16.2.1:5000").unwrap();
    take(&server, &mut theirs, (0..number).collect());
    drop(next);
    drop(theirs);
    drop((server, client));
    world.wait_until_empty();
}

/// An answer of `len` bytes that is written behind the worker's back, by a session that then goes
/// in a way that makes a reset.
fn answers_and_goes(len: usize, options: SocketOptions, unread: bool) {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.open_with(Kind::Stream, false, options).unwrap();
    server.bind(&listener, "172.16.1.1:80").unwrap();
    server.listen(&mut listener, 5).unwrap();
    for round in 0..30 {
        let mut ours = client.connect("172.16.1.1:80").unwrap();
        let mut theirs = server.accept(&mut listener);
        if unread {
            assert!(client.write_all(&mut ours, b"nobody reads this"));
            let rx = theirs.rx.as_mut().unwrap();
            server.wait_for(|| rx.len().unwrap() > 0);
        }
        let answer: Vec<u8> = (0..len).map(|at| (at + round) as u8).collect();
        let tx = theirs.tx.as_mut().unwrap();
        assert_eq!(tx.write(&answer).unwrap(), len);
        drop(theirs);
        let mut seen = vec![0; len];
        assert!(client.read_all(&mut ours, &mut seen), "round {round}: the answer came in part");
        assert!(seen == answer, "round {round}");
        client.wait_for(|| ours.state() & state::FAILED != 0);
        assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    }
}

#[test]
fn an_answer_leaves_before_the_reset_for_what_was_not_read() {
    answers_and_goes(100, SocketOptions::default(), true);
    answers_and_goes(50_000, SocketOptions::default(), true);
}

#[test]
fn an_answer_leaves_before_the_reset_of_a_linger_of_no_time() {
    answers_and_goes(100, SocketOptions { linger: Some(0), ..SocketOptions::default() }, false);
    answers_and_goes(50_000, SocketOptions { linger: Some(0), ..SocketOptions::default() }, true);
}

#[test]
fn what_comes_after_a_close_that_left_nothing_unread_is_no_reset() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener("172.16.1.1:80");
    for left_unread in [false, true] {
        let mut ours = client.connect("172.16.1.1:80").unwrap();
        let mut theirs = server.accept(&mut listener);
        let rx = theirs.rx.as_mut().unwrap();
        // As the process does before it closes its descriptor, and the worker hears of it later.
        rx.mem().head().drained.store(u32::from(!left_unread), Ordering::Release);
        assert!(client.write_all(&mut ours, b"behind it"));
        server.wait_for(|| {
            rx.attend();
            rx.len().unwrap() == 9
        });
        drop(theirs);
        client.wait_for(|| ours.state() & (state::PEER_CLOSED | state::FAILED) != 0);
        assert_eq!(ours.state() & state::FAILED != 0, left_unread);
        // What comes later still has nobody who takes it.
        if !left_unread {
            assert!(client.write_all(&mut ours, b"and again"));
            client.wait_for(|| ours.state() & state::FAILED != 0);
        }
    }
}
