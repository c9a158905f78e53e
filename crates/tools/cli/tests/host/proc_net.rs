//! `clearway run --proc-net`: programs that read the kernel's tables of sockets find those of their
//! namespace in them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::netns::{Netns, or_skip, root};
use crate::world::{Host, IN_CLIENT, IN_SERVER, Running, SERVER, eventually};

/// Debian's own: psutil is one of its packages.
const PYTHON: &str = "/usr/bin/python3";

/// A listener of each family, datagrams, and a connection with five bytes that nobody reads.
const SERVE: &str = "
import socket, sys, threading
address, mapped = sys.argv[1:]
listener = socket.create_server((address, 9080))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, 9053))
six = socket.create_server((mapped, 9081), family=socket.AF_INET6)
print('listens', flush=True)
held, _ = listener.accept()
print('accepted', flush=True)
threading.Event().wait()
";

/// The second connection is not accepted.
const CONNECT: &str = "
import socket, sys, threading
conns = [socket.create_connection((sys.argv[1], 9080)) for _ in range(2)]
conns[0].sendall(b'hello')
print('connected', flush=True)
threading.Event().wait()
";

const PSUTIL: &str = "
import psutil
for one in psutil.net_connections('inet'):
    family = '6' if one.family.name == 'AF_INET6' else '4'
    local = '%s:%d' % one.laddr
    remote = '%s:%d' % one.raddr if one.raddr else '-'
    print(one.type.name, family, one.status, local, remote, one.pid)
";

/// By every call that opens a file, through the C library.
const OPENS: &str = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fopen64.restype = ctypes.c_void_p
def text(fd):
    assert fd >= 0, ctypes.get_errno()
    with os.fdopen(fd) as file:
        return file.read()
path = b'/proc/net/tcp'
texts = [text(libc.open(path, os.O_RDONLY)), text(libc.open64(path, os.O_RDONLY)),
    text(libc.openat(-100, path, os.O_RDONLY)), text(libc.openat64(-100, path, os.O_RDONLY)),
    text(libc.__open_2(path, os.O_RDONLY)), text(libc.__open64_2(path, os.O_RDONLY)),
    text(libc.__openat_2(-100, path, os.O_RDONLY)), text(libc.__openat64_2(-100, path, os.O_RDONLY)),
    text(libc.syscall(257, -100, path, os.O_RDONLY, 0)),
    open('/proc/self/net/tcp').read(), open('/proc/thread-self/net/tcp').read(),
    open('/proc/%d/net/tcp' % os.getpid()).read()]
for fopen in libc.fopen, libc.fopen64:
    stream = fopen(path, b'r')
    buffer = ctypes.create_string_buffer(1 << 16)
    count = libc.fread(buffer, 1, 1 << 16, ctypes.c_void_p(stream))
    texts.append(buffer.raw[:count].decode())
assert len(set(texts)) == 1, texts
print(texts[0], end='')
";

/// A host with the two programs, and their processes.
struct World {
    host: Host,
    server: Running,
    _client: Running,
}

impl World {
    fn new() -> World {
        let host = Host::new();
        let server = host.spawn(IN_SERVER, PYTHON, &["-c", SERVE, SERVER, "fd00:1::1"]);
        server.await_text("listens");
        let client = host.spawn(IN_CLIENT, PYTHON, &["-c", CONNECT, SERVER]);
        client.await_text("connected");
        server.await_text("accepted");
        eventually("the bytes have arrived", || {
            host.ctl("show proc-net tcp ns server").contains("00000000:00000005")
        });
        World { host, server, _client: client }
    }

    /// What a program says in the server's namespace.
    fn said(&self, program: &str, args: &[&str]) -> String {
        self.host.spawn_with(&["--proc-net"], IN_SERVER, program, args).succeed()
    }
}

/// A program over the kernel, ended with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_here(program: &str, package: &str) -> bool {
    let why = format!("{program} is not here. Install {package} (make test does).");
    or_skip(Path::new(program).exists(), &why)
}

