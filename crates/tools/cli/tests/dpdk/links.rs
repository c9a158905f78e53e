//! Links between two programs in shared memory.

use crate::netns::or_skip;
use crate::world::{Folder, HugePages, Memory, serve, transfer};

const PLAIN: Memory = Memory::Plain;

#[test]
fn what_is_sent_over_memif_arrives_whole_both_ways() {
    let folder = Folder::new();
    let socket = folder.file("m");
    let server = serve(PLAIN, &format!("dpdk:net_memif0,role=server,socket={socket}"), &[]);
    let client = format!("dpdk:net_memif0,role=client,socket={socket}");
    transfer(PLAIN, &client, "50M", &[]);
    // The server stays, and the next client finds it.
    transfer(PLAIN, &client, "50M", &["--down"]);
    drop(server);
}

#[test]
fn what_is_sent_over_vhost_and_virtio_user_arrives_whole_with_large_packets() {
    let folder = Folder::new();
    let socket = folder.file("v");
    let server = serve(PLAIN, &format!("dpdk:net_vhost0,iface={socket},tso=1"), &[]);
    let client = format!("dpdk:net_virtio_user0,path={socket}");
    let up = transfer(PLAIN, &client, "200M", &[]);
    // 200 MB in packets of 1,500 bytes would be more than 130,000.
    assert!(
        up["below"]["tx_packets"].as_u64().unwrap() < 60_000,
        "no large packets were sent: {up}"
    );
    transfer(PLAIN, &client, "50M", &["--down"]);
    drop(server);
}

#[test]
fn without_offloads_both_sides_make_and_check_everything_themselves() {
    let folder = Folder::new();
    let socket = folder.file("v");
    let server = serve(PLAIN, &format!("dpdk:net_vhost0,iface={socket},tso=1,offload=off"), &[]);
    let client = format!("dpdk:net_virtio_user0,path={socket},offload=off");
    let up = transfer(PLAIN, &client, "20M", &[]);
    assert!(up["below"]["tx_packets"].as_u64().unwrap() > 13_000, "{up}");
    drop(server);
}

#[test]
fn the_links_work_in_huge_pages_too() {
    let pages = HugePages::reserve(192);
    if !or_skip(pages.is_some(), "the system gives no 384 MiB of huge pages, or this is not root.")
    {
        return;
    }
    let folder = Folder::new();
    let (vhost, memif) = (folder.file("v"), folder.file("m"));
    let server = serve(Memory::Huge, &format!("dpdk:net_vhost0,iface={vhost},tso=1"), &[]);
    transfer(Memory::Huge, &format!("dpdk:net_virtio_user0,path={vhost}"), "50M", &[]);
    drop(server);
    let server = serve(Memory::Huge, &format!("dpdk:net_memif0,role=server,socket={memif}"), &[]);
    transfer(Memory::Huge, &format!("dpdk:net_memif0,role=client,socket={memif}"), "50M", &[]);
    drop(server);
}

#[test]
fn two_cores_share_a_link_whose_peer_has_one_queue() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !or_skip(cores >= 2, "it needs two cores.") {
        return;
    }
    let folder = Folder::new();
    let socket = folder.file("v");
    let server =
        serve(PLAIN, &format!("dpdk:net_vhost0,iface={socket},tso=1"), &["--cores", "0,1"]);
    let client = format!("dpdk:net_virtio_user0,path={socket}");
    // Eight flows: that all of them fall to one core happens once in 128 times, and is no failure.
    transfer(PLAIN, &client, "10M", &["--streams", "8"]);
    drop(server);
}

#[test]
fn large_frames_cross_a_link_with_a_larger_mtu() {
    let folder = Folder::new();
    let socket = folder.file("v");
    let server = serve(PLAIN, &format!("dpdk:net_vhost0,iface={socket},mtu=9000,offload=off"), &[]);
    let up = transfer(
        PLAIN,
        &format!("dpdk:net_virtio_user0,path={socket},mtu=9000,offload=off"),
        "20M",
        &[],
    );
    assert!(up["below"]["tx_packets"].as_u64().unwrap() < 4_000, "{up}");
    drop(server);
}
