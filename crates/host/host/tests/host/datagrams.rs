//! UDP between two namespaces.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway_engine::App;
use clearway_shm::attach_socket::{Kind, Request, SocketOptions, worker_of};
use clearway_shm::layout::{DatagramHead, request};
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, guests};
use crate::world::World;

/// Against hangs only.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// How long somebody waits before he looks whether there is still something to wait for.
const PIECE: Duration = Duration::from_millis(50);

fn bound(guest: &Guest, local: &str) -> (Sock, SocketAddr) {
    let sock = guest.open(Kind::Datagram, false).unwrap();
    let local = guest.bind(&sock, local).unwrap();
    (sock, local)
}

/// Puts a datagram into the FIFO, as soon as there is room.
fn send(guest: &Guest, sock: &mut Sock, to: Option<SocketAddr>, payload: &[u8]) {
    let mut head = DatagramHead::default();
    if let Some(SocketAddr::V4(to)) = to {
        head.family = 4;
        head.port = to.port();
        head.peer[..4].copy_from_slice(&to.ip().octets());
    }
    let tx = sock.tx.as_mut().unwrap();
    if !tx.push_datagram(head, &[IoSlice::new(payload)]).unwrap() {
        guest.wait_for(|| {
            tx.ask_room();
            tx.push_datagram(head, &[IoSlice::new(payload)]).unwrap()
        });
    }
    if tx.kick() {
        guest.say(&sock.session, request::WROTE, 0);
    }
}

fn recv(guest: &Guest, sock: &mut Sock) -> (DatagramHead, Vec<u8>) {
    recv_within(guest, sock, TIME_LIMIT).expect("a datagram")
}

fn recv_within(guest: &Guest, sock: &mut Sock, most: Duration) -> Option<(DatagramHead, Vec<u8>)> {
    let rx = sock.rx.as_mut().unwrap();
    let mut head = None;
    guest.wait_at_most(most, || {
        rx.attend();
        head = rx.datagram().unwrap();
        head.is_some()
    });
    let head = head?;
    let mut payload = vec![0; head.len as usize];
    assert_eq!(rx.peek_datagram(&head, 0, &mut payload).unwrap(), payload.len());
    rx.consume_datagram(&head);
    if rx.room_wanted(rx.mem().limit() / 2) {
        guest.say(&sock.session, request::CONSUMED, 0);
    }
    Some((head, payload))
}

#[test]
fn datagrams_of_every_size_come_whole() {
    let world = World::new();
    let (server, client) = guests(&world);
    let (mut theirs, to) = bound(&server, "172.16.1.1:53");
    let (mut ours, from) = bound(&client, "172.16.2.1:0");
    assert_ne!(from.port(), 0);
    for len in [0usize, 1, 64, 1_400, 9_000, 65_507] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
        send(&client, &mut ours, Some(to), &payload);
        let (head, seen) = recv(&server, &mut theirs);
        assert!(seen == payload, "{len} bytes");
        assert_eq!((head.port, &head.peer[..4]), (from.port(), &[172, 16, 2, 1][..]));
        let back = SocketAddr::new("172.16.2.1".parse().unwrap(), head.port);
        send(&server, &mut theirs, Some(back), &seen);
        assert!(recv(&client, &mut ours).1 == payload);
    }
}

#[test]
fn a_sender_is_held_back_and_nothing_is_lost_that_the_receiver_takes() {
    let world = World::new();
    let (server, client) = guests(&world);
    let (mut theirs, to) = bound(&server, "0.0.0.0:5201");
    let count = 3_000u32;
    let sender = std::thread::spawn(move || {
        let mut ours = client.open(Kind::Datagram, false).unwrap();
        client.begin(&mut ours, SocketAddr::new("172.16.1.1".parse().unwrap(), to.port())).unwrap();
        let mut payload = vec![0; 1_400];
        for number in 0..count {
            payload[..4].copy_from_slice(&number.to_le_bytes());
            send(&client, &mut ours, None, &payload);
        }
        (client, ours)
    });
    // What does not come was dropped at the receiver's full queue, and counted there, each exactly
    // once. The count moves without an event when nothing comes with it, so waiting is cut into
    // pieces.
    let until = Instant::now() + TIME_LIMIT;
    let (mut received, mut missing, mut next) = (0, 0, 0);
    let dropped = |sock: &Sock| sock.head.rx_drops.load(Ordering::Acquire);
    while received + dropped(&theirs) < count {
        assert!(
            Instant::now() < until,
            "{received} came, {} were dropped, of {count}",
            dropped(&theirs)
        );
        let Some((_, payload)) = recv_within(&server, &mut theirs, PIECE) else { continue };
        let number = u32::from_le_bytes(payload[..4].try_into().unwrap());
        assert!(number >= next, "datagrams overtook each other, or one came twice");
        missing += number - next;
        received += 1;
        next = number + 1;
    }
    missing += count - next;
    sender.join().unwrap();
    assert!(recv_within(&server, &mut theirs, PIECE).is_none(), "more came than was sent");
    assert_eq!((received + missing, dropped(&theirs)), (count, missing));
}

