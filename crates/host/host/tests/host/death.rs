//! Programs that are gone, and a host that ends: nothing hangs, and nothing stays behind.

use clearway_shm::attach_socket::Request;
use clearway_shm::layout::{request, state};
use nix::errno::Errno;

use crate::eventually::eventually;
use crate::guest::{Guest, Sock, guests, hello};
use crate::world::World;

#[test]
fn what_dead_programs_had_is_free_again() {
    let world = World::new();
    world.wait_until_empty();
    // Other tests of this process have memory of their own, so this one counts what is its own: by
    // programs, not by /proc.
    for _ in 0..3 {
        let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
        let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
        let mut listener = server.listener("172.16.1.1:80");
        let mut ours = client.connect("172.16.1.1:80").unwrap();
        let _theirs = server.accept(&mut listener);
        assert!(client.write_all(&mut ours, &[1; 100_000]));
        assert!(world.host.programs().unwrap().iter().all(|p| p.memory > 0));
        drop(ours);
        eventually("a closed connection returns its memory", || {
            let programs = world.host.programs().unwrap();
            programs.iter().find(|p| p.namespace == "client").is_some_and(|p| p.memory == 0)
        });
        drop((server, client, listener, _theirs));
        world.wait_until_empty();
    }
}

#[test]
fn the_end_of_the_host_is_told() {
    let mut world = World::new();
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let mut listener = server.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    let theirs = server.accept(&mut listener);
    let attach_socket = world.attach_socket();
    world.stop().unwrap();
    assert!(server.is_alone() && client.is_alone());
    for sock in [&ours, &theirs, &listener] {
        assert!(sock.has_hung_up());
    }
    assert!(!attach_socket.exists(), "the socket's file stays");
    assert!(
        !world.folder().join("app_ns_sockets").exists(),
        "the folder of the namespaces' attach sockets stays"
    );
}

#[test]
fn what_came_before_the_host_ended_can_still_be_read() {
    let mut world = World::new();
    let (server, client) = guests(&world);
    let mut listener = server.listener("172.16.1.1:80");
    let mut ours = client.connect("172.16.1.1:80").unwrap();
    let mut theirs = server.accept(&mut listener);
    let bytes: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8 + 1).collect();
    assert!(client.write_all(&mut ours, &bytes));
    let rx = theirs.rx.as_mut().unwrap();
    server.wait_for(|| {
        rx.attend();
        rx.len().unwrap() as usize == bytes.len()
    });
    world.stop().unwrap();
    let mut got = vec![0; bytes.len()];
    assert_eq!(rx.read(&mut got).unwrap(), bytes.len());
    assert!(got == bytes, "other bytes than were sent");
}

#[test]
fn a_second_host_is_refused_and_a_dead_ones_socket_replaced() {
    let world = World::new();
    let setup = clearway_host::Setup::new(world.attach_socket(), [1; 32]);
    assert!(matches!(clearway_host::Host::start(setup), Err(clearway_host::HostError::Running(_))));
    Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let stale = world.folder().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let setup = clearway_host::Setup::new(stale.clone(), [1; 32]);
    let host = clearway_host::Host::start(setup);
    // The stale file was no SEQPACKET socket's, which makes it no less stale.
    if let Ok(host) = host {
        host.handle().stop();
        host.run().unwrap();
    }
}

#[test]
fn a_listener_that_ends_resets_who_waits() {
    let world = World::new();
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let listener = server.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    drop(listener);
    client.wait_for(|| ours.state() & state::FAILED != 0);
    assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    assert_eq!(client.connect("172.16.1.1:80").err(), Some(Errno::ECONNREFUSED as i32));
}

#[test]
fn a_connection_that_a_dead_process_took_out_and_did_not_claim_goes_to_another() {
    let world = World::new();
    let parent = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let mut listener = parent.listener("172.16.1.1:80");
    let mut inherit = hello("", None);
    inherit.inherit = Some(parent.welcome.token);
    let child = Guest::attach(&world.attach_socket(), inherit).unwrap();
    child.ask(Request::Subscribe { session: listener.session.id }).unwrap();
    let ours: Vec<_> = (0..3).map(|_| client.connect("172.16.1.1:80").unwrap()).collect();
    // The child shares the FIFO with its parent, and takes two of the three out.
    let taken: Vec<_> = (0..2).map(|_| parent.next_record(&mut listener)).collect();
    drop(child);
    let mut remotes: Vec<_> = (0..3).map(|_| parent.accept(&mut listener).session.remote).collect();
    remotes.sort();
    let mut expected: Vec<_> = ours.iter().map(|sock| sock.session.local).collect();
    expected.sort();
    assert_eq!(remotes, expected);
    // Who had the records after all, and comes too late, is told.
    for session in taken {
        assert!(parent.ask(Request::Claim { session }).is_err());
    }
    // Nothing is left over that nobody could claim.
    let ours = client.connect("172.16.1.1:80").unwrap();
    assert_eq!(parent.accept(&mut listener).session.remote, ours.session.local);
}

/// A connection of a server that two processes have, and the client's end of it.
fn shared(world: &World) -> (Guest, Guest, Guest, Sock, Sock) {
    let parent = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let mut listener = parent.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    let theirs = parent.accept(&mut listener);
    let mut inherit = hello("", None);
    inherit.inherit = Some(parent.welcome.token);
    let child = Guest::attach(&world.attach_socket(), inherit).unwrap();
    child.ask(Request::Subscribe { session: theirs.session.id }).unwrap();
    (parent, child, client, theirs, ours)
}

#[test]
fn bytes_of_a_process_that_ended_before_it_told_of_them_leave() {
    let world = World::new();
    let (parent, child, client, mut theirs, mut ours) = shared(&world);
    // As a process that is killed between writing and telling: the word says that somebody tells,
    // so nobody else does.
    let tx = theirs.tx.as_mut().unwrap();
    tx.write(b"the child's ").unwrap();
    assert!(tx.kick());
    drop(child);
    let mut got = [0; 12];
    assert!(client.read_all(&mut ours, &mut got));
    assert_eq!(&got, b"the child's ");
    assert!(parent.write_all(&mut theirs, b"the parent's"));
    assert!(client.read_all(&mut ours, &mut got));
    assert_eq!(&got, b"the parent's");
}

#[test]
fn what_a_process_said_with_its_last_breath_is_heard() {
    for _ in 0..20 {
        let world = World::new();
        let (parent, child, client, theirs, ours) = shared(&world);
        // The end of writing, and then its own end at once: the parent still holds the session.
        child.say(&theirs.session, request::SHUT_WRITE, 0);
        drop(child);
        client.wait_for(|| ours.state() & state::PEER_CLOSED != 0);
        drop(parent);
    }
}
