//! Drivers that look into an interface of the kernel: the peer is Linux.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::netns::{Netns, root};
use crate::world::{Memory, Running, eventually, finish, text, with_memory};

/// A pair of interfaces: `ours` for the driver, `theirs` with the kernel's addresses. Both are in
/// one namespace, and what goes to the addresses of our stack leaves through `theirs`.
fn veth() -> Netns {
    let netns = Netns::new("cwdpdk");
    plug(&netns);
    netns
}

pub(crate) fn plug(netns: &Netns) {
    netns.ip("link add ours type veth peer name theirs");
    // The kernel would leave checksums and segmentation to the other end of the pair, where these
    // drivers do not hear of it.
    netns.text("ethtool", &["-K", "theirs", "tx", "off"]);
    netns.ip("addr add 10.97.0.1/24 dev theirs");
    netns.ip("addr add fd97::1/64 dev theirs nodad");
    netns.ip("link set ours up");
    netns.ip("link set theirs up");
}

fn serve(netns: &Netns, port: &str, extra: &[&str]) -> Running {
    let mut args = vec![
        "http",
        "--port",
        port,
        "-a",
        "10.97.0.2/24",
        "-a",
        "fd97::2/64",
        "-l",
        "200k",
        "--json",
    ];
    args.extend(extra);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &netns.name, env!("CARGO_BIN_EXE_clearway")]);
    Running::start(with_memory(command, Memory::Plain, &args))
}

/// The kernel reaches our stack in both families.
fn reaches(netns: &Netns) {
    for address in ["10.97.0.2", "fd97::2"] {
        let answer = || netns.run("ping", &["-c", "1", "-W", "1", address]).status.success();
        eventually(&format!("{address} answers"), answer);
    }
    for url in ["http://10.97.0.2/", "http://[fd97::2]/"] {
        let curl = netns.command("curl", &["--silent", "--show-error", "--max-time", "30", url]);
        let output = finish(curl);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(output.stdout.len(), 204_800, "{url}");
    }
}

fn over_veth(driver: &str) {
    if !root() {
        return;
    }
    let netns = veth();
    let server = serve(&netns, &format!("dpdk:{driver},iface=ours"), &[]);
    reaches(&netns);
    let (summary, _) = server.stop(Signal::SIGTERM);
    assert_eq!(summary["requests"], 2);
}

#[test]
fn the_kernel_reaches_us_over_af_packet() {
    over_veth("net_af_packet0");
}

#[test]
fn the_kernel_reaches_us_over_af_xdp() {
    over_veth("net_af_xdp0");
}

#[test]
fn the_kernel_reaches_us_over_libpcap() {
    over_veth("net_pcap0");
}

#[test]
fn the_kernel_reaches_us_over_the_tap_driver() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwdpdk");
    let server = serve(&netns, "dpdk:net_tap0,iface=dtap0", &[]);
    netns.ip("addr add 10.97.0.1/24 dev dtap0");
    netns.ip("addr add fd97::1/64 dev dtap0 nodad");
    netns.ip("link set dtap0 up");
    reaches(&netns);
    server.stop(Signal::SIGTERM);
    // It made the interface, and takes it away.
    assert!(!netns.text("ip", &["link"]).contains("dtap0"));
}

#[test]
fn an_idle_port_costs_little() {
    if !root() {
        return;
    }
    let netns = veth();
    let server = serve(&netns, "dpdk:net_af_packet0,iface=ours", &[]);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        // The name in parentheses may hold spaces; user and system time are the 14th and 15th
        // fields, in ticks of 10 ms.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let used = ticks() - before;
    assert!(used < 30, "{used} ticks of 100 in an idle second: it does not sleep");
    server.stop(Signal::SIGINT);
}
