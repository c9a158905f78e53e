"""docs/compatibility.md, from the cases and from what the last run found. Nothing is said to work that was not run."""

import datetime
import json
import os
import pathlib
import subprocess
import sys

from harness import registry, runner

PAGE = runner.ROOT / "docs" / "compatibility.md"
RESULTS = runner.HERE / "results.json"
LIMITS = runner.HERE / "limits.md"

INTRODUCTION = """# Programs that were tried

This page is written by `tests/apps/run --record` (`make apps`); change the cases below `tests/apps/cases`, not this page. Each case is a server and a client, unmodified programs of Debian, that are
run six times: over the kernel, which is the reference, with either or both on Clearway (`clearway run --required`), and with either having the stack [inside of its process](inproc.md) (`clearway run --inproc`). It holds when each program ends as it should,
when everything that the client found is what it found over the kernel, when no session and no program is left in the host afterwards, and when the host ends well.

The configuration is Debian's own, at its own paths and ports: each case has namespaces to itself (processes, mounts, network), with copies of /etc, /var and /run. What a case had to change is said below. With `loopback` the
kernel's own loopback interface is down, and over TAP the kernel knows no other way, so what arrived went over Clearway.
"""


def stamp(binaries):
    """What is run, and when: looked at before the run, for the tree may change meanwhile."""
    commit = _git("rev-parse", "--short", "HEAD") + ("" if not _git("status", "--porcelain", "--", "crates") else ", changed")
    return {"date": datetime.date.today().isoformat(), "commit": commit, "build": binaries.name, "kernel": os.uname().release}


def record(cases, results, run):
    """Keeps what a run found, and writes the page. Cases that were not run keep what was found of them before, with its date."""
    kept = _load()
    for name, ways in results.items():
        versions = {package: runner.version(package) for package in cases[name].packages}
        found = {way: {key: result.get(key, "") for key in ("result", "why")} for way, result in ways.items()}
        for result in found.values():
            result["why"] = result["why"][:300]
        kept[name] = {"run": run, "versions": versions, "ways": found}
    kept = {name: found for name, found in kept.items() if name in cases}
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    write(cases)


def write(cases):
    PAGE.write_text(text(cases, _load()))
    print(f"written: {PAGE}")


def check(cases):
    """0 when the page has what the cases and the kept results say."""
    results = _load()
    gone = sorted(set(results) - set(cases))
    if gone:
        print(f"{RESULTS} has cases that do not exist: {' '.join(gone)}. Say tests/apps/run --page", file=sys.stderr)
        return 1
    if not PAGE.is_file() or PAGE.read_text() != text(cases, results):
        print(f"{PAGE} is not what the cases and {RESULTS.name} say. Say tests/apps/run --page", file=sys.stderr)
        return 1
    print(f"the page has the {len(cases)} cases that exist")
    return 0


def text(cases, results):
    parts = [INTRODUCTION, _programs(cases, results), _cases(cases, results), _impossible(cases), _failures(cases, results), _changes(cases), LIMITS.read_text().rstrip(), _where()]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _runs(results):
    """When the results are from, in one sentence for each run."""
    runs = {}
    for found in results.values():
        run = found["run"]
        runs.setdefault(f"{run['date']}, commit {run['commit']}, {run['build']} build, Linux {run['kernel']}", []).append(found)
    if len(runs) == 1:
        return f"Last run: {next(iter(runs))}."
    return " ".join(f"Run of {len(found)} cases: {when}." for when, found in sorted(runs.items()))


def _result(results, name, way):
    """What the table says of one way."""
    found = results.get(name, {}).get("ways", {}).get(way)
    if found is None:
        return "not run"
    if way != "kernel" and results[name]["ways"]["kernel"]["result"] != "ok":
        return "no reference"
    return {"ok": "works", "failed": "**fails**", "not run": "not run", "cannot": "cannot"}[found["result"]]


def _judged(cases, results, program, role, ways):
    """How a program does as server or client, over all of its cases."""
    found = [_result(results, case.name, way) for case in cases.values() if getattr(case, role) == program for way in ways]
    if not found:
        return "–"
    for word in ("not run", "no reference"):
        if word in found and set(found) <= {word}:
            return word
    # What cannot be is told below the cases.
    found = [word for word in found if word != "cannot"]
    if not found:
        return "cannot"
    works = found.count("works")
    return "works" if works == len(found) else f"**{works} of {len(found)} work**"


def _programs(cases, results):
    lines = ["## Programs", "", _runs(results), "", "| program | version | as server | as client | as server, in-process | as client, in-process |", "| --- | --- | --- | --- | --- | --- |"]
    names = sorted({name for case in cases.values() for name in (case.server, case.client)}, key=str.lower)
    for name in names:
        by_way = (("server", ("loopback", "tap-server")), ("client", ("loopback", "tap-client")), ("server", ("inproc-server",)), ("client", ("inproc-client",)))
        judged = " | ".join(_judged(cases, results, name, role, ways) for role, ways in by_way)
        lines.append(f"| {name} | {_version(cases, results, name)} | {judged} |")
    return "\n".join(lines)


