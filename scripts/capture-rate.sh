#!/bin/sh
# Offers a host frames over memif at a steady rate, 1 million a second unless said, and captures them in several ways: what is in the capture, what was lost and where it was counted, and what the worker
# that is captured pays. Rounds alternate between the ways. No root, no huge pages needed; everything lies in one temporary folder, in memory.
#
#   CAPTURE_RATE     frames offered a second (default 1Mpps)
#   CAPTURE_SIZE     bytes of a frame (default 64)
#   CAPTURE_SECONDS  length of one measurement (default 3)
#   CAPTURE_ROUNDS   rounds (default 3)
#   CAPTURE_WAYS     which ways, by their numbers below (default "0 1 2 3 4 5")
#   CLEARWAY         the program (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
export TMPDIR="${TMPDIR:-/dev/shm}"
. scripts/demo-common.sh
need jq curl
rate=${CAPTURE_RATE:-1Mpps}
size=${CAPTURE_SIZE:-64}
seconds=${CAPTURE_SECONDS:-3}
rounds=${CAPTURE_ROUNDS:-3}
memif="socket=$folder/m.sock,bsize=2048,rsize=12"
export CLEARWAY_SOCKET="$folder/host.sock"

machine
echo "frames of $size bytes at $rate over memif for ${seconds} s: the host's worker on core $one, clearway pktgen on core $two; whatever captures shares them"
printf '[[ports]]\nport = "dpdk:net_memif0,role=server,%s"\nname = "m0"\naddresses = ["10.9.0.1/24"]\n[cores]\nworkers = "%s"\n' "$memif" "$one" >"$folder/host.toml"
"$clearway" up -c "$folder/host.toml" >"$folder/host.log" 2>&1 &
host=$!
pids="$pids $host"
await "$folder/host.log" "clearway is ready" "$host"
"$clearway" ctl set interface state m0 up >/dev/null 2>&1 || :
ctl() { "$clearway" ctl --json "$@"; }
mac=$(ctl show interface | jq -r '.interfaces[] | select(.name == "m0") | .mac')

# Frames that the host has received, its worker's turns with work, and the nanoseconds that these took.
counts() {
    received=$(ctl show interface | jq '.interfaces[] | select(.name == "m0") | .["rx-packets"]')
    "$clearway" ctl show metrics >"$folder/metrics"
    busy=$(awk '/^clearway_worker_busy_seconds_total/ { printf "%.0f", $2 * 1e9 }' "$folder/metrics")
    turns=$(awk '/^clearway_turn_seconds_count/ { printf "%.0f", $2 }' "$folder/metrics")
}

ways='nothing
clearway capture --only rx -w FILE
clearway capture --only rx -s 64 --no-names -w FILE
clearway capture --only rx --no-names -w - | cat
clearway capture --only rx -f tcp -w FILE
pcap trace rx file FILE'
name_of() { echo "$ways" | sed -n "$(($1 + 1))p"; }

begin() {
    capture=
    file="$folder/c.pcapng"
    case $1 in
    0) return ;;
    1) "$clearway" capture --only rx -w "$file" 2>"$folder/said" & ;;
    2) "$clearway" capture --only rx -s 64 --no-names -w "$file" 2>"$folder/said" & ;;
    3) mkfifo "$folder/pipe.$round"
       cat "$folder/pipe.$round" >/dev/null &
       "$clearway" capture --only rx --no-names -w - >"$folder/pipe.$round" 2>"$folder/said" & ;;
    4) "$clearway" capture --only rx -f tcp -w "$file" 2>"$folder/said" & ;;
    5) "$clearway" ctl pcap trace rx max 100000000 intfc m0 file "$file" >/dev/null
       return ;;
    esac
    capture=$!
    pids="$pids $capture"
    sleep 0.5
}

# What the capture says that it has, and that it lost.
end() {
    kept=0 lost=0 bytes=0
    case $1 in
    0) return ;;
    5) ctl pcap trace off >"$folder/said"
       kept=$(jq .packets "$folder/said") lost=$(jq .lost "$folder/said") ;;
    *) kill -INT "$capture"
       wait "$capture" || :
       forget "$capture"
       kept=$(sed -n 's/^clearway: \([0-9]*\) packets captured.*/\1/p' "$folder/said")
       lost=$(sed -n 's/.*captured, \([0-9]*\) lost.*/\1/p' "$folder/said") ;;
    esac
    rm -f "$folder/c.pcapng"
}

echo
printf '%-52s %10s %10s %10s %8s %12s %12s\n' captured received 'in it' lost 'lost %' 'worker ns/f' 'frames/turn'
round=0
while [ $round -lt "$rounds" ]; do
    for way in ${CAPTURE_WAYS:-0 1 2 3 4 5}; do
        begin "$way"
        counts
        before=$received began=$busy turned=$turns
        "$clearway" pktgen --port "dpdk:net_memif0,role=client,$memif" --size "$size" --rate "$rate" --seconds "$seconds" --wait 0 --drain 0 --flows 64 \
            --src 10.9.0.2 --dst 10.9.0.1 --dst-mac "$mac" --cores "$two" --json >"$folder/pktgen" 2>"$folder/pktgen.log" || :
        sleep 0.3
        counts
        end "$way"
        got=$((received - before))
        each=$(((busy - began) / (got > 0 ? got : 1)))
        burst=$(awk -v f="$got" -v t=$((turns - turned)) 'BEGIN { printf "%.1f", (t > 0) ? f / t : 0 }')
        share=$(awk -v l="$lost" -v k="$kept" 'BEGIN { printf "%.2f", (l + k > 0) ? 100 * l / (l + k) : 0 }')
        printf '%-52s %10s %10s %10s %8s %12s %12s\n' "$(name_of "$way")" "$got" "$kept" "$lost" "$share" "$each" "$burst"
    done
    round=$((round + 1))
done
