#!/bin/sh
# Serves HTTP over every kind of port, without huge pages and with them, and asks for pages: with curl and wrk where the kernel is at the other end, with
# `clearway bench client` where it is not. Everything happens in network namespaces made for this run; they and the huge pages are gone at the end. Root.
#
#   --quick          one round instead of five
#   --json FILE      the figures also as JSON, `-` for standard output in place of the table
#   SWEEP_ROUNDS     how often all ports are measured, one after the other (default 5)
#   SWEEP_SECONDS    length of one measurement, in whole seconds (default 1)
#   SWEEP_PORTS      which are measured (default "memif vhost af_packet af_xdp tap-pmd tap")
#   CLEARWAY         the program to measure (default target/release/clearway)
#
# Exit code 1 when a port does not work.
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need ip ethtool ping curl wrk jq
rounds=${SWEEP_ROUNDS:-5}
seconds=${SWEEP_SECONDS:-1}
ports=${SWEEP_PORTS:-memif vhost af_packet af_xdp tap-pmd tap}
connections=64
json=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) rounds=1 ;;
    --json)
        shift
        json=${1:?--json needs a file}
        ;;
    *) die "unknown word $1. There are --quick and --json FILE" ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || die "making network namespaces needs root. Run this as root."

netns=cwsweep-$$
pages=/proc/sys/vm/nr_hugepages
pages_before=$(cat $pages)

clean_more() {
    ip netns del "$netns" 2>/dev/null || :
    echo "$pages_before" >$pages 2>/dev/null || :
}

# For server and client, 2 MiB each. Somebody else may change their number meanwhile, or have taken them, so they are asked for each time.
huge_pages() {
    tries=0
    until free=$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo) && [ "$free" -ge 160 ]; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fails "only $free huge pages are free, and the kernel has no room for 160" || return 1
        echo $(($(cat $pages) + 160 - free)) >$pages
        sleep 0.1
    done
}

inside() {
    ip netns exec "$netns" "$@"
}

# Why the port at hand does not work; the caller goes on with the next one.
fails() {
    echo "$*" | tr '\n\t' '  ' >"$folder/why"
    return 1
}

# A pair of interfaces: `ours` for the driver, `theirs` with the kernel's addresses. The kernel would leave checksums and segmentation to the other end.
veth() {
    ip -n "$netns" link add ours type veth peer name theirs
    inside ethtool -K theirs tx off >/dev/null 2>&1 || fails "ethtool cannot switch off the offloads of a veth pair" || return 1
    ip -n "$netns" link set ours up
    with_addresses theirs
}

with_addresses() {
    ip -n "$netns" addr add 10.97.0.1/24 dev "$1"
    ip -n "$netns" addr add fd97::1/64 dev "$1" nodad
    ip -n "$netns" link set "$1" up
}

# The words of the server's port, and of the client's where that is ours.
port_of() {
    case $1 in
    memif) echo "dpdk:net_memif0,role=server,socket=$folder/m" ;;
    memif-client) echo "dpdk:net_memif0,role=client,socket=$folder/m" ;;
    vhost) echo "dpdk:net_vhost0,iface=$folder/v,queues=1,tso=1" ;;
    vhost-client) echo "dpdk:net_virtio_user0,path=$folder/v,queues=1,queue_size=1024" ;;
    af_packet) echo "dpdk:net_af_packet0,iface=ours" ;;
    af_xdp) echo "dpdk:net_af_xdp0,iface=ours" ;;
    tap-pmd) echo "dpdk:net_tap0,iface=dtap0" ;;
    tap) echo "tap:cw0" ;;
    *) die "there is no port $1 here" ;;
    esac
}

# Waits as `await` does, but only says so when it is in vain.
becomes_ready() {
    tries=0
    until grep -q '"event":"ready"' "$folder/http.log" 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || fails "it ended: $(tail -n 3 "$folder/http.log")" || return 1
        tries=$((tries + 1))
        [ $tries -lt 150 ] || fails "not ready after 15 s: $(tail -n 3 "$folder/http.log")" || return 1
        sleep 0.1
    done
}

answers_to_ping() {
    tries=0
    until inside ping -c 1 -W 1 "$1" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 15 ] || fails "$1 does not answer to ping" || return 1
    done
}

with_curl_and_wrk() {
    for address in 10.97.0.2 fd97::2; do
        answers_to_ping $address || return 1
    done
    for url in http://10.97.0.2/ 'http://[fd97::2]/'; do
        got=$(inside curl --silent --show-error --max-time 10 "$url" 2>&1 | wc -c)
        [ "$got" = 64 ] || fails "curl $url brings $got bytes and not 64" || return 1
    done
    inside taskset -c "$two" wrk -t1 "-c$connections" "-d${seconds}s" http://10.97.0.2/ >"$folder/wrk" 2>&1 || fails "wrk: $(cat "$folder/wrk")" || return 1
    ! grep -q -E 'Socket errors|Non-2xx' "$folder/wrk" || fails "wrk: $(cat "$folder/wrk")" || return 1
    figure=$(awk '/Requests\/sec/ { print $2 }' "$folder/wrk")
}

