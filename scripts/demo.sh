#!/bin/sh
# Runs unmodified iperf3 over Clearway's loopback beside the kernel's loopback, in turn, as whoever calls it: no root, no huge
# pages, no device. Everything that it makes lies in one temporary folder and is removed at the end.
#
#   DEMO_SECONDS  length of one measurement (default 3)
#   DEMO_ROUNDS   measurements of each kind, alternating between the two systems (default 5)
#   CLEARWAY      the program to show (default target/release/clearway; libclearway_preload.so lies beside it)
set -eu

cd "$(dirname "$0")/.."
clearway=${CLEARWAY:-${CARGO_TARGET_DIR:-target}/release/clearway}
seconds=${DEMO_SECONDS:-3}
rounds=${DEMO_ROUNDS:-5}

die() {
    echo "demo: $*" >&2
    exit 1
}

[ -x "$clearway" ] || die "$clearway is not there. Build it with: cargo build --release"
for program in iperf3 jq awk sort taskset; do
    command -v "$program" >/dev/null || die "$program is missing. Install it with: make setup"
done

folder=$(mktemp -d)
pids=

clean() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP
    for pid in $pids; do
        kill "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    rm -rf "$folder"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

export CLEARWAY_SOCKET=$folder/host.sock

# Host and programs share the first two cores that we may use.
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

# The commands of the documents' loopback chapter, with an MTU.
network() {
    cat <<TEXT
create loopback interface
set interface mtu $1 loop0
set interface state loop0 up
create loopback interface
set interface mtu $1 loop1
set interface state loop1 up
ip table add 1
set interface ip table loop0 1
ip table add 2
set interface ip table loop1 2
set interface ip address loop0 172.16.1.1/24
set interface ip address loop1 172.16.2.1/24
app ns add id server secret 1234 if loop0
app ns add id client secret 5678 if loop1
ip route add 172.16.1.1/32 table 2 via lookup in table 1
ip route add 172.16.2.1/32 table 1 via lookup in table 2
TEXT
}

up() {
    network "$1" >"$folder/network"
    "$clearway" up --cores "$one" --script "$folder/network" >"$folder/up.log" 2>&1 &
    host=$!
    pids="$pids $host"
    tries=0
    until "$clearway" ctl show version >/dev/null 2>&1; do
        kill -0 "$host" 2>/dev/null || die "the host ended: $(cat "$folder/up.log")"
        tries=$((tries + 1))
        [ $tries -lt 100 ] || die "the host is not ready after 10 s: $(cat "$folder/up.log")"
        sleep 0.1
    done
}

# One measurement: `run SERVER_CORE CLIENT_CORE SERVER_PREFIX CLIENT_PREFIX ADDRESS`; leaves iperf3's report in $folder/json.
run() {
    server_core=$1 client_core=$2 server_prefix=$3 client_prefix=$4 address=$5
    rm -f "$folder/server.log"
    # shellcheck disable=SC2086
    taskset -c "$server_core" $server_prefix iperf3 -s -1 --forceflush >"$folder/server.log" 2>&1 &
    server=$!
    pids="$pids $server"
    await "$folder/server.log" 'Server listening' "$server"
    # shellcheck disable=SC2086
    taskset -c "$client_core" $client_prefix iperf3 -c "$address" -t "$seconds" -C cubic -J >"$folder/json" 2>"$folder/client.log" ||
        die "iperf3 failed: $(cat "$folder/client.log"; jq -r '.error // empty' "$folder/json" 2>/dev/null)"
    wait "$server" 2>/dev/null || :
    forget "$server"
    jq -e '.end.sum_received.bits_per_second > 0' "$folder/json" >/dev/null || die "nothing arrived: $(cat "$folder/json")"
}

gbit() {
    jq '.end.sum_received.bits_per_second / 1e9' "$folder/json"
}

ours() {
    run "$1" "$2" "$clearway run --ns server --secret 1234 --" "$clearway run --ns client --secret 5678 --" 172.16.1.1
}

theirs() {
    run "$1" "$2" "" "" 127.0.0.1
}

# Prints `median (smallest–largest)` of the numbers on standard input, and keeps the median in a file.
spread() {
    sort -n | awk -v file="$1" '
        { x[NR] = $1 }
        END {
            m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
            printf "%.2f (%.2f–%.2f)", m, x[1], x[NR]
            print m > file
        }'
}

# A row: `row NAME SERVER_CORE CLIENT_CORE KERNEL_SERVER_CORE KERNEL_CLIENT_CORE`.
row() {
    rm -f "$folder/ours" "$folder/theirs"
    round=0
    while [ $round -lt "$rounds" ]; do
        printf '\r%-24s round %d of %d ' "$1" $((round + 1)) "$rounds" >&2
        ours "$2" "$3" && gbit >>"$folder/ours"
        theirs "$4" "$5" && gbit >>"$folder/theirs"
        round=$((round + 1))
    done
    printf '\r%60s\r' '' >&2
    a=$(spread "$folder/m1" <"$folder/ours")
    b=$(spread "$folder/m2" <"$folder/theirs")
    ratio=$(awk 'NR == FNR { a = $1; next } { printf "%.2f", ($1 > 0) ? a / $1 : 0 }' "$folder/m1" "$folder/m2")
    printf '%-24s %28s %28s %7s\n' "$1" "$a" "$b" "$ratio"
}

echo "machine: $(uname -sr), $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "program: $("$clearway" version | head -n 1), $(iperf3 --version | head -n 1), as user $(id -un)"

up 1500
echo
echo "== iperf3 over two loopback interfaces in two tables, client in namespace \"client\", server in namespace \"server\""
"$clearway" run --ns server --secret 1234 -- iperf3 -s -1 --forceflush >"$folder/server.log" 2>&1 &
server=$!
pids="$pids $server"
await "$folder/server.log" 'Server listening' "$server"
"$clearway" ctl show session verbose
"$clearway" run --ns client --secret 5678 -- iperf3 -c 172.16.1.1 -t 3 -C cubic
wait "$server" 2>/dev/null || :
forget "$server"
echo
"$clearway" run --ns client --secret wrong -- iperf3 -c 172.16.1.1 -t 1 2>&1 | sed 's/^/with a wrong secret: /' || :
stop "$host"

echo
echo "== Gbit/s received, one TCP stream, cubic: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating"
echo "   clearway: the host (its stack) on core $one; iperf3 -s and iperf3 -c on the cores that the row says (s/c)"
echo "   kernel:   loopback of this machine, MTU $(cat /sys/class/net/lo/mtu), iperf3 -s on core $one, iperf3 -c on core $two"
printf '%-24s %28s %28s %7s\n' 'MTU, s/c' clearway kernel ratio
for mtu in 1500 9000 65535; do
    up "$mtu"
    row "$mtu, $two/$two" "$two" "$two" "$one" "$two"
    row "$mtu, $one/$two" "$one" "$two" "$one" "$two"
    stop "$host"
done
echo
echo "load at the end: $(cut -d' ' -f1-3 /proc/loadavg); a ratio counts, an absolute figure says more of this machine than of either system"
