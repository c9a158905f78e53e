#!/bin/sh
# Serves HTTP to the Linux kernel over a TAP device, shows that it answers, and measures it beside a server over the
# kernel's own sockets. Everything happens in network namespaces made for this run, and all of it is removed at the end.
#
#   DEMO_SECONDS  length of one measurement (default 2)
#   DEMO_ROUNDS   measurements of each kind, alternating between the two servers (default 3)
#   CLEARWAY      the program to show (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need ip ping curl wrk
seconds=${DEMO_SECONDS:-2}
rounds=${DEMO_ROUNDS:-3}

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "making network namespaces needs root, and sudo is not installed. Run this as root."
    echo "demo: making network namespaces needs root; asking sudo for it"
    rm -rf "$folder"
    exec sudo --preserve-env=DEMO_SECONDS,DEMO_ROUNDS CLEARWAY="$(realpath "$clearway")" sh scripts/demo-http.sh
fi
[ -e /dev/net/tun ] || die "/dev/net/tun is not there: this kernel or container has no TUN/TAP devices. Run on a machine that has them."

# Two namespaces: the client's, which also holds our TAP device, and the one of the server over the kernel's sockets.
client=cwdemo-$$-c
kernel=cwdemo-$$-k

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
ip -n "$client" addr add fd77::1/64 dev cw0 nodad
ip -n "$client" link set cw0 up
ip -n "$client" link add veth0 type veth peer name veth1 netns "$kernel"
ip -n "$client" addr add 10.78.0.1/24 dev veth0
ip -n "$client" link set veth0 up
ip -n "$kernel" addr add 10.78.0.2/24 dev veth1
ip -n "$kernel" link set veth1 up

inside() {
    namespace=$1
    shift
    ip netns exec "$namespace" "$@"
}

# Starts a server in a namespace and waits until it says that it is ready; what it says goes to a file named $1.
start() {
    log=$folder/$1
    namespace=$2
    shift 2
    ip netns exec "$namespace" "$clearway" "$@" --cores "$one" --json >"$log" 2>&1 &
    pid=$!
    pids="$pids $pid"
    await "$log" '"event":"ready"' "$pid"
}

machine

start http "$client" http --port tap:cw0 -a 10.77.0.2/24 -a fd77::2/64 -l 64
ours_pid=$pid
start http-kernel "$kernel" http --kernel -p 80 -l 64
theirs_pid=$pid

echo
echo "== ping over IPv4 and IPv6"
inside "$client" ping -c 3 -i 0.2 10.77.0.2
inside "$client" ping -c 3 -i 0.2 fd77::2

echo
echo "== curl over IPv4 and IPv6"
inside "$client" curl --silent --show-error --include --max-time 5 http://10.77.0.2/
inside "$client" curl --silent --show-error --include --max-time 5 'http://[fd77::2]/'

requests() {
    inside "$client" taskset -c "$two" wrk -t1 "-c$1" "-d${seconds}s" "$2" >"$folder/wrk"
    if grep -q -E 'Socket errors|Non-2xx' "$folder/wrk"; then
        cat "$folder/wrk" >&2
        die "wrk saw errors"
    fi
    awk '/Requests\/sec/ { print $2 }' "$folder/wrk"
}

echo
echo "== requests per second, 64-byte page, connections that stay: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating"
echo "   clearway: its own TCP/IP over a TAP device, core $one"
echo "   kernel:   the same server over the kernel's sockets with epoll, veth between two namespaces, core $one"
echo "   client:   wrk, one thread, core $two"
heading connections
for connections in 1 16 128; do
    round=0
    while [ $round -lt "$rounds" ]; do
        requests $connections http://10.77.0.2/ >>"$folder/ours"
        requests $connections http://10.78.0.2/ >>"$folder/theirs"
        round=$((round + 1))
    done
    result $connections '%.0f'
done
stop "$ours_pid"
stop "$theirs_pid"

start bulk "$client" bulk server --port tap:cw0 -a 10.77.0.2/24
start bulk-kernel "$kernel" bulk server --kernel

gbit() {
    inside "$client" "$clearway" bulk client --kernel --cores "$two" -s "$1" --time "$seconds" --json $2 |
        sed -n 's/.*"gbit_per_s":\([0-9.e+-]*\).*/\1/p'
}

echo
echo "== Gbit/s of one stream: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating; both clients over the kernel's sockets"
heading direction
for direction in to-server from-server; do
    if [ $direction = to-server ]; then option=; else option=--down; fi
    round=0
    while [ $round -lt "$rounds" ]; do
        gbit 10.77.0.2 "$option" >>"$folder/ours"
        gbit 10.78.0.2 "$option" >>"$folder/theirs"
        round=$((round + 1))
    done
    result $direction '%.2f'
done

farewell
