#!/usr/bin/env python3
"""What a request costs unmodified programs, over a host of Clearway's and over the kernel: system calls, times that a process gave its
core away, and processor time of the server, of the host and of the client.

Usage, as root: scripts/request-cost.py [FOLDER] [--loads redis-get,redis-p16,nginx-100k,nginx-1,iperf3] [--ways clearway,kernel] [--host-core 0]
                        [--rounds N]

The server runs on core 1, the client on core 0, and the host on one of both (`--host-core`). FOLDER holds `clearway` and `libclearway_preload.so` (target/release). redis and nginx are asked by the kernel's programs, over a TAP
device of the host's, and over a veth pair where both sides are the kernel's. iperf3 has both ends over loopback. Counts are of perf's
tracepoints, which do not change how many requests wait together, as strace does; system time includes what the kernel does for the other
side, as it does anywhere. Everything runs in network namespaces of its own.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CALLS = "read readv pread64 write writev recvfrom recvmsg sendto sendmsg sendfile64 ppoll epoll_wait epoll_pwait epoll_pwait2 select pselect6".split()
REDIS, NGINX, IPERF = 6379, 8080, 5201
LOADS = ("redis-get", "redis-p16", "nginx-100k", "nginx-1", "iperf3")
WAYS = ("clearway", "cut-through", "kernel")
NGINX_BYTES = 100_000
OURS, KERNELS = "10.98.1.2", "10.98.1.1"
LOOPBACK = """create loopback interface
set interface mtu 65535 loop0
set interface state loop0 up
create loopback interface
set interface mtu 65535 loop1
set interface state loop1 up
ip table add 1
set interface ip table loop0 1
ip table add 2
set interface ip table loop1 2
set interface ip address loop0 172.16.1.1/24
set interface ip address loop1 172.16.2.1/24
app ns add id server secret 1234 if loop0
app ns add id client secret 5678 if loop1
ip route add 172.16.1.1/32 table 2 via lookup in table 1
ip route add 172.16.2.1/32 table 1 via lookup in table 2
"""
TAP = f"""create tap id 0 host-if-name cwcost
set interface state tap0 up
set interface ip address tap0 {OURS}/24
app ns add id server secret 1234 if tap0
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def until(what, test, seconds=30):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            sys.exit(f"request-cost: {what} does not come true")
        time.sleep(0.05)


class World:
    """A folder, a network namespace beside our own, and what was started."""

    def __init__(self, binaries):
        self.clearway = os.path.join(binaries, "clearway")
        self.library = os.path.realpath(os.path.join(binaries, "libclearway_preload.so"))
        for needed in (self.clearway, self.library):
            if not os.path.exists(needed):
                sys.exit(f"request-cost: {needed} is missing. Build it with: cargo build --release")
        self.folder = tempfile.mkdtemp(prefix="request-cost.")
        self.socket = os.path.join(self.folder, "host.sock")
        self.started = []
        self.holder = self.start(["unshare", "-n", "sleep", "infinity"])
        until("a namespace", lambda: self.namespace(self.holder.pid) != self.namespace(os.getpid()))
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "set", "lo", "mtu", "65535")

    @staticmethod
    def namespace(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            return None

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, env=None):
        log = open(self.path(f"log.{len(self.started)}"), "w")
        started = subprocess.Popen(words, env={**os.environ, **(env or {})}, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        started.log = log.name
        self.started.append(started)
        return started

    def stop(self, which, how=signal.SIGTERM):
        self.started.remove(which)
        if which.poll() is None:
            which.send_signal(how)
            try:
                which.wait(10)
            except subprocess.TimeoutExpired:
                which.kill()
                which.wait()

    def close(self):
        for started in self.started[::-1]:
            self.stop(started)
        subprocess.run(["rm", "-rf", self.folder], check=False)


def said(started, word):
    with open(started.log) as log:
        return word in log.read()


def threads_of(started, name):
    """The process that serves: nginx' worker, or the one that was started."""
    children = subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True).stdout.split()
    return children[0] if name == "nginx" and children else str(started.pid)


EVENTS = ["task-clock", "context-switches", "raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{call}" for call in CALLS)]


