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

type Fields = BTreeMap<String, String>;

/// How a field at one end is to what the other end shows.
#[derive(Clone, Copy)]
enum Is {
    /// It is the same at both.
    Same,
    /// It is what the other end shows under this name.
    Mirror(&'static str),
    /// Two numbers, which change places.
    Swapped,
    /// Each end has its own.
    Own,
    /// Only ss(8) has it.
    Kernels,
    /// Only `clearway ss` has it.
    Ours,
}
use Is::*;

/// A field that either shows of this connection, and what the page says of it.
struct Field {
    name: &'static str,
    is: Is,
    note: &'static str,
}

const fn field(name: &'static str, is: Is, note: &'static str) -> Field {
    Field { name, is, note }
}

/// In the order of ss(8).
const FIELDS: &[Field] = &[
    field("State", Same, "the same"),
    field("Recv-Q", Same, "the same"),
    field("Send-Q", Same, "the same"),
    field("timer", Own, "each end's own, while one runs"),
    field("ino", Kernels, "with `-e`; here `session` names a socket"),
    field("sk", Kernels, "an address in the kernel"),
    field("cgroup", Kernels, "here `namespace` is what separates programs"),
    field("<->", Kernels, "which ways are open; here the state says it"),
    field("session", Ours, "with `-e`"),
    field("namespace", Ours, "with `-e`"),
    field("processes", Ours, "with `-e`"),
    field("skmem r", Own, "bytes of payload that wait here, bytes of buffers there"),
    field("skmem rb", Own, "what the receive FIFO may hold here"),
    field("skmem t", Own, "as `r`"),
    field("skmem tb", Own, "what the send FIFO may hold here"),
    field("skmem f", Kernels, "the kernel's memory, of which there is none here"),
    field("skmem w", Kernels, "as `f`"),
    field("skmem o", Kernels, "as `f`"),
    field("skmem bl", Kernels, "as `f`"),
    field("skmem d", Own, "datagrams that found no room; 0 of a stream"),
    field("ts", Same, "agreed in the handshake"),
    field("sack", Same, "agreed in the handshake"),
    field("congestion", Own, "the name of the algorithm"),
    field("wscale", Swapped, "the two numbers change places"),
    field("rto", Own, "200 ms beside the round trip at least, at both; Linux counts in its ticks"),
    field("rtt", Own, "measured at each end"),
    field("ato", Own, "how long an ACK is delayed at most"),
    field("mss", Same, "agreed in the handshake"),
    field("pmtu", Same, "the same path"),
    field("rcvmss", Same, "a guess of either"),
    field("advmss", Same, "announced in the handshake"),
    field("cwnd", Own, "in segments"),
    field("ssthresh", Own, "in segments, once it was set"),
    field("bytes_sent", Mirror("bytes_received"), "what the other end received"),
    field("bytes_acked", Own, "of the end that connected, its SYN too"),
    field("bytes_received", Mirror("bytes_sent"), "what the other end sent"),
    field("segs_out", Mirror("segs_in"), "what the other end took in"),
    field("segs_in", Mirror("segs_out"), "what the other end sent"),
    field("data_segs_out", Mirror("data_segs_in"), "what the other end took in"),
    field("data_segs_in", Mirror("data_segs_out"), "what the other end sent"),
    field("bbr", Kernels, "where the kernel uses BBR; here TCP_CC_INFO has it"),
    field("send", Own, "window over round trip"),
    field("lastsnd", Own, "milliseconds"),
    field("lastrcv", Own, "milliseconds"),
    field("lastack", Own, "milliseconds"),
    field("pacing_rate", Own, "where it is paced"),
    field("delivery_rate", Own, "measured at each end"),
    field("delivered", Own, "segments that arrived, the handshake's among them"),
    field("app_limited", Own, "the program had no more to send"),
    field("busy", Own, "milliseconds in which something was in flight"),
    field("rcv_space", Own, "what the program read in a round trip"),
    field("rcv_ssthresh", Own, "how far the window may grow"),
    field("minrtt", Own, "measured at each end"),
    field(
        "rcv_wnd",
        Mirror("snd_wnd"),
        "what the other end may send; ss(8) of iproute2 6.1 does not show its own",
    ),
    field("snd_wnd", Mirror("rcv_wnd"), "what the other end would take"),
];

impl Field {
    /// Why it is not as it should be.
    fn broken(&self, theirs: &Fields, ours: &Fields) -> Option<String> {
        let (there, here) = (theirs.get(self.name), ours.get(self.name));
        let swapped =
            |value: &str| value.split_once(',').map(|(first, second)| format!("{second},{first}"));
        let as_other = |own: Option<&String>, other: Option<&String>| {
            own.is_none() || other.is_none() || own == other
        };
        let good = match self.is {
            Same => there.is_some() && there == here,
            Mirror(other) => as_other(here, theirs.get(other)) && as_other(there, ours.get(other)),
            Swapped => here.map(|here| swapped(here)) == there.map(|there| Some(there.clone())),
            Own => true,
            Kernels => here.is_none(),
            Ours => there.is_none() && here.is_some(),
        };
        (!good).then(|| format!("{}: the kernel {there:?}, Clearway {here:?}", self.name))
    }
}

/// What ss tells of one connection, by name.
fn fields(text: &str) -> Fields {
    let mut words = text.split_whitespace();
    let mut fields: Fields = ["State", "Recv-Q", "Send-Q"]
        .iter()
        .zip(words.by_ref())
        .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
        .collect();
    let mut words = words.skip(2);
    while let Some(word) = words.next() {
        let (name, value) = match word {
            "send" | "pacing_rate" | "delivery_rate" => (word, words.next().unwrap_or_default()),
            "cubic" | "bbr" | "reno" | "dctcp" => ("congestion", word),
            _ => word.split_once(':').unwrap_or((word, "yes")),
        };
        if name != "skmem" {
            fields.insert(name.to_owned(), value.to_owned());
            continue;
        }
        for one in value.trim_matches(['(', ')']).split(',') {
            let digits = one.find(|letter: char| letter.is_ascii_digit()).unwrap();
            fields.insert(format!("skmem {}", &one[..digits]), one[digits..].to_owned());
        }
    }
    fields
}

/// Every field has a row in docs/ss.md, and every row is of a field. What stands in the two columns
/// of values is from a run, so only their names are held against this one.
fn hold_page(theirs: &Fields, ours: &Fields) {
    let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    for name in theirs.keys().chain(ours.keys()) {
        assert!(known.contains(&name.as_str()), "{name} is shown and not in the table");
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/ss.md");
    let page = std::fs::read_to_string(page).unwrap();
    let value = |fields: &Fields, name| match fields.get(name) {
        Some(value) => format!("`{value}`"),
        None => "–".to_owned(),
    };
    let row = |field: &Field| {
        let (there, here) = (value(theirs, field.name), value(ours, field.name));
        format!("| `{}` | {there} | {here} | {} |", field.name, field.note)
    };
    let fresh: Vec<String> = FIELDS.iter().map(row).collect();
    let ends = |row: &str| {
        let cells: Vec<String> = row.split(" | ").map(str::to_owned).collect();
        (cells.first().cloned(), cells.last().cloned())
    };
    let part = page.split("## Field by field").nth(1).unwrap_or_default();
    let rows = part.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = rows.take_while(|line| line.starts_with("| `")).map(ends);
    let is_same = rows.eq(fresh.iter().map(|row| ends(row)));
    assert!(is_same, "docs/ss.md has other rows than these:\n{}", fresh.join("\n"));
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

    let both = || {
        let theirs = kernels(&[&["-tinmeoH"][..], &filter].concat());
        (fields(&theirs), fields(&ours(&["-tinmeoOH", "sport", "=", ":9080"])))
    };
    eventually("the fields of both ends are to each other as the page says", || {
        let (theirs, ours) = both();
        let broken: Vec<String> =
            FIELDS.iter().filter_map(|field| field.broken(&theirs, &ours)).collect();
        broken.iter().for_each(|broken| eprintln!("{broken}"));
        broken.is_empty()
    });
    let (kernels_fields, our_fields) = both();
    hold_page(&kernels_fields, &our_fields);

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
