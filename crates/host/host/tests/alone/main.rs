//! Tests that start processes, and what a host leaves in its process, counted over the whole
//! process: one at a time, and in a binary of their own. A process that is being started holds all
//! descriptors until it executes its program, whatever test they belong to, so that what a test
//! beside it closes is not closed.

mod child;
#[path = "../host/eventually.rs"]
mod eventually;
#[allow(dead_code, reason = "the other tests of the host use the rest")]
#[path = "../host/guest.rs"]
mod guest;
#[allow(dead_code, reason = "the other tests of the host use the rest")]
#[path = "../host/world.rs"]
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use child::Process;
use clearway_host::Worker;
use eventually::eventually;
use world::World;

/// How often somebody is killed in the middle of a transfer.
const KILLS: u32 = 100;

/// Held by the test that runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_for_traffic(world: &World) {
    let segments_received = || {
        let count = |worker: &mut Worker| worker.stack().counters().tcp.segs_in;
        world.host.ask(0, count).unwrap()
    };
    let before = segments_received();
    eventually("bytes flow", || segments_received() > before + 50);
}

/// Memory segments of this process that programs had.
fn mapped_segments() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of = |what: &str| maps.lines().filter(|line| line.contains(what)).count();
    of("memfd:clearway-app-") + of("memfd:clearway-queue-pair-")
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_is_mapped_or_open_afterwards() {
    let _alone = alone();
    let world = World::new();
    let (maps, files) = (mapped_segments(), open_files());
    for _ in 0..20 {
        let mut sink = Process::start("sink", &world.attach_socket());
        let mut source = Process::start("source", &world.attach_socket());
        wait_for_traffic(&world);
        assert!(mapped_segments() > maps, "what is counted has another name");
        source.kill();
        sink.kill();
    }
    world.wait_until_empty();
    eventually("no memory of programs is mapped", || mapped_segments() == maps);
    eventually("no descriptor is left", || open_files() == files);
}

#[test]
fn killing_server_or_client_at_any_moment() {
    let _alone = alone();
    let world = World::new();
    {
        let mut sink = Process::start("sink", &world.attach_socket());
        let mut source = Process::start("source", &world.attach_socket());
        for round in 0..KILLS {
            wait_for_traffic(&world);
            let (victim, role) =
                if round % 2 == 0 { (&mut sink, "sink") } else { (&mut source, "source") };
            victim.kill();
            *victim = Process::start(role, &world.attach_socket());
        }
        wait_for_traffic(&world);
    }
    world.wait_until_empty();
}
