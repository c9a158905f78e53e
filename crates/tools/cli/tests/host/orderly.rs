//! The host's orderly end, as peers on the wire see it.

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// What the program accepts and writes: more than the peer's window takes at once.
const BYTES: usize = 4 << 20;

/// Writes as much as it may without waiting, says how much that was, and stays.
const SERVER: &str = "
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('10.98.0.2', 8080))
s.listen()
print('serves', flush=True)
c, _ = s.accept()
c.setblocking(False)
sent = 0
until = time.monotonic() + 1
while sent < int(sys.argv[1]) and time.monotonic() < until:
    try:
        sent += c.send(b'x' * 65536)
    except BlockingIOError:
        time.sleep(0.01)
print('wrote', sent, flush=True)
time.sleep(600)
";

/// A peer of the kernel's that begins to read when it is told to, and says how it ended.
const CLIENT: &str = "
import socket, sys
s = socket.create_connection(('10.98.0.2', 8080), timeout=60)
print('connected', flush=True)
sys.stdin.readline()
got = 0
try:
    while True:
        data = s.recv(1 << 20)
        if not data:
            print('end', got, flush=True)
            break
        got += len(data)
except ConnectionResetError:
    print('reset', got, flush=True)
except TimeoutError:
    print('clear', got, flush=True)
";

#[test]
fn what_a_program_wrote_has_arrived_or_the_peer_is_told_when_the_host_ends() {
    if !root() {
        return;
    }
    let netns = Netns::new("cworderly");
    let commands = [
        "create tap id 0 host-if-name cw0",
        "set interface state tap0 up",
        "set interface ip address tap0 10.98.0.2/24",
        "app ns add id wire secret abc if tap0",
    ];
    let host = Host::inside(&netns, &[], &commands);
    netns.ip("addr add 10.98.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    let server = host.spawn(WIRE, "python3", &["-u", "-c", SERVER, &BYTES.to_string()]);
    server.await_text("serves");
    let mut command = netns.command("python3", &["-u", "-c", CLIENT]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut client = command.spawn().unwrap();
    server.await_text("wrote");
    let text = server.text();
    host.stop();
    std::io::Write::write_all(&mut client.stdin.take().unwrap(), b"go on\n").unwrap();
    let said = String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap();
    let wrote = text.split_whitespace().skip_while(|word| *word != "wrote").nth(1).unwrap();
    // Either everything that the program's calls took, and then the end; or a reset. Never an end
    // before the last byte, and never silence.
    assert!(
        said.contains(&format!("end {wrote}")) || said.contains("reset"),
        "of {wrote} bytes: {said}"
    );
}
