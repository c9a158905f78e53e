//! Attach sockets that open later than they are made.

use clearway_shm::attach_socket::Hello;

use crate::eventually::eventually;
use crate::guest::{Guest, hello};
use crate::world::World;

#[test]
fn who_comes_before_the_attach_sockets_open_waits_and_finds_everything() {
    let world = World::with(|setup| setup.open = false);
    let through = |path: &std::path::Path, hello: Hello| {
        let knocked = Guest::knock(path, hello);
        // The supervisor has been awake since, and let nobody in.
        let counts = world.host.counts().unwrap();
        assert_eq!((counts.processes, counts.attached, counts.refused_other), (0, 0, 0));
        knocked
    };
    let early = through(&world.attach_socket(), hello("late", Some("9999")));
    let own_attach_socket =
        through(&world.folder().join("app_ns_sockets/server"), hello("", Some("1234")));
    let wrong = through(&world.attach_socket(), hello("late", Some("8888")));
    world.namespace("late", "9999", "loop0", 1);
    world.host.open_attach_sockets().unwrap();
    assert!(Guest::enter(early).is_ok(), "the namespace that was made meanwhile is not found");
    assert!(Guest::enter(own_attach_socket).is_ok());
    assert_eq!(Guest::enter(wrong).err().unwrap().0, nix::errno::Errno::EACCES as i32);
    // From now on nobody waits, and a namespace's new attach socket is open at once.
    world.host.open_attach_sockets().unwrap();
    world.namespace("later", "7777", "loop0", 1);
    Guest::attach(&world.folder().join("app_ns_sockets/later"), hello("", Some("7777"))).unwrap();
    eventually("all are gone", || world.host.counts().unwrap().programs == 0);
}

#[test]
fn who_waits_at_a_attach_socket_that_never_opens_is_told() {
    let mut world = World::with(|setup| setup.open = false);
    let early = Guest::knock(&world.attach_socket(), hello("server", Some("1234")));
    world.stop().unwrap();
    assert!(Guest::is_sent_away(early), "the host is gone, and who knocked still waits");
}