with_our_client() {
    # In the same namespace, to which a socket without a place in the file system belongs.
    inside "$clearway" bench client --port "$(port_of "$port-client")" -a 10.97.0.1/24 -s 10.97.0.2 -p 80 -m 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' \
        -c $connections -t "$seconds" --warmup 0.2 --cores "$two" --json >"$folder/client" 2>"$folder/client.log" ||
        fails "clearway bench client: $(tail -n 3 "$folder/client.log")" || return 1
    figure=$(jq -es '[.[] | select(.event == "summary")] | last | select(.failed == 0 and .unexpected == 0) | .requests_per_second' "$folder/client") ||
        fails "requests failed: $(tail -n 1 "$folder/client")" || return 1
}

# One port with one kind of memory: leaves $figure, or says why not.
measure() {
    if [ $memory = huge ]; then huge_pages || return 1; fi
    ip netns add "$netns"
    ip -n "$netns" link set lo up
    case $port in
    af_*) veth || return 1 ;;
    tap)
        ip -n "$netns" tuntap add dev cw0 mode tap
        with_addresses cw0
        ;;
    esac
    # The last one's words would be taken for its.
    rm -f "$folder/http.log"
    # Not by way of `inside`: that would be a shell of its own, and the number that of the shell.
    ip netns exec "$netns" "$clearway" http --port "$(port_of "$port")" -a 10.97.0.2/24 -a fd97::2/64 -l 64 --cores "$one" --json >"$folder/http.log" 2>&1 &
    server=$!
    pids="$pids $server"
    becomes_ready || return 1
    if [ "$memory" = huge ] && grep -q 'no huge pages' "$folder/http.log"; then
        fails "huge pages were not taken" || return 1
    fi
    case $port in
    tap-pmd) with_addresses dtap0 ;;
    esac
    case $port in
    memif | vhost) with_our_client ;;
    *) with_curl_and_wrk ;;
    esac
}

undo() {
    stop "$server"
    server=
    ip netns del "$netns" 2>/dev/null || :
    rm -f "$folder/m" "$folder/v"
}

client_of() {
    case $1 in
    memif | vhost) echo 'clearway bench' ;;
    *) echo 'curl, wrk' ;;
    esac
}

[ "$json" = - ] || {
    machine
    echo "server on core $one, client on core $two; 64-byte page, $connections connections that stay; $rounds rounds of $seconds s over all ports"
}
: >"$folder/figures"
: >"$folder/failures"
server=
round=0
while [ $round -lt "$rounds" ]; do
    for port in $ports; do
        for memory in plain huge; do
            # The kernel's own device has nothing to do with DPDK's memory.
            [ "$port-$memory" != tap-huge ] || continue
            if [ $memory = huge ]; then export CLEARWAY_DPDK_HUGE=on; else export CLEARWAY_DPDK_HUGE=off; fi
            if measure; then
                echo "$port $memory $figure" >>"$folder/figures"
            else
                printf '%s\t%s\t%s\n' "$port" "$memory" "$(cat "$folder/why")" >>"$folder/failures"
            fi
            [ -z "$server" ] || undo
            ip netns del "$netns" 2>/dev/null || :
        done
    done
    round=$((round + 1))
done

summary='
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
($failures | split("\n") | map(select(. != "") | split("\t") | { port: .[0], memory: .[1], why: .[2] })) as $failed
| [inputs | split(" ") | { port: .[0], memory: .[1], rate: (.[2] | tonumber) }] as $figures
| [($ports | split(" "))[] | [., "plain"], [., "huge"]] | map(select(. != ["tap", "huge"]))
| map(. as [$port, $memory] | { port: $port, memory: $memory,
    requests_per_second: ([$figures[] | select(.port == $port and .memory == $memory) | .rate]
        | if length > 0 then { median: median, least: min, most: max } else null end),
    failures: [$failed[] | select(.port == $port and .memory == $memory) | .why] })'
jq -Rn --arg machine "$(uname -srm), $(nproc) cores" --arg program "$("$clearway" version | sed -n 1p)" --argjson rounds "$rounds" --arg ports "$ports" \
    --rawfile failures "$folder/failures" "{ machine: \$machine, program: \$program, rounds: \$rounds, rows: ($summary) }" "$folder/figures" >"$folder/json"
[ "$json" = - ] || {
    echo
    printf '%-10s %-15s %-6s %32s\n' port client memory 'requests/s'
    jq -r '.rows[] | [.port, .memory, (.requests_per_second | if . then "\(.median | round) (\(.least | round)–\(.most | round))" else "none" end), (.failures[0] // "")] | @tsv' \
        "$folder/json" | while IFS="$(printf '\t')" read -r port memory rate why; do
        printf '%-10s %-15s %-6s %34s  %s\n' "$port" "$(client_of "$port")" "$memory" "$rate" "${why:+FAILED: $why}"
    done
    farewell
}
case $json in
'') ;;
-) cat "$folder/json" ;;
*) cp "$folder/json" "$json" ;;
esac
[ ! -s "$folder/failures" ] || exit 1
