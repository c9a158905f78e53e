#!/bin/sh
# Sends frames of several sizes through memif, and through vhost-user and virtio-user, to a reflector and back: ours and that of DPDK's testpmd, in turn
# within the second, each with two generators: testpmd's and ours. Two processes on two cores, whose one thread each serves all queues; the reflector that
# has no turn is stopped meanwhile.
# No root and no huge pages needed. Everything that it makes lies in one temporary folder and is removed at the end.
#
#   --quick          one round instead of five
#   --huge           in huge pages, of which 400 have to be free
#   --json FILE      the figures also as JSON, `-` for standard output in place of the table
#   SWEEP_ROUNDS     measurements of each kind (default 5)
#   SWEEP_SECONDS    length of one measurement (default 0.4)
#   SWEEP_LINKS SWEEP_QUEUES SWEEP_SIZES   what is measured (default "memif vhost", "1 2", "64 128 256 512 1024 1500")
#   CLEARWAY         the program to measure (default target/release/clearway)
set -eu

cd "$(dirname "$0")/.."
. scripts/demo-common.sh
need dpdk-testpmd jq mkfifo stdbuf
# A testpmd that is gone is noticed when it is asked.
trap '' PIPE
rounds=${SWEEP_ROUNDS:-5}
seconds=${SWEEP_SECONDS:-0.4}
links=${SWEEP_LINKS:-memif vhost}
queue_counts=${SWEEP_QUEUES:-1 2}
sizes=${SWEEP_SIZES:-64 128 256 512 1024 1500}
huge=
json=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) rounds=1 ;;
    --huge) huge=1 ;;
    --json)
        shift
        json=${1:?--json needs a file}
        ;;
    *) die "unknown word $1. There are --quick, --huge and --json FILE" ;;
    esac
    shift
done

if [ -n "$huge" ]; then
    # One folder of huge pages with as few files as possible: vhost hands over eight pieces of memory at most.
    memory='--in-memory --single-file-segments -m 160'
    free=$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo)
    [ "$free" -ge 400 ] || die "only $free huge pages are free. Get some as root: sysctl vm.nr_hugepages=400"
    export CLEARWAY_DPDK_HUGE=on
else
    memory='--no-huge -m 256'
    export CLEARWAY_DPDK_HUGE=off
fi

# testpmd keeps a folder while it runs, and leaves it.
clean_more() {
    for name in a g; do
        rm -rf "${XDG_RUNTIME_DIR:-/run}/dpdk/sweep$$$name" "/run/dpdk/sweep$$$name"
    done
}

# The device of a side of the link: `device server|client NUMBER NAME`, where NAME tells the two reflectors' sockets apart.
device() {
    case $link-$1 in
    memif-*) echo "net_memif$2,role=$1,socket=$folder/$3.sock,bsize=2048,rsize=10" ;;
    vhost-server) echo "net_vhost$2,iface=$folder/$3.sock,queues=$queues" ;;
    vhost-client) echo "net_virtio_user$2,path=$folder/$3.sock,queues=$queues,queue_size=1024" ;;
    esac
}

# Starts testpmd with its commands from a pipe: `testpmd NAME CORE MODE DEVICE…`. One of its threads serves all queues.
testpmd() {
    name=$1
    core=$2
    mode=$3
    shift 3
    for one_device in "$@"; do
        set -- "$@" --vdev "$one_device"
        shift
    done
    # What an earlier one said would be taken for its words.
    rm -f "$folder/$name.in" "$folder/$name.log"
    mkfifo "$folder/$name.in"
    # shellcheck disable=SC2086
    stdbuf -o0 taskset -c "$core" dpdk-testpmd --no-pci --lcores "0@$core,1@$core" $memory --file-prefix "sweep$$$name" --no-telemetry "$@" \
        -- -i --total-num-mbufs=16384 --rxq="$queues" --txq="$queues" --nb-cores=1 --forward-mode="$mode" \
        <"$folder/$name.in" >"$folder/$name.log" 2>&1 &
    pid=$!
    pids="$pids $pid"
}