#[test]
fn nobody_at_the_port_is_told_to_who_is_connected() {
    let world = World::new();
    let (_server, client) = guests(&world);
    let mut ours = client.open(Kind::Datagram, false).unwrap();
    client.begin(&mut ours, "172.16.1.1:99".parse().unwrap()).unwrap();
    send(&client, &mut ours, None, b"anybody?");
    client.wait_for(|| ours.error() == Errno::ECONNREFUSED as i32);
}

#[test]
fn a_taken_address_is_refused() {
    let world = World::new();
    let (server, _client) = guests(&world);
    let (_first, local) = bound(&server, "172.16.1.1:53");
    let second = server.open(Kind::Datagram, false).unwrap();
    assert_eq!(server.bind(&second, &local.to_string()).err().unwrap().0, Errno::EADDRINUSE as i32);
}

/// An error that ICMP tells may come to any worker, as its flow lies; here to one whose forwarder
/// of the session's port sent what the error is about. It is told once.
#[test]
fn errors_that_come_to_another_worker_are_told_to_their_session() {
    let world = World::with(|setup| setup.workers = vec![None, None, None]);
    let (server, _client) = guests(&world);
    let nobody = clearway_wire::Endpoint::new("172.16.1.1".parse().unwrap(), 99);
    let goes_wrong_at = |worker: usize, port: u16| {
        let send = move |worker: &mut clearway_host::Worker| {
            let forwarder = worker
                .stack()
                .udp_sockets()
                .find(|socket| socket.local.port == port)
                .unwrap()
                .socket;
            worker.stack().udp_send(forwarder, nobody, None, b"anybody?").is_ok()
        };
        assert!(world.host.ask(worker, send).unwrap());
    };
    // Without a peer, and one by one: the option is set before the port is bound, and after.
    for (port, early) in [(5301, true), (5302, false)] {
        let wants = SocketOptions { receive_errors: true, ..SocketOptions::default() };
        let first = if early { wants } else { SocketOptions::default() };
        let theirs = server.open_with(Kind::Datagram, false, first).unwrap();
        server.bind(&theirs, &format!("172.16.1.1:{port}")).unwrap();
        if !early {
            server.ask(Request::Options { session: theirs.session.id, options: wants }).unwrap();
        }
        for (worker, told) in [(1, 1), (2, 2)] {
            goes_wrong_at(worker, port);
            // The host shows the report first, so that who sees the error finds it.
            let refused = Errno::ECONNREFUSED as i32;
            let reports = || theirs.head.error_reports.load(Ordering::Acquire);
            server.wait_for(|| reports() == told && theirs.error() == refused);
        }
    }
    // Of a peer: the last one.
    let (mut theirs, _) = bound(&server, "172.16.1.1:5303");
    server.begin(&mut theirs, SocketAddr::from(nobody)).unwrap();
    goes_wrong_at(1, 5303);
    server.wait_for(|| theirs.error() == Errno::ECONNREFUSED as i32);
}

/// Has a worker's own stack send datagrams to this port over its loopback, as a queue that belongs
/// to it would bring them.
fn comes_to(world: &World, worker: usize, from: u16, to: SocketAddr, payloads: Vec<Vec<u8>>) {
    let send = move |worker: &mut clearway_host::Worker| {
        let local = clearway_wire::Endpoint::new("172.16.1.1".parse().unwrap(), from);
        let spec = clearway_proto::UdpSpec {
            table: clearway_proto::Table(1),
            local,
            token: 0,
            v6_only: false,
        };
        let socket = worker.stack().udp_bind(spec).unwrap();
        let remote = clearway_wire::Endpoint::from(to);
        let sent = payloads
            .iter()
            .all(|bytes| worker.stack().udp_send(socket, remote, None, bytes).is_ok());
        (socket, sent)
    };
    let (socket, sent) = world.host.ask(worker, send).unwrap();
    assert!(sent);
    eventually("all has left", || {
        let unsent = move |worker: &mut clearway_host::Worker| {
            worker.stack().udp_sockets().map(|u| u.unsent).sum::<u32>()
        };
        world.host.ask(worker, unsent).unwrap() == 0
    });
    world.host.ask(worker, move |worker| worker.stack().udp_close(socket)).unwrap();
}

