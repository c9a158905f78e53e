//! `clearway nstat` beside the kernel's nstat(8), at the two ends of a link that loses packets.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, eventually};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Connections each way.
const CONNECTIONS: u64 = 12;

/// Datagrams to the host's end.
const DATAGRAMS: u64 = 40;

/// Answers what it is asked, over as many connections as it is told, one after the other.
const SERVER: &str = "
import socket, sys
listener = socket.create_server((sys.argv[1], 9080))
print('listens', flush=True)
for _ in range(int(sys.argv[2])):
    conn, _ = listener.accept()
    while asked := conn.recv(100):
        conn.sendall(asked)
    conn.close()
print('done', flush=True)
";

/// Asks ten questions over each connection. One byte follows the other, so no segment is long.
const CLIENT: &str = "
import socket, sys
for _ in range(int(sys.argv[2])):
    conn = socket.create_connection((sys.argv[1], 9080))
    for _ in range(10):
        conn.sendall(b'question')
        left = 8
        while left:
            left -= len(conn.recv(left))
    conn.close()
print('done', flush=True)
";

const DATAGRAM_READER: &str = "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.98.0.2', 9053))
print('bound', flush=True)
time.sleep(600)
";

type Counters = BTreeMap<String, u64>;

fn read(json: &str) -> Counters {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let all = json["kernel"].as_object().unwrap();
    all.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
}

/// The two ends of a TUN device, over which no packet is of anything but IP.
struct Ends {
    netns: Netns,
    host: Host,
}

impl Ends {
    fn new() -> Ends {
        let netns = Netns::new("cwns");
        let commands = [
            "create tap id 0 host-if-name cw0 tun fault loss=8%",
            "set interface state tap0 up",
            "set interface ip address tap0 10.98.0.2/24",
            "app ns add id wire secret abc if tap0",
        ];
        let host = Host::inside(&netns, &[], &commands);
        // The kernel would look for routers, and tell of groups.
        netns.text("sysctl", &["-qw", "net.ipv6.conf.cw0.disable_ipv6=1"]);
        netns.ip("addr add 10.98.0.1/24 dev cw0");
        netns.ip("link set cw0 multicast off up");
        Ends { netns, host }
    }

    fn ours(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        let command = command.arg("nstat").args(args).env("CLEARWAY_SOCKET", self.host.socket());
        let out = command.output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn theirs(&self) -> Counters {
        read(&self.netns.text("nstat", &["-asz", "--json"]))
    }

    /// Frames that the link has lost: towards us, and from us.
    fn lost(&self) -> (u64, u64) {
        let shown = self.host.json("show interface tap0");
        let of = |way: &str| shown["interfaces"][0][way]["fault-loss"].as_u64().unwrap_or(0);
        (of("rx-drops"), of("tx-drops"))
    }
}

#[test]
fn nstat_agrees_with_the_kernels_at_the_other_end_of_a_link_with_losses() {
    if !root() {
        return;
    }
    let ends = Ends::new();
    let (netns, host) = (&ends.netns, &ends.host);

    let reader = host.spawn(WIRE, "python3", &["-c", DATAGRAM_READER]);
    reader.await_text("bound");
    let send = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for _ in range({DATAGRAMS}): s.sendto(b'x', ('10.98.0.2', 9053))"
    );
    netns.text("python3", &["-c", &send]);
    let all = |args: &[&str]| read(&ends.ours(&[&["-as", "--json"][..], args].concat()));
    let came = || all(&["-z"])["UdpInDatagrams"] + ends.lost().0;
    eventually("every datagram has come or was lost", || came() == DATAGRAMS);
    assert_eq!(ends.theirs()["UdpOutDatagrams"], DATAGRAMS);
    // What came until here is seen, and is not shown again.
    let seen = read(&ends.ours(&["--json"]));
    assert_eq!(Some(&seen["UdpInDatagrams"]), all(&[]).get("UdpInDatagrams"));
    let before = ends.lost();

