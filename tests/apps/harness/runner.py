"""Runs cases, each way in namespaces of its own, and compares what was found with the kernel."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent


def programs(given):
    """The folder with `clearway` and the library: the one that was built last."""
    if given:
        folder = pathlib.Path(given).resolve()
        if not (folder / "clearway").is_file():
            raise SystemExit(f"run: there is no clearway in {folder}")
        return folder
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "clearway" for profile in ("release", "debug")]
    built = [path for path in built if path.is_file()]
    if not built:
        raise SystemExit("run: clearway is not built. Say `cargo build --release`, or name a folder with --programs")
    return max(built, key=lambda path: path.stat().st_mtime).parent.resolve()


def missing_packages(case):
    missing = []
    for package in case.packages:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True)
        if done.stdout != "install ok installed":
            missing.append(package)
    return missing


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return done.stdout.strip() or None


def start(case, way, folder, binaries):
    """Runs one way of a case in process, mount and network namespaces of its own. What came of it."""
    folder.mkdir(parents=True)
    limit = case.limit + (float(os.environ["CLEARWAY_APPS_MINUTES"]) * 60 if case.long else 0)
    # The shell is the first process of the namespace, and buries what the programs leave: a worker with an `exec` in its place would not.
    inner = f"{sys.executable} {HERE / 'run'} --inside {case.name} {way} {folder}; exit $?"
    # Whatever becomes of this process, nothing of the case outlives it.
    argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", inner]
    environment = {**os.environ, "CLEARWAY_APPS_PROGRAMS": str(binaries)}
    result = {"result": "failed", "why": "the worker ended without a word", "observed": {}, "seconds": 0}
    with open(folder / "worker.log", "wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        began = time.monotonic()
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            result = {"result": "failed", "why": f"not done within {limit} s", "observed": {}, "seconds": limit}
            process.kill()
            process.wait()
    written = folder / "result.json"
    if written.is_file():
        result = json.loads(written.read_text())
    result.setdefault("seconds", round(time.monotonic() - began, 1))
    return result


def differences(reference, result):
    """What a way found that the kernel did not, as text; empty when they agree."""
    ours, kernels = result["observed"], reference["observed"]
    different = [name for name in kernels if name not in ours or not _holds(ours[name], kernels[name])]
    return "; ".join(f"{name}: {_difference(ours.get(name), kernels[name])}" for name in different)


def _holds(ours, kernels):
    """The same, or of mishaps that are counted (`at_most`) no more."""
    if isinstance(kernels, dict) and "at most" in kernels:
        return ours["at most"] <= kernels["at most"]
    return ours == kernels


def _difference(ours, kernels):
    if isinstance(ours, list) and isinstance(kernels, list):
        missing, more = [item for item in kernels if item not in ours], [item for item in ours if item not in kernels]
        if missing or more:
            return f"{len(missing)} are missing: {missing!r:.300}, {len(more)} are new: {more!r:.300}"
    return f"{ours!r:.300}, over the kernel {kernels!r:.300}"


def run_case(case, ways, base, binaries, say, tries_all):
    """All ways of a case, the reference first. `tries_all`: also those that cannot be."""
    results = {}
    missing = missing_packages(case)
    for way in (way for way in ways if way in case.ways):
        if missing:
            results[way] = {"result": "not run", "why": f"these packages are missing: {' '.join(missing)}", "seconds": 0}
            say(case, way, results[way], None)
            continue
        reason = case.cannot.get(way)
        if reason and not tries_all:
            results[way] = {"result": "cannot", "why": reason, "seconds": 0}
            say(case, way, results[way], None)
            continue
        folder = base / f"{case.name.replace('/', '-')}-{way}"
        result = start(case, way, folder, binaries)
        reference = results.get("kernel")
        if way != "kernel" and result["result"] == "ok" and reference and reference["result"] == "ok":
            different = differences(reference, result)
            if different:
                result.update(result="failed", why=f"not as over the kernel: {different}")
        if reason:
            held = result["result"] == "ok"
            result = {**result, "result": "failed" if held else "cannot", "why": f"holds, though it is said that it cannot: {reason}" if held else reason}
        results[way] = result
        if result["result"] in ("ok", "cannot"):
            shutil.rmtree(folder, ignore_errors=True)
        say(case, way, result, folder)
    return results


class Progress:
    """One line for each way, and what failed again at the end."""

    def __init__(self, total, out):
        self.total, self.done, self.failed, self.out, self.lock = total, 0, [], out, threading.Lock()

    def __call__(self, case, way, result, folder):
        with self.lock:
            self.done += 1
            line = f"[{self.done}/{self.total}] {case.name} {way}: {result['result']} ({result['seconds']} s)"
            if result["result"] == "cannot":
                line += f"\n    {result['why']}"
            elif result["result"] != "ok":
                line += f"\n    {result['why'][:1500]}" + (f"\n    logs: {folder}" if folder else "")
                self.failed.append(f"{case.name} {way}: {result['why'][:200]}")
            for name, value in result.get("figures", {}).items():
                line += f"\n    {name}: {value}"
            print(line, file=self.out, flush=True)


def _stop(number, base):
    """Ends at once: the kernel ends what was started (see `start`), and nobody waits for the threads that watch it."""
    shutil.rmtree(base, ignore_errors=True)
    os._exit(128 + number)


def run(cases, ways, binaries, jobs, tries_all=False, out=sys.stdout):
    """Runs cases; returns the results by case and way, and whether all held."""
    if os.geteuid() != 0:
        raise SystemExit("run: namespaces need root. Run this as root")
    base = pathlib.Path(tempfile.mkdtemp(prefix="clearway-apps-"))
    base.chmod(0o755)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: _stop(number, base))
    progress = Progress(sum(len(set(ways) & set(case.ways)) for case in cases), out)
    try:
        with ThreadPoolExecutor(jobs) as pool:
            waiting = {case.name: pool.submit(run_case, case, ways, base, binaries, progress, tries_all) for case in cases}
            results = {name: future.result() for name, future in waiting.items()}
    finally:
        # Only the folders of what failed are still there.
        if base.is_dir() and not any(base.iterdir()):
            base.rmdir()
    cannot = sum(result["result"] == "cannot" for ways in results.values() for result in ways.values())
    print(f"{progress.total - len(progress.failed) - cannot} of {progress.total} ok" + (f", {cannot} cannot be" if cannot else ""), file=out)
    for line in progress.failed:
        print(f"FAILED {line}", file=out)
    return results, not progress.failed
