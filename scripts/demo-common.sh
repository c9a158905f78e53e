# What the demos share. Sourced by them, from the root of the tree; everything that is made lies in $folder or is a process in $pids,
# and is removed when the demo ends, however it ends. A demo that makes more than that removes it in its own `clean_more`.

clearway=${CLEARWAY:-${CARGO_TARGET_DIR:-target}/release/clearway}

die() {
    echo "demo: $*" >&2
    exit 1
}

[ -x "$clearway" ] || die "$clearway is not there. Build it with: cargo build --release"

need() {
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is missing. Install it with: make setup"
    done
}

need awk sort taskset

clean_more() { :; }

clean() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP
    for pid in $pids; do
        kill "$pid" 2>/dev/null || :
        # One that is stopped hears nothing until it goes on.
        kill -CONT "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    clean_more
    rm -rf "$folder"
    exit $status
}

folder=$(mktemp -d)
pids=
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The first two cores that we may use; one of them twice where there is only one.
cores=$(taskset -pc $$ | awk -F': ' '{ print $2 }' | tr ',' '\n' | awk -F- '{ for (c = $1; c <= (NF > 1 ? $2 : $1); c++) print c }')
one=$(echo "$cores" | sed -n 1p)
two=$(echo "$cores" | sed -n 2p)
two=${two:-$one}

forget() {
    left=
    for other in $pids; do
        [ "$other" = "$1" ] || left="$left $other"
    done
    pids=$left
}

stop() {
    kill "$1" 2>/dev/null || :
    wait "$1" 2>/dev/null || :
    forget "$1"
}

# Waits until a line that holds $2 stands in the file $1 which the process $3 writes.
await() {
    tries=0
    until grep -q "$2" "$1" 2>/dev/null; do
        kill -0 "$3" 2>/dev/null || die "it ended before it was ready: $(cat "$1")"
        tries=$((tries + 1))
        [ $tries -lt 100 ] || die "it is not ready after 10 s: $(cat "$1")"
        sleep 0.1
    done
}

# Prints `median (smallest–largest)` of the numbers on standard input in the form $1, and keeps the median in the file $2.
spread() {
    sort -n | awk -v form="$1" -v file="$2" '
        { x[NR] = $1 }
        END {
            m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
            printf form " (" form "–" form ")", m, x[1], x[NR]
            print m > file
        }'
}

# As `result`, but the ratio is the median of the ratios of neighbours, for rounds that alternate: the machine changes under both alike.
paired_result() {
    ratio=$(paste "$folder/ours" "$folder/theirs" | awk '$2 > 0 { print $1 / $2 }' | spread '%.2f' "$folder/m3")
    ours=$(spread "$2" "$folder/m1" <"$folder/ours")
    theirs=$(spread "$2" "$folder/m2" <"$folder/theirs")
    printf '%-20s %30s %30s %20s\n' "$1" "$ours" "$theirs" "$ratio"
    rm -f "$folder/ours" "$folder/theirs"
}

# Prints a row of the table from what $folder/ours and $folder/theirs hold, and forgets both: `result NAME FORM`.
result() {
    ours=$(spread "$2" "$folder/m1" <"$folder/ours")
    theirs=$(spread "$2" "$folder/m2" <"$folder/theirs")
    ratio=$(awk 'NR == FNR { a = $1; next } { printf "%.2f", ($1 > 0) ? a / $1 : 0 }' "$folder/m1" "$folder/m2")
    printf '%-20s %30s %30s %8s\n' "$1" "$ours" "$theirs" "$ratio"
    rm -f "$folder/ours" "$folder/theirs"
}

heading() {
    printf '%-20s %30s %30s %8s\n' "$1" clearway kernel ratio
}

machine() {
    echo "machine: $(uname -sr), $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
    echo "program: $("$clearway" version | sed -n 1p)"
}

farewell() {
    echo
    echo "load at the end: $(cut -d' ' -f1-3 /proc/loadavg); a ratio counts, an absolute figure says more of this machine than of either system"
}
