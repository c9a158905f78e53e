//! What a host leaves in its process, counted over the whole process: so the test is the only one
//! of its binary.

#[path = "../host/child.rs"]
mod child;
#[allow(dead_code, reason = "the other tests of the host use the rest")]
#[path = "../host/guest.rs"]
mod guest;
#[allow(dead_code, reason = "the other tests of the host use the rest")]
#[path = "../host/world.rs"]
mod world;

use child::{Process, eventually};
use world::World;

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
    let world = World::new();
    let (maps, files) = (mapped_segments(), open_files());
    for _ in 0..20 {
        let mut sink = Process::start("sink", &world.attach_socket());
        let mut source = Process::start("source", &world.attach_socket());
        world.wait_for_traffic();
        assert!(mapped_segments() > maps, "what is counted has another name");
        source.kill();
        sink.kill();
    }
    world.wait_until_empty();
    eventually("no memory of programs is mapped", || mapped_segments() == maps);
    eventually("no descriptor is left", || open_files() == files);
}
