//! The host over a port of DPDK's: an unmodified program reaches a server at the other end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::kernel::plug;
use crate::netns::{Netns, root};
use crate::preload;
use crate::world::{Folder, Memory, Running, clearway, eventually, finish, text, with_memory};

#[test]
fn an_unmodified_program_reaches_a_server_over_memif_also_when_that_was_gone() {
    preload::build();
    let folder = Folder::new();
    let link = folder.file("m");
    let listens = format!("dpdk:net_memif0,role=server,socket={link}");
    let serve = || {
        let args = ["http", "--port", &listens, "-a", "10.98.0.1/24", "-l", "100k", "--json"];
        Running::start(clearway(Memory::Plain, &args))
    };
    let (settings, socket) = (folder.file("c.toml"), folder.file("s"));
    let port = format!("dpdk:net_memif0,role=client,socket={link}");
    let text_of_it =
        format!("[[ports]]\nport = \"{port}\"\nname = \"m0\"\naddresses = [\"10.98.0.2/24\"]\n");
    std::fs::write(&settings, text_of_it).unwrap();
    let up = clearway(Memory::Plain, &["up", "-c", &settings, "--socket", &socket])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut host = Guard(up);
    let ctl = |words: &[&str]| {
        let output = finish(clearway(
            Memory::Plain,
            &[&["ctl", "--socket", &socket, "--json"], words].concat(),
        ));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    let link_is = |up: bool| ctl(&["show", "interface", "m0"])["interfaces"][0]["link"] == up;
    eventually("the host is there, and nobody at the other end", || link_is(false));
    for round in 1..=2 {
        let server = serve();
        eventually("the link is up", || link_is(true));
        let program = [
            "run",
            "--socket",
            &socket,
            "--",
            "curl",
            "--silent",
            "--max-time",
            "30",
            "http://10.98.0.1/",
        ];
        let output = finish(clearway(Memory::Plain, &program));
        assert!(output.status.success(), "{round}: {}", text(&output));
        assert_eq!(output.stdout.len(), 102_400, "{round}");
        let seen = ctl(&["show", "interface", "m0"]);
        let received = seen["interfaces"][0]["driver"]["rx_good_bytes"].as_u64();
        assert!(received.is_some_and(|bytes| bytes > 102_400), "{seen}");
        let buffers = &ctl(&["show", "dpdk", "buffer"])["buffers"][0];
        let number = |key: &str| buffers[key].as_u64().unwrap_or_else(|| panic!("{buffers}"));
        assert_eq!(buffers["name"], "m0");
        assert!(number("free") > 0 && number("free") < number("buffers"), "{buffers}");
        assert_eq!(ctl(&["show", "dpdk", "physmem"])["memory"]["pages"], "plain");
        let (summary, _) = server.stop(Signal::SIGTERM);
        assert_eq!(summary["requests"], 1);
        eventually("the link is down", || link_is(false));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(host.0.id() as i32), Signal::SIGTERM)
        .unwrap();
    let status = host.0.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// A process that ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.try_wait().ok().flatten().is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Answers what it is asked.
const SERVE: &str = "
import socket, sys
s = socket.create_server((sys.argv[1], 7000))
print('listens', flush=True)
c, _ = s.accept()
while data := c.recv(100):
    c.sendall(data)
";

/// Asks for each line that it reads, and says so when there is an answer.
const ASK: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], 7000))
for line in sys.stdin:
    s.sendall(b'x')
    assert s.recv(1) == b'x'
    print('heard', flush=True)
";

