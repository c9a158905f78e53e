//! The host's static probes (docs/trace.md): all are in the program, and fire under bpftrace while
//! a host serves traffic over a bad link.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clearway_probes::PROBES;

use crate::netns::{Netns, or_skip, root};
use crate::world::{Host, Namespace, TIME_LIMIT, folder};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// What nobody can bring about from outside in a test's time: that memory is short, and that a
/// program writes nonsense. That they fire is tested in `crates/host/probes/tests/fired.rs`.
const RARE: [&str; 2] = ["shortage_reset", "cut_off"];

/// Each connection asks for bytes by their number, and gets them.
const SERVER: &str = "
import socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('10.98.0.2', 9000))
listener.setsockopt(socket.IPPROTO_TCP, 23, 16)
listener.listen(16)
print('listens', flush=True)
while True:
    conn, _ = listener.accept()
    try:
        wanted = conn.recv(8, socket.MSG_WAITALL)
        conn.sendall(bytes(int(wanted or b'0')))
    except OSError:
        pass
    conn.close()
";

/// A program over the kernel: a download with Fast Open, and a datagram that nobody waits for.
const KERNEL_CLIENT: &str = "
import socket
conn = socket.socket()
conn.settimeout(60)
conn.sendto(b'00400000', 0x20000000, ('10.98.0.2', 9000))
left = 400000
while left and (data := conn.recv(65536)):
    left -= len(data)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'nobody', ('10.98.0.2', 9))
";

/// A program over the host: it connects to nobody, on the link and behind a narrow path.
const CLIENT: &str = "
import socket
for address in ('10.98.0.77', '10.98.0.1'):
    try:
        socket.create_connection((address, 9), 20)
    except OSError:
        pass
narrow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
narrow.setsockopt(0, 10, 2)
for _ in range(5):
    try:
        narrow.sendto(bytes(1400), ('10.99.0.2', 9))
    except OSError:
        pass
";

/// Killed when this goes.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_probe_is_in_the_program_stripped_or_not() {
    let program = env!("CARGO_BIN_EXE_clearway");
    let all: BTreeSet<String> = PROBES.iter().map(|probe| probe.name.to_owned()).collect();
    assert_eq!(probes_of(program), all);
    // As `make deb` strips it.
    let folder = folder();
    let stripped = folder.join("clearway");
    let to = stripped.to_str().unwrap();
    let status = Command::new("strip").args(["--strip-unneeded", "-o", to, program]).status();
    assert!(status.unwrap().success());
    let found = probes_of(to);
    assert_eq!(found, all);
}

/// The probes that `readelf` finds in a program.
fn probes_of(program: &str) -> BTreeSet<String> {
    let out = Command::new("readelf").args(["--notes", "--wide", program]).output().unwrap();
    let notes = String::from_utf8(out.stdout).unwrap();
    let mut found = BTreeSet::new();
    let mut is_ours = false;
    for line in notes.lines().map(str::trim) {
        // On a line of its own, or, by newer binutils, behind what kind of note it is.
        if let Some(provider) = line.split("Provider: ").nth(1) {
            is_ours = provider == "clearway";
        }
        if let Some(name) = line.strip_prefix("Name: ").filter(|_| is_ours) {
            found.insert(name.to_owned());
        }
        if let Some(semaphore) = line.split("Semaphore: ").nth(1) {
            assert_ne!(semaphore, "0x0000000000000000", "nothing tells whether anybody looks");
        }
    }
    found
}

/// Whether bpftrace works at all. Its `BEGIN` is a probe in a program, as ours are, so where that
/// does not fire (a container without the right, a kernel without uprobes) nothing can be seen.
fn tracing_works() -> bool {
    let tried = Command::new("bpftrace").args(["-e", "BEGIN { exit() }"]).output();
    tried.expect("bpftrace cannot be started: `make setup` installs it").status.success()
}

