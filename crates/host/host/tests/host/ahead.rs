//! Session fds and streams that a process has ahead of need: every way in which they are used,
//! given up or lost.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use clearway_host::NamespaceLimits;
use clearway_shm::attach_socket::{MAX_AHEAD, Request};
use clearway_shm::layout::{request, state};
use clearway_shm::socket;
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, guests, hello};
use crate::minute::StillHost;
use crate::world::World;

const ADDRESS: &str = "172.16.1.1:80";

/// Another process of the program, which has the listener too.
fn sibling(world: &World, of: &Guest, listener: &Sock) -> Guest {
    let mut inherit = hello("", None);
    inherit.inherit = Some(of.welcome.token);
    let sibling = Guest::attach(&world.attach_socket(), inherit).unwrap();
    sibling.ask(Request::Subscribe { session: listener.session.id }).unwrap();
    sibling
}

fn speak(a: (&Guest, &mut Sock), b: (&Guest, &mut Sock)) {
    let mut got = [0; 5];
    assert!(a.0.write_all(a.1, b"hello"));
    assert!(b.0.read_all(b.1, &mut got));
    assert_eq!(&got, b"hello");
}

/// Session fds that the host has.
fn held(world: &World) -> u32 {
    world.host.counts().unwrap().session_fds
}

#[test]
fn connections_are_taken_without_a_question() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    for _ in 0..3 {
        let fds = server.session_fds(8).unwrap();
        assert_eq!(fds.len(), 8);
        for fd in fds {
            let mut ours = client.connect(ADDRESS).unwrap();
            let session = server.take(&mut listener).expect("nobody else takes it");
            assert_eq!((session.local, session.remote), (ours.session.remote, ours.session.local));
            let mut theirs = server.claim(session, fd);
            speak((&client, &mut ours), (&server, &mut theirs));
            speak((&server, &mut theirs), (&client, &mut ours));
            drop(theirs);
            client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
        }
    }
    drop((server, client, listener));
    world.wait_until_empty();
}

#[test]
fn a_session_fd_serves_one_connection_after_the_other() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let mut fd = server.session_fds(1).unwrap().pop().unwrap();
    let mut known = Vec::new();
    let mut most = 0;
    for _ in 0..40 {
        let (name, mut ours) = client.open_ahead_with(1, known).unwrap().pop().unwrap();
        client.connect_with(&mut ours, ADDRESS.parse().unwrap()).unwrap();
        let session = server.take(&mut listener).unwrap();
        let (at, mut theirs) = (fd.0, server.claim(session, fd));
        speak((&client, &mut ours), (&server, &mut theirs));
        assert_eq!(server.write_some(&mut theirs, b"last"), 4);
        most = most.max(held(&world));
        fd = server.close(theirs, at);
        let mut got = [0; 4];
        assert!(client.read_all(&mut ours, &mut got));
        assert_eq!(&got, b"last");
        client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
        assert_eq!(ours.state() & state::FAILED, 0);
        known = vec![client.close(ours, name)];
    }
    // The listener's, the server's one and the client's one.
    assert_eq!(most, 3);
    drop((server, client, listener, fd, known));
    world.wait_until_empty();
}

#[test]
fn a_session_whose_session_fd_was_given_to_another_ends_whether_that_was_said_or_not() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let (name, fd) = server.session_fds(1).unwrap().pop().unwrap();
    let first = client.connect(ADDRESS).unwrap();
    let mut one = server.claim(server.take(&mut listener).unwrap(), (name, fd));
    let mut second = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    // As when both messages go to different workers, and that of the end comes later.
    let mut other = server.claim(session, (name, one.session_fd.take().unwrap()));
    client.wait_for(|| first.state() & state::PEER_CLOSED != 0);
    server.say(&one.session, request::CLOSE, name);
    speak((&client, &mut second), (&server, &mut other));
    // Neither a name of nobody's session fd, nor one that stands for something else, does anything
    // but end the session.
    server.say(&one.session, request::CLOSE, name.wrapping_add(7));
    speak((&server, &mut other), (&client, &mut second));
    server.say(&other.session, request::CLOSE, name.wrapping_add(7));
    client.wait_for(|| second.state() & state::PEER_CLOSED != 0);
    drop((server, client, listener, first, one, second, other));
    world.wait_until_empty();
}

#[test]
fn streams_are_not_opened_with_session_fds_of_nobody() {
    let world = World::new();
    let (server, client) = guests(&world);
    let foreign = server.session_fds(3).unwrap();
    let names = foreign.iter().map(|(name, _)| *name).collect();
    let sessions = || world.host.counts().unwrap();
    let asked = client.ask(Request::OpenAhead { v6: false, count: 3, fds: names });
    assert_eq!(asked.unwrap_err().0, Errno::EBADF as i32);
    assert_eq!(sessions().cut_off, 0);
    // No session is left behind.
    let mine = client.session_fds(2).unwrap();
    let (names, fds): (Vec<u32>, Vec<_>) = mine.into_iter().unzip();
    let twice = vec![names[0], names[0], names[1]];
    assert!(client.ask(Request::OpenAhead { v6: false, count: 3, fds: twice }).is_ok());
    drop((server, client, foreign, fds));
    world.wait_until_empty();
}