def perf(out, rest):
    return ["perf", "stat", "-x", ",", "-o", out, "-e", ",".join(EVENTS), *rest]


def figures(out):
    found = {}
    for line in open(out):
        parts = line.strip().split(",")
        if len(parts) > 2 and parts[0] and parts[0][0].isdigit():
            found[parts[2].removeprefix("syscalls:sys_enter_").split(":")[-1]] = float(parts[0])
    return found


def preload(world, namespace, secret):
    return {"LD_PRELOAD": world.library, "CLEARWAY_SOCKET": world.socket, "CLEARWAY_NS": namespace, "CLEARWAY_SECRET": secret}


def host_up(world, commands, core, policy="other"):
    script = world.path("script")
    with open(script, "w") as file:
        file.write(commands)
    host = world.start(["chrt", f"--{policy}", "0", world.clearway, "up", "--cores", str(core), "--script", script, "--socket", world.socket])
    until("a host", lambda: said(host, "clearway is ready"))
    return host


def server_of(load, address):
    if load.startswith("redis"):
        return ["redis-server", "--bind", address, "--port", str(REDIS), "--protected-mode", "no", "--save", ""], "Ready to accept connections"
    if load == "iperf3":
        return ["iperf3", "-s", "-B", address, "-p", str(IPERF), "--forceflush"], "Server listening"
    return ["nginx"], "start worker process "


