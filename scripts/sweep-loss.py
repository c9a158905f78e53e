#!/usr/bin/env python3
"""One stream over bad links: Clearway with Linux beside Linux with Linux, over the same faults.

Each cell is one kind of bad link. In each round of it four slices follow one another: the kernel asks Clearway for data over a TAP device, the kernel asks
the kernel over two TAP devices with `clearway wire` between them, the kernel sends to Clearway, the kernel sends to the kernel. The ratio of a round is that of
neighbours, that of a cell the median of its rounds. All of it happens in network namespaces made for this run and removed at its end. Root.

  --quick            three cells, one round, short slices
  --cells WORDS      only cells whose name has one of these in it, such as reorder,loss
  --congestion WHAT  congestion control of all senders: cubic (default), reno, bbr1 (Linux names it bbr), or bbr: Clearway's third version beside
                     Linux's first
  --rounds N         rounds of each cell (default 5); each draws its own faults, the same for all of its slices
  --skip N           begin with the faults of the round behind N, so that several runs draw different ones
  --seconds N        length of a slice (default 4)
  --jobs N           cells at the same time (default 1): only for cells that are far from what the machine can carry
  --from FILES       measure nothing: figures that --json has written, for --markdown and --svg; of a cell that is in two files the later counts
  --json FILE        the figures as JSON, `-` for standard output in place of the table
  --markdown FILE    the table as it stands in docs/sweep-loss.md
  --svg DIR          heat maps, loss-light.svg and loss-dark.svg
  CLEARWAY           the program to measure (default target/release/clearway)
"""
import argparse
import concurrent.futures
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing

CLEARWAY = os.environ.get("CLEARWAY") or os.path.join(
    os.environ.get("CARGO_TARGET_DIR", "target"), "release", "clearway")

# Name, and the faults of both directions; `data.` and `ack.` are the way of the data and that of its acknowledgements.
DELAYS = ["1ms", "10ms", "33ms", "100ms"]
LOSSES = ["0.1%", "1%", "3%", "10%"]
QUEUE = 6000
REORDERINGS = ["0.1%", "1%", "10%"]


def cells():
    """Every cell: its name, its row and column in the heat map, and its faults."""
    for delay in DELAYS:
        # Frames on the way or waiting: fewer than the pools of buffers hold, which both setups have alike.
        path = f"delay={delay},limit={QUEUE}"
        row = f"RTT {2 * int(delay[:-2])} ms"
        yield (f"clean {delay}", row, "clean", path)
        for loss in LOSSES:
            yield (f"loss {loss} {delay}", row, f"loss {loss}", f"{path},data.loss={loss}")
        for share in REORDERINGS:
            yield (f"reorder {share} {delay}", row, f"reorder {share}", f"{path},data.reorder={share}")
        yield (f"ack-loss 10% {delay}", row, "ACK loss 10%", f"{path},ack.loss=10%")
        yield (f"jitter kept {delay}", row, "jitter in order", f"{path},jitter={jitter(delay)},jitter-shape=normal")
        yield (f"jitter free {delay}", row, "jitter reorders",
               f"{path},data.jitter={jitter(delay)},data.jitter-shape=normal,data.jitter-order=free")
        for name, frames in (("shallow", 20), ("deep", 1000)):
            yield (f"{name} {delay}", row, f"100M {name}", f"delay={delay},rate=100M,limit={frames + frames_on_way(delay)}")


def jitter(delay):
    """A quarter of the delay."""
    return f"{int(delay[:-2]) * 250}us"


def frames_on_way(delay):
    """Frames of 1500 bytes that 100 Mbit/s have on the way in that time."""
    return int(int(delay[:-2]) / 1000 * 100e6 / 8 / 1500) + 1


QUICK = ["clean 10ms", "loss 1% 10ms", "reorder 1% 10ms"]


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Namespaces:
    def __init__(self, job):
        self.names = {which: f"cwloss-{os.getpid()}-{job}-{which}" for which in ("ours", "left", "right")}

    def __enter__(self):
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            self.inside(name, "sysctl", "-q", "-w", "net.ipv4.tcp_no_metrics_save=1")
        return self

    def __exit__(self, *_):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def inside(name, *words):
        return run("ip", "netns", "exec", name, *words)


# Programs that run, so that who ends this ends them.
ALIVE = set()


def start(netns, *words, **how):
    process = subprocess.Popen(["ip", "netns", "exec", netns, CLEARWAY, *words, "--json"], **how)
    ALIVE.add(process)
    return process


