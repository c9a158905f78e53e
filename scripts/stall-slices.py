#!/usr/bin/env python3
"""Looks for stalls: iperf3 with both ends over one host's loopbacks, cut into slices, and what host and programs were doing in each slice
that moved less than a tenth of the median.

Usage, as root: scripts/stall-slices.py [FOLDER] [--slices N] [--slice MS] [--mtus 1500,65535] [--ways stack,cut-through,kernel]
                [--cores 1,2] [--beside nothing,spinners,naps] [--streams 1] [--below 0.1]

FOLDER holds `clearway` and `libclearway_preload.so` (target/release). Each combination is one run of iperf3 of so many slices. Beside it
runs nothing, or one busy loop on each core (`spinners`), or programs that are busy for 3 ms and sleep for 2 ms (`naps`), which preempt at
arbitrary points. The kernel's own loopback (`kernel`) says what the machine itself does to a program at that time: a slice in which a
virtual machine does not run is nobody's stall.

Ten times a slice the processor time, the time in the line for a core and the place of sleep of each thread are read, and every slice what the
host says of its sessions. A slow slice in which somebody stood in line for most of the time is told apart (`hungry`): whoever else
wanted the cores made it. The others are stalls (`asleep`): nobody ran, and nobody wanted to. Ends with 1 when there was one over Clearway.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
spec = importlib.util.spec_from_file_location("request_cost", os.path.join(HERE, "request-cost.py"))
cost = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cost)

WAYS = ("stack", "cut-through", "kernel")
BESIDE = ("nothing", "spinners", "naps")
SPINNER = "while True: pass"
NAPS = """import time
while True:
    end = time.monotonic() + 0.003
    while time.monotonic() < end: pass
    time.sleep(0.002)
