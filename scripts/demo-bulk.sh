#!/bin/sh
# Measures one stream each way over our stack on a TAP device beside the kernel's sockets on a veth pair, in short slices that alternate. Everything
# happens in network namespaces made for this run, and all of it is removed at the end. Wants a quiet machine.
#
#   DEMO_SECONDS  length of one slice (default 1)
#   DEMO_ROUNDS   pairs of slices for each direction (default 11)
#   CLEARWAY      the program to show (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need ip paste
seconds=${DEMO_SECONDS:-1}
rounds=${DEMO_ROUNDS:-11}

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "making network namespaces needs root, and sudo is not installed. Run this as root."
    echo "demo: making network namespaces needs root; asking sudo for it"
    rm -rf "$folder"
    exec sudo --preserve-env=DEMO_SECONDS,DEMO_ROUNDS CLEARWAY="$(realpath "$clearway")" sh scripts/demo-bulk.sh
fi
[ -e /dev/net/tun ] || die "/dev/net/tun is not there: this kernel or container has no TUN/TAP devices. Run on a machine that has them."

# Two namespaces: the client's, which also holds our TAP device, and the one of the server over the kernel's sockets.
client=cwbulk-$$-c
kernel=cwbulk-$$-k

clean_more() {
    ip netns del "$client" 2>/dev/null || :
    ip netns del "$kernel" 2>/dev/null || :
}

ip netns add "$client"
ip netns add "$kernel"
ip -n "$client" link set lo up
ip -n "$kernel" link set lo up
ip -n "$client" tuntap add dev cw0 mode tap
ip -n "$client" addr add 10.77.0.1/24 dev cw0
ip -n "$client" link set cw0 up
ip -n "$client" link add veth0 type veth peer name veth1 netns "$kernel"
ip -n "$client" addr add 10.78.0.1/24 dev veth0
ip -n "$client" link set veth0 up
ip -n "$kernel" addr add 10.78.0.2/24 dev veth1
ip -n "$kernel" link set veth1 up

# Starts a server in a namespace and waits until it says that it is ready: `start NAME NAMESPACE ARGUMENT…`.
start() {
    log=$folder/$1
    namespace=$2
    shift 2
    ip netns exec "$namespace" "$clearway" bulk server "$@" --cores "$one" --json >"$log" 2>&1 &
    pids="$pids $!"
    await "$log" '"event":"ready"' "$!"
}

start tap-server "$client" --port tap:cw0 -a 10.77.0.2/24
start veth-server "$kernel" --kernel

gbit() {
    # shellcheck disable=SC2086
    ip netns exec "$client" "$clearway" bulk client --kernel --cores "$two" -s "$1" --time "$seconds" --json $2 |
        sed -n 's/.*"gbit_per_s":\([0-9.e+-]*\).*/\1/p'
}

machine
echo
echo "== Gbit/s of one stream: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating; the ratio is that of neighbours"
echo "   clearway: its own TCP/IP over a TAP device, server on core $one"
echo "   kernel:   the same server over the kernel's sockets, veth between two namespaces, core $one"
echo "   client:   over the kernel's sockets, core $two; congestion control of this machine: $(cat /proc/sys/net/ipv4/tcp_congestion_control)"
heading direction
for direction in to-server from-server; do
    if [ $direction = to-server ]; then option=; else option=--down; fi
    round=0
    while [ $round -lt "$rounds" ]; do
        gbit 10.77.0.2 "$option" >>"$folder/ours"
        gbit 10.78.0.2 "$option" >>"$folder/theirs"
        round=$((round + 1))
    done
    paired_result $direction '%.1f'
done
farewell
