#!/bin/sh
# System calls for each connection that is made for one request: of the host, of a server that accepts, answers and closes, and of `ab`, which makes them one after the other.
# Usage: scripts/connection-cost.sh [FOLDER], where `clearway` and `libclearway_preload.so` are (target/release). Needs strace, ab and python3.

set -u
binaries=${1:-${CARGO_TARGET_DIR:-target}/release}
clearway=$binaries/clearway
library=$(readlink -f "$binaries/libclearway_preload.so")
connections=1000

die() {
    echo "connection-cost: $*" >&2
    exit 1
}

[ -x "$clearway" ] && [ -r "$library" ] || die "no clearway with its library in $binaries. Build them with: cargo build --release"
for program in strace ab python3; do
    command -v "$program" >/dev/null || die "$program is missing. Install it with: make setup"
done

folder=$(mktemp -d)
pids=
clean() {
    trap - EXIT
    for pid in $pids; do
        kill "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

cat >"$folder/script" <<END
create loopback interface
create loopback interface
set interface state loop0 up
set interface state loop1 up
ip table add 1
ip table add 2
set interface ip table loop0 1
set interface ip table loop1 2
set interface ip address loop0 172.16.1.1/24
set interface ip address loop1 172.16.2.1/24
app ns add id server secret 1234 if loop0
app ns add id client secret 5678 if loop1
ip route add 172.16.1.1/32 table 2 via lookup in table 1
ip route add 172.16.2.1/32 table 1 via lookup in table 2
END

cat >"$folder/server.py" <<END
import socket
listener = socket.socket()
listener.bind(("172.16.1.1", 8080))
listener.listen(512)
open("$folder/listens", "w").close()
while True:
    connection, _ = listener.accept()
    connection.recv(4096)
    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
    connection.close()
END

await() {
    tries=0
    while ! "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || die "'$*' does not come true: $(cat "$folder/log")"
        sleep 0.1
    done
}

export CLEARWAY_SOCKET="$folder/host.sock"
"$clearway" up --script "$folder/script" --socket "$CLEARWAY_SOCKET" >"$folder/log" 2>&1 &
host=$!
pids=$host
named() { "$clearway" ctl "show app ns" 2>/dev/null | grep -q client; }
await named

LD_PRELOAD=$library CLEARWAY_NS=server CLEARWAY_SECRET=1234 python3 "$folder/server.py" >>"$folder/log" 2>&1 &
server=$!
pids="$pids $server"
await test -e "$folder/listens"

strace -f -c -o "$folder/host" -p $host 2>>"$folder/log" &
strace_host=$!
strace -f -c -o "$folder/server" -p $server 2>>"$folder/log" &
strace_server=$!
pids="$strace_host $strace_server $pids"
traced() { grep -q "^TracerPid:[[:space:]]*[1-9]" /proc/$host/status && grep -q "^TracerPid:[[:space:]]*[1-9]" /proc/$server/status; }
await traced

strace -f -c -o "$folder/client" -E "LD_PRELOAD=$library" -E CLEARWAY_NS=client -E CLEARWAY_SECRET=5678 \
    ab -q -n $connections -c 1 http://172.16.1.1:8080/ >"$folder/ab" 2>&1 || die "$(cat "$folder/ab")"
grep -q "^Complete requests: *$connections" "$folder/ab" || die "$(cat "$folder/ab")"
kill $strace_host $strace_server
wait $strace_host $strace_server

echo "system calls for each of $connections connections"
for who in host server client; do
    awk -v who=$who -v n=$connections '$NF == "total" { printf "%-7s %6.1f\n", who, $4 / n }' "$folder/$who"
    awk -v n=$connections '$1 ~ /^[0-9]/ && $NF != "total" && $4 > n / 5 { printf "        %6.1f %s\n", $4 / n, $NF }' "$folder/$who"
done
