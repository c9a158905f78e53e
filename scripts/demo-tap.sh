# The world of the demos over TAP, sourced by them after demo-common.sh with their own name in $name: two namespaces, the client's, in which our TAP device cw0 is
# too (10.77.0.0/24, fd77::/64), and the one of the server over the kernel's sockets, with a veth pair between them (10.78.0.0/24).

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "making network namespaces needs root, and sudo is not installed. Run this as root."
    echo "demo: making network namespaces needs root; asking sudo for it"
    rm -rf "$folder"
    exec sudo --preserve-env=DEMO_SECONDS,DEMO_ROUNDS CLEARWAY="$(realpath "$clearway")" sh "scripts/$name.sh"
fi
[ -e /dev/net/tun ] || die "/dev/net/tun is not there: this kernel or container has no TUN/TAP devices. Run on a machine that has them."

client=cw$name-$$-c
kernel=cw$name-$$-k

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

gbit() {
    # shellcheck disable=SC2086
    inside "$client" "$clearway" bulk client --kernel --cores "$two" -s "$1" --time "$seconds" --json $2 |
        sed -n 's/.*"gbit_per_s":\([0-9.e+-]*\).*/\1/p'
}

# One stream each way over the bulk servers at 10.77.0.2 (ours) and 10.78.0.2, in turn; each direction ends as `$1 DIRECTION FORM` says: a row of the table.
streams() {
    heading direction
    for direction in to-server from-server; do
        if [ $direction = to-server ]; then option=; else option=--down; fi
        round=0
        while [ $round -lt "$rounds" ]; do
            gbit 10.77.0.2 "$option" >>"$folder/ours"
            gbit 10.78.0.2 "$option" >>"$folder/theirs"
            round=$((round + 1))
        done
        "$1" $direction "$2"
    done
}
