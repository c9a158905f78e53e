//! Stamps of packets, of which one end is a program over the host and the other the kernel: both
//! read one clock, so their stamps have to be in order.

use std::process::Stdio;

use crate::ethernet::wire;
use crate::netns::root;
use crate::world::{Host, Namespace, eventually};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Takes a datagram and then a stream's bytes, each of which says when it was sent, a second after
/// it came; and answers with the stamp.
const RECEIVER: &str = r#"
import select, socket, struct, sys, time
address, family = sys.argv[1], socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
def stamped(fd):
    select.select([fd], [], [])
    seen = time.time_ns()
    time.sleep(1)
    data, controls, flags, sender = fd.recvmsg(100, 100)
    (level, kind, parts), = controls
    assert (level, kind) == (socket.SOL_SOCKET, 35), controls
    seconds, nanoseconds = struct.unpack("qq", parts)
    at = seconds * 10**9 + nanoseconds
    assert int(data) <= at <= seen, (int(data), at, seen)
    return str(at).encode(), sender
datagrams = socket.socket(family, socket.SOCK_DGRAM)
listener = socket.socket(family, socket.SOCK_STREAM)
for one in datagrams, listener:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, 35, 1)
    one.bind((address, 9077))
listener.listen()
# The kernel begins to stamp some time after somebody asks.
time.sleep(1)
print("ready", flush=True)
datagrams.sendto(*stamped(datagrams))
stream, _ = listener.accept()
stream.send(stamped(stream)[0])
stream.recv(1)
print("in time", flush=True)
"#;

/// Sends both, and sets what it is told of their leaving beside what it is told of their arrival.
const SENDER: &str = r#"
import select, socket, struct, sys, time
address, family = sys.argv[1], socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
SENT, SOFTWARE, NUMBERS, SCHEDULED, ACKNOWLEDGED, ALONE = 2, 16, 128, 256, 512, 2048
def told(fd, key):
    poll = select.poll()
    poll.register(fd, 0)
    poll.poll()
    data, controls, flags, _ = fd.recvmsg(100, 200, 0x2000)
    assert data == b"" and flags == 0x2000, (data, flags)
    (level, kind, times), (_, _, error) = controls
    assert (level, kind) == (socket.SOL_SOCKET, 37), controls
    errno, origin, kind, code, pad, info, number = struct.unpack("=IBBBBII", error[:16])
    assert (errno, origin, number) == (42, 4, key), (errno, origin, number)
    seconds, nanoseconds = struct.unpack("qq", times[:16])
    return info, seconds * 10**9 + nanoseconds
def ask(fd, flags):
    fd.setsockopt(socket.SOL_SOCKET, 37, flags | SENT | SCHEDULED | SOFTWARE | NUMBERS | ALONE)
one = socket.socket(family, socket.SOCK_DGRAM)
one.connect((address, 9077))
ask(one, 0)
before = time.time_ns()
one.send(str(before).encode())
(first, scheduled), (second, sent) = told(one, 0), told(one, 0)
arrived = int(one.recv(100))
assert (first, second) == (1, 0) and before <= scheduled <= sent <= arrived, (before, scheduled, sent, arrived)
two = socket.create_connection((address, 9077))
ask(two, ACKNOWLEDGED | 1 << 16)
before = time.time_ns()
text = str(before).encode()
two.send(text)
times = [told(two, len(text) - 1) for _ in range(3)]
now = time.time_ns()
arrived = int(two.recv(100))
kinds, (scheduled, sent, acknowledged) = zip(*times)
assert kinds == (1, 0, 2), kinds
assert before <= scheduled <= sent <= arrived and sent <= acknowledged <= now, (before, times, arrived, now)
two.send(b"x")
print("in order", flush=True)
"#;

#[test]
fn stamps_of_both_ends_of_a_wire_are_in_order() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    for (kernel, ours) in [("10.98.0.1", "10.98.0.2"), ("fd98::1", "fd98::2")] {
        let arguments = |script, address| ["-uc", script, address];
        let mut receiver = host.command(WIRE, "python3", &arguments(RECEIVER, ours));
        let sender = netns.command("python3", &arguments(SENDER, ours));
        both(&host, &mut receiver, sender, &format!("from the kernel to {ours}"));
        let mut receiver = netns.command("python3", &arguments(RECEIVER, kernel));
        let sender = host.command(WIRE, "python3", &arguments(SENDER, kernel));
        both(&host, &mut receiver, sender, &format!("from Clearway to {kernel}"));
    }
}

fn both(
    host: &Host,
    receiver: &mut std::process::Command,
    mut sender: std::process::Command,
    what: &str,
) {
    let log = host.folder.join("receiver");
    let file = std::fs::File::create(&log).unwrap();
    let errors = file.try_clone().unwrap();
    let mut receiver = receiver.stdin(Stdio::null()).stdout(file).stderr(errors).spawn().unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    eventually("the receiver is ready", || said().contains("ready"));
    let sent = sender.stdin(Stdio::null()).output().unwrap();
    if !sent.status.success() {
        let _ = receiver.kill();
    }
    let status = receiver.wait().unwrap();
    let errors = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success(), "{what}: {errors}\nreceiver: {}", said());
    assert!(status.success() && said().ends_with("in time\n"), "{what}: {}", said());
}
