//! Programs that pass their bytes round the stack, and know nothing of that either.

use std::fs;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::world::{Host, IN_CLIENT, IN_SERVER, Namespace, SERVER, SERVER_V6, eventually};

/// A child that ends with the test.
struct Program(Option<Child>);

impl Program {
    fn start(host: &Host, namespace: Namespace, words: &[&str], variable: (&str, &str)) -> Program {
        let mut command = host.command(namespace, words[0], &words[1..]);
        command.env(variable.0, variable.1).stdout(Stdio::piped()).stderr(Stdio::piped());
        Program(Some(command.spawn().unwrap()))
    }

    fn succeed(mut self) -> String {
        let Output { status, stdout, stderr } = self.0.take().unwrap().wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{status}: {out}{err}");
        out.into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const ASKS: (&str, &str) = ("CLEARWAY_CUT_THROUGH", "1");

fn sessions(host: &Host) -> Vec<Value> {
    host.json("show session verbose")["sessions"].as_array().unwrap().clone()
}

fn start_server(host: &Host, words: &[&str], variable: (&str, &str)) -> Program {
    let server = Program::start(host, IN_SERVER, words, variable);
    eventually("the server listens", || {
        sessions(host).iter().any(|session| session["kind"] == "listener")
    });
    server
}

/// One run of iperf3: its report, and whether a session was seen whose bytes go round the stack.
fn iperf(host: &Host, args: &[&str], server_asks: (&str, &str)) -> (Value, bool) {
    let server = start_server(host, &["iperf3", "-s", "-1"], server_asks);
    let mut words = vec!["iperf3", "-J"];
    if !args.contains(&"-c") {
        words.extend(["-c", SERVER]);
    }
    words.extend(args);
    let client = Program::start(host, IN_CLIENT, &words, ASKS);
    let mut went_round = false;
    // Looked at while it goes on; the listener goes last.
    eventually("it is over", || {
        let all = sessions(host);
        went_round |= all.iter().any(|session| session["cut-through"] == true);
        all.is_empty()
    });
    server.succeed();
    let report = client.succeed();
    (
        serde_json::from_str(&report).unwrap_or_else(|error| panic!("{args:?}: {error}: {report}")),
        went_round,
    )
}

fn received(report: &Value) -> u64 {
    report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn iperf3_in_its_ways_goes_round_the_stack() {
    let host = Host::new();
    let file = host.folder.join("server.conf");
    fs::write(
        &file,
        "vcl { app-scope-local app-scope-global rx-fifo-size 4000000 tx-fifo-size 4000000 }",
    )
    .unwrap();
    let by_file = ("CLEARWAY_CONFIG", file.to_str().unwrap());
    let mut bytes = 0;
    for (args, server_asks) in [
        (&["-t", "1"][..], by_file),
        (&["-t", "1", "-R"], ASKS),
        (&["-t", "1", "--bidir"], ASKS),
        (&["-t", "1", "-P", "8"], by_file),
        (&["-t", "1", "-6", "-c", SERVER_V6], ASKS),
        (&["-n", "2G"], by_file),
    ] {
        let (report, went_round) = iperf(&host, args, server_asks);
        assert!(went_round, "{args:?}: the stack was between");
        assert!(received(&report) > 100_000, "{args:?}: {report}");
        // What was written before the other end was seen, at most.
        let retransmits = report["end"]["sum_sent"]["retransmits"].as_u64();
        assert!(
            retransmits.is_some_and(|retransmits| retransmits < 10),
            "{args:?}: {retransmits:?} retransmits"
        );
        bytes += received(&report);
    }
    // Segments are those of handshakes, ends, and what was written before the other end was seen:
    // with the stack between there is one for each 64 KiB at least.
    let segments = host.json("show tcp")["tcp"]["segs-in"].as_u64().unwrap();
    assert!(
        segments < 2_000 && segments * 65_536 < bytes / 2,
        "{segments} segments for {bytes} bytes"
    );
    host.await_empty();
    host.stop();
}

#[test]
fn one_who_does_not_ask_has_the_stack_between() {
    let host = Host::new();
    let (report, went_round) = iperf(&host, &["-t", "1"], ("CLEARWAY_CUT_THROUGH", "0"));
    assert!(!went_round && received(&report) > 1_000_000, "{report}");
    host.stop();
}

/// Sends as much as two FIFOs hold several times over, and is gone; takes what comes, slowly at
/// first.
const SENDER: &str = "
import hashlib, socket
s = socket.create_server(('172.16.1.1', 7000))
data = bytes(range(251)) * 100000
for end in ('close', 'shutdown'):
    c, _ = s.accept()
    c.sendall(data)
    if end == 'shutdown':
        c.shutdown(socket.SHUT_WR)
        assert c.recv(100) == b'thanks', 'the answer is lost'
    c.close()
print(hashlib.sha256(data).hexdigest())
";
const RECEIVER: &str = "
import hashlib, socket, time
for end in ('close', 'shutdown'):
    c = socket.create_connection(('172.16.1.1', 7000))
    time.sleep(0.3)
    seen = hashlib.sha256()
    while part := c.recv(1 << 20):
        seen.update(part)
    if end == 'shutdown':
        c.sendall(b'thanks')
    c.close()
print(seen.hexdigest())
";

#[test]
fn the_last_byte_comes_before_the_end() {
    let host = Host::new();
    let sender = start_server(&host, &["python3", "-c", SENDER], ASKS);
    let receiver = Program::start(&host, IN_CLIENT, &["python3", "-c", RECEIVER], ASKS);
    let seen = receiver.succeed();
    assert_eq!(seen, sender.succeed());
    host.await_empty();
    host.stop();
}

/// Bytes that are passed round the stack.
const BYTES: u64 = 3_000_000;

#[test]
fn bytes_that_go_round_the_stack_are_counted_at_both_ends() {
    const TAKES: &str = "
import socket, sys, time
listener = socket.create_server(('172.16.1.1', 9080))
conn, _ = listener.accept()
left = int(sys.argv[1])
while left:
    left -= len(conn.recv(min(left, 65536)))
time.sleep(600)
";
    const GIVES: &str = "
import socket, sys, time
s = socket.create_connection(('172.16.1.1', 9080))
s.sendall(b'x' * int(sys.argv[1]))
time.sleep(600)
";
    let host = Host::new();
    let bytes = BYTES.to_string();
    let server = start_server(&host, &["python3", "-c", TAKES, &bytes], ASKS);
    let client = Program::start(&host, IN_CLIENT, &["python3", "-c", GIVES, &bytes], ASKS);
    let mut seen = Vec::new();
    eventually("both ends tell all bytes", || {
        seen = sessions(&host);
        let tells = |way: &str| {
            seen.iter().any(|session| session["cut-through"] == true && session[way] == BYTES)
        };
        tells("rx-bytes") && tells("tx-bytes")
    });
    // Who only reads has sent nothing.
    let is_silent = |session: &&Value| session["rx-bytes"] == BYTES && session["tx-bytes"] == 0;
    assert_eq!(seen.iter().filter(is_silent).count(), 1, "{seen:#?}");
    drop((server, client));
}
