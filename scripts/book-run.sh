#!/usr/bin/env bash
# Types what a page says: for each part (a heading of the second level) all its blocks tagged `sh run`, one after the other in one shell, in an empty
# folder and in namespaces of its own, so that nothing is left behind and no interface of the machine is touched. A block tagged `file=NAME` is put
# into that file first. Needs root, and `clearway` in the path.
#   scripts/book-run.sh docs/start.md ["A Rust program"]      that part alone
set -euo pipefail
page=$1 only=${2:-}
command -v clearway >/dev/null || { echo "book-run: clearway is not in the path" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A script for each part that has commands: its name is the number of the part, its first line the heading. Files are written where they stand.
awk -v folder="$work" -v only="$only" '
    function begin() { file = sprintf("%s/part-%02d.sh", folder, part); if (!(file in made)) { print "# " heading > file; made[file] = 1 } }
    /^## / { part++; heading = substr($0, 4); next }
    /^```/ && kind != "" { if (kind == "file") print end > file; kind = ""; next }
    /^```/ {
        kind = "other"
        if (only != "" && heading != only) next
        if ($0 == "```sh run") { kind = "run"; begin() }
        else if (match($0, /file=[^ ,]+/)) {
            kind = "file"; name = substr($0, RSTART + 5, RLENGTH - 5); end = "END_OF_FILE"; begin()
            print "cat > \"" name "\" <<\x27" end "\x27" > file
        }
        next
    }
    kind == "run" || kind == "file" { print > file }
' "$page"

ran=0
for part in "$work"/part-*.sh; do
    [[ -e "$part" ]] || break
    mkdir "$part.d"
    echo "== $(sed -n '1s/^# //p' "$part")"
    # What goes on in the background ends with the process namespace.
    (cd "$part.d" && env -u CLEARWAY_SOCKET XDG_RUNTIME_DIR="$part.d" TMPDIR="$part.d" PART="$part" \
        unshare --net --mount --pid --fork --mount-proc --kill-child \
        bash -c 'mount -t tmpfs none /run && ip link set lo up && exec bash -euo pipefail "$PART"' </dev/null)
    ran=$((ran + 1))
done
echo "$ran parts ran"
((ran > 0))
