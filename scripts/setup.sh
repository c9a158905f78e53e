#!/usr/bin/env bash
# Installs the Debian packages named as arguments that are missing, and checks that cargo is present and new enough.
# Run it through `make setup`, which holds the list of packages.
set -euo pipefail
cd "$(dirname "$0")/.."

# Installs packages; the servers among them are not started, neither now nor when the machine starts. Debian asks /usr/sbin/policy-rc.d whether
# to start one, and takes 101 for a no. Where somebody has decided that already, as images of containers do, it stays as it is.
install_without_starting() {
    local policy=/usr/sbin/policy-rc.d as_root=() package units
    if ((EUID != 0)); then
        as_root=(sudo)
    fi
    if [[ ! -e "$policy" ]]; then
        trap "${as_root[*]} rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    command -v systemctl >/dev/null || return 0
    for package in "$@"; do
        units=$(dpkg -L "$package" | grep -E '/systemd/system/[^/@]+\.(service|socket|timer)$' | xargs -r -n 1 basename || true)
        # shellcheck disable=SC2086 # One word for each unit.
        [[ -z "$units" ]] || "${as_root[@]}" systemctl --quiet disable $units || true
    done
}

install_missing() {
    local missing=() package
    for package in "$@"; do
        # "install ok installed" is the only state in which the files are there.
        [[ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" == "install ok installed" ]] || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return
    fi
    local as_root=()
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "setup: these packages are missing, and there is neither root nor sudo to install them: ${missing[*]}" >&2
            echo "setup: as root run: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "setup: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    install_without_starting "${missing[@]}"
}

how_to_get_cargo() {
    cat >&2 <<TEXT
setup: $1
setup: Clearway needs Rust $2 or newer, with rustfmt and clippy. Get it in one of two ways:
  any Linux:            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- --profile default
                        (if rustup is there already: rustup update stable && rustup component add rustfmt clippy)
  Debian 13 or newer:   apt-get install cargo rustc rustfmt rust-clippy
                        (the cargo of Debian 12 is too old: take rustup there)
TEXT
    exit 1
}

check_cargo() {
    local wanted found oldest
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null; then
        how_to_get_cargo "cargo is not installed." "$wanted"
    fi
    if ! found=$(cargo --version 2>/dev/null); then
        how_to_get_cargo "cargo is installed, but 'cargo --version' fails." "$wanted"
    fi
    found=$(awk '{ print $2 }' <<<"$found")
    oldest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)
    if [[ "$oldest" != "$wanted" ]]; then
        how_to_get_cargo "cargo $found is too old." "$wanted"
    fi
    local tool
    for tool in fmt clippy; do
        if ! cargo "$tool" --version >/dev/null 2>&1; then
            how_to_get_cargo "'cargo $tool' is missing." "$wanted"
        fi
    done
}

# A tool as its authors built it, where somebody has cargo-binstall, which knows where that is and checks it.
install_built() {
    cargo binstall -V >/dev/null 2>&1 &&
        cargo binstall --quiet --no-confirm --force --disable-strategies compile "$1@$2"
}

# A gate runs a tool for a moment: how long it is compiled matters, and not how fast it is.
install_from_source() {
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install --quiet --locked --force "$1" --version "$2"
}

# Tools of cargo that a gate runs, in the versions that [workspace.metadata.tools] of Cargo.toml names. A gate whose tool is missing says `absent`.
install_tools() {
    local tool wanted found
    while read -r tool wanted; do
        found=$(cargo "${tool#cargo-}" --version 2>/dev/null | awk '{ print $2 }' || true)
        if [[ "$found" != "$wanted" ]]; then
            echo "setup: installing $tool $wanted${found:+ in place of $found} (seconds with cargo-binstall, else some minutes, once)"
            install_built "$tool" "$wanted" || install_from_source "$tool" "$wanted" ||
                echo "setup: $tool could not be installed; its gate will say that it is absent" >&2
        fi
    done < <(sed -n '/^\[workspace.metadata.tools\]$/,/^$/ s/^\([a-z-]*\) = "\(.*\)"$/\1 \2/p' Cargo.toml)
}

tools=
if [[ "${1:-}" == --tools ]]; then
    tools=yes
    shift
fi
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    install_missing "$@"
else
    echo "setup: this is not a Debian system, so nothing is installed; see to the equivalents of: $*" >&2
fi
check_cargo
if [[ -n "$tools" ]]; then
    install_tools
fi
