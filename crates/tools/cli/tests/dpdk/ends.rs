//! What is left when a program ends, well or badly.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::world::{Folder, Memory, dpdk_folder_of, eventually, serve, transfer};

const PLAIN: Memory = Memory::Plain;

/// Both kinds of link with a socket in the file system, the listening side first.
fn links(folder: &Folder) -> [(String, String, String); 2] {
    let (memif, vhost) = (folder.file("m"), folder.file("v"));
    let abstract_no = format!("socket-abstract=no,socket={memif}");
    [
        (
            format!("dpdk:net_memif0,role=server,{abstract_no}"),
            format!("dpdk:net_memif0,role=client,{abstract_no}"),
            memif,
        ),
        (
            format!("dpdk:net_vhost0,iface={vhost}"),
            format!("dpdk:net_virtio_user0,path={vhost}"),
            vhost,
        ),
    ]
}

#[test]
fn a_program_that_is_told_to_end_leaves_nothing_behind() {
    let folder = Folder::new();
    for ((listens, connects, socket), signal) in
        links(&folder).into_iter().zip([Signal::SIGTERM, Signal::SIGINT])
    {
        let server = serve(PLAIN, &listens, &[]);
        assert!(Path::new(&socket).exists(), "{listens}");
        transfer(PLAIN, &connects, "1M", &[]);
        let pid = server.pid();
        let (summary, said) = server.stop(signal);
        assert!(summary["received"].as_u64().unwrap() >= 1_000_000, "{summary}");
        assert!(!Path::new(&socket).exists(), "{listens} leaves {socket}: {said}");
        assert!(!dpdk_folder_of(pid).exists());
    }
    assert_eq!(std::fs::read_dir(&folder.path).unwrap().count(), 0);
}

#[test]
fn a_program_that_was_killed_can_be_started_again_at_the_same_path() {
    let folder = Folder::new();
    for (listens, connects, socket) in links(&folder) {
        let server = serve(PLAIN, &listens, &[]);
        let pid = server.pid();
        server.kill();
        assert!(Path::new(&socket).exists(), "{listens}: nothing was left, so this shows nothing");
        assert!(!dpdk_folder_of(pid).exists());
        let server = serve(PLAIN, &listens, &[]);
        transfer(PLAIN, &connects, "1M", &[]);
        server.stop(Signal::SIGTERM);
    }
}

#[test]
fn a_client_that_is_killed_makes_room_for_the_next_one() {
    let folder = Folder::new();
    for (listens, connects, _) in links(&folder) {
        let server = serve(PLAIN, &listens, &[]);
        // Serves, too, and so is there until it is killed.
        let client = crate::world::Running::start(crate::world::clearway(
            PLAIN,
            &["bulk", "server", "--port", &connects, "-a", "10.98.0.2/24", "--json"],
        ));
        client.kill();
        transfer(PLAIN, &connects, "1M", &[]);
        server.stop(Signal::SIGTERM);
    }
}

#[test]
fn who_asks_waits_for_the_other_end_of_its_port() {
    let folder = Folder::new();
    let socket = folder.file("m");
    let listens = format!("dpdk:net_memif0,role=server,socket={socket}");
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| transfer(PLAIN, &listens, "1M", &[]));
        // Longer than an address is asked for.
        std::thread::sleep(std::time::Duration::from_secs(5));
        assert!(!asks.is_finished());
        let late = serve(PLAIN, &format!("dpdk:net_memif0,role=client,socket={socket}"), &[]);
        asks.join().unwrap();
        late.stop(Signal::SIGTERM);
    });
}

#[test]
fn the_side_that_connects_may_come_first() {
    let folder = Folder::new();
    let socket = folder.file("m");
    let port = format!("dpdk:net_memif0,role=client,socket={socket}");
    let early = serve(PLAIN, &port, &[]);
    let late = format!("dpdk:net_memif0,role=server,socket={socket}");
    transfer(PLAIN, &late, "1M", &[]);
    early.stop(Signal::SIGTERM);
    let socket = folder.file("v");
    let early = serve(PLAIN, &format!("dpdk:net_vhost0,iface={socket},client=1"), &[]);
    let late = format!("dpdk:net_virtio_user0,path={socket},server=1");
    transfer(PLAIN, &late, "1M", &[]);
    // vhost connects again by itself.
    transfer(PLAIN, &late, "1M", &["--down"]);
    early.stop(Signal::SIGTERM);
    eventually("nothing is left", || std::fs::read_dir(&folder.path).unwrap().count() == 0);
}
