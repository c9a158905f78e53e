#!/usr/bin/env bash
# Types what a page says: for each part (what stands before the first heading of the second level, and what stands below each) all its blocks tagged
# `run`, one after the other in one shell, in an empty folder and in namespaces of its own, so that nothing is left behind and no interface of the
# machine is touched. A block tagged `file=NAME` is put into that file first. Of a `console` block the commands behind its prompt, `$` or `#`, are typed, and what
# the page shows below each has to be among what was said: numbers but for addresses of IPv4 may be others, blanks too, and `…` stands for anything. A command that ends with
# `&` has time to say what is shown, or a second. Needs root, and `clearway` in the path.
#   scripts/book-run.sh docs/start.md ["A Rust program"]      that part alone
set -euo pipefail
page=$1 only=${2:-}
command -v clearway >/dev/null || { echo "book-run: clearway is not in the path" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A script for each part that has commands: its name is the number of the part, its first line the heading. Files are written where they stand.
awk -v folder="$work" -v only="$only" -v title="$(basename "$page" .md)" '
    BEGIN { heading = title }
    function begin() { file = sprintf("%s/part-%02d.sh", folder, part); if (!(file in made)) { print "# " heading "\nsource \"$HELD\"" > file; made[file] = 1 } }
    # The last command of a transcript is held against what is shown below it.
    function hold() { if (command) { print "END_OF_COMMAND\nheld " command " <<\x27END_OF_SHOWN\x27\n" shown "END_OF_SHOWN" > file; command = 0 } }
    /^## / && kind == "" { part++; heading = substr($0, 4); next }
    /^```/ && kind != "" { if (kind == "file") print end > file; if (kind == "console") hold(); kind = ""; next }
    /^```/ {
        kind = "other"
        if (only != "" && heading != only) next
        prompt = ""
        if ($0 == "```sh run" || $0 == "```console run") { kind = $0 ~ /console/ ? "console" : "run"; begin() }
        else if (match($0, /file=[^ ,]+/)) {
            kind = "file"; name = substr($0, RSTART + 5, RLENGTH - 5); end = "END_OF_FILE"; begin()
            print "cat > \"" name "\" <<\x27" end "\x27" > file
        }
        next
    }
    kind == "console" && goes_on { print > file; goes_on = /\\$/; next }
    kind == "console" && prompt == "" { prompt = substr($0, 1, 2) }
    kind == "console" && substr($0, 1, 2) == prompt {
        hold(); command = NR; shown = ""; goes_on = /\\$/
        print "typed <<\x27END_OF_COMMAND\x27\n" substr($0, 3) > file
        next
    }
    kind == "console" { shown = shown $0 "\n"; next }
    kind == "run" || kind == "file" { print > file }
' "$page"

# What the parts use: `typed` runs a command of a transcript in this shell, `held` looks for what the page shows below it.
cat >"$work/held.sh" <<'HELD'
: >"$PART.said"; : >"$PART.taken"
typed() {
    local command; command=$(cat)
    printf '$ %s\n' "$command"
    before=$(wc -c <"$PART.said"); status=0
    eval "$command" >>"$PART.said" 2>&1 || status=$?
    [[ $command == *'&' ]] && is_behind=1 || is_behind=0
}
held() {
    local shown; shown=$(cat)
    if [[ -z $shown ]]; then
        ((is_behind)) && sleep 1
    else
        python3 "${HELD%.sh}.py" "$PART" "$shown" ${BOOK_TRIES:-} || { echo "line $1: the page shows something else. Said was:"; cat "$PART.said"; exit 1; }
    fi
    tail -c "+$((before + 1))" "$PART.said"
    # A command that shows what is wrong may fail.
    if ((status != 0)) && [[ -z $shown ]]; then echo "line $1: ended with $status"; exit 1; fi
}
HELD

# Each line that is shown is one of those that were said, and no line is taken twice. What is said in the background may come later.
cat >"$work/held.py" <<'PYTHON'
import re, sys, time

said_file, taken_file = sys.argv[1] + ".said", sys.argv[1] + ".taken"

def plain(line):
    line = re.sub(r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b", "MAC", line)
    line = re.sub(r"\bfe80::[0-9a-f:]+", "fe80::", line)
    parts = re.split(r"(\b(?:\d+\.){3}\d+\b)", line)
    parts[::2] = [re.sub(r"\d+(\.\d+)?[kKMG]?(?![a-zA-Z])", "0", part) for part in parts[::2]]
    return re.sub(r"\s+", " ", "".join(parts)).strip()

def is_shown(wanted, line):
    return re.fullmatch(".*".join(map(re.escape, plain(wanted).split("…"))), plain(line))

wanted = [line for line in sys.argv[2].splitlines() if line.strip() not in ("", "…")]
taken = {int(number) for number in open(taken_file)}
for patience in range(int(sys.argv[3]) if len(sys.argv) > 3 else 200):
    said = open(said_file, errors="replace").read().splitlines()
    mine, missing = set(), None
    for line in wanted:
        found = [at for at, one in enumerate(said) if at not in taken | mine and is_shown(line, one)]
        if not found:
            missing = line
            break
        mine.add(found[0])
    if missing is None:
        open(taken_file, "a").writelines(f"{number}\n" for number in mine)
        sys.exit(0)
    time.sleep(0.1)
sys.exit(f"nothing was said that is as\n{missing}")
PYTHON

ran=0
for part in "$work"/part-*.sh; do
    [[ -e "$part" ]] || break
    mkdir "$part.d"
    echo "== $(sed -n '1s/^# //p' "$part")"
    # What goes on in the background ends with the process namespace, and so does what waits for something that never comes.
    (cd "$part.d" && env -u CLEARWAY_SOCKET XDG_RUNTIME_DIR="$part.d" TMPDIR="$part.d" PYTHONUNBUFFERED=1 PART="$part" HELD="$work/held.sh" \
        timeout --kill-after=10 900 unshare --net --mount --pid --fork --mount-proc --kill-child \
        bash -c 'mount -t tmpfs none /run && ip link set lo up && exec bash -euo pipefail "$PART"' </dev/null)
    ran=$((ran + 1))
done
echo "$ran parts ran"
((ran > 0))
