//! Programs of all kinds, unmodified.

use crate::netns::or_skip;
use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER, SERVER_V6, eventually, folder};

#[test]
fn curl_fetches_from_the_http_server_of_python_both_over_clearway() {
    let host = Host::new();
    let page = "a page over Clearway\n".repeat(50_000);
    std::fs::write(host.folder.join("page"), &page).unwrap();
    let folder = host.folder.to_str().unwrap();
    let server = host.spawn(
        IN_SERVER,
        "python3",
        &["-u", "-m", "http.server", "-d", folder, "-b", "::", "8080"],
    );
    server.await_text("Serving HTTP");
    for address in [SERVER.to_string(), format!("[{SERVER_V6}]")] {
        for _ in 0..3 {
            let url = format!("http://{address}:8080/page");
            let got = host.run(IN_CLIENT, "curl", &["-s", "--max-time", "20", &url]);
            assert!(got == page, "{} bytes instead of {}", got.len(), page.len());
        }
    }
    drop(server);
    host.await_empty();
    host.stop();
}

#[test]
fn what_is_not_clearways_stays_with_the_kernel() {
    let host = Host::new();
    for (program, args, expected) in [
        ("getent", &["hosts", "localhost"][..], "localhost"),
        ("ssh", &["-V"], "OpenSSH"),
        ("apt-get", &["--version"], "apt "),
        ("ping", &["-c", "1", "127.0.0.1"], "1 received"),
        ("python3", &["-c", KERNEL_ECHO], "echoed by the kernel"),
    ] {
        let out = host.run(IN_CLIENT, program, args);
        assert!(out.contains(expected), "{program}: {out}");
    }
    host.await_empty();
    host.stop();
}

/// A conversation over the loopback of the kernel.
const KERNEL_ECHO: &str = "
import socket, threading
s = socket.create_server(('127.0.0.1', 0))
def serve():
    c, _ = s.accept()
    c.sendall(c.recv(100).upper())
    c.close()
threading.Thread(target=serve).start()
c = socket.create_connection(s.getsockname())
c.sendall(b'over the kernel')
assert c.recv(100) == b'OVER THE KERNEL'
print('echoed by the kernel')
";

/// An echo server with a thread for each connection.
const THREADS_SERVER: &str = "
import socket, threading
s = socket.create_server(('0.0.0.0', 7000))
print('ready', flush=True)
def serve(c):
    while True:
        data = c.recv(65536)
        if not data: break
        c.sendall(data)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
";

/// Four threads with connections of their own, one socket that two threads share, and a close from
/// another thread.
const THREADS_CLIENT: &str = "
import os, socket, threading, hashlib
address = ('172.16.1.1', 7000)
def own(seed):
    c = socket.create_connection(address)
    for i in range(50):
        data = bytes([(seed + i) & 255]) * (1 + i * 997)
        c.sendall(data)
        got = b''
        while len(got) < len(data):
            part = c.recv(len(data) - len(got))
            assert part
            got += part
        assert got == data
    c.close()
threads = [threading.Thread(target=own, args=(n,)) for n in range(4)]
shared = socket.create_connection(address)
total = 20_000_000
sent, got = hashlib.sha256(), hashlib.sha256()
def send():
    left = total
    while left:
        data = os.urandom(min(left, 50_000))
        shared.sendall(data)
        sent.update(data)
        left -= len(data)
    shared.shutdown(socket.SHUT_WR)
def recv():
    while True:
        data = shared.recv(60_000)
        if not data: break
        got.update(data)
threads += [threading.Thread(target=send), threading.Thread(target=recv)]
for t in threads: t.start()
for t in threads: t.join()
assert sent.digest() == got.digest()
idle = socket.create_connection(address)
done = threading.Event()
def wait():
    try: idle.recv(1)
    except OSError: pass
    done.set()
waiter = threading.Thread(target=wait, daemon=True)
waiter.start()
idle.shutdown(socket.SHUT_RDWR)
assert done.wait(20)
idle.close()
print('all threads agree')
";