#[test]
fn what_was_written_before_the_claim_was_heard_arrives_though_all_is_closed_by_then() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    for fd in server.session_fds(16).unwrap() {
        let mut ours = client.connect(ADDRESS).unwrap();
        let session = server.take(&mut listener).unwrap();
        let mut theirs = server.claim(session, fd);
        assert_eq!(server.write_some(&mut theirs, b"hello"), 5);
        drop(theirs);
        let mut got = [0; 5];
        assert!(client.read_all(&mut ours, &mut got));
        client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
        assert_eq!(ours.state() & state::FAILED, 0);
    }
    drop((server, client, listener));
    world.wait_until_empty();
}

#[test]
fn a_claim_that_comes_after_its_session_fd_has_hung_up_closes_the_connection() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let before = held(&world);
    let (name, fd) = server.session_fds(1).unwrap().pop().unwrap();
    let ours = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    drop(fd);
    // The client's session came in between.
    eventually("the host saw it", || held(&world) == before + 1);
    server.say(&session, request::CLAIM, name);
    client.wait_for(|| ours.state() & (state::PEER_CLOSED | state::FAILED) != 0);
    drop((server, client, listener, ours));
    world.wait_until_empty();
}

#[test]
fn a_process_that_ends_leaves_none_of_what_it_had_ahead() {
    let world = World::new();
    let (server, client) = guests(&world);
    let listener = server.listener(ADDRESS);
    let sibling = sibling(&world, &server, &listener);
    let before = held(&world);
    let fds = sibling.session_fds(MAX_AHEAD).unwrap();
    let streams = sibling.open_ahead(4).unwrap();
    assert_eq!(held(&world), before + MAX_AHEAD + 4);
    // Its descriptors go with it.
    drop((sibling, fds, streams));
    eventually("they are gone", || held(&world) == before);
    drop((server, client, listener));
    world.wait_until_empty();
}

#[test]
fn a_connection_that_was_taken_and_never_claimed_goes_to_another_process() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let sibling = sibling(&world, &server, &listener);
    let mut ours = client.connect(ADDRESS).unwrap();
    let session = sibling.take(&mut listener).unwrap();
    drop(sibling);
    let taken = server.take(&mut listener).expect("it is offered again");
    assert_eq!(taken.id, session.id);
    let fd = server.session_fds(1).unwrap().pop().unwrap();
    let mut theirs = server.claim(taken, fd);
    speak((&client, &mut ours), (&server, &mut theirs));
    drop((server, client, listener, ours, theirs));
    world.wait_until_empty();
}

#[test]
fn of_two_processes_that_have_a_record_one_takes_the_connection() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let (first, second) =
        (sibling(&world, &server, &listener), sibling(&world, &server, &listener));
    let third = sibling(&world, &server, &listener);
    let mut ours = client.connect(ADDRESS).unwrap();
    let session = first.take(&mut listener).unwrap();
    // The host does not know in whose hands it was, and offers it again.
    drop(second);
    assert!(third.take(&mut listener).is_none(), "the first one has it");
    assert!(third.ask(Request::Claim { session: session.id }).is_err());
    let fd = first.session_fds(1).unwrap().pop().unwrap();
    let mut theirs = first.claim(session, fd);
    speak((&client, &mut ours), (&first, &mut theirs));
    drop((server, first, third, client, listener, ours, theirs));
    world.wait_until_empty();
}

#[test]
fn a_connection_that_was_taken_survives_its_listener() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let fd = server.session_fds(1).unwrap().pop().unwrap();
    let mut ours = client.connect(ADDRESS).unwrap();
    let other = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    // As a program that serves one connection: it closes the listener before the host has heard of
    // the claim.
    drop(listener);
    client.wait_for(|| other.state() & state::FAILED != 0);
    let mut theirs = server.claim(session, fd);
    speak((&client, &mut ours), (&server, &mut theirs));
    speak((&server, &mut theirs), (&client, &mut ours));
    drop((server, client, ours, theirs, other));
    world.wait_until_empty();
}

#[test]
fn a_connection_that_was_taken_and_whose_process_and_listener_are_gone_is_reset() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let ours = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    drop((server, listener));
    client.wait_for(|| ours.state() & state::FAILED != 0);
    assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    let _ = session;
    drop((client, ours));
    world.wait_until_empty();
}

