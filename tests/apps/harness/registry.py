"""What cases there are. A file in `cases/` has those of one program; a case is a function that gets a `World`."""

import importlib
import pathlib
from dataclasses import dataclass, replace
from typing import Callable

#: Folders with cases: those of the page, and those that take longer.
FOLDERS = ("cases", "soak")
HERE = pathlib.Path(__file__).resolve().parent.parent

#: Who is on Clearway, in the order of the page. `kernel` is the reference.
WAYS = ["kernel", "loopback", "tap-server", "tap-client", "inproc-server", "inproc-client"]

WAY_MEANS = {
    "kernel": "server and client on the kernel's loopback: the reference",
    "loopback": "server and client on Clearway, over a loopback interface with 127.0.0.1 and ::1",
    "tap-server": "the server on Clearway, the client on the kernel at the other end of a TAP device",
    "tap-client": "the client on Clearway, the server on the kernel at the other end of a TAP device",
    "inproc-server": "the server with the stack inside of its process, and no host; the client on the kernel at the other end of a TAP device",
    "inproc-client": "the client with the stack inside of its process, and no host; the server on the kernel at the other end of a TAP device",
}

#: Why programs cannot have the stack inside.
FORKS = "a child process serves the connections that its parent accepts, or uses its parent's sockets"
TWO_PROGRAMS = "two programs at the same time on the side that has the stack inside"
TRAPPED = "its system calls are trapped, which is not done with the stack inside of a process"
HANDS_OVER = "a process hands its listening sockets to another one"


@dataclass(frozen=True)
class Case:
    name: str
    server: str
    client: str
    how: str
    run: Callable
    #: Debian packages without which it cannot run.
    packages: tuple
    #: Part of the short form.
    short: bool
    #: Seconds that one way may take.
    limit: int
    #: File mode of the host's attach socket: what a user would set when the program is not started as the host's user.
    socket_mode: str
    #: What was changed in Debian's configuration.
    changed: str
    workers: int
    #: Takes minutes, and is not part of the page: `--long`.
    long: bool
    #: The ways in which it is run, of those that were asked for.
    ways: tuple
    #: Ways that cannot be, and why not.
    cannot: dict


_cases = {}


def case(name, server, client, how, packages, short=False, limit=240, socket_mode="660", changed="", workers=1, long=False, ways=tuple(WAYS), cannot=None):
    """Makes a function a case. `name` is PROGRAM/WHAT; `server` and `client` are the programs, as the page names them.

    `cannot`: why a way cannot be, by way. It is told on the page, and run by nobody; --cannot runs it, and fails when it holds.
    """

    def register(function):
        if name in _cases:
            raise ValueError(f"two cases are named {name}")
        _cases[name] = Case(name, server, client, how, function, tuple(packages), short, limit, socket_mode, changed, workers, long, ways, cannot or {})
        return function

    return register


def cases():
    """All cases, by name."""
    for folder in FOLDERS:
        for path in sorted((HERE / folder).glob("*.py")):
            if path.stem != "__init__":
                importlib.import_module(f"{folder}.{path.stem}")
    return dict(sorted(_cases.items()))
