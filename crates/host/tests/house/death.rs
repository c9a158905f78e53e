//! Processes that are killed, and a house that ends: nothing hangs, and nothing stays behind.

use clearway_shm::layout::state;
use nix::errno::Errno;

use crate::child::{Process, eventually};
use crate::guest::{Guest, hello};
use crate::world::World;

/// How often somebody is killed in the middle of a transfer.
const KILLS: u32 = 100;

/// Bytes that the sinks of a world have received so far.
fn received(world: &World) -> u64 {
    let count = |worker: &mut clearway_host::Worker| worker.stack().counters().tcp.segs_in;
    world.house.ask(0, count).unwrap()
}

fn wait_for_traffic(world: &World) {
    let before = received(world);
    eventually("bytes flow", || received(world) > before + 50);
}

fn wait_until_empty(world: &World) {
    eventually("all programs are gone", || world.house.counts().unwrap().programs == 0);
    let left = |worker: &mut clearway_host::Worker| {
        let connections = worker.stack().population().connections;
        (worker.sessions().count(), connections)
    };
    eventually("all sessions and connections are gone", || world.house.ask(0, left).unwrap() == (0, 0));
    let counts = world.house.counts().unwrap();
    assert_eq!((counts.processes, counts.lifelines), (0, 0));
}

/// Memory segments of this process that programs had.
fn mapped_segments() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of = |what: &str| maps.lines().filter(|line| line.contains(what)).count();
    of("memfd:clearway-app-") + of("memfd:clearway-lane-")
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn killing_server_or_client_at_any_moment() {
    let world = World::new();
    {
        let mut sink = Process::start("sink", &world.door());
        let mut source = Process::start("source", &world.door());
        for round in 0..KILLS {
            wait_for_traffic(&world);
            let (victim, role) = if round % 2 == 0 { (&mut sink, "sink") } else { (&mut source, "source") };
            victim.kill();
            *victim = Process::start(role, &world.door());
        }
        wait_for_traffic(&world);
    }
    wait_until_empty(&world);
}

#[test]
fn what_dead_programs_had_is_free_again() {
    let world = World::new();
    wait_until_empty(&world);
    // Other tests of this process have memory of their own, so this one counts what is its own: by programs, not by /proc.
    for _ in 0..3 {
        let server = Guest::attach(&world.door(), hello("server", Some("1234"))).unwrap();
        let client = Guest::attach(&world.door(), hello("client", Some("5678"))).unwrap();
        let mut listener = server.listener("172.16.1.1:80");
        let mut ours = client.connect("172.16.1.1:80").unwrap();
        let _theirs = server.accept(&mut listener);
        assert!(client.write_all(&mut ours, &[1; 100_000]));
        assert!(world.house.programs().unwrap().iter().all(|p| p.memory > 0));
        drop(ours);
        eventually("a closed connection returns its memory", || {
            let programs = world.house.programs().unwrap();
            programs.iter().find(|p| p.namespace == "client").is_some_and(|p| p.memory == 0)
        });
        drop((server, client, listener, _theirs));
        wait_until_empty(&world);
    }
}

#[test]
#[ignore = "counts what the whole process has, so it must be alone: run by name"]
fn nothing_is_mapped_or_open_afterwards() {
    let world = World::new();
    let (maps, files) = (mapped_segments(), open_files());
    for _ in 0..20 {
        let mut sink = Process::start("sink", &world.door());
        let mut source = Process::start("source", &world.door());
        wait_for_traffic(&world);
        source.kill();
        sink.kill();
    }
    wait_until_empty(&world);
    eventually("no memory of programs is mapped", || mapped_segments() == maps);
    assert_eq!(open_files(), files);
}

#[test]
fn the_end_of_the_house_is_told() {
    let mut world = World::new();
    let server = Guest::attach(&world.door(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.door(), hello("client", Some("5678"))).unwrap();
    let mut listener = server.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    let theirs = server.accept(&mut listener);
    let door = world.door();
    world.stop().unwrap();
    assert!(server.is_alone() && client.is_alone());
    for sock in [&ours, &theirs, &listener] {
        assert!(sock.has_hung_up());
    }
    assert!(!door.exists(), "the socket's file stays");
    assert!(std::fs::read_dir(world.folder().join("app_ns_sockets")).unwrap().next().is_none());
}

#[test]
fn a_second_house_is_refused_and_a_dead_ones_socket_replaced() {
    let world = World::new();
    let setup = clearway_host::Setup::new(world.door(), [1; 32]);
    assert!(matches!(clearway_host::House::start(setup), Err(clearway_host::HouseError::Running(_))));
    Guest::attach(&world.door(), hello("server", Some("1234"))).unwrap();
    let stale = world.folder().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let setup = clearway_host::Setup::new(stale.clone(), [1; 32]);
    let house = clearway_host::House::start(setup);
    // The stale file was no SEQPACKET socket's, which makes it no less stale.
    if let Ok(house) = house {
        house.handle().stop();
        house.run().unwrap();
    }
}

#[test]
fn a_listener_that_ends_resets_who_waits() {
    let world = World::new();
    let server = Guest::attach(&world.door(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.door(), hello("client", Some("5678"))).unwrap();
    let listener = server.listener("172.16.1.1:80");
    let ours = client.connect("172.16.1.1:80").unwrap();
    drop(listener);
    client.wait_for(|| ours.state() & state::FAILED != 0);
    assert_eq!(ours.error(), Errno::ECONNRESET as i32);
    assert_eq!(client.connect("172.16.1.1:80").err(), Some(Errno::ECONNREFUSED as i32));
}