#[test]
fn probes_fire_under_bpftrace_while_a_host_serves() {
    if !root() || !or_skip(tracing_works(), "this kernel lets bpftrace trace no program") {
        return;
    }
    let netns = Netns::new("cwprobe");
    let folder = folder();
    let file = folder.join("host.toml");
    fs::write(&file, "[tcp]\nfast-open = 3\n").unwrap();
    let host = Host::inside(
        &netns,
        &["-c", file.to_str().unwrap()],
        &[
            "create tap id 0 host-if-name cw0 fault loss=3%,reorder=5%",
            "set interface state tap0 up",
            "set interface ip address tap0 10.98.0.2/24",
            "ip route add 10.99.0.0/24 via 10.98.0.1",
            "app ns add id wire secret abc if tap0",
        ],
    );
    for words in [
        "addr add 10.98.0.1/24 dev cw0",
        "link set cw0 up",
        // Behind it a path that is narrower than ours.
        "link add narrow mtu 1280 type veth peer name end",
        "addr add 10.99.0.1/24 dev narrow",
        "link set narrow up",
        "link set end up",
        "neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev narrow",
    ] {
        netns.ip(words);
    }
    netns.text("sh", &["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    let mut missing: BTreeSet<String> = PROBES
        .iter()
        .map(|probe| probe.name.to_owned())
        .filter(|name| !RARE.contains(&name.as_str()))
        .collect();
    let said = trace(&host);
    let mut server = host.spawn(WIRE, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let until = Instant::now() + TIME_LIMIT;
    let mut seen = Vec::new();
    while !missing.is_empty() {
        assert!(Instant::now() < until, "never seen: {missing:?}; seen: {seen:#?}");
        let wrong = Namespace { secret: "guessed", ..WIRE };
        let refused = host.command(
            wrong,
            "python3",
            &["-c", "import socket; socket.socket().bind(('10.98.0.2', 9))"],
        );
        let _ = { refused }.output().unwrap();
        host.run(WIRE, "python3", &["-c", CLIENT]);
        let _ = netns.run("python3", &["-c", KERNEL_CLIENT]);
        if missing.contains("listen") {
            // The first one began before everything was attached.
            server.kill();
            server = host.spawn(WIRE, "python3", &["-c", SERVER]);
            server.await_text("listens");
        }
        // A worker that goes to sleep and wakes says so each time: it is never silent for long.
        let round = Instant::now() + Duration::from_secs(2);
        while !missing.is_empty() {
            let left = round.saturating_duration_since(Instant::now());
            let Ok(line) = said.1.recv_timeout(left) else { break };
            let name = line.split('|').next().unwrap_or("");
            if missing.remove(name) {
                seen.push(line);
            }
        }
    }
    let of = |name: &str| {
        let line = seen.iter().find(|line| line.split('|').next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}: {seen:#?}")).as_str()
    };
    assert!(of("listen").contains("|10.98.0.2:9000|16|python3"), "{seen:#?}");
    assert!(of("accept").contains("|10.98.0.2:9000|10.98.0.1:"), "{seen:#?}");
    assert!(of("neighbour_failed").contains("|10.98.0.77|"), "{seen:#?}");
    assert!(of("path_mtu").contains("|10.99.0.2|1280"), "{seen:#?}");
    assert!(of("refused").contains("|wire|the secret of the namespace wire is wrong"), "{seen:#?}");
    drop(server);
    host.stop();
}

/// Prints each probe's name and arguments on a line, until it is dropped.
fn trace(host: &Host) -> (Tracer, mpsc::Receiver<String>) {
    let program = env!("CARGO_BIN_EXE_clearway");
    let mut script = String::new();
    for probe in PROBES {
        let (mut format, mut values) = (probe.name.to_owned(), String::new());
        for (at, (_, kind)) in probe.arguments.iter().enumerate() {
            match *kind {
                "text" => {
                    format += "|%s";
                    values += &format!(", str(arg{at})");
                }
                _ => {
                    format += "|%lu";
                    values += &format!(", arg{at}");
                }
            }
        }
        script += &format!(
            "usdt:{program}:clearway:{} {{ printf(\"{format}\\n\"{values}); }}\n",
            probe.name
        );
    }
    let mut tracer = Command::new("bpftrace");
    tracer.args(["-B", "line", "-p", &host.pid().to_string(), "-e", &script]);
    let mut child = tracer
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bpftrace cannot be started: `make setup` installs it");
    let out = BufReader::new(child.stdout.take().unwrap());
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    (Tracer(child), heard)
}
