#!/usr/bin/env python3
"""Of a file in LCOV's format: a table of its files on standard output, and the lines that nothing reached into another file."""

import os
import sys


def read(name):
    """Of each file: of each of its lines how often it ran. A line of a generic function is told once for each type that it was made for."""
    files, lines = {}, None
    with open(name) as lcov:
        for row in lcov:
            key, _, value = row.strip().partition(":")
            if key == "SF":
                lines = files.setdefault(os.path.relpath(value), {})
            elif key == "DA":
                line, count = (int(number) for number in value.split(",")[:2])
                lines[line] = max(lines.get(line, 0), count)
    return files


def main():
    lcov, uncovered = sys.argv[1:]
    files = read(lcov)
    total = missed = 0
    print(f"{'file':52} {'lines':>6} {'missed':>6} {'share':>7}")
    with open(uncovered, "w") as out:
        for name, lines in sorted(files.items()):
            without = sorted(line for line, count in lines.items() if count == 0)
            total, missed = total + len(lines), missed + len(without)
            print(f"{name:52} {len(lines):6} {len(without):6} {100 - 100 * len(without) / max(len(lines), 1):6.1f} %")
            with open(name) as source:
                text = source.read().split("\n")
            for line in without:
                print(f"{name}:{line}: {text[line - 1]}", file=out)
    print(f"{'all':52} {total:6} {missed:6} {100 - 100 * missed / max(total, 1):6.1f} %")


if __name__ == "__main__":
    main()
