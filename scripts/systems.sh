#!/usr/bin/env bash
# The library that is loaded into programs, with the C libraries of other systems: systems.sh [SUITE...], such as trixie (Debian) or jammy (Ubuntu)
# Run it through `make systems`. Makes a bare system of each suite once (debootstrap, some 400 MB below target/systems), and runs the tests of
# crates/host/preload there: the programs are compiled there and compared with that system's kernel line for line. Needs root and the mirrors.
set -euo pipefail
suites=("${@:-trixie}")
[[ $# -gt 0 ]] || suites=(trixie jammy)
here=$(cd "$(dirname "$0")/.." && pwd)
made=$here/target/systems

# Mounts lie in a mount namespace of this script's, so they are gone with it; so are its network and its processes.
if [[ -z "${CLEARWAY_SYSTEMS_INSIDE:-}" ]]; then
    cd "$here"
    for suite in "${suites[@]}"; do
        case $suite in
        jammy | noble | plucky | questing) mirror=http://archive.ubuntu.com/ubuntu components=main,universe ;;
        *) mirror=http://deb.debian.org/debian components=main ;;
        esac
        root=$made/$suite
        [[ -e "$root.made" ]] && continue
        echo "systems: a bare $suite (debootstrap)"
        rm -rf --one-file-system "$root"
        mkdir -p "$root"
        debootstrap --variant=minbase --components="$components" --include=gcc,libc6-dev,python3,iproute2 "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
            { tail -5 "$root.log" >&2; echo "systems: debootstrap of $suite failed; $root.log has all of it" >&2; exit 1; }
        touch "$root.made"
    done
    # Without the drivers that come from Debian 12: other systems do not have that library.
    export CARGO_TARGET_DIR=$made/build
    cargo build --quiet -p clearway-cli --no-default-features
    cargo build --quiet -p clearway-preload -p clearway-trap
    tests=$(cargo test --quiet --no-run --message-format json -p clearway-preload --test preload |
        python3 -c 'import json, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("profile", {}).get("test") and made.get("executable"): print(made["executable"])')
    export CLEARWAY_SYSTEMS_INSIDE=$tests
    failed=()
    for suite in "${suites[@]}"; do
        unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$suite" || failed+=("$suite")
    done
    [[ ${#failed[@]} -eq 0 ]] || { echo "systems: not alike in ${failed[*]}" >&2; exit 1; }
    echo "systems: alike in ${suites[*]}"
    exit
fi

root=$made/$1
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mkdir -p "$root$here"
mount --rbind "$here" "$root$here"
ip link set lo up
echo "systems: $1, $(chroot "$root" ldd --version | head -1)"
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=1 CLEARWAY_TESTS_BUILT=1 \
    bash -c "cd $here/crates/host/preload && exec $CLEARWAY_SYSTEMS_INSIDE --test-threads 2"
