#!/usr/bin/env bash
# Installs the Debian packages named as arguments that are missing, and a Rust that is new enough where there is none (RUST=keep: says so instead).
# Run it through `make setup`, which holds the list of packages. `--tool NAME` alone installs that tool of cargo and nothing else.
set -euo pipefail
# rustup puts cargo here.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
cd "$(dirname "$0")/.."

as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
fi

install_packages() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Installs packages; the servers among them are not started, neither now nor when the machine starts. Debian asks /usr/sbin/policy-rc.d whether
# to start one, and takes 101 for a no. Where somebody has decided that already, as images of containers do, it stays as it is.
install_without_starting() {
    local policy=/usr/sbin/policy-rc.d package units
    if [[ ! -e "$policy" ]]; then
        trap "${as_root[*]} rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    install_packages "$@"
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
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        echo "setup: these packages are missing, and there is neither root nor sudo to install them: ${missing[*]}" >&2
        echo "setup: as root run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "setup: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    install_without_starting "${missing[@]}"
}

# The oldest Rust that builds this, as Cargo.toml says.
wanted_rust() {
    sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml
}

# Whether version $1 is at least version $2.
is_at_least() {
    [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

# What is wrong with the cargo of this machine; nothing, if it will do.
flaw_of_cargo() {
    local found tool wanted=$1
    if ! command -v cargo >/dev/null; then
        echo "cargo is not installed"
    elif ! found=$(cargo --version 2>/dev/null); then
        echo "cargo is installed, but 'cargo --version' fails"
    elif found=$(awk '{ print $2 }' <<<"$found") && ! is_at_least "$found" "$wanted"; then
        echo "cargo $found is too old"
    else
        for tool in fmt clippy; do
            if ! cargo "$tool" --version >/dev/null 2>&1; then
                echo "'cargo $tool' is missing"
                return
            fi
        done
    fi
}

how_to_get_cargo() {
    cat >&2 <<TEXT
setup: $1. Clearway needs Rust $2 or newer, with rustfmt and clippy. Get it in one of two ways:
  any Linux:            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- --profile default
                        (if rustup is there already: rustup update stable && rustup component add rustfmt clippy)
  Debian 13 or newer:   apt-get install cargo rustc rustfmt rust-clippy
TEXT
    exit 1
}

# Debian's Rust, where it is new enough.
install_rust_of_debian() {
    local candidate
    command -v apt-cache >/dev/null || return 1
    candidate=$(apt-cache policy rustc | awk '$1 == "Candidate:" { print $2 }')
    is_at_least "${candidate:-0}" "$1" || return 1
    echo "setup: installing Debian's Rust $candidate"
    install_packages cargo rustc rustfmt rust-clippy
}

# Rust as its authors build it, for this user alone.
install_rust_of_rustup() {
    if command -v rustup >/dev/null; then
        echo "setup: updating the stable Rust of rustup"
        rustup update stable && rustup default stable && rustup component add rustfmt clippy
    else
        echo "setup: installing the stable Rust into ${CARGO_HOME:-$HOME/.cargo} by https://sh.rustup.rs"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --quiet --profile default --no-modify-path
    fi
}

# Sees to a cargo that will do. RUST=keep leaves what is there as it is, and says what is missing.
see_to_cargo() {
    local flaw wanted
    wanted=$(wanted_rust)
    flaw=$(flaw_of_cargo "$wanted")
    [[ -n "$flaw" ]] || return 0
    [[ "${RUST:-}" != keep ]] || how_to_get_cargo "$flaw" "$wanted"
    echo "setup: $flaw; RUST=keep would leave that as it is"
    install_rust_of_debian "$wanted" || install_rust_of_rustup || how_to_get_cargo "$flaw, and could not be installed" "$wanted"
    hash -r
    flaw=$(flaw_of_cargo "$wanted")
    [[ -z "$flaw" ]] || how_to_get_cargo "$flaw, also after it was installed" "$wanted"
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

# What a tool says of itself; one named cargo-… is a command of cargo's.
version_of_tool() {
    case "$1" in
    cargo-*) cargo "${1#cargo-}" --version ;;
    *) "$1" --version ;;
    esac
}

# Tools of cargo that a gate runs, in the versions that [workspace.metadata.tools] of Cargo.toml names. A gate whose tool is missing says `absent`.
install_tools() {
    local tool wanted found section=$1 only=${2:-}
    while read -r tool wanted; do
        [[ -z "$only" || "$only" == "$tool" ]] || continue
        found=$(version_of_tool "$tool" 2>/dev/null | awk '{ sub(/^v/, "", $2); print $2 }' || true)
        if [[ "$found" != "$wanted" ]]; then
            echo "setup: installing $tool $wanted${found:+ in place of $found} (seconds with cargo-binstall, else some minutes, once)"
            install_built "$tool" "$wanted" || install_from_source "$tool" "$wanted" ||
                { echo "setup: $tool could not be installed; what needs it will say that it is absent" >&2; [[ -z "$only" ]] || exit 1; }
        fi
    done < <(sed -n "/^\[workspace.metadata.$section\]$/,/^$/"' s/^\([a-z-]*\) = "\(.*\)"$/\1 \2/p' Cargo.toml)
}

# Rust's library for another target, for programs that tests build. Where Rust is not rustup's, such tests say that they are skipped, and fail where CI is set.
install_target() {
    command -v rustup >/dev/null || return 0
    rustup target list --installed | grep -qx "$1" || rustup target add "$1" ||
        echo "setup: Rust's library for $1 could not be installed; tests that need it are skipped, or fail where CI is set" >&2
}

if [[ "${1:-}" == --tool ]]; then
    install_tools tools-on-demand "$2"
    exit
fi
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
see_to_cargo
if [[ -n "$tools" ]]; then
    install_tools tools
    install_target x86_64-unknown-linux-musl
fi
