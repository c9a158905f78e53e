#!/usr/bin/env python3
"""Follows one segment, or one written byte, through the core from function to function, and counts how often the walk comes back
to a module that it had left.

Usage: scripts/walk.py [WALK ...] [--tree] [--build]

WALK is one of those of `clearway-cost walk` (crates/tools/cost/src/walk.rs); without any, all are walked. The program is built
without optimisation below target/walk, so that each function of the source is a function to follow, and is stepped by ptrace from
`walk::begins` to `walk::ends`. What is inlined all the same is told by the debug information. --tree prints each entry of a module.

x86-64 only. Needs binutils.
"""

import argparse
import bisect
import ctypes
import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
PROGRAM = os.path.join(ROOT, "target/walk/debug/clearway-cost")
WALKS = ("segment", "early", "late", "sack", "byte", "byte-in-loss")
CORE = "crates/core/proto/src/"
FLOORS = "crates/tools/xtask/src/order.rs"
# Floors of that table that hold data.
DATA = ("words and tools", "keys and choices", "tables", "values", "what is kept of what was sent and received", "the record and its context")
TRACEME, PEEKTEXT, POKETEXT, GETREGS, SETREGS, CONT, SINGLESTEP = 0, 1, 4, 12, 13, 7, 9
BREAKPOINT = 0xCC

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    """user_regs_struct of x86-64: 27 words, of which two are read."""

    _fields_ = [("words", ctypes.c_ulong * 27)]
    ip = property(lambda self: self.words[16])
    sp = property(lambda self: self.words[19])


def build():
    env = dict(os.environ, CARGO_PROFILE_DEV_OPT_LEVEL="0", CARGO_PROFILE_DEV_DEBUG="full", CARGO_TARGET_DIR=os.path.join(ROOT, "target/walk"))
    subprocess.run(["cargo", "build", "--quiet", "--package", "clearway-cost"], cwd=ROOT, env=env, check=True)