#[test]
fn threads_may_use_any_socket() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-u", "-c", THREADS_SERVER]);
    server.await_text("ready");
    let out = host.run(IN_CLIENT, "python3", &["-u", "-c", THREADS_CLIENT]);
    assert!(out.contains("all threads agree"), "{out}");
    drop(server);
    host.await_empty();
    host.stop();
}

/// A server that forks a child for each connection, and one that was forked before it accepts.
const FORK_SERVER: &str = "
import ctypes, os, signal, socket
s = socket.create_server(('0.0.0.0', 7001))
for _ in range(3):
    if os.fork() == 0:
        # PR_SET_PDEATHSIG: they end with the first one.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        break
print('ready', flush=True)
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        while True:
            data = c.recv(65536)
            if not data: break
            c.sendall(str(os.getpid()).encode() + b' ' + data)
        os._exit(0)
    c.close()
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
";

const FORK_CLIENT: &str = "
import socket
pids = set()
for n in range(40):
    c = socket.create_connection(('172.16.1.1', 7001))
    c.sendall(b'hello')
    pid, word = c.recv(100).split()
    assert word == b'hello'
    pids.add(pid)
    c.close()
assert len(pids) == 40
print('forty children')
";

#[test]
fn forked_servers_share_a_listener_and_hand_on_connections() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-u", "-c", FORK_SERVER]);
    eventually("four servers are ready", || server.text().matches("ready").count() == 4);
    let out = host.run(IN_CLIENT, "python3", &["-u", "-c", FORK_CLIENT]);
    assert!(out.contains("forty children"), "{out}");
    drop(server);
    host.await_empty();
    host.stop();
}

const IDLE_SERVER: &str = "
import resource, selectors, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
s = socket.create_server(('0.0.0.0', 7002), backlog=1024)
sel = selectors.EpollSelector()
sel.register(s, selectors.EVENT_READ)
print('ready', flush=True)
while True:
    for key, _ in sel.select():
        if key.fileobj is s:
            sel.register(s.accept()[0], selectors.EVENT_READ)
        else:
            data = key.fileobj.recv(100)
            if data: key.fileobj.sendall(data)
            else: sel.unregister(key.fileobj); key.fileobj.close()
";

const IDLE_CLIENT: &str = "
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
all = [socket.create_connection(('172.16.1.1', 7002)) for _ in range(1000)]
print('connected', flush=True)
time.sleep(float(sys.argv[1]))
for c in all[::100]:
    c.sendall(b'x')
    assert c.recv(10) == b'x'
print('answered', flush=True)
";

/// Clock ticks of the processor that a process has used.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_thousand_idle_connections_cost_nothing_and_answer() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-u", "-c", IDLE_SERVER]);
    server.await_text("ready");
    let mut client = host.spawn(IN_CLIENT, "python3", &["-u", "-c", IDLE_CLIENT, "5"]);
    client.await_text("connected");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let before = ticks(host.pid());
    std::thread::sleep(std::time::Duration::from_secs(3));
    let used = ticks(host.pid()) - before;
    // 300 ticks are three seconds; a host that polled would have used nearly all of them.
    assert!(used < 30, "{used} ticks in three idle seconds");
    client.succeed();
    assert!(client.text().contains("answered"));
    drop(server);
    host.await_empty();
    host.stop();
}

/// Takes an address, gives it up, and takes it again at once.
const AGAIN: &str = "
import socket
for _ in range(2000):
    s = socket.socket()
    s.bind(('172.16.1.1', 5300))
    s.listen(5)
    s.close()
print('always free')
";

/// Two workers: one hears from the other that a listener is gone.
#[test]
fn an_address_is_free_as_soon_as_its_listener_is_closed() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !or_skip(cores >= 2, "two workers need two cores") {
        return;
    }
    let host = Host::with(&["--cores", "0,1"], &[]);
    assert!(host.run(IN_SERVER, "python3", &["-c", AGAIN]).contains("always free"));
    host.await_empty();
    host.stop();
}

