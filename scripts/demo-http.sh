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
name=demo-http
. scripts/demo-tap.sh

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

echo
echo "== Gbit/s of one stream: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating; both clients over the kernel's sockets"
streams result '%.2f'

farewell