#[test]
fn claims_of_what_is_not_ones_own_change_nothing_for_others() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let hostile = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let theirs = hostile.session_fds(4).unwrap();
    let fds = server.session_fds(4).unwrap();
    let mut ours = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    // Another program's session, with its own session fds and with names that are the server's.
    for name in fds.iter().chain(&theirs).map(|(name, _)| *name).chain([u32::MAX]) {
        hostile.say(&session, request::CLAIM, name);
        hostile.say(&ours.session, request::CLAIM, name);
    }
    assert!(hostile.ask(Request::Claim { session: session.id }).is_err());
    // An answer comes behind the messages.
    hostile.ask(Request::Prefixes).unwrap();
    let [one, two, ..] = <[_; 4]>::try_from(fds).unwrap();
    let mut accepted = server.claim(session, one);
    speak((&client, &mut ours), (&server, &mut accepted));
    // The same session once more, with another fd: the first one stays.
    server.say(&session, request::CLAIM, two.0);
    speak((&server, &mut accepted), (&client, &mut ours));
    drop(two);
    speak((&client, &mut ours), (&server, &mut accepted));
    drop((server, client, hostile, listener, ours, accepted, theirs));
    world.wait_until_empty();
}

#[test]
fn whatever_stands_in_the_claim_words_nothing_is_left_of_a_program_that_is_gone() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener(ADDRESS);
    let ours: Vec<_> = (0..4).map(|_| client.connect(ADDRESS).unwrap()).collect();
    let values = [0, u64::MAX, 1, 7 << 32];
    let taken: Vec<_> = values.map(|_| server.take(&mut listener).unwrap()).into();
    let words: Vec<_> = taken.iter().map(|session| server.words(session)).collect();
    for (words, value) in words.iter().zip(values) {
        words.claim.store(value, Ordering::Release);
    }
    drop(server);
    // It goes on writing, with memory that it mapped before.
    for (words, value) in words.iter().zip(values) {
        words.claim.store(value, Ordering::Release);
    }
    drop(listener);
    for ours in &ours {
        client.wait_for(|| ours.state() & state::FAILED != 0);
    }
    drop((client, ours));
    world.wait_until_empty();
}

#[test]
fn a_session_fd_can_be_handed_over_as_soon_as_it_was_claimed() {
    let host = StillHost::new("handed");
    let guest = |namespace| Guest::attach(&host.attach_socket, hello(namespace, None)).unwrap();
    let (server, client) = (guest("server"), guest("client"));
    let mut listener = server.listener(ADDRESS);
    let _ours = client.connect(ADDRESS).unwrap();
    let session = server.take(&mut listener).unwrap();
    let fd = server.session_fds(1).unwrap().pop().unwrap();
    let cookie = socket::cookie(fd.1.as_fd()).unwrap();
    let ((begins, begun), (release, held)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let stands = scope.spawn(|| {
            host.ask(move |_, _| {
                begins.send(()).unwrap();
                let _ = held.recv();
            });
        });
        begun.recv().unwrap();
        // The supervisor reads the question before the worker hears of the claim.
        let theirs = server.claim(session, fd);
        server.ask_and_run(&[Request::Inherit { cookie }]);
        release.send(()).unwrap();
        stands.join().unwrap();
        let fd = theirs.session_fd.as_ref().unwrap().as_fd();
        let mut handoff = None;
        eventually("what a receiver needs lies there", || {
            handoff = socket::take_handoff(fd);
            handoff.is_some()
        });
        assert_eq!(handoff.unwrap().session, session.id);
    });
}

#[test]
fn no_more_is_held_ahead_than_may_be() {
    let world = World::new();
    let (server, client) = guests(&world);
    let mut fds = server.session_fds(u32::MAX).unwrap();
    assert_eq!(fds.len(), MAX_AHEAD as usize);
    assert_eq!(server.session_fds(1).err().map(|(errno, _)| errno), Some(Errno::ENFILE as i32));
    fds.truncate(30);
    assert_eq!(
        server.session_fds(8).unwrap().len(),
        2,
        "those that it closed were counted no more"
    );
    assert!(server.open_ahead(u32::MAX).unwrap().len() <= MAX_AHEAD as usize);
    drop((server, client, fds));
    world.wait_until_empty();
}

#[test]
fn streams_that_were_opened_ahead_connect_and_count_as_sessions() {
    let world = World::new();
    let limits = NamespaceLimits { sessions: Some(20), ..NamespaceLimits::default() };
    world.bounded_namespace(("small", "4321"), ("loop1", 2), limits);
    let (server, _) = guests(&world);
    let client = Guest::attach(&world.attach_socket(), hello("small", Some("4321"))).unwrap();
    let mut listener = server.listener(ADDRESS);
    let mut streams = client.open_ahead(16).unwrap();
    assert_eq!(streams.len(), 2, "most of what it may have is not for what it might need");
    for ours in &mut streams {
        client.begin(ours, ADDRESS.parse().unwrap()).unwrap();
        let mut theirs = server.accept(&mut listener);
        speak((&client, ours), (&server, &mut theirs));
    }
    let refused = loop {
        match client.open_ahead(16) {
            Ok(more) => streams.extend(more),
            Err((errno, _)) => break errno,
        }
    };
    assert_eq!((streams.len(), refused), (20, Errno::ENFILE as i32));
    drop((server, client, listener, streams));
    world.wait_until_empty();
}
