//! `clearway ss` beside the kernel's ss(8), at the two ends of the same connection over a TAP
//! device.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, eventually};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Takes one connection, reads five bytes, answers with seven, and holds it. A datagram socket
/// beside it.
const SERVER: &str = "
import socket, time
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('10.97.0.2', 9053))
listener = socket.create_server(('10.97.0.2', 9080), backlog=7)
print('listens', flush=True)
conn, _ = listener.accept()
conn.recv(5)
conn.sendall(b'answers')
print('holds', flush=True)
time.sleep(600)
";

const CLIENT: &str = "
import socket, time
s = socket.create_connection(('10.97.0.2', 9080))
s.sendall(b'asked')
s.recv(7)
print('holds', flush=True)
time.sleep(600)
";

/// `word:value` and `word value` of what ss tells of one connection.
fn values(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn ss_shows_what_the_kernels_ss_shows_of_the_other_end() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwss");
    let commands = [
        "create tap id 0 host-if-name cw0",
        "set interface state tap0 up",
        "set interface ip address tap0 10.97.0.2/24",
        "app ns add id wire secret abc if tap0",
    ];
    let host = Host::inside(&netns, &[], &commands);
    netns.ip("addr add 10.97.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    let server = host.spawn(WIRE, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let mut client = netns.command("python3", &["-c", CLIENT]);
    let mut client = client.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    server.await_text("holds");

    let ours = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        let out =
            command.arg("ss").args(args).env("CLEARWAY_SOCKET", host.socket()).output().unwrap();
        assert!(
            out.status.success(),
            "clearway ss {args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let kernels = |args: &[&str]| {
        let out = netns.command("ss", args).output().unwrap();
        assert!(out.status.success(), "ss {args:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let filter = ["dport", "=", ":9080"];
    let acknowledged = || kernels(&[&["-tinH"][..], &filter].concat()).contains("bytes_acked:6");
    eventually("both ends have heard of each other's bytes", acknowledged);
    let theirs = values(&kernels(&[&["-tinH"][..], &filter].concat()));
    let mine = ours(&["-tinOH", "sport", "=", ":9080"]);
    let here = values(&mine);

    // What each end is told by the other, or agreed with it.
    let (there, back) = theirs["wscale"].split_once(',').unwrap();
    assert_eq!(here["wscale"], format!("{back},{there}"), "{mine}");
    for name in ["mss", "pmtu", "advmss"] {
        assert_eq!(here[name], theirs[name], "{name}: {mine}");
    }
    // The SYN counts as an acknowledged byte at the kernel, as it does there.
    assert_eq!((&*here["bytes_received"], &*theirs["bytes_received"]), ("5", "7"), "{mine}");
    assert_eq!((&*here["bytes_sent"], &*theirs["bytes_sent"]), ("7", "5"), "{mine}");
    assert_eq!((&*here["data_segs_out"], &*here["data_segs_in"]), ("1", "1"), "{mine}");
    for word in ["ts", "sack", "cubic"] {
        assert!(mine.split_whitespace().any(|one| one == word), "{word}: {mine}");
    }

    // The same columns: state, queues, our side, the peer's.
    let port = kernels(&["-tnH"])
        .split_whitespace()
        .find_map(|word| word.strip_prefix("10.97.0.1:").map(str::to_owned));
    let port = port.unwrap();
    let columns: Vec<&str> = mine.split_whitespace().take(5).collect();
    assert_eq!(columns, ["ESTAB", "0", "0", "10.97.0.2:9080", &format!("10.97.0.1:{port}")]);
    let listening = ours(&["-tulnpH"]);
    let lines: Vec<Vec<&str>> =
        listening.lines().map(|line| line.split_whitespace().collect()).collect();
    let of = |netid: &str| {
        lines.iter().find(|line| line[0] == netid).unwrap_or_else(|| panic!("{listening}"))
    };
    assert_eq!(of("tcp")[1..6], ["LISTEN", "0", "7", "10.97.0.2:9080", "0.0.0.0:*"]);
    assert_eq!(of("udp")[1..6], ["UNCONN", "0", "0", "10.97.0.2:9053", "0.0.0.0:*"]);
    assert!(of("tcp")[6].starts_with("users:((\"python3"), "{listening}");

    let json: serde_json::Value = serde_json::from_str(&ours(&["--json", "-t"])).unwrap();
    let sockets = json["sockets"].as_array().unwrap();
    assert_eq!(sockets.len(), 1, "{json}");
    assert_eq!(
        (&sockets[0]["state"], &sockets[0]["tcp"]["linux"]["bytes_received"]),
        (&"ESTAB".into(), &5.into())
    );
    assert!(
        ours(&["-s"]).contains("TCP:   2 (estab 1, closed 0, listening 1)"),
        "{}",
        ours(&["-s"])
    );

    let wrong = Command::new(env!("CARGO_BIN_EXE_clearway"))
        .args(["ss", "state", "asleep"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2), "a filter is wrong use, also where no host is");
    let _ = client.kill();
    let _ = client.wait();
    drop(server);
    host.stop();
}
