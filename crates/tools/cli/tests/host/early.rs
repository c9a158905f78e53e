//! Fast Open (RFC 7413) between programs over a host and programs over the kernel, at the two ends
//! of a TAP device: cookies are asked for, kept and brought back, keys change, and a server that
//! gives no cookie has connections as ever.

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, folder};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Serves connections: each sends eight bytes and is answered with whether they came with its SYN
/// (TCPI_OPT_SYN_DATA). Arguments: address, port, and TCP_FASTOPEN (23), 0 for none.
const SERVER: &str = "
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
if int(sys.argv[3]):
    listener.setsockopt(socket.IPPROTO_TCP, 23, int(sys.argv[3]))
listener.listen(16)
print('listens', flush=True)
while True:
    conn, _ = listener.accept()
    assert conn.recv(8, socket.MSG_WAITALL) == b'question'
    early = conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16)[5] & 32
    conn.sendall(b'with' if early else b'then')
    conn.close()
";

/// Connects with MSG_FASTOPEN (0x20000000) so many times, and says each time what the server saw
/// and what this end did.
const CLIENT: &str = "
import socket, sys
for _ in range(int(sys.argv[3])):
    s = socket.socket()
    s.sendto(b'question', 0x20000000, (sys.argv[1], int(sys.argv[2])))
    seen = s.recv(4, socket.MSG_WAITALL).decode()
    early = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16)[5] & 32
    assert seen == ('with' if early else 'then'), (seen, early)
    print(seen)
    s.close()
";

struct Both {
    netns: Netns,
    host: Host,
}

/// A host at 10.98.0.2 whose `[tcp]` has this, and the kernel at 10.98.0.1 with this
/// `tcp_fastopen`.
fn both(tcp: &str, mode: &str) -> Both {
    let netns = Netns::new("cwtfo");
    let folder = folder();
    let file = folder.join("host.toml");
    std::fs::write(&file, format!("[tcp]\n{tcp}\n")).unwrap();
    let commands = [
        "create tap id 0 host-if-name cw0",
        "set interface state tap0 up",
        "set interface ip address tap0 10.98.0.2/24",
        "app ns add id wire secret abc if tap0",
    ];
    let host = Host::inside(&netns, &["-c", file.to_str().unwrap()], &commands);
    netns.ip("addr add 10.98.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    let both = Both { netns, host };
    both.knob("tcp_fastopen", mode);
    both
}

impl Both {
    fn knob(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let write = format!("echo {value} > {path}");
        assert!(self.netns.run("sh", &["-c", &write]).status.success(), "{write}");
    }

    /// What so many connections of the host's to the kernel's server saw.
    fn ours(&self, port: &str, count: &str) -> String {
        let text = self.host.run(WIRE, "python3", &["-c", CLIENT, "10.98.0.1", port, count]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The same of the kernel's to the host's server.
    fn kernels(&self, count: &str) -> String {
        let text = self.netns.text("python3", &["-c", CLIENT, "10.98.0.2", "9000", count]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A server over the kernel that runs until it is dropped.
struct Served(std::process::Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(netns: &Netns, port: &str, pending: &str) -> Served {
    use std::io::BufRead as _;
    let mut command = netns.command("python3", &["-c", SERVER, "10.98.0.1", port, pending]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let served = Served(child);
    let mut line = String::new();
    std::io::BufReader::new(out).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    served
}

#[test]
fn a_program_over_the_host_opens_fast_to_the_kernel() {
    if !root() {
        return;
    }
    let both = both("fast-open = 1", "3");
    both.knob("tcp_fastopen_key", "1-2-3-4");
    let _with = serve(&both.netns, "9001", "16");
    assert_eq!(both.ours("9001", "3"), "then with with", "the first one asks for a cookie");
    // The old key's cookies are taken while there is one, and the new one is learned.
    both.knob("tcp_fastopen_key", "5-6-7-8,1-2-3-4");
    assert_eq!(both.ours("9001", "2"), "with with");
    both.knob("tcp_fastopen_key", "9-9-9-9");
    assert_eq!(
        both.ours("9001", "2"),
        "then with",
        "the cookie of a key that is gone opens nothing"
    );
    // A server that takes no data with SYNs: its SYN-ACK acknowledges none, and it leaves again.
    let _without = serve(&both.netns, "9002", "0");
    assert_eq!(both.ours("9002", "2"), "then then");
}

#[test]
fn the_kernel_opens_fast_to_a_program_over_the_host() {
    if !root() {
        return;
    }
    let both = both("fast-open = 3\nfast-open-key = \"1-2-3-4\"", "1");
    let args = ["-c", SERVER, "10.98.0.2", "9000", "16"];
    let server = both.host.spawn(WIRE, "python3", &args);
    server.await_text("listens");
    assert_eq!(both.kernels("3"), "then with with");
}
