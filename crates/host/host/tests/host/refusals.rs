//! Who is not let in, and what is refused to those who are.

use std::os::fd::AsFd;
use std::path::Path;

use clearway_shm::attach_socket::{Kind, Reply, Request, Token, worker_of};
use clearway_shm::layout::state;
use clearway_shm::socket;
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, hello};
use crate::world::World;

#[test]
fn a_wrong_or_missing_secret_is_refused_on_every_path() {
    let world = World::new();
    let own = world.folder().join("app_ns_sockets/server");
    for attach_socket in [world.attach_socket(), own.clone()] {
        for secret in [None, Some(""), Some("1"), Some("12345"), Some("5678")] {
            let refused =
                Guest::attach(&attach_socket, hello("server", secret)).err().expect("refused");
            assert_eq!(refused.0, Errno::EACCES as i32, "{}", refused.1);
            assert!(!refused.1.contains("1234"), "the secret is told: {}", refused.1);
        }
        Guest::attach(&attach_socket, hello("server", Some("1234"))).unwrap();
    }
    // The attach socket of a namespace is that namespace's alone, and asks for the secret too.
    assert_eq!(Guest::attach(&own, hello("", None)).err().unwrap().0, Errno::EACCES as i32);
    assert_eq!(
        Guest::attach(&own, hello("client", Some("5678"))).err().unwrap().0,
        Errno::EINVAL as i32
    );
    // Whoever guesses at a token must show a secret as well.
    let mut guess = hello("server", Some("x"));
    guess.inherit = Some(Token([0; 16]));
    assert_eq!(Guest::attach(&world.attach_socket(), guess).err().unwrap().0, Errno::EACCES as i32);
    let counts = world.host.counts().unwrap();
    assert_eq!((counts.refused_secret, counts.refused_other), (12, 1));
    assert_eq!(
        Guest::attach(&world.attach_socket(), hello("nobody", None)).err().unwrap().0,
        Errno::ENOENT as i32
    );
}

#[test]
fn a_forked_process_is_the_same_program() {
    let world = World::new();
    let parent = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let mut inherit = hello("", None);
    inherit.inherit = Some(parent.welcome.token);
    let child = Guest::attach(&world.attach_socket(), inherit).unwrap();
    assert_eq!(child.welcome.app, parent.welcome.app);
    let sock = parent.open(Kind::Stream, false).unwrap();
    child.ask(Request::Subscribe { session: sock.session.id }).unwrap();
}

/// Whether the host left what an inheritor needs, when it was asked at this attach socket.
fn leaves_handoff(attach_socket: &Path, cookie: u64) -> bool {
    let attach_socket = socket::connect(attach_socket).unwrap();
    socket::send(attach_socket.as_fd(), &Request::Inherit { cookie }, &[]).unwrap();
    let (reply, descriptors) = socket::recv::<Reply>(attach_socket.as_fd(), 1).unwrap().unwrap();
    assert!(descriptors.is_empty());
    matches!(reply, Reply::Done)
}

#[test]
fn the_attach_socket_of_a_namespace_lets_inheritors_into_that_namespace_only() {
    let world = World::new();
    let (own, others) = (
        world.folder().join("app_ns_sockets/server"),
        world.folder().join("app_ns_sockets/client"),
    );
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let sock = server.open(Kind::Stream, false).unwrap();
    let session_fd = sock.session_fd.as_ref().unwrap();
    let cookie = socket::cookie(session_fd.as_fd()).unwrap();
    assert!(leaves_handoff(&world.attach_socket(), cookie) && leaves_handoff(&own, cookie));
    assert!(!leaves_handoff(&others, cookie));
    assert!(!leaves_handoff(&world.attach_socket(), u64::MAX), "a name that no socket has");
    let left: Vec<_> = std::iter::from_fn(|| socket::take_handoff(session_fd.as_fd())).collect();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|handoff| handoff.session == sock.session.id));
    // The same for who has the token already.
    let inheritor = |secret| {
        let mut inheritor = hello("", secret);
        inheritor.inherit = Some(left[0].token);
        inheritor
    };
    let child = Guest::attach(&own, inheritor(None)).unwrap();
    assert_eq!(child.welcome.app, server.welcome.app);
    child.ask(Request::Subscribe { session: sock.session.id }).unwrap();
    assert_eq!(Guest::attach(&others, inheritor(None)).err().unwrap().0, Errno::EACCES as i32);
    let stranger = Guest::attach(&others, inheritor(Some("5678"))).unwrap();
    assert_ne!(stranger.welcome.app, server.welcome.app);
    let refused = stranger.ask(Request::Subscribe { session: sock.session.id }).err().unwrap();
    assert_eq!(refused.0, Errno::EBADF as i32);
    assert_eq!(world.host.counts().unwrap().refused_secret, 1);
}

#[test]
fn nobody_reaches_a_session_of_another_program() {
    let world = World::new();
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let other = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let mut sock = server.listener("172.16.1.1:80");
    let id = sock.session.id;
    let requests = [
        Request::Subscribe { session: id },
        Request::Claim { session: id },
        Request::Info { session: id },
        Request::Listen { session: id, backlog: 1 },
        Request::Connect { session: id, remote: None },
        Request::Urgent { session: id, ahead: 1 },
    ];
    for request in requests {
        assert_eq!(other.ask(request).err().unwrap().0, Errno::EBADF as i32);
    }
    // It asks the supervisor to look, and is no way to close what others hold.
    other.ask(Request::Settle { session: id }).unwrap();
    for guess in (0..64).map(|bit| id ^ 1 << bit) {
        assert!(other.ask(Request::Subscribe { session: guess }).is_err());
    }
    // Its memory has the same numbers in both programs, and is not the same memory.
    let mine = other.open(Kind::Stream, false).unwrap();
    assert_eq!(mine.session.head.segment, sock.session.head.segment);
    sock.head.flags.store(77, std::sync::atomic::Ordering::Release);
    assert_eq!(mine.head.flags.load(std::sync::atomic::Ordering::Acquire), 0);
    // Messages about it are nobody's.
    other.say(&sock.session, clearway_shm::layout::request::SHUT_WRITE, 0);
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    client.connect("172.16.1.1:80").unwrap();
    server.accept(&mut sock);
}

