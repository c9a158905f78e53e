//! An unmodified server on the host, beside peers that ask for much and take nothing.

use std::fs;
use std::process::{Child, Stdio};

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, eventually, folder};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Memory of all programs: less than what these peers could hold if each might fill its FIFO.
const MEMORY: u64 = 48 << 20;

/// Peers that ask and take nothing, unless `STUCK_PEERS` says otherwise.
fn peers() -> usize {
    std::env::var("STUCK_PEERS").map_or(100, |text| text.parse().expect("a number"))
}

/// Connections of the kernel's whose windows are tiny and whose owner never reads.
const STUCK: &str = "
import resource, socket, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kept = []
for n in range(int(sys.argv[1])):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(20)
    try:
        s.connect(('10.98.0.2', 8080))
        s.sendall(b'GET /large HTTP/1.0\\r\\n\\r\\n')
    except OSError as error:
        print('failed', n, error, flush=True)
    kept.append(s)
print('all ask', flush=True)
time.sleep(600)
";

/// A server with a thread for each connection.
const SERVER: &str = "
import http.server, os, socketserver, sys, threading
threading.stack_size(256 * 1024)
os.chdir(sys.argv[1])
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
    def handle(self):
        try: super().handle()
        except OSError: pass
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
server = Server(('10.98.0.2', 8080), Quiet)
print('serves', flush=True)
server.serve_forever()
";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn honest_clients_are_served_beside_peers_that_read_nothing() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwstuck");
    let commands = [
        "create tap id 0 host-if-name cw0",
        "set interface state tap0 up",
        "set interface ip address tap0 10.98.0.2/24",
        "app ns add id wire secret abc if tap0",
    ];
    let settings = folder();
    let file = settings.join("host.toml");
    fs::write(&file, format!("[limits]\nmemory = {MEMORY}\n")).unwrap();
    let host = Host::inside(&netns, &["-c", file.to_str().unwrap()], &commands);
    netns.ip("addr add 10.98.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    let small: Vec<u8> = (0..20_000u32).map(|n| (n / 3) as u8).collect();
    fs::write(host.folder.join("small"), &small).unwrap();
    fs::write(host.folder.join("large"), vec![7; 4 << 20]).unwrap();
    let server = host.spawn(WIRE, "python3", &["-c", SERVER, host.folder.to_str().unwrap()]);
    server.await_text("serves");
    let log = host.folder.join("stuck.log");
    let mut command = netns.command("python3", &["-c", STUCK, &peers().to_string()]);
    let log_file = fs::File::create(&log).unwrap();
    let stuck = Killed(
        command.stdin(Stdio::null()).stdout(log_file).stderr(Stdio::inherit()).spawn().unwrap(),
    );
    eventually("all peers have asked", || fs::read_to_string(&log).unwrap().contains("all ask"));
    let said = fs::read_to_string(&log).unwrap();
    assert!(!said.contains("failed"), "{said}");
    for request in 0..20 {
        let got = netns
            .command("curl", &["-s", "--max-time", "60", "http://10.98.0.2:8080/small"])
            .output()
            .unwrap();
        assert!(got.status.success() && got.stdout == small, "request {request}: {}", got.status);
    }
    let limits = host.json("show limits");
    let memory = &limits["limits"][0]["things"]["memory"];
    assert!(memory["used"].as_u64().unwrap() < MEMORY, "{memory}");
    println!("{} stuck peers: memory {memory}", peers());
    drop(stuck);
    drop(server);
    host.stop();
}
