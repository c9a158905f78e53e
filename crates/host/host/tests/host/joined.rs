//! Processes that hold sessions of another program, which that handed to them.

use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{Kind, Request, Token};
use clearway_shm::layout::{request, state};
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, hello};
use crate::world::World;

const SERVER: &str = "172.16.1.1:80";

/// A server, its listener, a client, and a process of another program of the server's namespace.
fn three(world: &World) -> (Guest, Sock, Guest, Guest) {
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let listener = server.listener(SERVER);
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let other = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    assert_ne!(server.welcome.app, other.welcome.app);
    (server, listener, client, other)
}

fn says(from: &Guest, ours: &mut Sock, to: &Guest, theirs: &mut Sock, text: &[u8]) {
    let mut got = vec![0; text.len()];
    assert!(from.write_all(ours, text) && to.read_all(theirs, &mut got));
    assert_eq!(got, text);
}

#[test]
fn who_was_handed_a_session_may_use_what_is_its_programs() {
    let world = World::new();
    let (server, listener, client, other) = three(&world);
    let mut listener = listener;
    let mut ours = client.connect(SERVER).unwrap();
    let theirs = server.accept(&mut listener);
    let mut handed = other.join(theirs.session_fd.as_ref().unwrap()).unwrap();
    // Its first owner lets go of it.
    drop(theirs);
    says(&client, &mut ours, &other, &mut handed, b"to another program");
    says(&other, &mut handed, &client, &mut ours, b"and back");
    // Its listener too, by a question and by a message.
    let mut shared = other.join(listener.session_fd.as_ref().unwrap()).unwrap();
    let mut second = client.connect(SERVER).unwrap();
    let mut accepted = other.accept(&mut shared);
    says(&client, &mut second, &other, &mut accepted, b"accepted by a question");
    let session_fd = other.session_fds(1).unwrap().pop().unwrap();
    let mut third = client.connect(SERVER).unwrap();
    // The record of the one before may come twice.
    let session = (0..2).find_map(|_| other.take(&mut shared)).unwrap();
    let claimed = other.claim(session, session_fd);
    // A session fd of its own leads to the program whose session it stands for.
    let next = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let mut further = next.join(claimed.session_fd.as_ref().unwrap()).unwrap();
    says(&client, &mut third, &next, &mut further, b"accepted by a message, and handed on");
    // What is closed ends for the peer.
    drop((handed, accepted));
    assert_eq!(client.read(&mut ours, &mut [0; 8]), 0);
    // And all of it is gone with its holders.
    drop((server, listener, shared, claimed, further, next, other));
    client.wait_for(|| third.state() & (state::PEER_CLOSED | state::FAILED) != 0);
    drop((ours, second, third, client));
    world.wait_until_empty();
}

#[test]
fn who_was_handed_nothing_gets_nothing() {
    let world = World::new();
    let (server, listener, _client, other) = three(&world);
    let errno = |asked: Result<_, (i32, String)>| asked.map(|_| ()).unwrap_err().0;
    let (badf, noent) = (Errno::EBADF as i32, Errno::ENOENT as i32);
    let (app, session) = (server.welcome.app, listener.session.id);
    assert_eq!(errno(other.ask(Request::Subscribe { session })), badf);
    assert_eq!(errno(other.ask(Request::Segment { app, segment: 0 })), noent);
    let mut token = server.welcome.token;
    token.0[15] ^= 1;
    assert_eq!(errno(other.ask(Request::Join { token })), noent);
    assert_eq!(errno(other.ask(Request::Join { token: Token([0; 16]) })), noent);
    other.say(&listener.session, request::SHUT_READ, 0);
    other.ask(Request::Prefixes).unwrap();
    assert_eq!(errno(other.ask(Request::Subscribe { session })), badf);
    // The listener is as it was.
    assert_ne!(listener.state() & state::LISTENING, 0);
}

#[test]
fn a_program_that_is_cut_off_takes_nobody_with_it_who_joined_it() {
    let world = World::new();
    let (server, mut listener, client, other) = three(&world);
    let mut own = other.listener("172.16.1.1:81");
    let mut ours = client.connect(SERVER).unwrap();
    let theirs = server.accept(&mut listener);
    let mut handed = other.join(theirs.session_fd.as_ref().unwrap()).unwrap();
    says(&client, &mut ours, &other, &mut handed, b"as long as it lasts");
    let bytes = [7; 100_000];
    assert!(client.write_all(&mut ours, &bytes));
    let rx = handed.rx.as_mut().unwrap();
    other.wait_for(|| {
        rx.attend();
        rx.len().unwrap() as usize == bytes.len()
    });
    theirs.tx.as_ref().unwrap().mem().head().tail.store(1 << 30, Ordering::Release);
    server.say(&theirs.session, request::WROTE, 0);
    assert!(server.is_alone());
    other.wait_for(|| handed.state() & state::FAILED != 0);
    assert_eq!(handed.error(), Errno::ECONNRESET as i32);
    let mut got = [0; 100_000];
    let read = handed.rx.as_mut().unwrap().read(&mut got);
    assert!(read.is_ok_and(|read| read == bytes.len()) && got == bytes, "not what came before");
    other.own();
    let mut second = client.connect("172.16.1.1:81").unwrap();
    let mut accepted = other.accept(&mut own);
    says(&client, &mut second, &other, &mut accepted, b"its own goes on");
    assert_eq!(world.host.counts().unwrap().cut_off, 1);
    // What it had joined is as if it had never been.
    drop(handed);
    other.open(Kind::Stream, false).unwrap();
}

#[test]
fn a_connection_that_one_took_who_joined_and_died_is_offered_again() {
    let world = World::new();
    let (server, mut listener, client, other) = three(&world);
    let mut shared = other.join(listener.session_fd.as_ref().unwrap()).unwrap();
    let mut ours = client.connect(SERVER).unwrap();
    assert!(other.take(&mut shared).is_some());
    drop((other, shared));
    let mut theirs = server.accept(&mut listener);
    says(&client, &mut ours, &server, &mut theirs, b"here after all");
}

#[test]
fn a_program_lives_as_long_as_who_joined_it_has_something_of_it() {
    let world = World::new();
    let (server, mut listener, client, other) = three(&world);
    let mut shared = other.join(listener.session_fd.as_ref().unwrap()).unwrap();
    let mut ours = client.connect(SERVER).unwrap();
    let mut accepted = other.accept(&mut shared);
    let number = server.welcome.app;
    let is_there = || world.host.programs().unwrap().iter().any(|program| program.app == number);
    listener.session_fd.take();
    shared.session_fd.take();
    drop(server);
    // Its last session has a session fd of another program's.
    says(&client, &mut ours, &other, &mut accepted, b"of a program that is gone");
    assert!(is_there());
    drop(accepted);
    assert_eq!(client.read(&mut ours, &mut [0; 8]), 0);
    drop(ours);
    // It is left when the process joins another one.
    let third = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let listener = third.listener(SERVER);
    eventually("a program of which nobody has anything is gone", || {
        other.join(listener.session_fd.as_ref().unwrap()).unwrap();
        !is_there()
    });
}
