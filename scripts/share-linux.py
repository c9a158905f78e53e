#!/usr/bin/env python3
"""How two streams of Linux share a path, for each pair of congestion controls: what docs/congestion.md has beside Clearway's own table.

Two TAP devices in network namespaces made for this run, with `clearway wire` between them: 10 Mbit/s, 40 ms, and a buffer of half, one and four round
trips. The second stream begins half a second behind the first; after eight seconds bytes count for twenty. Prints the rows of the table. Root.

  --seconds N     how long bytes count (default 20)
  --buffers LIST  hundredths of a round trip (default 50,100,400)
  CLEARWAY        the program with `wire` (default target/release/clearway)
"""
import argparse
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("sweep_loss", os.path.join(HERE, "sweep-loss.py"))
sweep = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sweep)

ALGORITHMS = ["reno", "cubic", "bbr"]
RATE, DELAY_MS, WARM_S, FRAME = 10_000_000, 20, 8, 1514
PORT = 5001


def receive(warm, seconds):
    """Two connections come in; how many bytes each brings in the time that counts."""
    listener = socket.create_server(("10.98.0.2", PORT))
    print("ready", flush=True)
    counts = [0, 0]

    def drain(n, connection):
        while data := connection.recv(1 << 16):
            counts[n] += len(data)

    for n in range(2):
        connection, _ = listener.accept()
        threading.Thread(target=drain, args=(n, connection), daemon=True).start()
    time.sleep(warm)
    before = list(counts)
    time.sleep(seconds)
    print(*(after - then for after, then in zip(counts, before)), flush=True)
    os._exit(0)


def send(algorithms):
    """One stream of each, half a second behind each other, until the other end is gone."""
    def fill(connection):
        try:
            while True:
                connection.sendall(bytes(1 << 16))
        except OSError:
            pass

    threads = []
    for algorithm in algorithms:
        connection = socket.socket()
        connection.connect(("10.98.0.2", PORT))
        # Behind connect, which takes that of the route.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        threads.append(threading.Thread(target=fill, args=(connection,)))
        threads[-1].start()
        time.sleep(0.5)
    for thread in threads:
        thread.join()


def within(netns, *words, **more):
    command = ["ip", "netns", "exec", netns, sys.executable, os.path.abspath(__file__), *words]
    return subprocess.Popen(command, text=True, **more)


def share(names, pair, buffer, seconds):
    """What the first gets of what both get, and what both get of the path, in hundredths."""
    left, right = names["left"], names["right"]
    on_way = RATE // 8 * DELAY_MS // 1000
    queue = max(10, 2 * on_way * buffer // 100 // FRAME)
    spec = f"delay={DELAY_MS}ms,rx.rate=10M,rx.limit={queue + on_way // FRAME + 1}"
    wire = sweep.Running(left, "wire", "--port", "tap:wl", "--onto", "tap:wr", "--fault", spec)
    running = []
    try:
        sweep.run("ip", "-n", left, "link", "set", "wr", "netns", right)
        sweep.address(left, "wl", "10.98.0.1/24")
        sweep.address(right, "wr", "10.98.0.2/24")
        receiver = within(right, "--receive", str(seconds), stdout=subprocess.PIPE)
        running.append(receiver)
        if receiver.stdout.readline().strip() != "ready":
            sys.exit("the receiver does not listen")
        running.append(within(left, "--send", ",".join(pair)))
        got = [int(word) for word in receiver.stdout.readline().split()]
    finally:
        for process in running:
            process.kill()
            process.wait()
        wire.stop()
    most = RATE / 8 * seconds * 1448 / FRAME
    return round(100 * got[0] / max(1, sum(got))), round(100 * sum(got) / most)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--buffers", default="50,100,400")
    parser.add_argument("--receive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        return receive(WARM_S, options.receive)
    if options.send:
        return send(options.send.split(","))
    buffers = [int(word) for word in options.buffers.split(",")]
    with sweep.Namespaces() as namespaces:
        for n, first in enumerate(ALGORITHMS):
            for second in ALGORITHMS[n:]:
                cells = [share(namespaces.names, (first, second), buffer, options.seconds) for buffer in buffers]
                told = " | ".join(f"{of} : {100 - of} ({whole})" for of, whole in cells)
                print(f"| {first} | {second} | {told} |", flush=True)


if __name__ == "__main__":
    main()
