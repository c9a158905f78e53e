#!/usr/bin/env bash
# Installs a Debian package of Clearway in a bare Debian 12, uses it as its manual pages say, removes it, and looks for traces: deb-test.sh PACKAGE
# Run it through `make deb-test`. Needs root and Debian's mirror. Everything is done below a folder, and in namespaces, of its own.
set -euo pipefail
package=$(realpath "$1")
root=$(mktemp -d /tmp/clearway-deb-XXXXXX)
# apt fetches as a user of its own.
chmod 755 "$root"

# Mounts lie in a mount namespace of this script's, so they are gone with it.
if [[ -z "${CLEARWAY_DEB_TEST_INSIDE:-}" ]]; then
    rmdir "$root"
    exec env CLEARWAY_DEB_TEST_INSIDE=1 unshare --mount --pid --fork --kill-child --mount-proc "$0" "$package"
fi
clean_up() {
    umount --lazy "$root/proc" "$root/dev" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean_up EXIT

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "$1"; }
fail() { printf 'deb-test: %s\n' "$1" >&2; exit 1; }
# Every path, with what it is and whose; left out is what other programs of Debian keep for themselves: caches, logs, backups, locks.
traces() { inside "find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /run/adduser -o -path '/etc/*-' \) -prune -o -printf '%y %M %u:%g %p\n' | sort; cat /etc/passwd /etc/group"; }

echo "deb-test: a bare Debian 12 (debootstrap, minbase)"
debootstrap --variant=minbase bookworm "$root" >"$root.log" 2>&1 || { tail -5 "$root.log"; rm -f "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
# What the package needs of others is there before, so that what is left afterwards is its own.
depends=$(dpkg-deb -f "$package" Depends | tr ',' '\n' | sed 's/ *(.*//; s/^ *//' | tr '\n' ' ')
cp "$package" "$root/tmp/clearway.deb"

began=$SECONDS
echo "deb-test: install and use"
inside "apt-get -qq update && apt-get -qq install -y --no-install-recommends $depends curl iproute2 >/dev/null"
before=$(traces)
inside "apt-get -qq install -y --no-install-recommends /tmp/clearway.deb >/dev/null"
inside "clearway --version && getent passwd clearway && stat -c '%A %U:%G %n' /etc/clearway /etc/clearway/clearway.toml"
[[ "$(inside "stat -c '%a %U:%G' /etc/clearway/clearway.toml")" == "640 root:clearway" ]] || fail "the settings may be read by others"

# A network of its own: the kernel's server at one end of a TAP device, curl over Clearway at the other.
cat >"$root/tmp/use.sh" <<'USE'
set -euo pipefail
ip link set lo up
cat >/tmp/host.toml <<'TOML'
[[ports]]
port = "tap:cw0"
name = "tap0"
addresses = ["10.99.0.2/24"]
TOML
clearway up -c /tmp/host.toml --socket /tmp/host.sock & host=$!
export CLEARWAY_SOCKET=/tmp/host.sock
trap 'kill $host $server 2>/dev/null || true' EXIT
server=
for _ in $(seq 300); do ip link show cw0 >/dev/null 2>&1 && break; sleep 0.1; done
ip address add 10.99.0.1/24 dev cw0
ip link set cw0 up
mkdir -p /tmp/www && echo "over Clearway" >/tmp/www/index.html
clearway http --kernel -p 80 --root /tmp/www & server=$!
for _ in $(seq 300); do curl -s -o /dev/null http://10.99.0.1/ && break; sleep 0.1; done
clearway run --required curl -s --max-time 20 -w '%{local_ip} -> %{remote_ip}:%{remote_port}\n' http://10.99.0.1/index.html
USE
said=$(unshare --net chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash /tmp/use.sh) || fail "curl over Clearway failed"
printf '%s\n' "$said"
grep -q '^10.99.0.2 -> 10.99.0.1:' <<<"$said" || fail "curl did not go over Clearway"
echo "deb-test: from nothing to that in $((SECONDS - began)) s"

echo "deb-test: manual pages, completions, units, the library for C"
inside 'cd /usr; for file in share/man/man1/clearway{,-up,-run}.1 share/bash-completion/completions/clearway lib/systemd/system/clearway{,@}.{service,socket} \
    lib/libclearway{,_preload,_inproc}.so lib/libclearway.a include/clearway.h lib/pkgconfig/clearway.pc; do
    [[ -s $file || -s $file.gz ]] || { echo "/usr/$file is missing" >&2; exit 1; }; done'

echo "deb-test: purge"
inside "apt-get -qq purge -y clearway >/dev/null"
rm -rf "$root/tmp/www" "$root/tmp/use.sh"
after=$(traces)
diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") || fail "the lines above are traces of the package"
echo "deb-test: no trace left"
