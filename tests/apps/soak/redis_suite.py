"""redis' own tests, over the kernel and with 127.0.0.1 and ::1 as Clearway's. `tests/apps/redis-suite` fetches them."""

import os
import pathlib
import re

from harness.registry import case


# Tests of Debian's source that set an option to a value which Debian's server does not know, and end all others by that, over the kernel too.
UNFIT = ["/^Fullsync should not free scripting engine on a replica"]


@case("suite/redis", "redis", "tcl", "redis' own tests (`runtest`)", ["redis-server", "redis-tools", "tcl"], long=True, limit=600, ways=("kernel", "loopback"))
def suite(w):
    source = pathlib.Path(os.environ.get("CLEARWAY_REDIS_SOURCE", ""))
    w.check(str(source) != "." and (source / "tests/test_helper.tcl").is_file(), "tests/apps/redis-suite fetches the source and sets CLEARWAY_REDIS_SOURCE")
    # A copy, since the tests write below themselves, and run the programs that they find in src/.
    copy = w.tmp / "redis"
    w.run("local", ["cp", "-r", source / "tests", source / "redis.conf", source / "sentinel.conf", w.write("redis/src/.keep", "").parent.parent])
    for name in ("redis-server", "redis-cli", "redis-benchmark", "redis-sentinel", "redis-check-aof", "redis-check-rdb"):
        os.symlink(f"/usr/bin/{name}", copy / "src" / name)
    (copy / "tests/tmp").mkdir(exist_ok=True)
    words = os.environ.get("CLEARWAY_REDIS_TESTS", "").split()
    chosen = [word for name in words for word in ("--single", name)] + [word for name in UNFIT for word in ("--skiptest", name)]
    done = w.run("server", ["tclsh", "tests/test_helper.tcl", "--clients", os.environ.get("CLEARWAY_REDIS_CLIENTS", "2"), *chosen], cwd=copy, seconds=w.minutes * 60 + 500, code=None)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
    (w.folder / "runtest.txt").write_text(text)
    passed, errors = re.findall(r"\[ok\]: (.*?) \(\d+ ms\)", text), re.findall(r"\[(?:err|exception|TIMEOUT)\]:? (.*)", text)
    w.figure("ok", len(passed))
    w.figure("errors", errors[:20])
    # Its tests of partial resynchronisation draw what they do (the layout of the replicas, which of them is killed), and go on for a time, not a number of rounds.
    w.same("passed", sorted(name for name in passed if not name.startswith("PSYNC2")))
    w.same("partial resynchronisation", any(name.startswith("PSYNC2: cluster is consistent") for name in passed))
    w.same("after killed links", any(name.startswith("PSYNC2 #3899 regression: verify consistency") for name in passed))
    w.same("errors", sorted(errors))
    w.check("All tests passed without errors!" in text or errors, f"the tests were aborted: {text[-1500:]}")