def nginx_words(world, address, load):
    root, settings = world.path("www"), world.path("nginx.conf")
    os.makedirs(root, exist_ok=True)
    with open(os.path.join(root, "file"), "w") as file:
        file.write("x" * (64 if load == "nginx-1" else NGINX_BYTES))
    bodies = "".join(f"  {kind}_temp_path {root}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(settings, "w") as file:
        file.write(
            f"daemon off;\nuser root;\nworker_processes 1;\npid {root}/nginx.pid;\nerror_log stderr notice;\n"
            "events { worker_connections 4096; }\nhttp {\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000000;\n"
            f"{bodies}  server {{ listen {address}:{NGINX}; root {root}; }}\n}}\n"
        )
    return ["nginx", "-p", root, "-c", settings]


def client_of(load, address, seconds):
    if load == "redis-get":
        return ["redis-benchmark", "-h", address, "-p", str(REDIS), "-t", "get", "-c", "50", "-n", str(40_000 * seconds), "-r", "100000", "--csv"]
    if load == "redis-p16":
        return ["redis-benchmark", "-h", address, "-p", str(REDIS), "-t", "get", "-c", "50", "-P", "16", "-n", str(320_000 * seconds), "-r", "100000", "--csv"]
    if load == "iperf3":
        return ["iperf3", "-c", address, "-p", str(IPERF), "-t", str(seconds), "-J"]
    return ["wrk", "-t", "1", "-c", "1" if load == "nginx-1" else "64", "-d", f"{seconds}s", "--timeout", "10s", f"http://{address}:{NGINX}/file"]


def done_by(load, out):
    """How many units of work the client has had answered, and how many a second."""
    if load.startswith("redis"):
        rate = float(re.findall(r'^"GET[^"]*","([0-9.]+)"', out, re.M)[-1])
        return None, rate
    if load == "iperf3":
        end = json.loads(out)["end"]["sum_received"]
        return end["bytes"] / 1e6, end["bits_per_second"] / 1e9
    count, rate = re.search(r"(\d+) requests in", out), re.search(r"Requests/sec:\s*([0-9.]+)", out)
    return float(count[1]), float(rate[1])


def measure(world, load, way, options):
    seconds = options.seconds
    host, env, client_env, enter = None, {}, {}, ["nsenter", "-t", str(world.holder.pid), "-n", "--"]
    if way == "kernel":
        address = "127.0.0.1" if load == "iperf3" else OURS
        if load == "iperf3":
            enter = []
        else:
            run("ip", "link", "add", "cwcost0", "type", "veth", "peer", "name", "cwcost1", "netns", str(world.holder.pid))
            run("ip", "addr", "add", f"{OURS}/24", "dev", "cwcost0")
            run("ip", "link", "set", "cwcost0", "up")
            run(*enter, "ip", "addr", "add", f"{KERNELS}/24", "dev", "cwcost1")
            run(*enter, "ip", "link", "set", "cwcost1", "up")
    elif load == "iperf3":
        host, address, enter = host_up(world, LOOPBACK, options.host_core, options.host_policy), "172.16.1.1", []
        env, client_env = preload(world, "server", "1234"), preload(world, "client", "5678")
        if way == "cut-through":
            env["CLEARWAY_CUT_THROUGH"] = client_env["CLEARWAY_CUT_THROUGH"] = "1"
    else:
        host, address, enter = host_up(world, TAP, options.host_core, options.host_policy), OURS, []
        run("ip", "addr", "add", f"{KERNELS}/24", "dev", "cwcost")
        run("ip", "link", "set", "cwcost", "up")
        env = preload(world, "server", "1234")
    words, ready = server_of(load, address)
    server = world.start(["taskset", "-c", "1", *(nginx_words(world, address, load) if load.startswith("nginx") else words)], env)
    until("a server", lambda: said(server, ready))
    time.sleep(0.5)
    watched = {"server": threads_of(server, words[0])}
    if host:
        watched["host"] = str(host.pid)
    watchers = {}
    for who, pid in watched.items():
        watchers[who] = world.start(perf(world.path(f"perf.{who}"), ["-p", pid]))
    time.sleep(0.3)
    client = ["taskset", "-c", "0", *client_of(load, address, seconds)]
    out = subprocess.run([*enter, *perf(world.path("perf.client"), ["--", *client])], env={**os.environ, **client_env}, capture_output=True, text=True)
    for who, watcher in watchers.items():
        world.stop(watcher, signal.SIGINT)
    if out.returncode:
        sys.exit(f"request-cost: {out.stdout}{out.stderr}")
    count, rate = done_by(load, out.stdout)
    if count is None:
        count = {"redis-get": 40_000, "redis-p16": 320_000}[load] * seconds
    result = {"rate": rate, "count": count}
    for who in [*watched, "client"]:
        result[who] = {name: value / count for name, value in figures(world.path(f"perf.{who}")).items()}
    world.stop(server)
    if host:
        world.stop(host)
    elif load != "iperf3":
        run("ip", "link", "del", "cwcost0")
    return result


def tell(load, way, result):
    unit = {"iperf3": "MB"}.get(load, "request")
    print(f"{load} {way}: {result['rate']:,.3f} {'Gbit/s' if load == 'iperf3' else 'requests/s'}, per {unit}:")
    for who in ("server", "host", "client"):
        if who not in result:
            continue
        got = result[who]
        calls = [f"{got[call]:.2f} {call}" for call in CALLS if got.get(call, 0) >= 0.01]
        # Perf tells milliseconds.
        print(
            f"  {who:6} {got['sys_enter']:6.2f} system calls ({', '.join(calls)}), {got['context-switches']:.3f} switches, "
            f"{got['task-clock'] * 1000:.2f} us"
        )
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description="system calls, switches and processor time of a request")
    parser.add_argument("folder", nargs="?", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release"))
    parser.add_argument("--loads", default=",".join(LOADS), help="which, with commas between [default: all]")
    parser.add_argument("--ways", default="clearway,kernel", help=f"of {', '.join(WAYS)} [default: %(default)s]")
    parser.add_argument("--host-core", type=int, default=0, choices=(0, 1), help="core of the host: 0 is the client's, 1 the server's [default: 0]")
    parser.add_argument("--host-policy", default="other", choices=("other", "batch"), help="scheduling policy of the host's threads [default: other]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    for what, known in (("loads", LOADS), ("ways", WAYS)):
        for name in getattr(options, what).split(","):
            if name not in known:
                parser.error(f"--{what}: there is no {name}; there are {', '.join(known)}")
    if not shutil.which("perf"):
        sys.exit("request-cost: perf is missing: apt-get install linux-perf")
    if not os.environ.get("REQUEST_COST_INSIDE"):
        os.environ["REQUEST_COST_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    world = World(options.folder)
    try:
        for _ in range(options.rounds):
            for load in options.loads.split(","):
                for way in options.ways.split(","):
                    if way == "cut-through" and load != "iperf3":
                        continue
                    tell(load, way, measure(world, load, way, options))
    finally:
        world.close()


if __name__ == "__main__":
    main()
