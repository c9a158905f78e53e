//! What the user reads when a port cannot be had.

use crate::world::{Folder, Memory, clearway, finish, serve, text};

/// What `clearway http` says of this port, and its exit code.
fn refused(port: &str) -> (Option<i32>, String) {
    let output = finish(clearway(Memory::Plain, &["http", "--port", port, "-a", "10.98.0.1/24"]));
    (output.status.code(), text(&output))
}

#[track_caller]
fn says(port: &str, code: i32, words: &[&str]) {
    let (got, said) = refused(port);
    assert_eq!(got, Some(code), "{port}: {said}");
    for word in words {
        assert!(said.contains(word), "{port} does not say {word:?}: {said}");
    }
}

#[test]
fn a_wrong_device_is_named_with_what_there_is() {
    says("dpdk:net_menif0,role=server", 1, &["no driver net_menif", "net_memif", "net_vhost"]);
    says("dpdk:0000:ff:1f.6", 1, &["no PCI device at this address", "dpdk-devbind.py"]);
    says("dpdk:", 2, &["dpdk needs a device", "dpdk:net_memif0,role=server"]);
}

#[test]
fn wrong_words_for_a_driver_are_told_with_what_it_says() {
    says("dpdk:net_vhost0,ifase=/tmp/x", 1, &["net_vhost0", "ifase", "docs/ports.md"]);
    says("dpdk:net_memif0,role=boss", 1, &["net_memif0", "boss", "docs/ports.md"]);
    says("dpdk:net_af_packet0", 1, &["its interface is missing", "iface=eth1"]);
    says("dpdk:net_af_packet0,iface=nosuch0", 1, &["no interface nosuch0", "ip link"]);
    says("dpdk:net_null0,mtu=99999", 2, &["mtu is a whole number"]);
}

#[test]
fn a_path_that_cannot_be_listened_at_is_told_before_the_driver_stumbles() {
    let folder = Folder::new();
    let missing = folder.file("none/v");
    says(&format!("dpdk:net_vhost0,iface={missing}"), 1, &["there is no folder", "Make it"]);
    let file = folder.file("file");
    std::fs::write(&file, "mine").unwrap();
    says(&format!("dpdk:net_vhost0,iface={file}"), 1, &["is no socket", "another path"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let taken = format!("dpdk:net_vhost0,iface={}", folder.file("v"));
    let server = serve(Memory::Plain, &taken, &[]);
    says(&taken, 1, &["another program listens", "Stop that program"]);
    drop(server);
}

#[test]
fn one_device_cannot_be_two_ports() {
    let args =
        ["http", "--port", "dpdk:net_null0", "--port", "dpdk:net_null0", "-a", "10.98.0.1/24"];
    let output = finish(clearway(Memory::Plain, &args));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("has a device net_null0 already"), "{}", text(&output));
}

#[test]
fn that_there_are_no_huge_pages_is_said_once() {
    let folder = Folder::new();
    let server = serve(Memory::Plain, &format!("dpdk:net_vhost0,iface={}", folder.file("v")), &[]);
    let (_, said) = server.stop(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(said.matches("huge pages").count(), 1, "{said}");
    assert!(said.contains("sysctl vm.nr_hugepages="), "{said}");
}
