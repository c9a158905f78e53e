#!/usr/bin/env bash
# Runs the commands of docs/start.md as they stand: for each part all its blocks of `sh`, one after the other in one shell, in an empty folder and
# in namespaces of its own, so that nothing is left behind and no interface of the machine is touched. Needs root, and `clearway` in the path.
set -euo pipefail
page="$(dirname "$(realpath "$0")")/../docs/start.md"
command -v clearway >/dev/null || { echo "book-start: clearway is not in the path" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One file for each part that has commands: its name is the number of the part.
awk -v folder="$work" '
    /^## / { part++; open = 0 }
    /^```/ { open = ($0 == "```sh"); next }
    open { print > (folder "/part-" part ".sh") }
' "$page"

ran=0
for part in "$work"/part-*.sh; do
    [[ -e "$part" ]] || break
    mkdir "$part.d"
    echo "== $(basename "$part" .sh)"
    # What goes on in the background ends with the process namespace.
    (cd "$part.d" && env -u CLEARWAY_SOCKET XDG_RUNTIME_DIR="$part.d" TMPDIR="$part.d" PART="$part" \
        unshare --net --mount --pid --fork --mount-proc --kill-child \
        bash -c 'mount -t tmpfs none /run && ip link set lo up && exec bash -euo pipefail "$PART"' </dev/null)
    ran=$((ran + 1))
done
echo "$ran parts ran"
((ran > 0))
