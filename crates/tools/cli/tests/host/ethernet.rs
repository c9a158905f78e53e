//! The documents' Ethernet chapter: the host owns a device, and the peer at its other end is the
//! Linux kernel.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, eventually, report};

const KERNEL: [&str; 2] = ["10.98.0.1", "fd98::1"];
const OURS: [&str; 2] = ["10.98.0.2", "fd98::2"];
const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// The kernel in a namespace of its own, and a host with a TAP device there.
fn wire() -> (Netns, Host) {
    wire_with(&[])
}

fn wire_with(options: &[&str]) -> (Netns, Host) {
    let netns = Netns::new("cwwire");
    let host = Host::inside(
        &netns,
        options,
        &[
            "create tap id 0 host-if-name cw0",
            "set interface state tap0 up",
            "set interface ip address tap0 10.98.0.2/24",
            "set interface ip address tap0 fd98::2/64",
            "app ns add id wire secret abc if tap0",
        ],
    );
    netns.ip("addr add 10.98.0.1/24 dev cw0");
    netns.ip("addr add fd98::1/64 dev cw0 nodad");
    netns.ip("link set cw0 up");
    (netns, host)
}

/// Bytes that the receiving side says it got.
fn received(report: &Value) -> u64 {
    report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

/// An iperf3 server of the kernel's for one test; it is killed when this goes.
pub(crate) struct KernelServer(Child);

impl KernelServer {
    pub(crate) fn new(netns: &Netns, host: &Host) -> KernelServer {
        let log = host.folder.join("kernel-server");
        let file = fs::File::create(&log).unwrap();
        let mut command = netns.command("iperf3", &["-s", "-1", "--forceflush"]);
        let child =
            command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn().unwrap();
        let server = KernelServer(child);
        eventually("the kernel's iperf3 listens", || {
            fs::read_to_string(&log).unwrap().contains("Server listening")
        });
        server
    }
}

impl Drop for KernelServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_iperf3_server_of_ours_serves_the_kernel() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for address in OURS {
        for direction in [&[][..], &["-R"], &["--bidir"], &["-P", "4"]] {
            let mut server = host.spawn(WIRE, "iperf3", &["-s", "-1", "--forceflush"]);
            server.await_text("Server listening");
            let mut args = vec!["-c", address, "-t", "1", "-J"];
            args.extend(direction);
            let report = report(&netns.text("iperf3", &args));
            assert!(received(&report) > 100_000, "{address} {direction:?}: {report}");
            server.succeed();
        }
    }
    host.await_empty();
    host.stop();
}

#[test]
fn an_iperf3_client_of_ours_reaches_the_kernel() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for address in KERNEL {
        for direction in [&[][..], &["-R"], &["--bidir"], &["-P", "4"]] {
            let _server = KernelServer::new(&netns, &host);
            let mut args = vec!["-c", address, "-t", "1", "-J"];
            args.extend(direction);
            let report = report(&host.run(WIRE, "iperf3", &args));
            assert!(received(&report) > 100_000, "{address} {direction:?}: {report}");
        }
    }
    host.await_empty();
    host.stop();
}

