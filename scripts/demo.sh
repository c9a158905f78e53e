#!/bin/sh
# Runs unmodified iperf3 over Clearway's loopback beside the kernel's loopback, in turn, as whoever calls it: no root, no huge
# pages, no device. Everything that it makes lies in one temporary folder and is removed at the end.
#
#   DEMO_SECONDS  length of one measurement (default 3)
#   DEMO_ROUNDS   measurements of each kind, alternating between the two systems (default 5)
#   CLEARWAY      the program to show (default target/release/clearway; libclearway_preload.so lies beside it)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need iperf3 jq
seconds=${DEMO_SECONDS:-3}
rounds=${DEMO_ROUNDS:-5}
export CLEARWAY_SOCKET="$folder/host.sock"

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
    rm -f "$folder/up.log"
    "$clearway" up --cores "$one" --script "$folder/network" >"$folder/up.log" 2>&1 &
    host=$!
    pids="$pids $host"
    await "$folder/up.log" 'clearway is ready' "$host"
}

# An iperf3 server for one test: `serve CORE PREFIX`.
serve() {
    rm -f "$folder/server.log"
    # shellcheck disable=SC2086
    taskset -c "$1" $2 iperf3 -s -1 --forceflush >"$folder/server.log" 2>&1 &
    server=$!
    pids="$pids $server"
    await "$folder/server.log" 'Server listening' "$server"
}

# One measurement: `run SERVER_CORE CLIENT_CORE SERVER_PREFIX CLIENT_PREFIX ADDRESS`; prints the Gbit/s that arrived.
run() {
    serve "$1" "$3"
    # shellcheck disable=SC2086
    taskset -c "$2" $4 iperf3 -c "$5" -t "$seconds" -C cubic -J >"$folder/json" 2>"$folder/client.log" ||
        die "iperf3 failed: $(cat "$folder/client.log"; jq -r '.error // empty' "$folder/json" 2>/dev/null)"
    wait "$server" 2>/dev/null || :
    forget "$server"
    jq -e '.end.sum_received.bits_per_second / 1e9 | select(. > 0)' "$folder/json" || die "nothing arrived: $(cat "$folder/json")"
}

# How programs are started in the two namespaces: `prefixes [OPTION of clearway run]`.
prefixes() {
    inside="$clearway run --ns server --secret 1234 $* --"
    outside="$clearway run --ns client --secret 5678 $* --"
}
prefixes

# A row: `row NAME SERVER_CORE CLIENT_CORE`.
row() {
    round=0
    while [ $round -lt "$rounds" ]; do
        [ ! -t 2 ] || printf '\r%-24s round %d of %d ' "$1" $((round + 1)) "$rounds" >&2
        run "$2" "$3" "$inside" "$outside" 172.16.1.1 >>"$folder/ours"
        run "$one" "$two" "" "" 127.0.0.1 >>"$folder/theirs"
        round=$((round + 1))
    done
    [ ! -t 2 ] || printf '\r%60s\r' '' >&2
    result "$1" '%.2f'
}

machine
echo "         $(iperf3 --version | head -n 1), as user $(id -un)"

up 1500
echo
echo "== iperf3 over two loopback interfaces in two tables, client in namespace \"client\", server in namespace \"server\""
serve "$two" "$inside"
"$clearway" ctl show session verbose
# shellcheck disable=SC2086
$outside iperf3 -c 172.16.1.1 -t 3 -C cubic
wait "$server" 2>/dev/null || :
forget "$server"
echo
"$clearway" run --ns client --secret wrong -- iperf3 -c 172.16.1.1 -t 1 2>&1 | sed 's/^/with a wrong secret: /' || :
stop "$host"

echo
echo "== Gbit/s received, one TCP stream, cubic: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating"
echo "   clearway: the host (its stack) on core $one; iperf3 -s and iperf3 -c on the cores that the row says (s/c)"
echo "   kernel:   loopback of this machine, MTU $(cat /sys/class/net/lo/mtu), iperf3 -s on core $one, iperf3 -c on core $two"
heading 'MTU, s/c'
for mtu in 1500 9000 65535; do
    up "$mtu"
    row "$mtu, $two/$two" "$two" "$two"
    row "$mtu, $one/$two" "$one" "$two"
    if [ "$mtu" = 65535 ]; then
        prefixes --cut-through
        row "cut-through, $two/$two" "$two" "$two"
        row "cut-through, $one/$two" "$one" "$two"
    fi
    stop "$host"
done
farewell