def _version(cases, results, program):
    """The version of the package that the program comes from: of those of its case the one that is named like it, or the first."""
    for case in cases.values():
        versions = results.get(case.name, {}).get("versions", {})
        place = 0 if case.server == program else 1 if case.client == program else None
        if place is None or not versions:
            continue
        packages = list(case.packages)
        word = program.split()[0].lower()
        named = [package for package in packages if word in package or package in PACKAGE_OF.get(program, ())]
        package = (named or packages)[0]
        return f"{versions.get(package)}"
    return "–"


#: Programs whose package has another name.
PACKAGE_OF = {
    "ab": ("apache2-utils",), "dig": ("bind9-dnsutils",), "nc": ("netcat-openbsd",), "sshd": ("openssh-server",), "ssh": ("openssh-client",), "scp": ("openssh-client",), "sftp": ("openssh-client",),
    "redis-cli": ("redis-tools",), "redis-benchmark": ("redis-tools",), "memccapable": ("libmemcached-tools",), "memccp": ("libmemcached-tools",), "mosquitto_pub": ("mosquitto-clients",),
    "psql": ("postgresql",), "pgbench": ("postgresql-contrib",), "ntpdig": ("ntpsec-ntpdig",), "chronyd": ("chrony",), "Netty": ("libnetty-java",), "Python uvloop": ("python3-uvloop",),
    "Java HttpServer": ("openjdk-17-jdk-headless",), "node cluster": ("nodejs",), "node http": ("nodejs",), "iperf": ("iperf",),
}


def _cases(cases, results):
    lines = ["## Cases", ""]
    lines += [f"- *{way}*: {registry.WAY_MEANS[way]}" for way in registry.WAYS[1:]]
    lines += ["", f"| case | server | client | what is tried | {' | '.join(registry.WAYS[1:])} |", "| --- " * (3 + len(registry.WAYS)) + "|"]
    for case in cases.values():
        found = " | ".join(_result(results, case.name, way) for way in registry.WAYS[1:])
        short = " (`make test`)" if case.short else ""
        lines.append(f"| `{case.name}`{short} | {case.server} | {case.client} | {case.how} | {found} |")
    return "\n".join(lines)


def _impossible(cases):
    reasons = {}
    for case in cases.values():
        for way, reason in case.cannot.items():
            reasons.setdefault(reason, []).append(f"`{case.name}` {way}")
    if not reasons:
        return ""
    lines = ["## What cannot be in-process", "", "The stack belongs to one process, and a port to one stack ([bounds](inproc.md#guarantees-and-their-bounds)). `tests/apps/run --cannot` runs these too, and fails where one holds.", "", "| why | cases |", "| --- | --- |"]
    lines += [f"| {reason} | {', '.join(names)} |" for reason, names in sorted(reasons.items())]
    return "\n".join(lines)


def _failures(cases, results):
    failed = [(case.name, way, results[case.name]["ways"][way]) for case in cases.values() for way in registry.WAYS if way in results.get(case.name, {}).get("ways", {})]
    failed = [(name, way, found["why"]) for name, way, found in failed if found["result"] not in ("ok", "cannot")]
    if not failed:
        return ""
    lines = ["## What failed in that run", "", "| case | way | what it said |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {way} | {' '.join(why.split()).replace('|', '/')} |" for name, way, why in failed]
    return "\n".join(lines)


def _changes(cases):
    lines = ["## What was changed in Debian's configuration", "", "| case | change |", "| --- | --- |"]
    for case in cases.values():
        socket_mode = f"the host's attach socket has mode {case.socket_mode} (`[control] socket-mode`), since the program is started as a user that is not the host's" if case.socket_mode != "660" else ""
        changed = "; ".join(part for part in (case.changed, socket_mode) if part)
        if changed:
            lines.append(f"| `{case.name}` | {changed} |")
    return "\n".join(lines)


def _where():
    return """## Where it is

`tests/apps/run` runs the cases (`--list`, `--only NAME`, `--way WAY`, `--short`, `--jobs N`; `--help` says more), `tests/apps/cases` has them, `tests/apps/programs` the programs in languages, `tests/apps/soak` and
`tests/apps/redis-suite` what takes longer. `make apps` installs the Debian packages, runs everything and writes this page; `make soak` runs the long ones. The short form runs in `make test`:
`crates/tools/cli/tests/apps.rs`, which also holds this page against the cases that exist."""


def _load():
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def _git(*words):
    done = subprocess.run(["git", "-C", str(runner.ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() or "unknown" if words[0] == "rev-parse" else done.stdout.strip()