#[test]
fn addresses_of_others_are_not_there() {
    let world = World::new();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let sock = client.open(Kind::Stream, false).unwrap();
    assert_eq!(client.bind(&sock, "172.16.1.1:80").err().unwrap().0, Errno::EADDRNOTAVAIL as i32);
    client.bind(&sock, "172.16.2.1:80").unwrap();
    assert_eq!(client.bind(&sock, "172.16.2.1:80").err().unwrap().0, Errno::EINVAL as i32);
}

#[test]
fn limits_of_a_program_hold() {
    let world = World::with(|setup| {
        setup.program.sessions = 5;
        setup.program.listeners = 2;
        setup.program.processes = 2;
    });
    let guest = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let mut all: Vec<_> = (0..5).map(|_| guest.open(Kind::Stream, false).unwrap()).collect();
    assert_eq!(guest.open(Kind::Stream, false).err().unwrap().0, Errno::ENFILE as i32);
    drop(all.pop());
    eventually("the session is gone", || world.host.programs().unwrap()[0].sessions == 4);
    for (port, sock) in all.iter_mut().enumerate() {
        let listened = guest.listen(sock, 1);
        assert_eq!(listened.is_ok(), port < 2, "listener {port}");
    }
    let mut inherit = hello("", None);
    inherit.inherit = Some(guest.welcome.token);
    let _second = Guest::attach(&world.attach_socket(), inherit.clone()).unwrap();
    assert_eq!(
        Guest::attach(&world.attach_socket(), inherit).err().unwrap().0,
        Errno::EUSERS as i32
    );
}

#[test]
fn a_namespace_bounds_its_programs_as_it_says() {
    let world = World::new();
    let limits = clearway_host::NamespaceLimits {
        sessions: Some(3),
        listeners: Some(1),
        processes: Some(1),
        udp_sockets: Some(1),
        memory: Some(1 << 20),
        ..clearway_host::NamespaceLimits::default()
    };
    world.bounded_namespace(("tight", "t"), ("loop0", 1), limits);
    let tight = Guest::attach(&world.attach_socket(), hello("tight", Some("t"))).unwrap();
    let mut socks: Vec<_> = (0..3).map(|_| tight.open(Kind::Stream, false).unwrap()).collect();
    assert_eq!(tight.open(Kind::Stream, false).err().unwrap().0, Errno::ENFILE as i32);
    tight.listen(&mut socks[0], 1).unwrap();
    assert_eq!(tight.listen(&mut socks[1], 1).err().unwrap().0, Errno::ENOBUFS as i32);
    let mut inherit = hello("", None);
    inherit.inherit = Some(tight.welcome.token);
    assert_eq!(
        Guest::attach(&world.attach_socket(), inherit).err().unwrap().0,
        Errno::EUSERS as i32
    );
    let datagrams = |guest: &Guest| guest.open(Kind::Datagram, false);
    drop(socks.split_off(1));
    eventually("the sessions are gone", || world.host.programs().unwrap()[0].sessions == 1);
    let _first = datagrams(&tight).unwrap();
    assert_eq!(datagrams(&tight).err().unwrap().0, Errno::ENOBUFS as i32);
    // Another program of the namespace has limits of its own, and others have theirs.
    let second = Guest::attach(&world.attach_socket(), hello("tight", Some("t"))).unwrap();
    datagrams(&second).unwrap();
    let free = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let _socks: Vec<_> = (0..10).map(|_| free.open(Kind::Datagram, false).unwrap()).collect();
}

#[test]
fn a_connection_that_found_no_room_has_it_when_a_session_on_another_worker_is_gone() {
    let world = World::with(|setup| setup.workers = vec![None, None]);
    let limits = clearway_host::NamespaceLimits {
        sessions: Some(2),
        ..clearway_host::NamespaceLimits::default()
    };
    world.bounded_namespace(("tight", "t"), ("loop0", 1), limits);
    let tight = Guest::attach(&world.attach_socket(), hello("tight", Some("t"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let mut listener = tight.listener("172.16.1.1:80");
    let idle = tight.open(Kind::Stream, false).unwrap();
    let home = worker_of(listener.session.id);
    assert_ne!(worker_of(idle.session.id), home);
    // Sessions go to one worker after the other, and a connection over a loopback stays on its
    // worker.
    let there = || client.open(Kind::Stream, false).unwrap();
    let mut ours =
        [there(), there()].into_iter().find(|sock| worker_of(sock.session.id) == home).unwrap();
    client.begin(&mut ours, "172.16.1.1:80".parse().unwrap()).unwrap();
    client.wait_for(|| ours.state() & state::CONNECTED != 0);
    let both_ends =
        |worker: &mut clearway_host::Worker| worker.stack().population().connections == 2;
    eventually("the connection waits in the stack", || world.host.ask(home, both_ends).unwrap());
    assert_eq!(
        world.host.ask(home, |worker| worker.sessions().count()).unwrap(),
        2,
        "nobody has taken it"
    );
    drop(idle);
    assert_eq!(tight.accept(&mut listener).session.remote, ours.session.local);
}
