#!/bin/sh
# Sends frames of 64 bytes through memif to a reflector and back: ours, and in turn DPDK's testpmd, with the same generator. No root, no huge pages
# needed. Everything that it makes lies in one temporary folder and is removed at the end.
#
#   DEMO_SECONDS  length of one measurement (default 3)
#   DEMO_ROUNDS   measurements of each kind, alternating between the two reflectors (default 5)
#   CLEARWAY      the program to show (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need dpdk-testpmd jq mkfifo
seconds=${DEMO_SECONDS:-3}
rounds=${DEMO_ROUNDS:-5}
memif="socket=$folder/m.sock,bsize=2048,rsize=10"

# Millions of frames a second that came back.
generate() {
    "$clearway" pktgen --port "dpdk:net_memif0,role=client,$memif" --size 64 --seconds "$seconds" --cores "$two" --json \
        >"$folder/pktgen" 2>"$folder/pktgen.log" || die "pktgen failed: $(cat "$folder/pktgen.log")"
    jq -es '[.[] | select(.event == "size") | .rx_mpps] | last | select(. > 0)' "$folder/pktgen" ||
        die "nothing came back: $(cat "$folder/pktgen")"
}

# testpmd keeps a folder while it runs, and leaves it.
clean_more() {
    rm -rf "${XDG_RUNTIME_DIR:-/run}/dpdk/demo$$" "/run/dpdk/demo$$"
}

# testpmd ends when its input does; the pipe is that input.
mkfifo "$folder/input"

machine
echo "         testpmd of DPDK $(pkg-config --modversion libdpdk 2>/dev/null || echo 'unknown'), huge pages: $(cat /proc/sys/vm/nr_hugepages) (testpmd runs without)"
echo
echo "== Mpps that came back, 64-byte frames over memif, one queue: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating"
echo "   reflectors on core $one, clearway pktgen on core $two"
printf '%-20s %30s %30s %8s\n' '' 'clearway reflect' 'testpmd macswap' ratio
round=0
while [ $round -lt "$rounds" ]; do
    # What the last reflector said would be taken for this one's words.
    rm -f "$folder/log"
    CLEARWAY_DPDK_HUGE=off "$clearway" reflect --port "dpdk:net_memif0,role=server,$memif" --cores "$one" --poll --json >"$folder/log" 2>&1 &
    pid=$!
    pids="$pids $pid"
    await "$folder/log" ready "$pid"
    generate >>"$folder/ours"
    stop "$pid"
    rm -f "$folder/m.sock" "$folder/log"

    taskset -c "$one" dpdk-testpmd --no-pci --lcores "0@$one,1@$one" --no-huge -m 256 --file-prefix "demo$$" --no-telemetry \
        --vdev "net_memif0,role=server,$memif" -- -i --total-num-mbufs=8192 --forward-mode=macswap --auto-start \
        <"$folder/input" >"$folder/log" 2>&1 &
    pid=$!
    pids="$pids $pid"
    exec 3>"$folder/input"
    await "$folder/log" testpmd\> "$pid"
    generate >>"$folder/theirs"
    exec 3>&-
    wait "$pid" 2>/dev/null || :
    forget "$pid"
    rm -f "$folder/m.sock"
    round=$((round + 1))
done
result memif '%.2f'
farewell
