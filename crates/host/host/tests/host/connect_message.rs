//! Streams that were opened ahead of need and are connected by a message: what comes of it, and what
//! of messages that ask for what cannot be.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use clearway_engine::App;
use clearway_host::NamespaceLimits;
use clearway_shm::attach_socket::{Kind, Reply, Request, SocketOptions};
use clearway_shm::layout::{request, state};
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, guests, hello};
use crate::world::World;

const ADDRESS: &str = "172.16.1.1:80";

fn ahead(guest: &Guest) -> Sock {
    guest.open_ahead(1).unwrap().pop().unwrap()
}

fn is_over(sock: &Sock) -> bool {
    sock.state() & (state::CONNECTED | state::FAILED) != 0
}

fn stray(world: &World) -> u64 {
    let reports = world.host.ask_all(|worker| App::report(worker.sessions()).stray_messages);
    reports.unwrap().iter().sum()
}

#[test]
fn a_stream_connects_without_a_question_and_its_words_say_how_it_is_called() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    for _ in 0..40 {
        let mut ours = ahead(&client);
        client.begin_by_message(&mut ours, ADDRESS.parse().unwrap());
        client.wait_for(|| is_over(&ours));
        assert_eq!(ours.error(), 0);
        let mut theirs = server.accept(&mut listener);
        let described = client.described(&ours);
        assert_eq!(
            (described.remote, described.local),
            (Some(ADDRESS.parse().unwrap()), theirs.session.remote)
        );
        // What a question says is the same.
        let asked = client.ask(Request::Subscribe { session: ours.session.id }).unwrap().0;
        assert_eq!(format!("{asked:?}"), format!("{:?}", Reply::Opened(described)));
        assert!(client.write_all(&mut ours, b"hello"));
        let mut got = [0; 5];
        assert!(server.read_all(&mut theirs, &mut got));
        assert!(server.write_all(&mut theirs, &got));
        assert!(client.read_all(&mut ours, &mut got));
        assert_eq!(&got, b"hello");
    }
    assert_eq!(stray(&world), 0);
    drop((server, client, listener));
    world.wait_until_empty();
}

#[test]
fn why_it_cannot_be_stands_in_its_error_and_a_question_may_try_again() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let cases = [
        ("172.16.1.1:81", Errno::ECONNREFUSED),
        ("[2001:db8::1]:80", Errno::EAFNOSUPPORT),
        ("203.0.113.1:80", Errno::ENETUNREACH),
    ];
    for (remote, errno) in cases {
        let mut ours = ahead(&client);
        client.begin_by_message(&mut ours, remote.parse().unwrap());
        client.wait_for(|| is_over(&ours));
        assert_eq!(
            (ours.state() & state::FAILED, ours.error()),
            (state::FAILED, errno as i32),
            "{remote}"
        );
        client.connect_with(&mut ours, ADDRESS.parse().unwrap()).unwrap();
        assert_eq!(ours.state() & state::FAILED, 0);
        drop(server.accept(&mut listener));
    }
    drop((server, client, listener));
    world.wait_until_empty();
}

#[test]
fn words_that_are_no_address_are_an_error_and_harm_nobody() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let mut rng = clearway_base::Rng::seed(7);
    for turn in 0..200 {
        let mut ours = ahead(&client);
        let remote: SocketAddr = ADDRESS.parse().unwrap();
        client.begin_by_message(&mut ours, remote);
        // A hostile process writes while the worker reads.
        for word in &ours.head.destination {
            word.store(if turn == 0 { 0 } else { rng.next_u64() }, Ordering::Relaxed);
        }
        client.say(&ours.session, request::CONNECT, turn);
        client.wait_for(|| is_over(&ours));
        if ours.state() & state::CONNECTED != 0 {
            drop(server.accept(&mut listener));
        }
    }
    let speaks = client.connect(ADDRESS).unwrap();
    assert_eq!(server.accept(&mut listener).session.remote, client.described(&speaks).local);
    drop((server, client, listener, speaks));
    world.wait_until_empty();
}

