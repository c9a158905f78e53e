#!/usr/bin/env python3
"""Honest requests beside peers that ask for much and take nothing: `clearway http` over a TAP device beside `clearway http --kernel`, under the same peers.

Needs root, curl and a build (CLEARWAY names another program). Everything happens in network namespaces of its own, which go at the end.

  scripts/stuck-peers.py                      300 and 3,000 peers of each kind
  scripts/stuck-peers.py --peers 20000        so many
"""
import argparse, os, random, select, signal, socket, statistics, struct, subprocess, sys, threading, time

SERVER, PORT = "10.99.0.2", 80
REQUEST = b"GET /random/100000000?seed=1 HTTP/1.1\r\nHost: x\r\n\r\n"
SYN, ACK = 2, 16
CLEARWAY = os.environ.get("CLEARWAY", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../target/release/clearway"))


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


def measure(system, kind, count, requests):
    here, there = f"cwstuck{os.getpid()}p", f"cwstuck{os.getpid()}s"
    ip("netns", "add", here)
    server = None
    stop = threading.Event()
    player = None
    try:
        ip("-n", here, "link", "set", "lo", "up")
        if system == "kernel":
            ip("netns", "add", there)
            ip("-n", here, "link", "add", "cw0", "type", "veth", "peer", "name", "cw1", "netns", there)
            ip("-n", there, "addr", "add", f"{SERVER}/24", "dev", "cw1")
            ip("-n", there, "link", "set", "cw1", "up")
        else:
            ip("-n", here, "tuntap", "add", "dev", "cw0", "mode", "tap")
        ip("-n", here, "addr", "add", "10.99.0.1/24", "dev", "cw0")
        ip("-n", here, "link", "set", "cw0", "up")
        if system == "kernel":
            ip("-n", there, "route", "add", "default", "via", "10.99.0.1")
        subprocess.run(["ip", "netns", "exec", here, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"], check=True)
        over = ["--kernel"] if system == "kernel" else ["--port", "tap:cw0", "-a", f"{SERVER}/24", "-g", "10.99.0.1"]
        server = inside(there if system == "kernel" else here, CLEARWAY, "http", "--json", "--sink", "-p", str(PORT), *over, stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
        asked = [0]
        player = threading.Thread(target=crowd, args=(here, kind, count, stop, asked))
        player.start()
        began = time.monotonic()
        while asked[0] < count and time.monotonic() - began < 120:
            time.sleep(0.1)
        answered, times = 0, []
        for _ in range(requests):
            began = time.monotonic()
            curl = inside(here, "curl", "-s", "--max-time", "10", "-o", "/dev/null", "-w", "%{size_download}", f"http://{SERVER}/random/300000?seed=1", stdout=subprocess.PIPE, text=True)
            answered += curl.communicate()[0] == "300000"
            times.append(time.monotonic() - began)
        memory = open(f"/proc/{server.pid}/status").read().split("VmRSS:")[1].split()[0]
        print(f"| {kind} | {asked[0]:,} | {system} | {answered} of {requests} | {statistics.median(times) * 1e3:.0f} ms | {max(times):.2f} s | {int(memory) // 1024} MB |", flush=True)
    finally:
        stop.set()
        if player:
            player.join()
        if server:
            server.send_signal(signal.SIGTERM)
            server.wait()
        subprocess.run(["ip", "netns", "del", here])
        if system == "kernel":
            subprocess.run(["ip", "netns", "del", there])


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--peers", type=int, action="append")
    words.add_argument("--requests", type=int, default=20)
    given = words.parse_args()
    print("| peers | that asked | server | honest answered | median | longest | its memory (RSS) |\n| --- | --- | --- | --- | --- | --- | --- |")
    for kind in ["shut", "one-byte"]:
        for count in given.peers or [300, 3000]:
            for system in ["clearway", "kernel"]:
                measure(system, kind, count, given.requests)


main()
