#!/bin/sh
# Reflects frames of several sizes at one end of a veth pair over AF_XDP: `clearway reflect` on its own port (xdp:), DPDK's testpmd on net_af_xdp, and
# `clearway reflect` on that, in turn, with the same generator at the other end (clearway pktgen on xdp:). Reflectors on one core, the generator on another;
# each comes and goes with its turn, since only one program of XDP fits an interface. Root; the interfaces live in two network namespaces that are removed
# at the end.
#
#   --quick          one round instead of five
#   SWEEP_ROUNDS     measurements of each kind (default 5)
#   SWEEP_SECONDS    length of one measurement (default 1)
#   SWEEP_SIZES      frames of so many bytes (default "64 512 1500")
#   SWEEP_NICE       niceness of the generator, such as -12 on a machine that does other things
#   SWEEP_RATE       frames a second that the generator sends (default: as many as it can)
#   CLEARWAY         the program to measure (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need dpdk-testpmd jq mkfifo ip ethtool
[ "$(id -u)" = 0 ] || die "network namespaces and AF_XDP need root"
rounds=${SWEEP_ROUNDS:-5}
seconds=${SWEEP_SECONDS:-1}
sizes=${SWEEP_SIZES:-64 512 1500}
case ${1:-} in
--quick) rounds=1 ;;
'') ;;
*) die "unknown word $1. There is --quick" ;;
esac
export CLEARWAY_DPDK_HUGE=off

near=sweepxdpa$$
far=sweepxdpb$$
# testpmd keeps a folder while it runs, and leaves it.
clean_more() {
    ip netns del $near 2>/dev/null || :
    ip netns del $far 2>/dev/null || :
    rm -rf "${XDG_RUNTIME_DIR:-/run}/dpdk/sweep$$" "/run/dpdk/sweep$$"
}
ip netns add $near
ip netns add $far
ip -n $near link add ours type veth peer name theirs netns $far
for end in "$near ours" "$far theirs"; do
    # shellcheck disable=SC2086
    set -- $end
    ip -n "$1" link set "$2" addrgenmode none
    ip -n "$1" link set "$2" arp off up
done
mkfifo "$folder/input"

# What the reflector's threads have had of the processor so far, in ticks of 10 ms, and the frames that it has sent.
sample() {
    awk '{ sub(/.*\) /, ""); ticks += $12 + $13 } END { printf "%d ", ticks }' /proc/"$pid"/task/*/stat
    ip netns exec $near cat /sys/class/net/ours/statistics/tx_packets
}

# Millions of frames that went back in a second, and those in a second of the reflector's processor time, which counts on a machine that does other things.
generate() {
    ip netns exec $far ${SWEEP_NICE:+nice -n "$SWEEP_NICE"} "$clearway" pktgen --port xdp:theirs --sizes "$size" --seconds "$((seconds + 2))" ${SWEEP_RATE:+--rate "$SWEEP_RATE"} \
        --wait 5 --drain 0.2 --cores "$two" --poll --json >"$folder/pktgen" 2>"$folder/pktgen.log" &
    generator=$!
    pids="$pids $generator"
    sleep 1.5
    before=$(sample)
    began=$(date +%s.%N)
    sleep "$seconds"
    echo "$before $(sample) $began $(date +%s.%N)" | awk '{ f = ($4 - $2) / 1e6; print f / ($6 - $5), f * 100 / ($3 - $1 > 0 ? $3 - $1 : 1) }'
    wait "$generator" || die "pktgen failed: $(cat "$folder/pktgen.log")"
    forget "$generator"
    jq -es '[.[] | select(.event == "size") | .received] | last | select(. > 0)' "$folder/pktgen" >"$folder/back" ||
        die "nothing came back: $(cat "$folder/pktgen")"
}

# Starts the reflector $1 and leaves its process in $pid.
start() {
    rm -f "$folder/log"
    case $1 in
    xdp) port=xdp:ours ;;
    dpdk) port=dpdk:net_af_xdp0,iface=ours ;;
    testpmd)
        ip netns exec $near taskset -c "$one" dpdk-testpmd --no-pci --lcores "0@$one,1@$one" --no-huge -m 256 --file-prefix "sweep$$" --no-telemetry \
            --vdev net_af_xdp0,iface=ours -- -i --total-num-mbufs=16384 --forward-mode=macswap --auto-start <"$folder/input" >"$folder/log" 2>&1 &
        pid=$!
        pids="$pids $pid"
        exec 3>"$folder/input"
        await "$folder/log" testpmd\> "$pid"
        return
        ;;
    esac
    ip netns exec $near "$clearway" reflect --port $port --cores "$one" --poll --json >"$folder/log" 2>&1 &
    pid=$!
    pids="$pids $pid"
    await "$folder/log" '"event":"ready"' "$pid"
}

finish() {
    if [ "$1" = testpmd ]; then
        exec 3>&-
        wait "$pid" 2>/dev/null || :
        forget "$pid"
    else
        stop "$pid"
    fi
}

machine
echo "         testpmd of DPDK $(pkg-config --modversion libdpdk 2>/dev/null || echo 'unknown'), no huge pages"
echo "reflectors on core $one, clearway pktgen on core $two; $rounds rounds of $seconds s, in turn"
round=0
while [ $round -lt "$rounds" ]; do
    for size in $sizes; do
        # The other way round in every other round.
        if [ $((round % 2)) = 0 ]; then order="xdp testpmd dpdk"; else order="dpdk testpmd xdp"; fi
        for reflector in $order; do
            start $reflector
            generate >>"$folder/$reflector.$size"
            finish $reflector
        done
    done
    round=$((round + 1))
done

table() {
    echo
    echo "== $1: median (smallest–largest); ratios are medians of those of neighbours"
    printf '%5s | %20s %20s %20s | %20s %20s\n' size 'reflect, xdp:' 'testpmd macswap' 'reflect, dpdk:' 'xdp: / testpmd' 'xdp: / dpdk:'
    for size in $sizes; do
        for reflector in xdp testpmd dpdk; do
            awk -v column="$2" '{ print $column }' "$folder/$reflector.$size" >"$folder/column.$reflector"
        done
        # A dash takes one column and three bytes.
        printf '%5s |' "$size"
        for reflector in xdp testpmd dpdk; do
            printf ' %22s' "$(spread '%.3f' "$folder/m" <"$folder/column.$reflector")"
        done
        printf ' |'
        for other in testpmd dpdk; do
            printf ' %22s' "$(paste "$folder/column.xdp" "$folder/column.$other" | awk '$2 > 0 { print $1 / $2 }' | spread '%.2f' "$folder/m")"
        done
        echo
    done
}
table 'Mpps that went back' 1
table 'millions of frames in a second of processor time of the reflector' 2
farewell