def functions():
    """Begin and name of every function, in order."""
    lines = subprocess.run(["nm", "--demangle", "--defined-only", PROGRAM], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = (re.match(r"([0-9a-f]+) [tTwW] (.*)", line) for line in lines)
    return sorted({int(row[1], 16): row[2] for row in rows if row}.items())


def ptrace(request, pid, address=0, data=0):
    result = libc.ptrace(request, pid, address, data)
    if result < 0 and request != PEEKTEXT:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")
    return result


def wait(pid):
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(f"walk.py: the program ended before its walk did (status {status})")


def steps(walk, table):
    """Each instruction of the walk: its address in the program's file, and the stack pointer."""
    at = {name: address for address, name in table if re.match(r"clearway_cost::walk::(begins|ends)\b", name)}
    begins, ends = (next(address for name, address in at.items() if name.startswith("clearway_cost::walk::" + end)) for end in ("begins", "ends"))
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        libc.ptrace(TRACEME, 0, 0, 0)
        os.execv(PROGRAM, [PROGRAM, "walk", walk])
    wait(pid)
    with open(f"/proc/{pid}/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(PROGRAM))
    word = ptrace(PEEKTEXT, pid, base + begins)
    ptrace(POKETEXT, pid, base + begins, word & ~0xFF | BREAKPOINT)
    ptrace(CONT, pid)
    wait(pid)
    registers = Registers()
    ptrace(GETREGS, pid, 0, ctypes.addressof(registers))
    ptrace(POKETEXT, pid, base + begins, word)
    registers.words[16] = base + begins
    ptrace(SETREGS, pid, 0, ctypes.addressof(registers))
    taken = []
    while registers.ip != base + ends:
        taken.append((registers.ip - base, registers.sp))
        ptrace(SINGLESTEP, pid)
        wait(pid)
        ptrace(GETREGS, pid, 0, ctypes.addressof(registers))
    ptrace(CONT, pid)
    os.waitpid(pid, 0)
    return taken


def lines_of(addresses):
    """What is inlined at each address: functions with the line of the call, the outermost first."""
    asked = "\n".join(hex(address) for address in addresses)
    told = subprocess.run(["addr2line", "-aifC", "-e", PROGRAM], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    chains, here, n = {}, None, 0
    while n < len(told):
        if re.fullmatch(r"0x[0-9a-f]+", told[n]):
            here = chains.setdefault(int(told[n], 16), [])
            n += 1
        else:
            here.insert(0, (told[n], re.sub(r" \(discriminator.*", "", told[n + 1])))
            n += 2
    return chains


def entries(taken, table):
    """Each function that is entered, as (depth, name, file), in order."""
    begins = [address for address, _ in table]
    chains = lines_of(sorted({address for address, _ in taken}))
    # Frames: where the function begins, the stack pointer at its entry, and what is inlined where it stands.
    frames = []
    for address, sp in taken:
        while frames and sp > frames[-1][1]:
            frames.pop()
        place = bisect.bisect_right(begins, address) - 1
        function = begins[place] if place >= 0 else None
        if not frames or address == function or frames[-1][0] != function:
            if frames and sp == frames[-1][1]:
                frames.pop()
            frames.append([function, sp, [], set()])
        depth = sum(len(frame[2]) for frame in frames[:-1])
        chain, now = chains.get(address) or [("?", "?")], []
        for n, (name, line) in enumerate(chain):
            # A function that is inlined is told apart by where it is called, the outermost by nothing.
            now.append((name, chain[n - 1][1] if n else "", line.rsplit(":", 1)[0]))
        old = frames[-1][2]
        same = 0
        while same < min(len(old), len(now)) and old[same][:2] == now[same][:2]:
            same += 1
        for n in range(same, len(now)):
            # What is inlined may lie in pieces, and in a loop: it is entered once.
            key = tuple(one[:2] for one in now[: n + 1])
            if key not in frames[-1][3]:
                frames[-1][3].add(key)
                yield depth + n, now[n][0], now[n][2]
        frames[-1][2] = now


def module(path):
    """The module of a file of the core, or None."""
    path = os.path.normpath(path)
    return path.split(CORE, 1)[1].removesuffix(".rs").replace("/", "::") if CORE in path else None


def data_modules():
    """Modules on floors that hold data: a call into them reads or writes a value, and goes nowhere."""
    with open(os.path.join(ROOT, FLOORS)) as table:
        text = table.read()
    found = set()
    for order in re.finditer(r'(?:settled|open)\("(proto[^"]*)", &\[(.*?)\n    \]\)', text, re.S):
        folder = order[1].removeprefix("proto").removeprefix("::")
        for name, modules in re.findall(r'(?:floor|loose)\(\s*"([^"]+)",\s*&\[([^\]]*)\]', order[2]):
            if name in DATA:
                found.update("::".join(filter(None, [folder, one])) for one in re.findall(r'"(\w+)"', modules) if one != "mod")
    return found


def stages(visited, data):
    """Each entry of a module by a call from another, as (depth, module, function, whether it was left before). Calls into one module
    with no other in between are one entry."""
    inside, seen, last = [], set(), None
    for depth, name, path in visited:
        while inside and inside[-1][0] >= depth:
            inside.pop()
        here = inside[-1][1] if inside else None
        at = module(path)
        # A closure is a part of who wrote it, whoever calls it; comparing and copying go nowhere.
        if at is None or "{{closure}}" in name or " as core::" in name or any(at == one or at.startswith(one + "::") for one in data):
            at = here
        inside.append((depth, at))
        if at not in (None, here) and at != last:
            yield len([1 for _, one in inside[:-1] if one]), at, name, at in seen
        if at not in (None, here):
            seen.add(at)
            last = at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walks", nargs="*", metavar="WALK", help=" ".join(WALKS))
    parser.add_argument("--tree", action="store_true", help="print each function that is entered in another module")
    args = parser.parse_args()
    build()
    table, data = functions(), data_modules()
    print(f"{'walk':<14} {'modules':>8} {'entries':>8} {'returns':>8} {'with data':>10}")
    for walk in args.walks or WALKS:
        visited = list(entries(steps(walk, table), table))
        path, every = list(stages(visited, data)), list(stages(visited, ()))
        modules, back = {one[1] for one in path}, [one for one in path if one[3]]
        print(f"{walk:<14} {len(modules):>8} {len(path):>8} {len(back):>8} {sum(one[3] for one in every):>10}")
        for depth, to, name, again in path if args.tree else back:
            print(f"    {'back to' if again else '       '} {'  ' * depth if args.tree else ''}{to}: {short(name)}")


def short(name):
    """The last words of a function's name."""
    return re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", re.sub(r"<impl [^<>]*(<[^<>]*>)?[^<>]*>", "", name))).rsplit("::", 1)[-1]


if __name__ == "__main__":
    main()