#[test]
fn taking_all_addresses_away_leaves_a_device_its_own_link_local_one() {
    if !root() {
        return;
    }
    let (_netns, host) = wire();
    let link_local = |host: &Host| host.ctl("show interface address").contains("fe80::");
    assert!(link_local(&host));
    host.ctl("set interface ip address del tap0 all");
    let left = host.ctl("show interface address");
    assert!(
        link_local(&host) && !left.contains("10.98.0.2") && !left.contains("fd98::2"),
        "{left}"
    );
    // A router that nothing leads to, and ourselves.
    host.ctl("set interface ip address tap0 10.98.0.2/24");
    for router in ["192.0.2.1", "10.98.0.2"] {
        let words = ["ip", "route", "add", "0.0.0.0/0", "via", router];
        let refused = host.try_ctl(&words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned()
            + &String::from_utf8_lossy(&refused.stdout);
        assert!(!refused.status.success() && said.contains("on no link of ours"), "{said}");
    }
    host.ctl("ip route add 0.0.0.0/0 via 10.98.0.1");
    host.stop();
}

#[test]
fn programs_reach_the_hosts_own_addresses_on_a_device() {
    if !root() {
        return;
    }
    for options in [&[][..], &["--cores", "0,1"]] {
        let (_netns, host) = wire_with(options);
        for address in OURS {
            for protocol in [&[][..], &["-P", "4"], &["-u", "-b", "20M"]] {
                let mut server = host.spawn(WIRE, "iperf3", &["-s", "-1", "--forceflush"]);
                server.await_text("Server listening");
                let args = [&["-c", address, "-t", "1", "-J"], protocol].concat();
                let report = report(&host.run(WIRE, "iperf3", &args));
                assert!(
                    report["end"]["sum"]["bytes"]
                        .as_u64()
                        .or(report["end"]["sum_received"]["bytes"].as_u64())
                        > Some(100_000)
                );
                server.succeed();
            }
        }
        host.await_empty();
        host.stop();
    }
}

/// Takes connections at the address and port that it is given, and says to each from which port it
/// came.
const TELLS_PORTS: &str = "
import socket, sys
at = (sys.argv[1], int(sys.argv[2]))
listener = socket.create_server(at, family=socket.AF_INET6 if ':' in at[0] else socket.AF_INET)
print('listens', flush=True)
while True:
    connection, peer = listener.accept()
    connection.sendall(b'%d' % peer[1])
    connection.close()
";

/// Connects to the address and port that it is given, from as many ports as the third argument
/// says, each chosen by its number.
const FROM_EACH_PORT: &str = "
import socket, sys
to, count = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
for port in range(20000, 20000 + count):
    with socket.socket(socket.AF_INET6 if ':' in to[0] else socket.AF_INET) as ours:
        ours.bind(('', port))
        ours.settimeout(30)
        ours.connect(to)
        assert int(ours.recv(16)) == port, port
print('from', count)
";

#[test]
fn a_port_that_a_program_chose_itself_serves_whatever_core_its_answers_come_to() {
    if !root() {
        return;
    }
    let (netns, host) = wire_with(&["--cores", "0,1"]);
    for (address, port) in KERNEL.into_iter().zip(["7001", "7002"]) {
        let log = host.folder.join(port);
        let mut command = netns.command("python3", &["-c", TELLS_PORTS, address, port]);
        let file = fs::File::create(&log).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn().unwrap();
        let _server = KernelServer(child);
        eventually("the kernel's server listens", || {
            fs::read_to_string(&log).unwrap().contains("listens")
        });
        let said = host.run(WIRE, "python3", &["-c", FROM_EACH_PORT, address, port, "16"]);
        assert!(said.contains("from 16"), "{said}");
    }
    host.await_empty();
    host.stop();
}

/// Connects to the address that it is given, and says what came of it.
const CONNECTS: &str = "
import errno, socket, sys
try:
    socket.create_connection((sys.argv[1], 9))
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
";

#[test]
fn who_connects_to_a_host_that_is_not_there_is_told_so_as_by_the_kernel() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for absent in ["10.98.0.77", "fd98::77"] {
        let kernels = netns.text("python3", &["-c", CONNECTS, absent]);
        let ours = host.run(WIRE, "python3", &["-c", CONNECTS, absent]);
        assert_eq!((kernels.trim(), ours.trim()), ("EHOSTUNREACH", "EHOSTUNREACH"), "{absent}");
    }
    host.stop();
}

#[test]
fn datagrams_pass_both_ways() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for (ours, kernels) in OURS.iter().zip(KERNEL) {
        let mut server = host.spawn(WIRE, "iperf3", &["-s", "-1", "--forceflush"]);
        server.await_text("Server listening");
        let inwards =
            report(&netns.text("iperf3", &["-u", "-b", "20M", "-c", ours, "-t", "1", "-J"]));
        server.succeed();
        let _server = KernelServer::new(&netns, &host);
        let outwards =
            report(&host.run(WIRE, "iperf3", &["-u", "-b", "20M", "-c", kernels, "-t", "1", "-J"]));
        for report in [inwards, outwards] {
            let sum = &report["end"]["sum"];
            let (packets, lost) =
                (sum["packets"].as_u64().unwrap(), sum["lost_packets"].as_u64().unwrap());
            assert!(packets > 1_000 && lost < packets, "{report}");
        }
    }
    host.stop();
}

/// What ping says, so that the chapter's first step is here too.
#[test]
fn the_kernel_pings_the_host() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for address in OURS {
        let said = netns.text("ping", &["-c", "3", "-i", "0.2", "-W", "5", address]);
        assert!(said.contains("3 received"), "{said}");
    }
    // And what does not speak through the host at all still works beside it.
    let mut ping = Command::new("ping");
    assert!(ping.args(["-c", "1", "-W", "5", "127.0.0.1"]).output().unwrap().status.success());
    host.stop();
}