class Running:
    """A program in a namespace that says `ready` on its standard output, as a line of JSON."""

    def __init__(self, netns, *words):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="sweep-loss-")
        self.process = start(netns, *words, stdout=self.log, stderr=subprocess.STDOUT)
        for _ in range(600):
            time.sleep(0.05)
            if '"ready"' in self.text():
                return
            if self.process.poll() is not None:
                break
        self.stop()
        sys.exit(f"{' '.join(words)} is not ready: {self.text()}")

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        ALIVE.discard(self.process)


def faults(spec, towards_first):
    """The words for --fault: `rx.` is what comes to the port, `tx.` what leaves it. `towards_first`: the data comes to the port."""
    data, ack = ("rx.", "tx.") if towards_first else ("tx.", "rx.")
    return spec.replace("data.", data).replace("ack.", ack)


def linux_name(congestion):
    """The kernel's name of a congestion control."""
    return {"bbr1": "bbr"}.get(congestion, congestion)


def address(netns, device, cidr, congestion):
    run("ip", "-n", netns, "addr", "add", cidr, "dev", device)
    # A TAP device drops what does not fit into its queue of 1000 frames, and the kernel sends that much in one go where a window opens:
    # then not the faults decide, but how often that happens.
    run("ip", "-n", netns, "link", "set", device, "txqueuelen", str(QUEUE), "up")
    # The namespace may have another congestion control than ours, and may not be told: its route is.
    source, prefix = cidr.split("/")[0], cidr.rsplit(".", 1)[0] + ".0/24"
    run("ip", "-n", netns, "route", "change", prefix, "dev", device, "proto", "kernel", "scope", "link",
        "src", source, "congctl", linux_name(congestion))


COUNTED = ["TcpOutSegs", "TcpRetransSegs", "TcpExtTCPDSACKRecv", "TcpExtTCPDSACKOldSent", "TcpExtTCPDSACKOfoSent"]


def counters(netns):
    out = Namespaces.inside(netns, "nstat", "-asz", "--json", *COUNTED)
    return json.loads(out)["kernel"]