# Lets the reflector $1 run, and stops the other.
turn_of() {
    if [ "$1" = ours ]; then
        kill -STOP "$theirs_pid"
        kill -CONT "$ours_pid"
    else
        kill -STOP "$ours_pid"
        kill -CONT "$theirs_pid"
    fi
}

both_run() {
    kill -CONT "$ours_pid" "$theirs_pid" 2>/dev/null || :
}

start_reflectors() {
    # One thread for all queues, which looks for frames without end, as testpmd's does.
    rm -f "$folder/ours.log"
    "$clearway" reflect --port "dpdk:$(device server 0 ours)" --queues "$queues" --cores "$one" --poll --json >"$folder/ours.log" 2>&1 &
    ours_pid=$!
    pids="$pids $ours_pid"
    await "$folder/ours.log" '"event":"ready"' "$ours_pid"
    start_theirs
}

start_theirs() {
    testpmd a "$one" macswap "$(device server 0 theirs)"
    theirs_pid=$pid
    exec 3>"$folder/a.in"
    await "$folder/a.log" testpmd\> "$theirs_pid"
    echo start >&3
}

# memif's driver may unmap the rings of a peer that leaves while testpmd looks at them, and then testpmd is gone.
theirs_lives() {
    kill -0 "$theirs_pid" 2>/dev/null && return
    exec 3>&-
    ended "$theirs_pid"
    rm -f "$folder/theirs.sock"
    # Ours would take its part of the core while it starts.
    kill -STOP "$ours_pid"
    start_theirs
}