#[test]
fn datagrams_that_come_to_another_worker_find_their_session() {
    let world = World::with(|setup| setup.workers = vec![None, None, None]);
    let (server, client) = guests(&world);
    let (mut theirs, to) = bound(&server, "172.16.1.1:53");
    for worker in [2, 1, 0] {
        let payloads = (0..40u8).map(|number| vec![number; usize::from(number) * 30]).collect();
        comes_to(&world, worker, 4000, to, payloads);
        for number in 0..40 {
            let (head, payload) = recv(&server, &mut theirs);
            assert_eq!((payload, head.port), (vec![number; usize::from(number) * 30], 4000));
        }
    }
    // A flood is bounded on its way, and each datagram that is lost is counted for the socket.
    let mut received = 0;
    for _ in 0..20 {
        comes_to(&world, 1, 4001, to, vec![vec![1; 20_000]; 10]);
    }
    let dropped = |sock: &Sock| sock.head.rx_drops.load(Ordering::Acquire);
    eventually("all came or were counted", || {
        received += u32::from(recv_within(&server, &mut theirs, Duration::ZERO).is_some());
        received + dropped(&theirs) == 200
    });
    assert!(dropped(&theirs) > 0 && received >= 10, "{received} of 200 came");
    // Who is connected hears its peer only.
    let mut ours = client.open(Kind::Datagram, false).unwrap();
    client.begin(&mut ours, to).unwrap();
    send(&client, &mut ours, None, b"question");
    let (head, _) = recv(&server, &mut theirs);
    server.begin(&mut theirs, SocketAddr::new("172.16.2.1".parse().unwrap(), head.port)).unwrap();
    comes_to(&world, 1, 4002, to, vec![b"from a stranger".to_vec()]);
    send(&client, &mut ours, None, b"again");
    assert_eq!(recv(&server, &mut theirs).1, b"again");
    // With the session the port is free on every worker.
    drop(theirs);
    let sockets = |worker: &mut clearway_host::Worker| worker.stack().population().udp_sockets;
    eventually("no forwarder is left", || world.host.ask_all(sockets).unwrap()[1..] == [1, 1]);
    drop(ours);
    eventually("no socket is left", || world.host.ask_all(sockets).unwrap() == [0, 0, 0]);
}

/// What workers have asked of each other, and frames that they handed over.
fn handed_over(world: &World) -> u64 {
    let of = |worker: &mut clearway_host::Worker| {
        worker.sessions().report().handed_over + worker.engine().frames_handed_over()
    };
    world.host.ask_all(of).unwrap().iter().sum()
}

fn udp_sockets(world: &World) -> Vec<u32> {
    world.host.ask_all(|worker| worker.stack().population().udp_sockets).unwrap()
}

#[test]
fn sockets_are_spread_over_the_workers_and_an_address_is_one_sockets_on_all_of_them() {
    const WORKERS: usize = 3;
    let world = World::with(|setup| setup.workers = vec![None; WORKERS]);
    let (server, _client) = guests(&world);
    let mut homes = [0; WORKERS];
    for port in 5000..5009 {
        // Each of them is on another worker than the one before, whatever its port.
        let (mut theirs, to) = bound(&server, &format!("172.16.1.1:{port}"));
        homes[worker_of(theirs.session.id)] += 1;
        for worker in 0..WORKERS {
            comes_to(&world, worker, 4000, to, vec![vec![worker as u8; 300]; 20]);
            for _ in 0..20 {
                assert_eq!(recv(&server, &mut theirs).1, vec![worker as u8; 300]);
            }
            let second = server.open(Kind::Datagram, false).unwrap();
            let refused = server.bind(&second, &to.to_string());
            assert_eq!(refused.err().unwrap().0, Errno::EADDRINUSE as i32);
            // A socket that was refused one address has another.
            server.bind(&second, "172.16.1.1:6000").unwrap();
            assert_eq!(udp_sockets(&world), [2; WORKERS]);
        }
        drop(theirs);
        // It is free as soon as it was given up, for a socket on any worker. A test that forks just
        // now may have a copy of the session fd for a moment.
        let next = server.open(Kind::Datagram, false).unwrap();
        eventually("the address is free", || server.bind(&next, &to.to_string()).is_ok());
    }
    assert_eq!(homes, [3; WORKERS]);
    eventually("no socket is left", || udp_sockets(&world) == [0; WORKERS]);
}

