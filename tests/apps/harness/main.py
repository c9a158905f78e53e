"""The command line of `tests/apps/run`."""

import argparse
import json
import os
import pathlib
import sys

from harness import page, registry, runner, world

DESCRIPTION = "Runs programs from Debian over Clearway and over the kernel, and compares. Needs root, and touches nothing outside of namespaces of its own."


def arguments():
    parser = argparse.ArgumentParser(prog="tests/apps/run", description=DESCRIPTION)
    parser.add_argument("--list", action="store_true", help="say what cases there are")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="only cases whose name begins with this (may be repeated)")
    parser.add_argument("--way", choices=registry.WAYS, action="append", default=[], help="only this way, and the reference (may be repeated)")
    parser.add_argument("--kernel", action="store_true", help="only the reference: both ends on the kernel")
    parser.add_argument("--short", action="store_true", help="only the cases of `make test`")
    parser.add_argument("--long", action="store_true", help="only the cases that take minutes, which are not run otherwise")
    parser.add_argument("--cannot", action="store_true", help="also run what is said to be impossible; it fails where it holds")
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="how long a soak takes [default: 30]")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many cases at once [default: 1]")
    parser.add_argument("--programs", metavar="DIR", help="where clearway and its library are [default: what was built last]")
    parser.add_argument("--limit", type=int, metavar="S", help="seconds that one way may take, for all cases")
    parser.add_argument("--timeout", type=int, metavar="S", help="seconds that one step of a case may take [default: 60]")
    parser.add_argument("--record", action="store_true", help="keep the results, and write docs/compatibility.md from them")
    parser.add_argument("--page", action="store_true", help="write docs/compatibility.md from the results that were kept last")
    parser.add_argument("--check-page", action="store_true", help="say whether docs/compatibility.md is what --page would write")
    parser.add_argument("--inside", nargs=3, metavar=("CASE", "WAY", "FOLDER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args, cases = arguments(), registry.cases()
    if args.inside:
        name, way, folder = args.inside
        world.inside(cases[name], way, folder)
        return 0
    of_page = {name: case for name, case in cases.items() if not case.long}
    if args.page:
        page.write(of_page)
        return 0
    if args.check_page:
        return page.check(of_page)
    chosen = [case for case in cases.values() if not args.only or any(case.name.startswith(name) for name in args.only)]
    chosen = [case for case in chosen if (case.short or not args.short) and case.long == args.long]
    os.environ["CLEARWAY_APPS_MINUTES"] = str(args.minutes)
    if args.timeout:
        os.environ["CLEARWAY_APPS_TIMEOUT"] = str(args.timeout)
    if args.limit:
        chosen = [registry.replace(case, limit=args.limit) for case in chosen]
    if not chosen:
        print("run: no case is named so; --list says what there is", file=sys.stderr)
        return 2
    if args.list:
        for case in chosen:
            print(f"{case.name:<24} {case.server} <- {case.client}: {case.how}")
        return 0
    ways = ["kernel"] if args.kernel else [way for way in registry.WAYS if not args.way or way in args.way or way == "kernel"]
    if args.record and (args.kernel or args.way or args.long):
        print("run: --record needs all ways, and only of the cases of the page", file=sys.stderr)
        return 2
    binaries = runner.programs(args.programs)
    print(f"{len(chosen)} cases over {', '.join(ways)}, with {binaries}", flush=True)
    stamp = page.stamp(binaries)
    results, held = runner.run(chosen, ways, binaries, args.jobs, args.cannot)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1))
    if args.record:
        page.record(of_page, results, stamp)
    return 0 if held else 1
