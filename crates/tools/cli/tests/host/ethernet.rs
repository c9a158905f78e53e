//! The documents' Ethernet chapter: the host owns a device, and the peer at its other end is the
//! Linux kernel.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, answers, eventually, report};

const KERNEL: [&str; 2] = ["10.98.0.1", "fd98::1"];
const OURS: [&str; 2] = ["10.98.0.2", "fd98::2"];
const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// The kernel in a namespace of its own, and a host with a TAP device there.
/// A host with a TAP device, whose other end is the kernel's.
pub(crate) fn wire() -> (Netns, Host) {
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
        // The kernel drops what is sent before it has seen that the link is up.
        eventually("the host answers", || answers(&netns, address));
        let said = netns.text("ping", &["-c", "3", "-i", "0.2", "-W", "5", address]);
        assert!(said.contains("3 received"), "{said}");
    }
    // And what does not speak through the host at all still works beside it.
    let mut ping = Command::new("ping");
    assert!(ping.args(["-c", "1", "-W", "5", "127.0.0.1"]).output().unwrap().status.success());
    host.stop();
}

/// Two processes that share a UDP port (SO_REUSEPORT) and answer what comes, and a third that
/// answers over TCP. On SIGTERM it says how many datagrams each of the two has answered.
const TWO_ANSWER: &str = "
import os, signal, socket, sys, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
at = (sys.argv[1], int(sys.argv[2]))
pipes = []
for number in range(2):
    word, (said_out, said_in) = os.pipe(), os.pipe()
    pipes.append((word[1], said_out))
    if os.fork():
        continue
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    ours.bind(at)
    os.write(said_in, b'bound')
    count = [0]
    def answer():
        while True:
            question, peer = ours.recvfrom(2048)
            count[0] += 1
            ours.sendto(question, peer)
    threading.Thread(target=answer, daemon=True).start()
    os.read(word[0], 1)
    os.write(said_in, b'%d' % count[0])
    os._exit(0)
for _, said in pipes:
    os.read(said, 16)
listener = socket.create_server(at)
def echo(connection):
    while question := connection.recv(2048):
        connection.sendall(question)
def accept():
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
print('bound', flush=True)
signal.sigwait({signal.SIGTERM})
for word, said in pipes:
    os.write(word, b'x')
print('answered', *(int(os.read(said, 16)) for _, said in pipes), flush=True)
os._exit(0)
";

/// Asks from as many ports as the third argument says, over UDP and over TCP, as often as the
/// fourth says, and says so after each round.
const ASKS_FROM_MANY: &str = "
import socket, sys
to, ports, rounds = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4])
datagrams = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(ports)]
for ours in datagrams:
    ours.connect(to)
    ours.settimeout(2)
streams = [socket.create_connection(to, 30) for _ in range(ports // 4)]
def ask(ours, question, again):
    for _ in range(again):
        ours.sendall(question)
        try:
            while ours.recv(2048) != question:
                pass
            return
        except TimeoutError:
            pass
    sys.exit(f'no answer to {question}')
for round in range(rounds):
    for number, ours in enumerate(datagrams):
        ask(ours, b'%d %d' % (round, number), 5)
    for number, ours in enumerate(streams):
        ask(ours, b'%d %d' % (round, number), 1)
    print('round', round, flush=True)
    sys.stdin.readline()
";

/// Flows that the kernel shares out among the two queues of a TAP device: each is served on the
/// worker to which it comes, and in the steady state no worker hands anything to the other.
#[test]
fn datagrams_and_streams_are_served_where_their_queue_brings_them() {
    if !root() {
        return;
    }
    let (netns, host) = wire_with(&["--cores", "0,1"]);
    let mut server = host.spawn(WIRE, "python3", &["-c", TWO_ANSWER, OURS[0], "5300"]);
    server.await_text("bound");
    let log = host.folder.join("asks");
    let args = ["-c", ASKS_FROM_MANY, OURS[0], "5300", "32", "20"];
    let mut client = netns
        .command("python3", &args)
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let handed_over = || -> Vec<u64> {
        let threads = host.json("show threads")["threads"].as_array().unwrap().clone();
        threads.iter().map(|worker| worker["handed-over"].as_u64().unwrap()).collect()
    };
    let mut before = Vec::new();
    for round in 0..20 {
        let said = format!("round {round}\n");
        eventually(&said, || fs::read_to_string(&log).unwrap().contains(&said));
        match round {
            0 => before = handed_over(),
            _ => assert_eq!(handed_over(), before, "round {round}"),
        }
        writeln!(client.stdin.as_mut().unwrap()).unwrap();
    }
    assert!(client.wait().unwrap().success());
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGTERM).unwrap();
    let said = server.succeed();
    let answered: Vec<u32> = said
        .lines()
        .find_map(|line| line.strip_prefix("answered "))
        .unwrap_or_else(|| panic!("{said}"))
        .split(' ')
        .map(|count| count.parse().unwrap())
        .collect();
    assert!(answered.iter().sum::<u32>() >= 640, "{answered:?}");
    assert!(
        answered.iter().all(|count| *count >= 20),
        "one of them has next to nothing: {answered:?}"
    );
    host.await_empty();
    host.stop();
}