def transfer(netns, server, seconds, down):
    """Mbit/s of one stream asked for by the kernel in a namespace."""
    words = ["bulk", "client", "--kernel", "-s", server, "--time", str(seconds), *(["--down"] if down else [])]
    client = start(netns, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = client.communicate(timeout=seconds * 10 + 120)
    finally:
        client.kill()
        client.wait()
        ALIVE.discard(client)
    for line in out.splitlines():
        result = json.loads(line)
        if result.get("event") == "result" and result.get("error") is None:
            return result["gbit_per_s"] * 1000
    print(f"no result: {out[-300:]}{errors[-300:]}", file=sys.stderr)
    return None


def ours(names, how, seconds, sends):
    """Clearway at one end. `sends`: it sends. Mbit/s, and of 10,000 segments how many the kernel knows to have come in vain."""
    netns = names["ours"]
    # Data that Clearway sends leaves its port.
    server = Running(netns, "bulk", "server", "--port", "tap:cw0,offload=off", "-a", "10.97.0.2/24", "--fault",
                     faults(how.spec, towards_first=not sends), "--fault-seed", str(how.seed), "--congestion", how.congestion)
    try:
        address(netns, "cw0", "10.97.0.1/24", how.congestion)
        before = counters(netns)
        rate = transfer(netns, "10.97.0.2", seconds, down=sends)
        after = counters(netns)
    finally:
        server.stop()
    return rate, in_vain(before, after, receives=sends, rate=rate, seconds=seconds)


def kernels(names, how, seconds, down):
    """The kernel at both ends: `left` asks, and sends unless the data comes `down`."""
    left, right = names["left"], names["right"]
    receiver = left if down else right
    wire = Running(left, "wire", "--port", "tap:wl", "--onto", "tap:wr", "--fault", faults(how.spec, towards_first=not down),
                   "--fault-seed", str(how.seed))
    server = None
    try:
        run("ip", "-n", left, "link", "set", "wr", "netns", right)
        address(left, "wl", "10.98.0.1/24", how.congestion)
        address(right, "wr", "10.98.0.2/24", how.congestion)
        server = Running(right, "bulk", "server", "--kernel", "-a", "10.98.0.2/24")
        before = counters(receiver)
        rate = transfer(left, "10.98.0.2", seconds, down)
        after = counters(receiver)
    finally:
        if server:
            server.stop()
        wire.stop()
    return rate, in_vain(before, after, receives=True, rate=rate, seconds=seconds)


def in_vain(before, after, receives, rate, seconds):
    """Repetitions in vain among 10,000 segments, as the kernel's D-SACKs say: those that it sent, or was sent."""
    if rate is None:
        return None
    names = ["TcpExtTCPDSACKOldSent", "TcpExtTCPDSACKOfoSent"] if receives else ["TcpExtTCPDSACKRecv"]
    twice = sum(after[name] - before[name] for name in names)
    segments = rate * 1e6 / 8 * seconds / 1448
    return 1e4 * twice / segments if segments >= 1 else None


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


class How(typing.NamedTuple):
    """What a slice is like."""
    spec: str
    # Of the faults that are drawn.
    seed: int
    congestion: str


def measure(names, cell, args, ended):
    name, row, column, spec = cell
    got = {key: [] for key in ("sends", "sends_ratio", "receives", "receives_ratio", "kernel", "in_vain", "kernel_in_vain")}
    rounds, seconds = args.rounds, args.seconds
    for number in range(rounds):
        how = How(spec, args.skip + number + 1, args.congestion)
        for key, sends in (("sends", True), ("receives", False)):
            if ended.is_set():
                break
            mine, vain = ours(names, how, seconds, sends)
            theirs, their_vain = kernels(names, how, seconds, down=sends)
            got[key].append(mine)
            got["kernel"].append(theirs)
            if mine is not None and theirs:
                got[f"{key}_ratio"].append(mine / theirs)
            if sends:
                got["in_vain"].append(vain)
                got["kernel_in_vain"].append(their_vain)
    return {"cell": name, "row": row, "column": column, "faults": spec, "rounds": rounds, "seconds": seconds, "congestion": args.congestion,
            **{key: median(values) for key, values in got.items()}, "of_rounds": got}


def measure_all(chosen, args):
    """Every cell, `jobs` at a time, each of those in network namespaces of its own; in the order of `chosen`."""
    results = {}
    jobs = max(args.jobs, 1)
    waiting = list(reversed(chosen))
    ended = threading.Event()

    def end(*_):
        ended.set()
        for process in list(ALIVE):
            process.terminate()

    def work(job):
        with Namespaces(job) as namespaces:
            while waiting and not ended.is_set():
                cell = waiting.pop()
                result = measure(namespaces.names, cell, args, ended)
                if ended.is_set():
                    return
                results[cell[0]] = result
                print(f"{len(results)}/{len(chosen)} {cell[0]}", file=sys.stderr)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        working = [pool.submit(work, job) for job in range(jobs)]
        concurrent.futures.wait(working, return_when=concurrent.futures.FIRST_EXCEPTION)
        # A cell that failed ends the others.
        if any(one.done() and one.exception() for one in working):
            end()
    # Who was ended, by a signal or by another's failure, fails too: the first says why. What was measured is kept.
    failed = [one for one in working if one.exception()]
    if failed:
        print(f"not all was measured: {failed[0].exception()}", file=sys.stderr)
    if ended.is_set() and not results:
        sys.exit("ended before anything was measured")
    return [results[cell[0]] for cell in chosen if cell[0] in results]


def read(files):
    """The figures of earlier runs, in the order of `cells`."""
    found = {}
    for name in files:
        with open(name) as file:
            for result in json.load(file)["cells"]:
                found[result["cell"]] = result
    return [found[cell[0]] for cell in cells() if cell[0] in found]


def shown(value, form):
    return "-" if value is None else format(value, form)


def spread(result, key):
    """The median of the rounds, and between what they lay."""
    values = result["of_rounds"][key]
    return f"{shown(result[key], '.2f')} ({min(values):.2f}–{max(values):.2f})" if values else "-"


def table(results):
    print(f"{'cell':22} {'sends':>9} {'receives':>9} {'Linux':>9} {'ratio sends':>20} {'receives':>20} {'in vain/10k':>12} {'Linux':>7}")
    for r in results:
        print(f"{r['cell']:22} {shown(r['sends'], '9.1f'):>9} {shown(r['receives'], '9.1f'):>9} {shown(r['kernel'], '9.1f'):>9} "
              f"{spread(r, 'sends_ratio'):>20} {spread(r, 'receives_ratio'):>20} "
              f"{shown(r['in_vain'], '12.1f'):>12} {shown(r['kernel_in_vain'], '7.1f'):>7}")


def markdown(results, name):
    with open(name, "w") as file:
        for r in results:
            rates = " | ".join(shown(r[key], ".1f") for key in ("sends", "receives", "kernel"))
            vain = " | ".join(shown(r[key], ".1f") for key in ("in_vain", "kernel_in_vain"))
            file.write(f"| {r['cell']} | {rates} | {spread(r, 'sends_ratio')} | {spread(r, 'receives_ratio')} | {vain} |\n")


def color(ratio, dark):
    """Red below one, green above, on a scale of factors; grey where nothing was measured."""
    if ratio is None:
        return "#555555" if dark else "#dddddd"
    import math
    x = max(-1.0, min(1.0, math.log2(max(ratio, 0.01)) / 2))
    base = (40, 40, 40) if dark else (255, 255, 255)
    peak = (46, 160, 67) if x > 0 else (218, 54, 51)
    share = abs(x)
    return "#" + "".join(f"{round(b + (p - b) * share):02x}" for b, p in zip(base, peak))


def heat_map(results, key, title, dark):
    rows = list(dict.fromkeys(r["row"] for r in results))
    columns = list(dict.fromkeys(r["column"] for r in results))
    at = {(r["row"], r["column"]): r[key] for r in results}
    wide, high, left, top = 92, 34, 96, 64
    ink, paper = ("#e6edf3", "#0d1117") if dark else ("#1f2328", "#ffffff")
    out = [f'<g font-family="sans-serif" font-size="12" fill="{ink}">',
           f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for c, column in enumerate(columns):
        out.append(f'<text x="{left + c * wide + wide / 2}" y="{top - 10}" text-anchor="middle">{column}</text>')
    for r, row in enumerate(rows):
        y = top + r * high
        out.append(f'<text x="{left - 8}" y="{y + high / 2 + 4}" text-anchor="end">{row}</text>')
        for c, column in enumerate(columns):
            if (row, column) not in at:
                continue
            x = left + c * wide
            out.append(f'<rect x="{x}" y="{y}" width="{wide - 2}" height="{high - 2}" fill="{color(at[row, column], dark)}"/>')
            out.append(f'<text x="{x + wide / 2}" y="{y + high / 2 + 4}" text-anchor="middle">{shown(at[row, column], ".2f")}</text>')
    out.append("</g>")
    return out, left + len(columns) * wide + 10, top + len(rows) * high + 10, paper


def svg(results, folder):
    os.makedirs(folder, exist_ok=True)
    for dark in (False, True):
        parts, width, height, paper = [], 0, 0, "#ffffff"
        for key, title in (("sends_ratio", "Clearway sends: goodput beside Linux, median of rounds"),
                           ("receives_ratio", "Clearway receives: goodput beside Linux, median of rounds")):
            lines, w, h, paper = heat_map(results, key, title, dark)
            parts += [f'<g transform="translate(0,{height})">', *lines, "</g>"]
            width, height = max(width, w), height + h
        name = os.path.join(folder, f"loss-{'dark' if dark else 'light'}.svg")
        with open(name, "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
                       f'<rect width="100%" height="100%" fill="{paper}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", default="")
    parser.add_argument("--congestion", choices=["cubic", "reno", "bbr1", "bbr"], default="cubic")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--from", dest="files", metavar="FILES")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--svg")
    args = parser.parse_args()
    words = args.cells.split(",")
    names = [cell[0] for cell in cells()]
    # A whole name means that cell alone, though it may be a part of others.
    chosen = [cell for cell in cells() if any(word == cell[0] if word in names else word in cell[0] for word in words)
              and (not args.quick or cell[0] in QUICK)]
    load = os.getloadavg()
    if args.files:
        results = read(args.files.split(","))
    else:
        if os.geteuid() != 0:
            sys.exit("making network namespaces needs root. Run this as root.")
        if not os.access(CLEARWAY, os.X_OK):
            sys.exit(f"{CLEARWAY} is not there. Build it with: cargo build --release")
        if args.quick:
            args.rounds, args.seconds = 1, 2
        results = measure_all(chosen, args)
        if args.json != "-":
            print(f"machine: {os.uname().sysname} {os.uname().release}, {os.cpu_count()} cores, load before {load[0]:.1f}, now {os.getloadavg()[0]:.1f}; "
                  f"Mbit/s, medians of {args.rounds} rounds of {args.seconds} s by {args.congestion}, {max(args.jobs, 1)} cells at a time")
    if args.json != "-":
        table(results)
    if args.json:
        text = json.dumps({"kernel": os.uname().release, "load": load, "cells": results}, indent=1)
        if args.json == "-":
            print(text)
        else:
            with open(args.json, "w") as file:
                file.write(text + "\n")
    if args.markdown:
        markdown(results, args.markdown)
    if args.svg:
        svg(results, args.svg)
    if not args.files and len(results) < len(chosen):
        sys.exit(f"ended when {len(results)} of {len(chosen)} cells were measured; those are written")


if __name__ == "__main__":
    main()
