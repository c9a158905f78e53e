use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder with the files of a machine, gone at the end.
struct Root(PathBuf);

impl Root {
    fn new(files: &[(&str, &str)]) -> Root {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "clearway-guard-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let root = Root(std::env::temp_dir().join(name));
        files.iter().for_each(|(path, text)| root.put(path, text));
        root
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// An interface on a PCI device, with what lies between the two.
    fn on_pci(&self, interface: &str, pci: &str, between: &str) {
        let device = self.0.join("sys/devices/pci0000:00").join(pci).join(between);
        let link = self.0.join("sys/class/net").join(interface);
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&link).unwrap();
        symlink(&device, link.join("device")).unwrap();
    }

    fn keeps(&self, ssh: Option<&str>, port: &str) -> Option<String> {
        Machine::read(&self.0, ssh).keeps(&port.parse().unwrap()).map(|keep| keep.to_string())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The number as the kernel of this machine writes an address: the bytes as they lie in memory.
fn hex(address: [u8; 4]) -> String {
    format!("{:08X}", u32::from_ne_bytes(address))
}

fn route(interface: &str, to: [u8; 4], flags: u32, mask: [u8; 4]) -> String {
    format!("{interface}\t{}\t00000000\t{flags:04X}\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
}

const HEAD: &str =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

fn usual() -> Root {
    let all = route("eth0", [0; 4], 3, [0; 4])
        + &route("eth0", [192, 0, 2, 0], 1, [255, 255, 255, 0])
        + &route("eth1", [10, 1, 0, 0], 1, [255, 255, 0, 0])
        + &route("eth2", [0; 4], 0, [0; 4]);
    let root = Root::new(&[("proc/net/route", &(HEAD.to_owned() + &all))]);
    root.on_pci("eth0", "0000:00:03.0", "virtio2");
    root.on_pci("eth1", "0000:00:1f.6", "");
    root
}

const DEFAULT: &str = "eth0 carries the default route of this machine";

#[test]
fn the_interface_of_the_default_route_is_kept_however_it_is_named() {
    let root = usual();
    for port in [
        "tap:eth0",
        "tun:eth0",
        "dpdk:net_af_packet0,iface=eth0",
        "dpdk:net_af_xdp0,start_queue=0,iface=eth0",
        "xdp:eth0",
        "xdp:eth0:1-3,mode=generic",
        "dpdk:net_pcap0,rx_iface=eth1,tx_iface=eth0",
        "dpdk:net_tap0,iface=x,remote=eth0",
        "dpdk:0000:00:03.0",
        "dpdk:00:03.0,some=arg",
    ] {
        assert_eq!(root.keeps(None, port).as_deref(), Some(DEFAULT), "{port}");
    }
    for port in [
        "tap:eth1",
        "tap:eth2",
        "tap:clearway0",
        "loop",
        "pcap:eth0",
        "dpdk:net_af_packet0,iface=eth1",
        "xdp:eth1",
        "dpdk:00:1f.6",
        "dpdk:00:1F.6",
        "dpdk:01:03.0",
        "dpdk:net_memif0,role=server,socket=/tmp/eth0",
        "dpdk:net_vhost0,iface=/tmp/eth0",
    ] {
        assert_eq!(root.keeps(None, port), None, "{port}");
    }
}

#[test]
fn the_interface_of_the_login_is_kept() {
    let root = usual();
    let login = "eth1 carries the login that started this program";
    assert_eq!(root.keeps(Some("10.1.7.8 51000 10.1.0.1 22"), "tap:eth1").as_deref(), Some(login));
    assert_eq!(
        root.keeps(Some("::ffff:10.1.7.8 51000 ::ffff:10.1.0.1 22"), "tap:eth1").as_deref(),
        Some(login)
    );
    // The client is somewhere behind another link, but the address that it came to is on this one.
    assert_eq!(
        root.keeps(Some("203.0.113.9 51000 10.1.0.1 22"), "tap:eth1").as_deref(),
        Some(login)
    );
    for harmless in
        ["203.0.113.9 51000 192.0.2.5 22", "127.0.0.1 1 127.0.0.1 22", "", "nonsense", "10.1.0.1"]
    {
        let kept = root.keeps(Some(harmless), "tap:eth1");
        assert_eq!(kept.is_some(), harmless == "10.1.0.1", "{harmless}");
    }
}

#[test]
fn ipv6_counts_and_routes_that_refuse_do_not() {
    let any = "00000000000000000000000000000000";
    let line = |to: &str, len: &str, flags: &str, interface: &str| {
        format!("{to} {len} {any} 00 {any} 00000400 00000001 00000000 {flags} {interface:>8}\n")
    };
    let text = line(any, "00", "00000003", "eth6")
        + &line("20010db8000000000000000000000000", "20", "00000001", "eth7")
        + &line(any, "00", "00200200", "lo")
        + &line(any, "00", "00200201", "eth8");
    let root = Root::new(&[("proc/net/ipv6_route", &text)]);
    assert_eq!(
        root.keeps(None, "tap:eth6").as_deref(),
        Some("eth6 carries the default route of this machine")
    );
    assert_eq!(root.keeps(None, "tap:eth8"), None);
    let ssh = Some("2001:db8::5 50000 2001:db8::1 22");
    assert_eq!(
        root.keeps(ssh, "tap:eth7").as_deref(),
        Some("eth7 carries the login that started this program")
    );
    let link_local = Some("fe80::1%eth9 50000 fe80::2%eth9 22");
    assert_eq!(
        root.keeps(link_local, "tap:eth9").as_deref(),
        Some("eth9 carries the login that started this program")
    );
    assert_eq!(root.keeps(link_local, "tap:eth7"), None);
}

#[test]
fn what_a_bridge_a_bond_or_a_vlan_stands_on_is_kept_too() {
    let root = Root::new(&[
        ("proc/net/route", &(HEAD.to_owned() + &route("br0", [0; 4], 3, [0; 4]))),
        ("sys/class/net/br0/lower_bond0.7", ""),
        ("sys/class/net/bond0.7/lower_bond0", ""),
        ("sys/class/net/bond0/lower_ens1", ""),
        ("sys/class/net/bond0/lower_ens2", ""),
        // Nonsense that must not go on for ever.
        ("sys/class/net/ens2/lower_br0", ""),
        ("sys/class/net/ens3/address", ""),
    ]);
    for name in ["br0", "bond0.7", "bond0", "ens1", "ens2"] {
        let kept = root.keeps(None, &format!("dpdk:net_af_packet0,iface={name}"));
        assert_eq!(kept, Some(format!("{name} carries the default route of this machine")));
    }
    assert_eq!(root.keeps(None, "tap:ens3"), None);
}

#[test]
fn damaged_files_keep_nothing_and_panic_never() {
    let files = [
        ("proc/net/route", "Iface\neth0\neth0 zz\neth0 00000000 0 3 0 0 0\n\u{0}\n"),
        ("proc/net/ipv6_route", "0\n00 ff\nzz 00 0 0 0 0 0 0 1 eth0\n0 81 0 0 0 0 0 0 1 eth0\n"),
    ];
    assert_eq!(Root::new(&files).keeps(Some("1.1.1.1 2 3.3.3.3 4"), "tap:eth0"), None);
    assert_eq!(
        Machine::read(Path::new("/nowhere"), None).keeps(&"tap:eth0".parse().unwrap()),
        None
    );
}
