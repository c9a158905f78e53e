#!/usr/bin/env bash
# Builds the baselines: servers over other stacks that answer the requests of `clearway bench client`. docs/baselines.md says what each is.
#
#   baselines/build.sh [--dev] [NAME…]      kernel-io_uring lwip-dpdk smoltcp netstack, or those that are named
#
# They lie in target/baselines; with --dev, which is quicker to build and slower to run, in target/debug/baselines. What fails is named at the end, and
# the others are built all the same.
set -uo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/baselines
profile=release
optimize=(-O3 -flto=auto)
names=()
for word in "$@"; do
    case "$word" in
    --dev)
        out=$target/debug/baselines
        profile=dev
        optimize=(-O1)
        ;;
    kernel-io_uring | lwip-dpdk | smoltcp | netstack) names+=("$word") ;;
    *)
        echo "baselines: \`$word\` is none of kernel-io_uring, lwip-dpdk, smoltcp, netstack" >&2
        exit 2
        ;;
    esac
done
((${#names[@]} > 0)) || names=(kernel-io_uring lwip-dpdk smoltcp netstack)
mkdir -p "$out"

# What the C programs have in common.
strict=(-std=gnu11 -g -Wall -Wextra -Werror)

# A program that is being run keeps its file; the new one gets another.
put() {
    chmod +x "$1" && mv -f "$1" "$out/$2"
}

needs() {
    pkg-config --exists "$1" || {
        echo "baselines: $1 is not installed: apt-get install $2" >&2
        return 1
    }
}

build_kernel_io_uring() {
    needs liburing liburing-dev || return
    local version flags
    version=$(pkg-config --modversion liburing)
    read -ra flags <<<"$(pkg-config --cflags --libs liburing)"
    cc "${strict[@]}" "${optimize[@]}" -DLIBURING_VERSION="\"$version\"" -o "$out/.kernel-io_uring" \
        baselines/io_uring/server.c baselines/common/bench.c "${flags[@]}" -lpthread &&
        put "$out/.kernel-io_uring" kernel-io_uring
}

# Debian's source package of lwIP: its library is built for threads (NO_SYS=0), so it is of no use here. The same release on every machine. apt checks
# the archive's signature. Nothing of this machine's own lists is touched.
lwip_suite=bookworm
fetch_lwip() {
    local apt=$target/baselines/src/apt
    if ! command -v apt-get >/dev/null || ! [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
        echo "baselines: lwIP comes as a source package of Debian's: apt-get and the package debian-archive-keyring are needed for that" >&2
        return 1
    fi
    rm -rf "$apt" && mkdir -p "$apt/lists/partial" "$apt/parts" || return
    cat >"$apt/parts/debian.sources" <<TEXT
Types: deb-src
URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}
Suites: $lwip_suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
TEXT
    apt=$(realpath "$apt")
    local options=(-qq -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists"
        -o "Dir::Cache=$apt" -o "APT::Sandbox::User=root" -o "Acquire::Languages=none")
    apt-get "${options[@]}" update && (cd "$apt" && apt-get "${options[@]}" source lwip >"$apt/log" 2>&1) || {
        cat "$apt/log" >&2 2>/dev/null
        echo "baselines: the source package of lwIP cannot be fetched: see to the network, or name another archive with DEBIAN_MIRROR" >&2
        return 1
    }
    rm -rf "$target/baselines/src/lwip"
    mv "$apt"/lwip-*/ "$target/baselines/src/lwip" && rm -rf "$apt"
}

build_lwip_dpdk() {
    needs libdpdk libdpdk-dev || return
    local source=$target/baselines/src/lwip/src dpdk libraries objects=$target/baselines/src/lwip-objects
    [[ -f "$source/core/tcp.c" ]] || fetch_lwip || return
    read -ra dpdk <<<"$(pkg-config --cflags libdpdk)"
    read -ra libraries <<<"$(pkg-config --libs libdpdk)"
    local include=(-Ibaselines/lwip -isystem "$source/include") file
    # What others wrote may make this compiler warn.
    rm -rf "$objects" && mkdir -p "$objects" || return
    for file in "$source"/core/*.c "$source"/core/ipv4/*.c "$source/netif/ethernet.c"; do
        cc -std=gnu11 -g -w "${optimize[@]}" "${dpdk[@]}" "${include[@]}" -c -o "$objects/$(basename "$file" .c).o" "$file" || return
    done
    cc "${strict[@]}" "${optimize[@]}" "${dpdk[@]}" -DALLOW_EXPERIMENTAL_API "${include[@]}" -o "$out/.lwip-dpdk" \
        baselines/lwip/server.c baselines/common/bench.c "$objects"/*.o "${libraries[@]}" -lpthread &&
        put "$out/.lwip-dpdk" lwip-dpdk
}

build_smoltcp() {
    needs libdpdk libdpdk-dev || return
    local folder=$profile
    [[ $profile == release ]] || folder=debug
    # A folder of its own: nothing that cargo makes here is of use to the workspace, whose builds need not wait.
    CARGO_TARGET_DIR=$out/build cargo build --locked --quiet --profile "$profile" --manifest-path baselines/smoltcp/Cargo.toml &&
        cp "$out/build/$folder/baseline-smoltcp" "$out/.smoltcp" && put "$out/.smoltcp" smoltcp
}

build_netstack() {
    local to
    if ! command -v go >/dev/null; then
        echo "baselines: netstack is LEFT OUT, because Go is not installed: it wants $(sed -n 's/^go /Go /p' baselines/netstack/go.mod) or later, see https://go.dev/dl" >&2
        return 0
    fi
    to=$(realpath "$out")
    (cd baselines/netstack && go build -trimpath -buildvcs=false -o "$to/.netstack" .) && put "$out/.netstack" netstack
}

failed=()
for name in "${names[@]}"; do
    function=build_${name//-/_}
    if ! "$function"; then
        failed+=("$name")
        echo "baselines: $name FAILED; the next one" >&2
    fi
done
for name in "${names[@]}"; do
    [[ " ${failed[*]} " == *" $name "* || ! -x "$out/$name" ]] || "$out/$name" --version
done
if ((${#failed[@]} > 0)); then
    echo "baselines: not built: ${failed[*]}" >&2
    exit 1
fi
