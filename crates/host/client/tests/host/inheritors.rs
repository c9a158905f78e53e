//! Session fds that a process came by otherwise than by asking for them.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use clearway_client::{Client, SocketOptions, may_be_session_fd};
use clearway_shm::attach_socket::{Reply, Request};
use clearway_shm::socket;

use crate::guests::{config, listener, pair, recv_all, send_all, server};
use crate::world::World;

#[test]
fn who_holds_a_session_fd_is_let_in_and_finds_the_socket() {
    let world = World::new();
    let (ours, theirs) = pair(&world);
    theirs.set_options(&SocketOptions { nodelay: true, ..SocketOptions::default() }).unwrap();
    send_all(&ours, b"hello");
    // Without the secret: the session fd is enough.
    let inheritor = Client::attach_as_inheritor(config(&world, "", ""), theirs.session_fd.as_fd())
        .unwrap()
        .expect("a session fd");
    let inherited = inheritor
        .inherit_session_fd(theirs.session_fd.as_fd())
        .expect("it is ours")
        .expect("a socket");
    assert_eq!((inherited.local(), inherited.remote()), (theirs.local(), theirs.remote()));
    assert!(inherited.options().nodelay);
    assert_eq!(recv_all(&inherited, 5), b"hello");
    // It goes on when the one that it comes from is gone.
    let session_fd = theirs.session_fd.try_clone().unwrap();
    drop(theirs);
    send_all(&inherited, b"and on");
    assert_eq!(recv_all(&ours, 6), b"and on");
    drop((inherited, session_fd));
}

#[test]
fn what_is_no_session_fd_is_left_alone() {
    let world = World::new();
    let client = server(&world);
    let (one, other) = socket::session_fd().unwrap();
    let stream = OwnedFd::from(UnixStream::pair().unwrap().0);
    let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    for fd in [&other, &stream, &file] {
        assert!(client.inherit_session_fd(fd.as_fd()).unwrap().is_none());
        assert!(
            Client::attach_as_inheritor(config(&world, "server", "1234"), fd.as_fd())
                .unwrap()
                .is_none()
        );
    }
    assert!(may_be_session_fd(one.as_fd()) && !may_be_session_fd(stream.as_fd()));
}

#[test]
fn who_does_not_hold_a_session_fd_gets_nothing_by_its_name() {
    let world = World::new();
    let program = server(&world);
    let held = listener(&program, "172.16.1.1:80");
    let cookie = socket::cookie(held.session_fd.as_fd()).unwrap();
    let stranger = socket::connect(&world.attach_socket()).unwrap();
    // As often as it likes: what it asks for lies where it cannot reach it, and does not become
    // more and more.
    for _ in 0..1000 {
        socket::send(stranger.as_fd(), &Request::Inherit { cookie }, &[]).unwrap();
        let (reply, descriptors) = socket::recv::<Reply>(stranger.as_fd(), 1).unwrap().unwrap();
        assert!(matches!(reply, Reply::Done) && descriptors.is_empty());
    }
    let left = std::iter::from_fn(|| socket::take_handoff(held.session_fd.as_fd())).count();
    assert!((1..20).contains(&left), "{left}");
    // Nor has it become a part of the program.
    socket::send(stranger.as_fd(), &Request::Prefixes, &[]).unwrap();
    assert!(socket::recv::<Reply>(stranger.as_fd(), 1).unwrap().is_none());
}