"""


def thread_states(pids):
    """For each thread: nanoseconds on a core, nanoseconds it waited for one, times it was put there, its state, and where it sleeps."""
    found = {}
    for who, pid in pids.items():
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                place = f"/proc/{pid}/task/{thread}"
                with open(f"{place}/schedstat") as file:
                    ran, waited, times = (int(word) for word in file.read().split())
                with open(f"{place}/stat") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
                with open(f"{place}/wchan") as file:
                    sleeps = file.read()
                found[f"{who}/{thread}"] = (ran, waited, times, state, sleeps)
        except OSError:
            pass  # It has ended.
    return found


class Watch(threading.Thread):
    """Reads what threads and host do, until it is stopped."""

    def __init__(self, world, pids, slice_s, host):
        super().__init__(daemon=True)
        self.world, self.pids, self.slice_s, self.host = world, pids, slice_s, host
        self.samples, self.shown, self.over = [], [], threading.Event()

    def run(self):
        turn = 0
        while not self.over.wait(self.slice_s / 10):
            self.samples.append((time.monotonic(), thread_states(self.pids)))
            if self.host and turn % 10 == 0:
                told = subprocess.run(
                    [self.world.clearway, "ctl", "--socket", self.world.socket, "show", "session", "verbose", "2"], capture_output=True, text=True
                )
                self.shown.append((time.monotonic(), told.stdout or told.stderr))
            turn += 1

    def inside(self, start, end):
        return [sample for sample in self.samples if start <= sample[0] <= end]

    def is_hungry(self, start, end):
        """Some thread stood in line for a core most of the time. Without two samples nobody can tell: we ourselves did not run."""
        inside = self.inside(start, end)
        if len(inside) < 2:
            return True
        (began, first), (ended, last) = inside[0], inside[-1]
        waited = (last[thread][1] - first[thread][1] for thread in last if thread in first)
        return max(waited, default=0) / 1e9 > (ended - began) / 2

    def between(self, start, end):
        lines = []
        inside = self.inside(start, end)
        for (_, before), (at, after) in zip(inside, inside[1:]):
            parts = []
            for thread, (ran, waited, times, state, sleeps) in after.items():
                was = before.get(thread, (ran, waited, times))
                parts.append(f"{thread} ran {(ran - was[0]) / 1e6:.1f} waited {(waited - was[1]) / 1e6:.1f} ms, {times - was[2]} times, {state} {sleeps}")
            lines.append(f"    {at - start:7.3f} s: " + "; ".join(parts))
        for at, text in self.shown:
            if start - self.slice_s <= at <= end + self.slice_s:
                lines.append(f"    the host at {at - start:.3f} s:")
                lines.extend("      " + line for line in text.splitlines())
        return "\n".join(lines)


def start_beside(world, beside, cores):
    code = {"spinners": SPINNER, "naps": NAPS}.get(beside)
    return [world.start(["taskset", "-c", str(core), sys.executable, "-c", code]) for core in range(cores)] if code else []


def run(world, way, mtu, cores, beside, options):
    slice_s = options.slice / 1000
    seconds = options.slices * slice_s
    host, env, client_env, address = None, {}, {}, "127.0.0.1"
    host_core, server_core, client_core = (0, 0, 0) if cores == 1 else (0, 1, 0)
    if way == "kernel":
        cost.run("ip", "link", "set", "lo", "mtu", str(mtu))
    else:
        host, address = cost.host_up(world, cost.LOOPBACK.replace("65535", str(mtu)), host_core), "172.16.1.1"
        env, client_env = cost.preload(world, "server", "1234"), cost.preload(world, "client", "5678")
        if way == "cut-through":
            env["CLEARWAY_CUT_THROUGH"] = client_env["CLEARWAY_CUT_THROUGH"] = "1"
    words, ready = cost.server_of("iperf3", address)
    server = world.start(["taskset", "-c", str(server_core), *words], env)
    cost.until("a server", lambda: cost.said(server, ready))
    others = start_beside(world, beside, cores)
    words = ["iperf3", "-c", address, "-p", str(cost.IPERF), "-t", f"{seconds:.0f}", "-i", str(slice_s), "-P", str(options.streams), "-J"]
    began = time.monotonic()
    with open(world.path("out"), "w") as out:
        client = subprocess.Popen(["taskset", "-c", str(client_core), *words], env={**os.environ, **client_env}, stdout=out, stderr=out)
    pids = {"server": server.pid, "client": client.pid, **({"host": host.pid} if host else {})}
    watch = Watch(world, pids, slice_s, host)
    watch.start()
    code = client.wait()
    watch.over.set()
    watch.join()
    for started in [*others, server, *([host] if host else [])]:
        world.stop(started)
    with open(world.path("out")) as file:
        text = file.read()
    if code:
        sys.exit(f"stall-slices: iperf3 said: {text}")
    told = json.loads(text)
    intervals = [interval["sum"] for interval in told["intervals"]]
    rates = [interval["bits_per_second"] / 1e9 for interval in intervals]
    median = statistics.median(rates)
    # The last one is what is left of the time, perhaps nothing.
    whole = [(interval, rate) for interval, rate in zip(intervals, rates) if interval["seconds"] > slice_s / 2]
    # iperf3 begins its clock when its connections are made, some milliseconds after it was started.
    offset = next((at for at, states in watch.samples if any(t.startswith("client") for t in states)), began)
    slow = []
    for interval, rate in whole:
        if rate < options.below * median:
            start, end = offset + interval["start"], offset + interval["end"]
            slow.append((interval, rate, watch.is_hungry(start, end), watch.between(start, end)))
    least = min(whole, key=lambda one: one[1])
    asleep = sum(not is_hungry for _, _, is_hungry, _ in slow)
    print(
        f"{way:11} mtu {mtu:5} cores {cores} beside {beside:8}: {len(whole)} slices of {options.slice} ms, median {median:.2f} Gbit/s, "
        f"least {least[1]:.2f} (at {least[0]['start']:.1f} s); below {options.below:g} of the median: {len(slow) - asleep} hungry, {asleep} asleep",
        flush=True,
    )
    for interval, rate, is_hungry, what in slow:
        print(f"  {interval['start']:.2f} to {interval['end']:.2f} s: {rate:.3f} Gbit/s, {'hungry' if is_hungry else 'asleep'}")
        print(what, flush=True)
    return 0 if way == "kernel" else asleep


def main():
    parser = argparse.ArgumentParser(description="slices of iperf3 over loopback in which next to nothing moved")
    parser.add_argument("folder", nargs="?", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release"))
    parser.add_argument("--slices", type=int, default=30, help="of each run [default: %(default)s]")
    parser.add_argument("--slice", type=int, default=1000, help="milliseconds, 100 at least, as iperf3 has it [default: %(default)s]")
    parser.add_argument("--mtus", default="1500,9000,65535")
    parser.add_argument("--ways", default="stack,cut-through", help=f"of {', '.join(WAYS)} [default: %(default)s]")
    parser.add_argument("--cores", default="1,2", help="how many host and programs have [default: %(default)s]")
    parser.add_argument("--beside", default="nothing,spinners,naps", help="[default: %(default)s]")
    parser.add_argument("--below", type=float, default=0.1, help="the part of the median that is a slow slice [default: %(default)s]")
    parser.add_argument("--streams", type=int, default=1, help="of iperf3 (-P) [default: %(default)s]")
    options = parser.parse_args()
    for what, known in (("ways", WAYS), ("beside", BESIDE), ("cores", ("1", "2"))):
        for name in getattr(options, what).split(","):
            if name not in known:
                parser.error(f"--{what}: there is no {name}; there are {', '.join(known)}")
    if options.slice < 100:
        parser.error("--slice: iperf3 tells slices of 100 ms at least")
    if not os.environ.get("STALL_SLICES_INSIDE"):
        os.environ["STALL_SLICES_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    stalls = 0
    for way in options.ways.split(","):
        for mtu in options.mtus.split(","):
            for cores in options.cores.split(","):
                for beside in options.beside.split(","):
                    world = cost.World(options.folder)
                    try:
                        stalls += run(world, way, int(mtu), int(cores), beside, options)
                    finally:
                        world.close()
    sys.exit(1 if stalls else 0)


if __name__ == "__main__":
    main()
