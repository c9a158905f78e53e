//! Programs that come back to a host that was started again.

use std::os::fd::AsFd as _;

use clearway_shm::attach_socket::{Hello, Kind, Reply, Request, SocketOptions, Token};
use clearway_shm::{paths, socket};
use nix::errno::Errno;

use crate::guest::{Guest, hello};
use crate::world::World;

fn with_token(namespace: &str, token: Token) -> Hello {
    Hello { inherit: Some(token), ..hello(namespace, None) }
}

/// Enters by the name that is no file's.
fn by_the_way_back(world: &World, hello: Hello) -> Result<Guest, (i32, String)> {
    let attach_socket =
        socket::connect_by_name(&paths::way_back(&world.attach_socket()).unwrap()).unwrap();
    socket::send(attach_socket.as_fd(), &Request::Hello(hello), &[]).unwrap();
    Guest::enter(attach_socket)
}

#[test]
fn a_token_of_an_earlier_start_lets_in_and_a_made_up_one_does_not() {
    let mut world = World::new();
    let token =
        Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap().welcome.token;
    world.start_again();
    let mut forged = token;
    forged.0[3] ^= 1;
    for refused in
        [with_token("server", forged), with_token("client", token), hello("server", None)]
    {
        let attach_socket = Guest::attach(&world.attach_socket(), refused.clone())
            .err()
            .expect("refused at the attach socket");
        let back = by_the_way_back(&world, refused).err().expect("refused at the way back");
        assert_eq!(
            (attach_socket.0, back.0),
            (Errno::EACCES as i32, Errno::EACCES as i32),
            "{attach_socket:?} {back:?}"
        );
    }
    // The secret alone is for the attach socket.
    let (errno, _) = by_the_way_back(&world, hello("server", Some("1234"))).err().expect("refused");
    assert_eq!(errno, Errno::EACCES as i32);
    // All processes that were one program are one again, whichever way they come, and keep their
    // token.
    let first = by_the_way_back(&world, with_token("server", token)).unwrap();
    let second = Guest::attach(&world.attach_socket(), with_token("server", token)).unwrap();
    assert_eq!((first.welcome.app, first.welcome.token), (second.welcome.app, token));
}

#[test]
fn nobody_else_asks_anything_at_the_way_back() {
    let world = World::new();
    let attach_socket =
        socket::connect_by_name(&paths::way_back(&world.attach_socket()).unwrap()).unwrap();
    socket::send(attach_socket.as_fd(), &Request::Inherit { cookie: 1 }, &[]).unwrap();
    let (reply, descriptors) =
        socket::recv::<Reply>(attach_socket.as_fd(), 1).unwrap().expect("an answer");
    assert!(
        matches!(reply, Reply::Error { errno, .. } if errno == Errno::EACCES as i32)
            && descriptors.is_empty()
    );
    assert!(Guest::is_sent_away(attach_socket));
}

#[test]
fn a_listener_that_several_had_is_one_again_until_the_last_lets_go() {
    let world = World::new();
    let first = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let second =
        Guest::attach(&world.attach_socket(), with_token("server", first.welcome.token)).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let revive = |was| Request::Revive {
        was,
        kind: Kind::Stream,
        v6: false,
        options: SocketOptions::default(),
        local: Some("172.16.1.1:80".parse().unwrap()),
        remote: None,
        backlog: Some(5),
    };
    let opened = |guest: &Guest, was| match guest.ask(revive(was)) {
        Ok((Reply::Opened(session), mut session_fds)) => {
            Ok((session, session_fds.pop().expect("a session fd")))
        }
        Ok((other, _)) => panic!("{other:?}"),
        Err((errno, _)) => Err(errno),
    };
    let (one, line) = opened(&first, (7, 9)).unwrap();
    let (same, other_line) = opened(&second, (7, 9)).unwrap();
    assert_eq!(one.id, same.id);
    assert_eq!(
        opened(&second, (7, 10)).err(),
        Some(Errno::EADDRINUSE as i32),
        "another socket at the same address"
    );
    drop(line);
    // Asked behind the end of that session fd.
    first.ask(Request::Settle { session: one.id }).unwrap();
    assert!(client.connect("172.16.1.1:80").is_ok());
    drop(other_line);
    first.ask(Request::Settle { session: one.id }).unwrap();
    assert!(client.connect("172.16.1.1:80").is_err());
}
