//! Streams between two namespaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clearway_shm::attach_socket::{Kind, worker_of};
use clearway_shm::layout::{request, state};

use crate::eventually::eventually;
use crate::guest::guests;
use crate::world::World;

#[test]
fn bytes_come_back_as_they_were() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener("172.16.1.1:5201");
    let mut ours = client.connect("172.16.1.1:5201").unwrap();
    let mut theirs = server.accept(&mut listener);
    assert_eq!(theirs.session.remote, ours.session.local);
    for len in [1usize, 100, 1_448, 65_536, 200_000] {
        let sent: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        assert!(client.write_all(&mut ours, &sent));
        let mut seen = vec![0; len];
        assert!(server.read_all(&mut theirs, &mut seen));
        assert!(server.write_all(&mut theirs, &seen));
        let mut back = vec![0; len];
        assert!(client.read_all(&mut ours, &mut back));
        assert!(back == sent, "{len} bytes came back changed");
    }
    client.say(&ours.session, request::SHUT_WRITE, 0);
    assert_eq!(server.read(&mut theirs, &mut [0; 10]), 0);
    assert_ne!(theirs.state() & state::PEER_CLOSED, 0);
    // The other direction is open still.
    assert!(server.write_all(&mut theirs, b"last words"));
    let mut last = [0; 10];
    assert!(client.read_all(&mut ours, &mut last));
    assert_eq!(&last, b"last words");
    drop(theirs);
    assert_eq!(client.read(&mut ours, &mut [0; 10]), 0);
}

#[test]
fn many_bytes_through_small_windows() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener("0.0.0.0:7");
    let total = 64 << 20;
    let receiver = std::thread::spawn(move || {
        let mut theirs = server.accept(&mut listener);
        let mut buffer = vec![0; 50_000];
        let mut at = 0u64;
        loop {
            let n = server.read(&mut theirs, &mut buffer);
            if n == 0 {
                return at;
            }
            for (i, byte) in buffer[..n].iter().enumerate() {
                assert_eq!(*byte, pattern(at + i as u64), "byte {}", at + i as u64);
            }
            at += n as u64;
        }
    });
    let mut ours = client.connect("172.16.1.1:7").unwrap();
    let mut at = 0u64;
    while at < total {
        let chunk: Vec<u8> = (0..65_537).map(|i| pattern(at + i)).collect();
        assert!(client.write_all(&mut ours, &chunk));
        at += chunk.len() as u64;
    }
    // Closing lets everything go out first.
    drop(ours);
    assert_eq!(receiver.join().unwrap(), at);
}

fn pattern(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

#[test]
fn nobody_listens() {
    let world = World::new();
    let (_server, client) = guests(&world);
    assert_eq!(client.connect("172.16.1.1:1").err(), Some(nix::errno::Errno::ECONNREFUSED as i32));
    assert_eq!(client.connect("10.9.9.9:1").err(), Some(nix::errno::Errno::ENETUNREACH as i32));
}

#[test]
fn an_attempt_that_failed_may_be_repeated() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut sock = client.open(Kind::Stream, false).unwrap();
    let remote = "172.16.1.1:99".parse().unwrap();
    client.begin(&mut sock, remote).unwrap();
    client.wait_for(|| sock.state() & state::FAILED != 0);
    let mut listener = server.listener("172.16.1.1:99");
    client.begin(&mut sock, remote).unwrap();
    client.wait_for(|| sock.state() & state::CONNECTED != 0);
    assert_eq!(sock.state() & state::FAILED, 0);
    server.accept(&mut listener);
}

#[test]
fn unread_bytes_make_a_reset() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener("172.16.1.1:80");
    let mut ours = client.connect("172.16.1.1:80").unwrap();
    let mut theirs = server.accept(&mut listener);
    assert!(client.write_all(&mut ours, b"nobody reads this"));
    let rx = theirs.rx.as_mut().unwrap();
    server.wait_for(|| rx.len().unwrap() > 0);
    drop(theirs);
    client.wait_for(|| ours.state() & state::FAILED != 0);
    assert_eq!(ours.error(), nix::errno::Errno::ECONNRESET as i32);
}