/// Hands each connection to a worker that is another program (fork and exec), and that has read the
/// resolver's file before it has a socket.
const HANDS_OVER: &str = "
import socket, subprocess, sys
WORKER = '''
import socket
open('/etc/resolv.conf').read()
print('looked', flush=True)
pipe = socket.socket(fileno=0)
while True:
    word, fds, _, _ = socket.recv_fds(pipe, 100, 1)
    if not fds: break
    c = socket.socket(fileno=fds[0])
    c.sendall(c.recv(100).upper())
    c.close()
'''
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
worker = subprocess.Popen([sys.executable, '-c', WORKER], stdin=theirs, stdout=subprocess.PIPE)
assert worker.stdout.readline() == b'looked\\n'
s = socket.create_server(('0.0.0.0', 7000))
print('ready', flush=True)
for _ in range(3):
    c, _ = s.accept()
    socket.send_fds(ours, [b'yours'], [c.fileno()])
    c.close()
ours.close()
worker.wait()
";

/// Three questions, one after the other.
const ASKS_THREE_TIMES: &str = "
import socket, sys
for n in range(3):
    c = socket.create_connection((sys.argv[1], 7000), 20)
    c.sendall(b'word %d' % n)
    print(c.recv(100).decode())
";

#[test]
fn who_only_looked_at_a_file_takes_sockets_of_another_program() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", HANDS_OVER]);
    server.await_text("ready");
    let said = host.run(IN_CLIENT, "python3", &["-c", ASKS_THREE_TIMES, SERVER]);
    assert_eq!(said, "WORD 0\nWORD 1\nWORD 2\n");
    drop(server);
    host.await_empty();
    host.stop();
}

#[test]
fn addresses_of_a_family_are_found_where_only_the_namespace_has_it() {
    let host = Host::new();
    // The kernel has nothing but a loopback interface there.
    let asked = "import socket; print(*(socket.getaddrinfo(a, 80, f, socket.SOCK_STREAM, 0, \
                 socket.AI_ADDRCONFIG)[0][4][0] for f, a in ((socket.AF_INET, '192.0.2.1'), \
                 (socket.AF_INET6, '2001:db8::1'))))";
    let found = host.run(IN_SERVER, "unshare", &["-n", "python3", "-c", asked]);
    assert_eq!(found, "192.0.2.1 2001:db8::1\n");
    host.await_empty();
    host.stop();
}

/// A listener, and so many children that take a connection from it each, which they keep.
const FORKING: &str = "
import os, signal, socket, sys
listener = socket.create_server(('0.0.0.0', 7100), backlog=512)
told, tells = os.pipe()
until, parent = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.close(parent)
        try:
            served, _ = listener.accept()
            served.sendall(b'y')
        except OSError:
            os.write(tells, b'n')
        os.read(until, 1)
        os._exit(0)
print('ready', flush=True)
if len(sys.argv) > 2:
    assert os.read(told, 1) == b'n'
    print('one is not served', flush=True)
signal.pause()
";

/// Connects so often, and is greeted by another process each time.
const FORKING_CLIENT: &str = "
import socket, sys
kept = []
for _ in range(int(sys.argv[2])):
    s = socket.create_connection((sys.argv[1], 7100), timeout=60)
    assert s.recv(1) == b'y'
    kept.append(s)
print('greeted by', len(kept))
";

#[test]
fn a_server_has_hundreds_of_processes() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", FORKING, "300"]);
    server.await_text("ready");
    let said = host.run(IN_CLIENT, "python3", &["-c", FORKING_CLIENT, SERVER, "300"]);
    assert!(said.contains("greeted by 300"), "{said}");
    drop(server);
    host.stop();
}

#[test]
fn a_process_beyond_the_limit_says_that_its_sockets_are_dead() {
    let settings = folder();
    let file = settings.join("host.toml");
    std::fs::write(&file, "[limits]\nprogram-processes = 3\n").unwrap();
    let host = Host::with(&["-c", file.to_str().unwrap()], &[]);
    let server = host.spawn(IN_SERVER, "python3", &["-c", FORKING, "3", "one too many"]);
    server.await_text("one is not served");
    let said = server.text();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("clearway: ")).collect();
    assert!(
        lines.len() == 1
            && lines[0].contains("limits.program-processes")
            && lines[0].contains("sockets that this process has from another one fail"),
        "{said}"
    );
    drop(server);
    host.stop();
}
