#!/usr/bin/env bash
# Builds the container image target/clearway-VERSION.tar: build.sh
# Run it through `make container`. No daemon and no root are needed. The program is linked statically, without DPDK; the libraries that are
# loaded into programs are those of Debian 12's C library, and run in images with glibc 2.34 or later.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=x86_64-unknown-linux-gnu
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
root=target/container/root

# With a target named, the flags are for the program and not for what is run while it is built.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --target "$target" --target-dir target/container/build -p clearway-cli --no-default-features
cargo build --release -p clearway-preload -p clearway-inproc -p clearway-trap

rm -rf "$root"
install -D -m 755 -s "target/container/build/$target/release/clearway" "$root/usr/bin/clearway"
install -m 755 -s target/release/clearway-trap "$root/usr/bin/clearway-trap"
for library in preload inproc; do
    install -D -m 644 "target/release/libclearway_$library.so" "$root/usr/lib/libclearway_$library.so"
    strip --strip-unneeded "$root/usr/lib/libclearway_$library.so"
done
install -D -m 644 -t "$root/usr/share/doc/clearway" LICENSE-APACHE LICENSE-MIT
mkdir -p "$root/run/clearway" "$root/tmp" "$root/etc"
printf 'root:x:0:0::/:/none\nclearway:x:65532:65532::/:/none\n' >"$root/etc/passwd"
printf 'root:x:0:\nclearway:x:65532:\n' >"$root/etc/group"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
    packaging/container/image.py "$root" "target/clearway-$version.tar" --version "$version"
