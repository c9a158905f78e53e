#!/usr/bin/env python3
"""Honest requests beside peers that ask for much and take nothing, under the same peers:

  http    `clearway http` over a TAP device
  rust    a program with Clearway inside, by the Rust interface (crates/api/clearway/examples/bytes.rs)
  c       one by the C interface (crates/api/capi/examples/bytes.c)
  host    nginx, unmodified, on `clearway up`
  kernel  `clearway http --kernel` behind a veth pair
  nginx   nginx over the kernel, behind a veth pair

Needs root, curl, nginx for `host` and `nginx`, and a build (CLEARWAY names another program). What `rust` and `c` need is built. Everything happens in network
namespaces of its own, which go at the end.

  scripts/stuck-peers.py                                300 and 3,000 peers of each kind, http and kernel
  scripts/stuck-peers.py --peers 20000 --server rust    so many, and one server
"""
import argparse, os, select, shutil, signal, socket, statistics, struct, subprocess, tempfile, threading, time

SERVER, PORT = "10.99.0.2", 80
REQUEST = b"GET /random/100000000?seed=1 HTTP/1.1\r\nHost: x\r\n\r\n"
SYN, ACK = 2, 16
HOME = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CLEARWAY = os.environ.get("CLEARWAY", os.path.join(HOME, "target/release/clearway"))
# Where a program's files are that were built as it was.
BUILT = os.path.dirname(os.path.realpath(CLEARWAY))
KERNELS = ["kernel", "nginx"]
SERVERS = ["http", "rust", "c", "host", *KERNELS]
# Two workers for very many connections, and no log.
NGINX = """daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 30000; }}
http {{ access_log off; root {folder}/files; server {{ listen {server}:{port} backlog=4096; reset_timedout_connection on; }} }}
"""
HOST = """create tap id 0 host-if-name cw0
set interface state tap0 up
set interface ip address tap0 {server}/24
ip route add 0.0.0.0/0 via 10.99.0.1
app ns add id stuck if tap0
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(namespace, *words, **more):
    return subprocess.Popen(["ip", "netns", "exec", namespace, *words], **more)


def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2])) + (data[-1] << 8 if len(data) % 2 else 0)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(peer, seq, ack, flags, window, payload=b""):
    source, target = socket.inet_aton(f"10.98.{peer >> 8}.{peer & 255}"), socket.inet_aton(SERVER)
    tcp = struct.pack("!HHIIBBHHH", 4000, PORT, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, window, 0, 0)
    pseudo = source + target + struct.pack("!HH", 6, len(tcp) + len(payload))
    tcp = tcp[:16] + struct.pack("!H", summed(pseudo + tcp + payload)) + tcp[18:]
    # Linux fills in the checksum of the IP header.
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0, 64, 6, 0) + source + target + tcp + payload


def crowd(namespace, kind, count, stop, asked):
    """Plays the peers, in a thread that lives in the namespace. `shut` never opens its window, `one-byte` acknowledges a byte a second."""
    with open(f"/run/netns/{namespace}") as file:
        libc().setns(file.fileno(), 0x40000000)
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    ears = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    ears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    window = 0 if kind == "shut" else 65000
    peers, following, knocked, ticked = {}, 0, 0.0, time.monotonic()
    say = lambda data: out.sendto(data, (SERVER, 0))
    while not stop.is_set():
        now = time.monotonic()
        if len(peers) < count and now - knocked > 0.02:
            knocked = now
            for _ in range(100):
                if following not in peers:
                    say(packet(following, 99, 0, SYN, 1000))
                following = (following + 1) % count
        if kind == "one-byte" and now - ticked > 1:
            ticked = now
            for number, peer in peers.items():
                peer[2] += 1
                say(packet(number, peer[0], peer[1] + peer[2], ACK, window))
        if not select.select([ears], [], [], 0.02)[0]:
            continue
        data = ears.recv(70000)
        if len(data) < 40 or data[9] != 6 or data[16:18] != b"\x0a\x62":
            continue
        number, (seq,), flags = data[18] << 8 | data[19], struct.unpack("!I", data[24:28]), data[33]
        if flags & (SYN | ACK) == SYN | ACK and number not in peers:
            say(packet(number, 100, seq + 1, ACK, window, REQUEST))
            peers[number] = [100 + len(REQUEST), (seq + 1) & 0xFFFFFFFF, 0]
            asked[0] = len(peers)
        elif number in peers and kind == "shut":
            say(packet(number, peers[number][0], peers[number][1], ACK, window))


def libc():
    import ctypes
    return ctypes.CDLL(None, use_errno=True)


def cargo(*words):
    release = ["--release"] if os.path.basename(BUILT) == "release" else []
    subprocess.run(["cargo", *words, *release], check=True, cwd=HOME)


def built(system, folder):
    """The program of a server that is made with Clearway."""
    if system == "rust":
        cargo("build", "-p", "clearway", "--example", "bytes")
        return os.path.join(BUILT, "examples/bytes")
    cargo("build", "-p", "clearway-capi", "--lib")
    program = os.path.join(folder, "bytes")
    source, library = os.path.join(HOME, "crates/api/capi/examples/bytes.c"), os.path.join(BUILT, "libclearway.a")
    subprocess.run(["cc", "-O2", "-I", os.path.join(HOME, "crates/api/capi"), source, library, "-lpthread", "-ldl", "-lm", "-o", program], check=True)
    return program


def nginx(folder):
    """What starts it with files as long as the requests want them."""
    files = os.path.join(folder, "files/random")
    os.makedirs(files, exist_ok=True)
    os.chmod(folder, 0o755)
    for length in [300000, 100000000]:
        with open(os.path.join(files, str(length)), "wb") as file:
            file.truncate(length)
    with open(os.path.join(folder, "nginx.conf"), "w") as file:
        file.write(NGINX.format(folder=folder, server=SERVER, port=PORT))
    return ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def until(what, true):
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > 60:
            raise SystemExit(f"{what} does not come")
        time.sleep(0.1)


def serves(namespace):
    return subprocess.run(["ip", "netns", "exec", namespace, "curl", "-s", "--max-time", "5", "-o", "/dev/null", f"http://{SERVER}/random/1"]).returncode == 0


def start(system, here, there, folder, program):
    """The server's processes, the one whose memory is told first."""
    port = ["--port", "tap:cw0", "-a", f"{SERVER}/24", "-g", "10.99.0.1"]
    if system in ["http", "kernel"]:
        over = ["--kernel"] if system == "kernel" else port
        return [inside(there if system == "kernel" else here, CLEARWAY, "http", "--json", "--sink", "-p", str(PORT), *over, stdout=subprocess.DEVNULL)]
    if system in ["rust", "c"]:
        return [inside(here, program, "tap:cw0", f"{SERVER}/24", "10.99.0.1", stdout=subprocess.DEVNULL)]
    if system == "nginx":
        return [inside(there, *nginx(folder))]
    with open(os.path.join(folder, "script"), "w") as file:
        file.write(HOST.format(server=SERVER))
    attach_socket = os.path.join(folder, "host.sock")
    host = inside(here, CLEARWAY, "up", "--script", os.path.join(folder, "script"), "--socket", attach_socket, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ready = lambda: subprocess.run([CLEARWAY, "ctl", "--socket", attach_socket, "show app ns"], capture_output=True, text=True).stdout.count("stuck")
    until("the host", ready)
    return [host, inside(here, CLEARWAY, "run", "--required", "--socket", attach_socket, "--ns", "stuck", "--", *nginx(folder))]


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(file.read().split("VmRSS:")[1].split()[0]) // 1024


def asks(namespace, requests):
    """How many of so many honest requests were answered, and how long each took."""
    answered, times = 0, []
    for _ in range(requests):
        began = time.monotonic()
        curl = inside(namespace, "curl", "-s", "--max-time", "10", "-o", "/dev/null", "-w", "%{size_download}", f"http://{SERVER}/random/300000?seed=1", stdout=subprocess.PIPE, text=True)
        answered += curl.communicate()[0] == "300000"
        times.append(time.monotonic() - began)
    return answered, times


def network(system, here, there):
    ip("-n", here, "link", "set", "lo", "up")
    if system in KERNELS:
        ip("netns", "add", there)
        ip("-n", here, "link", "add", "cw0", "type", "veth", "peer", "name", "cw1", "netns", there)
        ip("-n", there, "link", "set", "lo", "up")
        ip("-n", there, "addr", "add", f"{SERVER}/24", "dev", "cw1")
        ip("-n", there, "link", "set", "cw1", "up")
    else:
        ip("-n", here, "tuntap", "add", "dev", "cw0", "mode", "tap")
    ip("-n", here, "addr", "add", "10.99.0.1/24", "dev", "cw0")
    ip("-n", here, "link", "set", "cw0", "up")
    if system in KERNELS:
        ip("-n", there, "route", "add", "default", "via", "10.99.0.1")
    subprocess.run(["ip", "netns", "exec", here, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"], check=True)


def measure(system, kind, count, requests, program):
    here, there = f"cwstuck{os.getpid()}p", f"cwstuck{os.getpid()}s"
    folder = tempfile.mkdtemp(prefix="clearway-stuck-")
    servers, stop, player = [], threading.Event(), None
    try:
        ip("netns", "add", here)
        network(system, here, there)
        servers = start(system, here, there, folder, program)
        until("the server", lambda: serves(here))
        asked = [0]
        player = threading.Thread(target=crowd, args=(here, kind, count, stop, asked))
        player.start()
        began = time.monotonic()
        while asked[0] < count and time.monotonic() - began < 120:
            time.sleep(0.1)
        answered, times = asks(here, requests)
        memory = resident(servers[0].pid)
        print(f"| {kind} | {asked[0]:,} | {system} | {answered} of {requests} | {statistics.median(times) * 1e3:.0f} ms | {max(times):.2f} s | {memory} MB |", flush=True)
    finally:
        stop.set()
        if player:
            player.join()
        for server in reversed(servers):
            server.send_signal(signal.SIGTERM)
            server.wait()
        for namespace in [here, there]:
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--peers", type=int, action="append")
    words.add_argument("--requests", type=int, default=20)
    words.add_argument("--server", action="append", choices=SERVERS)
    words.add_argument("--kind", action="append", choices=["shut", "one-byte"])
    given = words.parse_args()
    servers = given.server or ["http", "kernel"]
    with tempfile.TemporaryDirectory(prefix="clearway-stuck-") as folder:
        programs = {system: built(system, folder) for system in servers if system in ["rust", "c"]}
        print("| peers | that asked | server | honest answered | median | longest | its memory (RSS) |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for kind in given.kind or ["shut", "one-byte"]:
            for count in given.peers or [300, 3000]:
                for system in servers:
                    measure(system, kind, count, given.requests, programs.get(system))


main()