#[test]
fn several_workers_serve_one_listener() {
    let world = World::with(|setup| setup.workers = vec![None, None, None]);
    let (server, client) = guests(&world);
    let mut listener = server.listener("172.16.1.1:80");
    let mut pairs = Vec::new();
    for _ in 0..12 {
        let ours = client.connect("172.16.1.1:80").unwrap();
        let theirs = server.accept(&mut listener);
        assert_eq!(theirs.session.remote, ours.session.local);
        pairs.push((ours, theirs));
    }
    let workers: std::collections::BTreeSet<usize> =
        pairs.iter().map(|p| worker_of(p.1.session.id)).collect();
    assert_eq!(workers.len(), 3, "connections came to workers {workers:?} only");
    for (ours, theirs) in &mut pairs {
        let sent: Vec<u8> = (0..300_000).map(pattern).collect();
        let mut seen = vec![0; sent.len()];
        let (a, b) = sent.split_at(100_000);
        for part in [a, b] {
            assert!(client.write_all(ours, part));
            assert!(server.read_all(theirs, &mut seen[..part.len()]));
            assert!(&seen[..part.len()] == part);
        }
    }
    // Who waits when the listener goes is reset, on whatever worker.
    let waiting: Vec<_> = (0..3).map(|_| client.connect("172.16.1.1:80").unwrap()).collect();
    drop(listener);
    for sock in &waiting {
        client.wait_for(|| sock.state() & state::FAILED != 0);
    }
    eventually("nobody listens on any worker", || {
        client.connect("172.16.1.1:80").err() == Some(nix::errno::Errno::ECONNREFUSED as i32)
    });
    drop((pairs, waiting));
    let sessions =
        || world.host.ask_all(|worker| worker.sessions().count()).unwrap().iter().sum::<u32>();
    eventually("all sessions are gone", || sessions() == 0);
}

/// A peer comes to whatever worker it likes: one that has not heard of the listener would refuse it.
#[test]
fn listen_is_answered_when_every_worker_listens() {
    let world = World::with(|setup| setup.workers = vec![None, None]);
    let (server, client) = guests(&world);
    let mut listener = server.open(Kind::Stream, false).unwrap();
    server.bind(&listener, "172.16.1.1:80").unwrap();
    let other = 1 - worker_of(listener.session.id);
    let (release, held) = mpsc::channel::<()>();
    let (tell, holds) = mpsc::channel();
    let is_answered = AtomicBool::new(false);
    let was_answered = thread::scope(|scope| {
        scope.spawn(|| {
            world.host.ask(other, move |_| {
                tell.send(()).unwrap();
                // It ends with an error: the other end is dropped, and never says anything.
                held.recv().is_err()
            })
        });
        holds.recv().unwrap();
        let is_answered = &is_answered;
        let early = scope.spawn(move || {
            thread::sleep(Duration::from_millis(200));
            let early = is_answered.load(Ordering::Relaxed);
            drop(release);
            early
        });
        server.listen(&mut listener, 5).unwrap();
        is_answered.store(true, Ordering::Relaxed);
        early.join().unwrap()
    });
    assert!(!was_answered, "a worker that stands still listens already?");
    for _ in 0..4 {
        let _ours = client.connect("172.16.1.1:80").unwrap();
        server.accept(&mut listener);
    }
}

/// A listener has its address on all workers, and they learn one after the other that it is gone.
#[test]
fn an_address_is_free_as_soon_as_its_listener_is_closed() {
    let world = World::with(|setup| setup.workers = vec![None, None, None]);
    let (server, _client) = guests(&world);
    for round in 0..300 {
        let mut listener = server.open(Kind::Stream, false).unwrap();
        server
            .bind(&listener, "172.16.1.1:80")
            .unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        server.listen(&mut listener, 5).unwrap_or_else(|error| panic!("round {round}: {error:?}"));
    }
}