    let connections = CONNECTIONS.to_string();
    let server = host.spawn(WIRE, "python3", &["-c", SERVER, "10.98.0.2", &connections]);
    server.await_text("listens");
    netns.text("python3", &["-c", CLIENT, "10.98.0.2", &connections]);
    // Until here the kernel made connections and took none: these were SYNs.
    let syns = ends.theirs()["TcpExtTCPSynRetrans"];
    let mut kernels = netns.command("python3", &["-c", SERVER, "10.98.0.1", &connections]);
    let mut kernels = kernels.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the kernel's server listens", || {
        netns.text("ss", &["-tlnH"]).contains("10.98.0.1:9080")
    });
    host.run(WIRE, "python3", &["-c", CLIENT, "10.98.0.1", &connections]);
    assert!(kernels.wait().unwrap().success());
    server.await_text("done");

    // What one end has sent, the other has counted or the link has lost. A SYN-ACK that is said
    // again is in both counters, at Linux as here.
    let syn_acks = |ends: &Ends| ends.theirs()["TcpExtTCPSynRetrans"] - syns;
    let sent = |all: &Counters, syn_acks: u64| all["TcpOutSegs"] + all["TcpRetransSegs"] - syn_acks;
    let mut seen = ((0, 0), (0, 0));
    eventually("both ends have counted all that was sent", || {
        let (theirs, ours) = (ends.theirs(), read(&ends.ours(&["-sz", "--json"])));
        let (rx, tx) = ends.lost();
        let repeated = host.json("show tcp")["tcp"]["syn-acks-repeated"].as_u64().unwrap();
        let to_us = (sent(&theirs, syn_acks(&ends)), ours["TcpInSegs"] + rx - before.0);
        let from_us = (sent(&ours, repeated), theirs["TcpInSegs"] + tx - before.1);
        if std::mem::replace(&mut seen, (to_us, from_us)) != (to_us, from_us) {
            eprintln!("sent and counted or lost: to us {to_us:?}, from us {from_us:?}");
        }
        to_us.0 == to_us.1 && from_us.0 == from_us.1
    });
    let (theirs, ours) = (ends.theirs(), read(&ends.ours(&["-sz", "--json"])));
    let opens = |all: &Counters| (all["TcpActiveOpens"], all["TcpPassiveOpens"]);
    assert_eq!(opens(&ours), (CONNECTIONS, CONNECTIONS), "{ours:?}");
    assert_eq!(opens(&theirs), (CONNECTIONS, CONNECTIONS), "{theirs:?}");
    assert!(ours["TcpRetransSegs"] > 0 && theirs["TcpRetransSegs"] > 0, "{ours:?} {theirs:?}");
    assert_eq!((ours["UdpInDatagrams"], ours["TcpInErrs"]), (0, 0), "seen before, and none");
    assert!(
        ours["TcpExtTCPLossProbes"] + ours["TcpExtTCPTimeouts"] > 0,
        "losses are repaired by probes or timeouts: {ours:?}"
    );
    // Every name is one that the kernel of this machine has.
    let unknown: Vec<&String> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");

    hold_page(&theirs, &ours);

    history_and_patterns(&ends);
    drop((reader, server));
    ends.host.stop();
}

/// The page has a table of a run: of all that happened here, at both ends. Which repairs there were
/// is another matter each time, so its names are held against what can be counted.
fn hold_page(theirs: &Counters, ours: &Counters) {
    let happened = ours.iter().filter(|(name, count)| **count + theirs[*name] > 0);
    let row = |(name, count): (&String, &u64)| format!("| `{name}` | {} | {count} |", theirs[name]);
    let fresh: Vec<String> = happened.map(row).collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/nstat.md");
    let page = std::fs::read_to_string(page).unwrap();
    let part = page.split("## Both ends of a run").nth(1).unwrap_or_default();
    let rows = part.lines().skip_while(|line| !line.starts_with("| `"));
    let names: Vec<&str> = rows
        .take_while(|line| line.starts_with("| `"))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    eprintln!("{}", fresh.join("\n"));
    assert!(names.contains(&"TcpInSegs") && names.contains(&"TcpPassiveOpens"), "{names:?}");
    let unknown: Vec<_> = names.iter().filter(|name| !ours.contains_key(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// What is kept between two calls, and which lines are shown.
fn history_and_patterns(ends: &Ends) {
    let lines = ends.ours(&["-as", "tcpactive*", "TcpPassiveOpens"]);
    let opened = |name: &str| format!("{name:<32}{CONNECTIONS:<16}{:6.1}\n", 0.0);
    let expected = opened("TcpActiveOpens") + &opened("TcpPassiveOpens");
    assert_eq!(lines, format!("#kernel\n{expected}"));
    assert_eq!(ends.ours(&["-n"]), "");
    assert_eq!(ends.ours(&["-s", "TcpActiveOpens"]), "#kernel\n", "seen by the call before");
    assert!(ends.ours(&["-rs", "TcpActiveOpens"]).contains(&expected[..40]), "forgotten again");
    let quiet = ends.ours(&["-t", "1", "-z", "TcpActiveOpens"]);
    assert!(quiet.contains("TcpActiveOpens                  0                  0.0"), "{quiet}");
}
