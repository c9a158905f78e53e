"""Work that goes on for long: memory has to stay flat, nothing may be left, and no error may come that the kernel does not have."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from cases import nginx, stores
from harness.registry import case

TINY = pathlib.Path(__file__).with_name("tiny.c")
CHATTER = pathlib.Path(__file__).with_name("chatter.go")

#: What the host's memory may grow by between the first fifth of a soak and its end: a fixed part for what is given back lazily, and a share.
GROWTH_BYTES, GROWTH_SHARE, GROWTH_DESCRIPTORS = 48 << 20, 1.25, 64


class Watch:
    """Looks at the host every second; says at the end whether it grew."""

    def __init__(self, w):
        self.w, self.seen, self.over = w, [], threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while not self.over.wait(1):
            self.seen.append(self.w.host_memory())

    def judge(self):
        self.over.set()
        self.thread.join()
        if self.w.host is None:
            return
        first = self.seen[: max(1, len(self.seen) // 5)]
        last = self.seen[-max(1, len(self.seen) // 5):]
        for kind, extra in (("own", GROWTH_BYTES), ("shared", GROWTH_BYTES), ("descriptors", GROWTH_DESCRIPTORS)):
            before, after = max(look[kind] for look in first), max(look[kind] for look in last)
            self.w.figure(kind, f"{before} at first, {after} at the end")
            self.w.check(after <= before * GROWTH_SHARE + extra, f"the host's memory grew: {kind} {before} at first, {after} at the end")


def no_session_left(w):
    if w.host is not None:
        w.eventually("no session is left", lambda: not w.ctl("show session verbose")["sessions"], seconds=120)


BOTH = ("kernel", "loopback")


@case("soak/nginx", "nginx", "wrk", "wrk with a reload every 2 s", ["nginx", "wrk"], long=True, limit=300, ways=(*BOTH, "tap-server"))
def soak_nginx(w):
    server = nginx.started(w)
    watch = Watch(w)
    # A request that hangs is found; one that a busy machine leaves waiting for seconds is none.
    seconds = max(1, round(w.minutes * 60))
    load = w.start("client", ["wrk", "-t2", "-c32", "--timeout", "60s", f"-d{seconds}", nginx.url(w)])
    while load.alive():
        time.sleep(2)
        server.send_signal(signal.SIGHUP)
    text = load.succeed()
    requests = re.search(r"(\d+) requests in", text)
    w.check(requests and int(requests[1]) > 1000, text)
    errors = dict(re.findall(r"(connect|read|write|timeout) (\d+)", text))
    w.figure("requests", requests[1])
    w.figure("errors", errors or "none")
    # Connections that an old worker closes while a request is on its way are read errors over the kernel, too.
    for kind in ("connect", "write", "timeout"):
        w.at_most(kind, int(errors.get(kind, 0)))
    w.same("other answers", re.findall("Non-2xx.*", text))
    server.stop(signal.SIGQUIT, seconds=60)
    watch.judge()
    no_session_left(w)


@case("soak/redis", "redis", "redis-benchmark", "redis-benchmark with saving in the background", stores.REDIS, long=True, limit=300, socket_mode="666", ways=(*BOTH, "tap-server"))
def soak_redis(w):
    stores.redis(w)
    watch = Watch(w)
    until, rounds, saved = time.monotonic() + w.minutes * 60, 0, 0
    while time.monotonic() < until:
        stores.cli(w, "bgsave", "schedule")
        out = w.client(["redis-benchmark", "-h", w.address, "-q", "-t", "set,get,incr,lpush,lrange_100", "-n", "20000", "-d", "100", "-r", "10000", "-P", "4"], seconds=600)
        w.check("rror" not in out.out + out.err, str(out))
        rounds += 1
    w.eventually("the last dump is written", lambda: "rdb_bgsave_in_progress:0" in stores.cli(w, "info", "persistence"), seconds=120)
    w.same("saved", "rdb_last_bgsave_status:ok" in stores.cli(w, "info", "persistence"))
    w.same("clients left", stores.cli(w, "client", "list").count("\n"))
    w.figure("rounds", rounds)
    w.running[-1].stop()
    watch.judge()
    no_session_left(w)


@case("soak/programs", "tiny.c", "tiny.c", "programs started and ended, 50,000 in 30 minutes, each tenth killed in its midst", ["gcc"], long=True, limit=300, ways=(*BOTH, "tap-client"))
def soak_programs(w):
    tiny = w.tmp / "tiny"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", str(tiny), str(TINY)], check=True)
    w.server([tiny, "serve", "7000"]).await_text("ready")
    watch = Watch(w)
    count = round(50_000 * w.minutes / 30)
    began = time.monotonic()
    out = w.client([tiny, "spawn", count, w.address, "7000"], seconds=max(600, w.minutes * 60 * 4)).out
    w.figure("programs", f"{count} in {time.monotonic() - began:.0f} s")
    w.same("failed", re.findall(r"(\d+) failed", out))
    w.running[-1].stop()
    watch.judge()
    no_session_left(w)


def trapped_memory(text):
    """What a program of chatter.go says that it holds, line by line."""
    looks = re.findall(r"rss (\d+) KiB, (\d+) threads, (\d+) descriptors, (\d+) goroutines", text)
    return [dict(zip(("rss", "threads", "descriptors", "goroutines"), map(int, look))) for look in looks]


@case("soak/go", "Go net/http", "Go net/http", "trapped; POSTs over 32 connections, half of them new each time, at GOGC=5, with goroutines that only signals take from their processors", ["golang-go"], long=True, limit=300, ways=BOTH)
def soak_go(w):
    chatter, seconds = w.tmp / "chatter", max(20, round(w.minutes * 60))
    subprocess.run(["go", "build", "-o", str(chatter), str(CHATTER)], check=True, env={**os.environ, "CGO_ENABLED": "0"}, cwd=w.tmp)
    server = w.start("server", [chatter, "serve", f"{w.address}:7000"], trap=True)
    server.await_text("serving")
    watch = Watch(w)
    client = w.start("client", [chatter, "get", f"{w.address}:7000", seconds, 32], trap=True)
    text = client.succeed(seconds + 240)
    done = re.search(r"(\d+) requests, (\d+) of them wrong", text)
    w.check(done and int(done[1]) > 100, text[-3000:])
    w.figure("requests", done[1])
    w.at_most("wrong", int(done[2]))
    server.stop(seconds=60)
    for role, program in (("server", server), ("client", client)):
        looks = trapped_memory(program.text())
        fifth = max(1, len(looks) // 5)
        for kind, extra in (("rss", 32 << 10), ("threads", 32), ("descriptors", 64), ("goroutines", 64)):
            # While it begins it has less than ever after.
            before, after = (max(look[kind] for look in part) for part in (looks[: 2 * fifth], looks[-fifth:]))
            w.figure(f"{role}: {kind}", f"{before} at first, {after} at the end")
            w.check(after <= before * GROWTH_SHARE + extra, f"the {role} grew: {kind} {before} at first, {after} at the end")
    watch.judge()
    no_session_left(w)
