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
name=demo-bulk
. scripts/demo-tap.sh

start tap-server "$client" bulk server --port tap:cw0 -a 10.77.0.2/24
start veth-server "$kernel" bulk server --kernel

machine
echo
echo "== Gbit/s of one stream: median (smallest–largest) of $rounds rounds of ${seconds} s, alternating; the ratio is that of neighbours"
echo "   clearway: its own TCP/IP over a TAP device, server on core $one"
echo "   kernel:   the same server over the kernel's sockets, veth between two namespaces, core $one"
echo "   client:   over the kernel's sockets, core $two; congestion control of this machine: $(cat /proc/sys/net/ipv4/tcp_congestion_control)"
streams paired_result '%.1f'
farewell