#[test]
fn what_was_not_opened_ahead_or_is_something_else_by_now_takes_no_such_message() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let remote: SocketAddr = ADDRESS.parse().unwrap();
    let plain = client.open(Kind::Stream, false).unwrap();
    let datagrams = client.open(Kind::Datagram, false).unwrap();
    let mut listens = ahead(&client);
    client.bind(&listens, "172.16.2.1:99").unwrap();
    client.listen(&mut listens, 4).unwrap();
    let sized = ahead(&client);
    let options = SocketOptions { receive_buffer: 100_000, ..SocketOptions::default() };
    client.ask(Request::Options { session: sized.session.id, options }).unwrap();
    let mut connected = ahead(&client);
    client.begin_by_message(&mut connected, remote);
    client.wait_for(|| is_over(&connected));
    let mut theirs = server.accept(&mut listener);
    let all = [&plain, &datagrams, &listens, &sized, &connected];
    for (before, sock) in all.iter().enumerate() {
        let state = sock.state();
        sock.head.set_destination(remote);
        client.say(&sock.session, request::CONNECT, 0);
        eventually("the message is heard", || stray(&world) == before as u64 + 1);
        assert_eq!((sock.state(), sock.error()), (state, 0));
    }
    // Neither do sessions of others.
    server.say(&plain.session, request::CONNECT, 0);
    eventually("the message is heard", || stray(&world) == all.len() as u64 + 1);
    assert!(client.write_all(&mut connected, b"on"));
    let mut got = [0; 2];
    assert!(server.read_all(&mut theirs, &mut got));
    drop((server, client, listener, theirs, plain, datagrams, listens, sized, connected));
    world.wait_until_empty();
}

#[test]
fn a_listener_that_was_closed_before_refuses_and_an_address_is_free() {
    let world = World::new();
    let (server, client) = guests(&world);
    for _ in 0..100 {
        let listener = server.listener("172.16.1.1:90");
        let mut ours = ahead(&client);
        drop(listener);
        client.begin_by_message(&mut ours, "172.16.1.1:90".parse().unwrap());
        client.wait_for(|| is_over(&ours));
        assert_eq!(ours.error(), Errno::ECONNREFUSED as i32);
        // Who asks for the name at once is told it, whatever has to come first.
        let listener = server.listener("172.16.1.1:91");
        let mut ours = ahead(&client);
        drop(ahead(&client));
        client.begin_by_message(&mut ours, "172.16.1.1:91".parse().unwrap());
        client.ask(Request::Subscribe { session: ours.session.id }).unwrap();
        assert!(client.described(&ours).local.is_some());
        drop(listener);
    }
    drop((server, client));
    world.wait_until_empty();
}

#[test]
fn one_that_is_closed_before_the_worker_hears_leaves_nothing() {
    let world = World::new();
    let (server, client) = guests(&world);
    let listener = server.listener(ADDRESS);
    for turn in 0..60 {
        let (name, mut ours) = client.open_ahead_with(1, Vec::new()).unwrap().pop().unwrap();
        client.begin_by_message(&mut ours, ADDRESS.parse().unwrap());
        if turn % 2 == 0 {
            drop(client.close(ours, name));
        }
    }
    drop((client, listener));
    drop(server);
    world.wait_until_empty();
}

#[test]
fn with_little_memory_left_streams_have_no_fifos_ahead_and_connect_by_a_question() {
    let world = World::new();
    let limits = NamespaceLimits { memory: Some(256 << 10), ..NamespaceLimits::default() };
    world.bounded_namespace(("small", "4321"), ("loop1", 2), limits);
    let (server, _) = guests(&world);
    let client = Guest::attach(&world.attach_socket(), hello("small", Some("4321"))).unwrap();
    let mut listener = server.listener(ADDRESS);
    let mut streams = Vec::new();
    let bare = loop {
        let ours = ahead(&client);
        if client.described(&ours).rx.is_none() {
            break ours;
        }
        streams.push(ours);
        assert!(streams.len() < 1_000, "they have used more than half of the memory by now");
    };
    assert!(!streams.is_empty());
    let mut bare = bare;
    client.connect_with(&mut bare, ADDRESS.parse().unwrap()).unwrap();
    let theirs = server.accept(&mut listener);
    drop((server, client, listener, theirs, streams, bare));
    world.wait_until_empty();
}