stop_reflectors() {
    both_run
    stop "$ours_pid"
    # testpmd may be gone already.
    { echo quit >&3; } 2>/dev/null || :
    exec 3>&-
    ended "$theirs_pid"
    rm -f "$folder"/*.sock
}

ended() {
    wait "$1" 2>/dev/null || :
    forget "$1"
}

# Asks testpmd for the counters of port $1, waits for the answer, and keeps what came each second since it was asked last.
ask() {
    before=$(grep -a -c Rx-pps "$folder/g.log" || :)
    echo "show port stats $1" >&4
    tries=0
    until [ "$(grep -a -c Rx-pps "$folder/g.log" || :)" -gt "$before" ]; do
        kill -0 "$generator_pid" 2>/dev/null || die "testpmd ended: $(tail -n 20 "$folder/g.log")"
        tries=$((tries + 1))
        [ $tries -lt 500 ] || die "testpmd does not answer: $(tail -n 20 "$folder/g.log")"
        sleep 0.02
    done
    pps=$(grep -a Rx-pps "$folder/g.log" | tail -n 1 | awk '{ print $2 }')
}

tell() {
    echo "$link $queues $size $1 $2 $3" >>"$folder/figures"
}

# The other way round in every other round.
order() {
    if [ $(($1 % 2)) = 0 ]; then echo ours theirs; else echo theirs ours; fi
}

with_their_generator() {
    testpmd g "$two" flowgen "$(device client 0 ours)" "$(device client 1 theirs)"
    generator_pid=$pid
    exec 4>"$folder/g.in"
    await "$folder/g.log" testpmd\> "$generator_pid"
    round=0
    while [ $round -lt "$rounds" ]; do
        for size in $sizes; do
            for reflector in $(order $round); do
                turn_of $reflector
                port=0
                [ $reflector = ours ] || port=1
                printf 'set portlist %s\nset txpkts %s\nstart\n' $port "$size" >&4
                # What the last one left in the rings is through.
                sleep 0.1
                ask $port
                sleep "$seconds"
                ask $port
                echo stop >&4
                tell flowgen $reflector "$(awk -v pps="$pps" 'BEGIN { print pps / 1e6 }')"
            done
        done
        round=$((round + 1))
    done
    both_run
    echo quit >&4
    exec 4>&-
    ended "$generator_pid"
}

# Frames to the reflector $1 and back; leaves $mpps.
once() {
    "$clearway" pktgen --port "dpdk:$(device client 0 "$1")" --queues "$queues" --cores "$two" --size "$size" --wait 3 \
        --seconds "$seconds" --drain 0.1 --json >"$folder/pktgen" 2>"$folder/pktgen.log" || return 1
    mpps=$(jq -es '[.[] | select(.event == "size") | .rx_mpps] | last | select(. > 0)' "$folder/pktgen")
}

with_our_generator() {
    round=0
    while [ $round -lt "$rounds" ]; do
        for size in $sizes; do
            for reflector in $(order $round); do
                tries=0
                theirs_lives
                turn_of $reflector
                until once $reflector; do
                    # The reflector that is not there any more may have been found so only by this.
                    { [ $reflector = theirs ] && ! kill -0 "$theirs_pid" 2>/dev/null && [ $tries -lt 3 ]; } ||
                        die "nothing came back: $(cat "$folder/pktgen" "$folder/pktgen.log")"
                    tries=$((tries + 1))
                    theirs_lives
                    turn_of $reflector
                done
                tell pktgen $reflector "$mpps"
            done
        done
        round=$((round + 1))
    done
    both_run
}

# The nth figure of ours and the nth of theirs are neighbours in time, so their ratio is taken before the median.
summary='
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def spread: { median: median, least: min, most: max };
def both($ours; $theirs): { reflect: ($ours | spread), macswap: ($theirs | spread),
    ratio: ([$ours, $theirs] | transpose | map(select(.[0] != null and .[1] != null and .[1] > 0) | .[0] / .[1]) | if length > 0 then spread else null end) };
[inputs | split(" ") | { link: .[0], queues: (.[1] | tonumber), size: (.[2] | tonumber), generator: .[3], reflector: .[4], mpps: (.[5] | tonumber) }]
| group_by([.link, .queues, .size])
| map(. as $cell
    | def of($generator; $reflector): [$cell[] | select(.generator == $generator and .reflector == $reflector) | .mpps];
      { link: .[0].link, queues: .[0].queues, size: .[0].size,
        flowgen: both(of("flowgen"; "ours"); of("flowgen"; "theirs")), pktgen: both(of("pktgen"; "ours"); of("pktgen"; "theirs")) })'

table='
def two: (. * 100 | round) as $n | ($n / 100 | floor | tostring) + "." + ($n % 100 + 100 | tostring | .[1:]);
def range: (.median | two) + " (" + (.least | two) + "–" + (.most | two) + ")";
.cells[] | [.link, .queues, .size, (.flowgen | (.reflect | range), (.macswap | range), (.ratio | range)),
    (.pktgen | (.reflect | range), (.macswap | range), (.ratio | range))] | @tsv'

[ "$json" = - ] || {
    machine
    echo "         testpmd of DPDK $(pkg-config --modversion libdpdk 2>/dev/null || echo 'unknown'), huge pages: ${huge:+yes}${huge:-no}"
    echo "reflectors on core $one, generators on core $two; $rounds rounds of $seconds s, both reflectors in turn; on each core one thread, for all queues"
}
: >"$folder/figures"
for link in $links; do
    for queues in $queue_counts; do
        start_reflectors
        with_their_generator
        with_our_generator
        stop_reflectors
        [ "$json" = - ] || echo "  measured: $link, $queues queues" >&2
    done
done

jq -Rn --arg machine "$(uname -srm), $(nproc) cores" --arg program "$("$clearway" version | sed -n 1p)" --argjson rounds "$rounds" \
    --arg huge "${huge:-0}" "{ machine: \$machine, program: \$program, rounds: \$rounds, huge_pages: (\$huge == \"1\"), cells: ($summary) }" \
    "$folder/figures" >"$folder/json"
if [ "$json" = - ]; then
    cat "$folder/json"
    exit 0
fi
[ -z "$json" ] || cp "$folder/json" "$json"
echo
echo "== Mpps that came back: median (smallest–largest)          from testpmd's flowgen                               from clearway pktgen"
printf '%-6s %6s %5s | %18s %18s %18s | %18s %18s %18s\n' link queues size reflect macswap ratio reflect macswap ratio
jq -r "$table" "$folder/json" | while IFS="$(printf '\t')" read -r link queues size a b c d e f; do
    printf '%-6s %6s %5s | %20s %20s %20s | %20s %20s %20s\n' "$link" "$queues" "$size" "$a" "$b" "$c" "$d" "$e" "$f"
done
farewell