/// Of each socket with this port of its own, what does not differ from run to run: its state, its
/// queues, which timer runs, its user, and whether somebody has it.
fn rows(table: &str, port: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().map(words).filter(|words| words[1].ends_with(&format!(":{port}")));
    let mut rows: Vec<Vec<String>> = rows
        .map(|words| {
            let has_inode = (words[9] != "0").to_string();
            [&words[3], &words[4], &words[5][..2], &words[7], &has_inode].map(Into::into).to_vec()
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn tables_have_the_lines_of_the_same_program_over_the_kernel() {
    if !root() {
        return;
    }
    let world = World::new();
    let netns = Netns::new("procnet");
    let kernels = |code: &str, args: &[&str]| {
        Started(
            netns
                .command(PYTHON, &[&["-c", code], args].concat())
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    };
    let table = |name: &str| netns.text("cat", &[&format!("/proc/net/{name}")]);
    // Ports 9080, 9081 and 9053.
    let (streams, six, datagrams) = ("2378", "2379", "235D");
    let _server = kernels(SERVE, &["127.0.0.1", "::1"]);
    eventually("the kernel's program listens", || !rows(&table("tcp6"), six).is_empty());
    let _client = kernels(CONNECT, &["127.0.0.1"]);
    eventually("its bytes have arrived", || {
        rows(&table("tcp"), streams).iter().any(|row| row[1].ends_with(":00000005"))
    });
    eventually("it has accepted one, and one waits", || {
        let rows = rows(&table("tcp"), streams);
        rows.len() == 3 && rows.iter().any(|row| row[0] == "0A" && row[1].ends_with(":00000001"))
    });
    for (name, port, count) in [("tcp", streams, 3), ("tcp6", six, 1), ("udp", datagrams, 1)] {
        let (ours, kernels) = (world.said("cat", &[&format!("/proc/net/{name}")]), table(name));
        assert_eq!(rows(&ours, port), rows(&kernels, port), "{name}:\n{ours}\n{kernels}");
        assert_eq!(rows(&ours, port).len(), count, "{name}: {ours}");
        assert_eq!(ours.lines().next(), kernels.lines().next());
        let widths = |text: &str| text.lines().map(str::len).collect::<BTreeSet<_>>();
        let is_filled = !name.ends_with('6');
        assert!(!is_filled || widths(&ours) == widths(&kernels), "{ours}\n{kernels}");
    }
}

#[test]
fn whichever_way_a_table_is_opened_it_tells_of_the_namespace() {
    let world = World::new();
    let table = world.said(PYTHON, &["-c", OPENS]);
    let told = world.host.ctl("show proc-net tcp ns server");
    assert_eq!(rows(&table, "2378"), rows(&told, "2378"));
    assert_eq!(table.lines().count(), 4, "{table}");
    // Another namespace has its own sockets, and who did not ask for it the kernel's.
    let client =
        world.host.spawn_with(&["--proc-net"], IN_CLIENT, "cat", &["/proc/net/tcp"]).succeed();
    assert_eq!(client.lines().count(), 3, "{client}");
    assert!(client.lines().skip(1).all(|line| line.contains(":2378 01")), "{client}");
    let kernels = world.host.run(IN_SERVER, "cat", &["/proc/net/tcp"]);
    assert!(!kernels.contains("010110AC:2378"), "{kernels}");
    let both = world.host.ctl("show proc-net tcp");
    assert_eq!(both.lines().count(), 6, "{both}");
    assert!(
        world.host.try_ctl(&["show", "proc-net", "tcp", "ns", "none"]).status.code() != Some(0)
    );
    if is_here("/bin/busybox", "busybox-static") {
        let options = ["--trap", "--required", "--proc-net"];
        let words = ["netstat", "-tn"];
        let netstat = world.host.spawn_with(&options, IN_SERVER, "/bin/busybox", &words).succeed();
        assert_eq!(netstat.matches("172.16.1.1:9080").count(), 2, "{netstat}");
    }
}

#[test]
fn psutil_and_netstat_find_sockets_and_whose_they_are() {
    let world = World::new();
    let pid = world.server.child.id();
    let lines = |text: &str| -> Vec<String> {
        let one = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(one).collect()
    };
    let has = |lines: &[String], start: &str, end: &str| {
        let found = lines.iter().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(found, "no line {start} … {end}: {lines:#?}");
    };
    if is_here("/usr/lib/python3/dist-packages/psutil/__init__.py", "python3-psutil") {
        let said = lines(&world.said(PYTHON, &["-c", PSUTIL]));
        has(&said, "SOCK_STREAM 4 LISTEN 172.16.1.1:9080 -", &format!(" {pid}"));
        has(&said, "SOCK_STREAM 4 ESTABLISHED 172.16.1.1:9080 172.16.2.1:", &format!(" {pid}"));
        has(&said, "SOCK_STREAM 4 ESTABLISHED 172.16.1.1:9080 172.16.2.1:", " None");
        has(&said, "SOCK_STREAM 6 LISTEN fd00:1::1:9081 -", &format!(" {pid}"));
        has(&said, "SOCK_DGRAM 4 NONE 172.16.1.1:9053 -", &format!(" {pid}"));
        assert_eq!(said.len(), 5, "{said:#?}");
    }
    if is_here("/bin/netstat", "net-tools") {
        let said = lines(&world.said("netstat", &["-tunap"]));
        let owner = format!("{pid}/python3");
        has(&said, "tcp 1 0 172.16.1.1:9080 0.0.0.0:* LISTEN", &owner);
        has(&said, "tcp 5 0 172.16.1.1:9080 172.16.2.1:", &format!("ESTABLISHED {owner}"));
        has(&said, "tcp 0 0 172.16.1.1:9080 172.16.2.1:", "ESTABLISHED -");
        has(&said, "tcp6 0 0 fd00:1::1:9081 :::* LISTEN", &owner);
        has(&said, "udp 0 0 172.16.1.1:9053 0.0.0.0:*", &owner);
    }
}