/// A flood that two queues bring is served by both workers where a socket is at home on each
/// (SO_REUSEPORT), and no worker asks anything of the other for it.
#[test]
fn sockets_that_share_a_port_have_a_worker_each_and_get_what_comes_there() {
    let world = World::with(|setup| setup.workers = vec![None, None]);
    let (server, _client) = guests(&world);
    let shared = SocketOptions { reuse_port: true, ..SocketOptions::default() };
    let mut socks: Vec<Sock> = (0..2)
        .map(|_| {
            let sock = server.open_near(Kind::Datagram, false, shared, 53).unwrap();
            server.bind(&sock, "172.16.1.1:53").unwrap();
            sock
        })
        .collect();
    socks.sort_by_key(|sock| worker_of(sock.session.id));
    let homes: Vec<usize> = socks.iter().map(|sock| worker_of(sock.session.id)).collect();
    assert_eq!(homes, [0, 1]);
    // Who does not share has it on neither.
    for port in [0, 53] {
        let alone = server.open_near(Kind::Datagram, false, SocketOptions::default(), port);
        let refused = server.bind(&alone.unwrap(), "172.16.1.1:53").err().unwrap();
        assert_eq!(refused.0, Errno::EADDRINUSE as i32);
    }
    let to = "172.16.1.1:53".parse().unwrap();
    // The end of what was refused goes from worker to worker, too.
    let sessions = || world.host.ask_all(|worker| worker.sessions().count()).unwrap();
    eventually("what was refused is gone", || sessions() == [1, 1]);
    let before = handed_over(&world);
    for from in 4000..4020 {
        for worker in [0, 1] {
            comes_to(&world, worker, from, to, vec![vec![worker as u8; 100]; 10]);
        }
    }
    for (worker, sock) in socks.iter_mut().enumerate() {
        for _ in 0..200 {
            assert_eq!(recv(&server, sock).1, vec![worker as u8; 100]);
        }
    }
    assert_eq!(handed_over(&world), before, "nothing went from worker to worker");
    // With one of them gone, what comes to its worker is sent to the other.
    drop(socks.pop());
    eventually("one is left", || udp_sockets(&world) == [1, 1]);
    comes_to(&world, 1, 4100, to, vec![b"for the other".to_vec()]);
    assert_eq!(recv(&server, &mut socks[0]).1, b"for the other");
}

/// Questions and answers on one host, with two workers, in UDP and in TCP: after the first of them
/// no worker has anything to do with the other.
#[test]
fn requests_on_one_host_stay_on_one_worker() {
    let world = World::with(|setup| setup.workers = vec![None, None]);
    let (server, client) = guests(&world);
    for port in [7000, 7001u16] {
        let to = SocketAddr::new("172.16.1.1".parse().unwrap(), port);
        let theirs = server.open_near(Kind::Datagram, false, SocketOptions::default(), port);
        let mut theirs = theirs.unwrap();
        server.bind(&theirs, &to.to_string()).unwrap();
        let ours = client.open_near(Kind::Datagram, false, SocketOptions::default(), port);
        let mut ours = ours.unwrap();
        client.begin(&mut ours, to).unwrap();
        let mut before = 0;
        for round in 0..1_000u32 {
            send(&client, &mut ours, None, &round.to_le_bytes());
            let (head, question) = recv(&server, &mut theirs);
            let back = SocketAddr::new("172.16.2.1".parse().unwrap(), head.port);
            send(&server, &mut theirs, Some(back), &question);
            assert_eq!(recv(&client, &mut ours).1, round.to_le_bytes());
            if round == 0 {
                before = handed_over(&world);
            }
        }
        assert_eq!(handed_over(&world), before, "UDP on port {port}");
    }
    let mut listener = server.listener("172.16.1.1:80");
    let mut pairs: Vec<(Sock, Sock)> = (0..4)
        .map(|_| (client.connect("172.16.1.1:80").unwrap(), server.accept(&mut listener)))
        .collect();
    let before = handed_over(&world);
    let mut seen = [0; 64];
    for _ in 0..250 {
        for (ours, theirs) in &mut pairs {
            assert!(client.write_all(ours, &[1; 64]) && server.read_all(theirs, &mut seen));
            assert!(server.write_all(theirs, &[2; 64]) && client.read_all(ours, &mut seen));
        }
    }
    assert_eq!(handed_over(&world), before, "TCP");
}
