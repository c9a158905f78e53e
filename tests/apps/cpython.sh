#!/usr/bin/env bash
# CPython's own tests of sockets, over the kernel and over Clearway, whose namespace owns 127.0.0.1 and ::1: the same tests must hold.
#
#   tests/apps/cpython.sh [MODULE ...]      test_socket and test_asyncio without an argument
#
# Needs Debian's libpython3.11-testsuite, and `clearway` with its library below target/release or target/debug (or where CLEARWAY_BIN says).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
bin=${CLEARWAY_BIN:-$([ -x "$top/target/release/clearway" ] && echo "$top/target/release" || echo "$top/target/debug")}
python=/usr/bin/python3.11
[ -x "$bin/clearway" ] || { echo "no clearway at $bin: cargo build --release" >&2; exit 2; }
[ -e /usr/lib/python3.11/test/test_socket.py ] || { echo "apt-get install libpython3.11-testsuite" >&2; exit 2; }
modules=("$@")
[ $# -gt 0 ] || modules=(test_socket test_asyncio)

folder=$(mktemp -d /tmp/cwcpython.XXXXXX)
host=
finish() {
    [ -z "$host" ] || { kill "$host" 2>/dev/null && wait "$host" 2>/dev/null; } || true
    rm -rf "$folder"
}
trap finish EXIT

# Runs a module. A test that takes longer than two minutes is an error, and the next one has its turn. The tests of VSOCK are left out: they stand still on a virtual
# machine whose host answers nobody, over the kernel too.
cat > "$folder/run.py" <<'PYTHON'
import json, signal, sys, unittest

module, out = sys.argv[1:]
LIMIT = 120


class Limited(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        signal.setitimer(signal.ITIMER_REAL, LIMIT, 10)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)


def late(*_):
    raise TimeoutError("the test takes too long")


def chosen(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from chosen(one)
        elif "VSOCK" not in type(one).__name__:
            yield one


signal.signal(signal.SIGALRM, late)
tests = unittest.TestSuite(chosen(unittest.defaultTestLoader.loadTestsFromName("test." + module)))
result = unittest.TextTestRunner(verbosity=2, resultclass=Limited).run(tests)
bad = sorted({str(test) for test, _ in result.failures + result.errors})
json.dump({"run": result.testsRun, "skipped": len(result.skipped), "bad": bad}, open(out, "w"))
PYTHON

"$bin/clearway" up --script "$top/tests/apps/python.commands" --socket "$folder/host.sock" > "$folder/host.log" 2>&1 &
host=$!
for _ in $(seq 100); do [ -S "$folder/host.sock" ] && grep -q "is ready" "$folder/host.log" && break; sleep 0.1; done
grep -q "is ready" "$folder/host.log" || { cat "$folder/host.log" >&2; exit 1; }

status=0
for module in "${modules[@]}"; do
    mkdir -p "$folder/kernel" "$folder/clearway"
    (cd "$folder/kernel" && "$python" "$folder/run.py" "$module" "$folder/kernel.json" > "$folder/kernel.log" 2>&1 < /dev/null) || true
    (cd "$folder/clearway" && CLEARWAY_SOCKET="$folder/host.sock" CLEARWAY_NS=python CLEARWAY_SECRET=1234 CLEARWAY_REQUIRED=1 \
        LD_PRELOAD="$bin/libclearway_preload.so" "$python" "$folder/run.py" "$module" "$folder/clearway.json" > "$folder/clearway.log" 2>&1 < /dev/null) || true
    "$python" - "$module" "$folder" <<'PYTHON' || status=1
import json, sys

module, folder = sys.argv[1:]


def read(which):
    try:
        return json.load(open(f"{folder}/{which}.json"))
    except FileNotFoundError:
        print(open(f"{folder}/{which}.log").read()[-4000:])
        sys.exit(f"{module} over {which} did not end well")


kernel, clearway = read("kernel"), read("clearway")
for name, one in ("the kernel", kernel), ("Clearway", clearway):
    print(f"{module} over {name}: {one['run']} run, {one['skipped']} skipped, {len(one['bad'])} failed")
only = [test for test in clearway["bad"] if test not in kernel["bad"]]
for test in only:
    print(f"  fails over Clearway only: {test}")
if clearway["run"] != kernel["run"] or clearway["skipped"] != kernel["skipped"]:
    print("  not the same tests were run")
sys.exit(bool(only))
PYTHON
    rm -f "$folder"/*.json
done
exit $status