fn piped(mut command: Command) -> Guard {
    Guard(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
}

/// A program of the kernel's and one of ours have a connection while the interface below the driver
/// is removed and made again, twice. `make` makes it; `is_ours`: or the driver does, and that is to
/// finish it. With several workers ours is the one that connects: which of them has a flow that
/// came from outside is forgotten with the port.
fn is_taken_back(driver: &str, interface: &str, cores: &str, is_ours: bool, make: fn(&Netns)) {
    let calls = cores.contains(',');
    let server = if calls { "10.97.0.1" } else { "10.97.0.2" };
    if !root() {
        return;
    }
    preload::build();
    let (netns, folder) = (Netns::new("cwdpdk"), Folder::new());
    let (settings, socket) = (folder.file("c.toml"), folder.file("s"));
    let port = format!("dpdk:{driver},iface={interface}");
    let text_of_it =
        format!("[[ports]]\nport = \"{port}\"\nname = \"d0\"\naddresses = [\"10.97.0.2/24\"]\n");
    std::fs::write(&settings, text_of_it).unwrap();
    let inside = |args: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &netns.name, env!("CARGO_BIN_EXE_clearway")]);
        with_memory(command, Memory::Plain, args)
    };
    let log = std::fs::File::create(folder.file("log")).unwrap();
    if is_ours {
        make(&netns);
    }
    let up = ["up", "-c", &settings, "--socket", &socket, "--cores", cores];
    let mut host = Guard(inside(&up).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let d0 = || {
        let shown = finish(inside(&["ctl", "--socket", &socket, "--json", "show", "interface"]));
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        shown["interfaces"][0].clone()
    };
    let is_up = |losses: u64| {
        let d0 = d0();
        d0["up"] == true && d0["lost"].is_null() && d0["losses"] == losses
    };
    eventually("the host is there", || is_up(0));
    if !is_ours {
        make(&netns);
    }
    let ours = |script| {
        piped(inside(&["run", "--socket", &socket, "--", "python3", "-c", script, server]))
    };
    let theirs = |script| piped(netns.command("python3", &["-c", script, server]));
    let mut serving = if calls { theirs(SERVE) } else { ours(SERVE) };
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    let mut asking = if calls { ours(ASK) } else { theirs(ASK) };
    let mut asks = asking.0.stdin.take().unwrap();
    let mut answers = BufReader::new(asking.0.stdout.take().unwrap());
    let mut hears = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "heard\n");
    };
    asks.write_all(b"\n").unwrap();
    hears();
    for losses in 1..3 {
        netns.ip(&format!("link del {interface}"));
        eventually("the loss is counted", || d0()["losses"] == losses);
        if is_ours {
            eventually("it is said why it is not back", || !d0()["lost"]["not-back"].is_null());
        }
        asks.write_all(b"\n").unwrap();
        if is_ours {
            make(&netns);
        }
        eventually("it is back", || is_up(losses));
        if !is_ours {
            make(&netns);
        }
        hears();
        // Also who comes anew.
        let answers = || netns.run("ping", &["-c", "1", "-W", "5", "10.97.0.2"]).status.success();
        eventually("it answers", answers);
    }
    drop(asks);
    assert!(asking.0.wait().unwrap().success());
    assert!(serving.0.wait().unwrap().success());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(host.0.id() as i32), Signal::SIGTERM)
        .unwrap();
    assert!(host.0.wait().unwrap().success());
    let log = std::fs::read_to_string(folder.file("log")).unwrap();
    assert_eq!(log.matches("the interface was removed").count(), 2, "{log}");
    assert_eq!(log.matches("an interface is back ").count(), 2, "{log}");
}

#[test]
fn an_interface_below_af_packet_is_taken_back_and_connections_go_on() {
    is_taken_back("net_af_packet0", "ours", "0", true, plug);
}

#[test]
fn an_interface_below_af_packet_is_taken_back_by_two_workers() {
    is_taken_back("net_af_packet0", "ours", "0,1", true, plug);
}

#[test]
fn an_interface_below_dpdks_af_xdp_is_taken_back_and_connections_go_on() {
    is_taken_back("net_af_xdp0", "ours", "0", true, plug);
}

#[test]
fn an_interface_below_libpcap_is_taken_back_and_connections_go_on() {
    is_taken_back("net_pcap0", "ours", "0", true, plug);
}

#[test]
fn an_interface_of_dpdks_tap_driver_is_made_anew_and_connections_go_on() {
    is_taken_back("net_tap0", "dtap0", "0", false, |netns| {
        netns.ip("addr add 10.97.0.1/24 dev dtap0");
        netns.ip("link set dtap0 up");
    });
}
