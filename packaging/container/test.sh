#!/usr/bin/env bash
# Runs the container image with runc, without any capability, over a TAP device that is there already, and uses it: test.sh IMAGE.tar
# Run it through `make container-test`. Needs root, runc, umoci, skopeo, curl and python3. Everything is done in a folder and a network namespace of its own.
set -euo pipefail
image=$(realpath "$1")
folder=$(mktemp -d /tmp/clearway-container-XXXXXX)
name=clearway-container-$$
user=65532
program=
fail() { printf 'container-test: %s\n' "$1" >&2; [[ ! -e "$folder/log" ]] || cat "$folder/log" >&2; exit 1; }
clean_up() {
    [[ -z "$program" ]] || kill "$program" 2>/dev/null || true
    runc --root "$folder/state" delete --force "$name" 2>/dev/null || true
    ip netns delete "$name" 2>/dev/null || true
    rm -rf --one-file-system "$folder"
}
trap clean_up EXIT
runc() { command runc --root "$folder/state" "$@"; }
status() { runc state "$name" | python3 -c 'import json, sys; print(json.load(sys.stdin)["status"])'; }
start() {
    (cd "$folder/bundle" && runc run --detach "$name" >"$folder/log" 2>&1 </dev/null) || fail "runc does not start it"
    for _ in $(seq 600); do runc exec "$name" /usr/bin/clearway health >/dev/null 2>&1 && break; sleep 0.1; done
    runc exec "$name" /usr/bin/clearway health || fail "the host is not healthy"
}
end() {
    runc kill "$name" TERM
    for _ in $(seq 300); do [[ "$(status)" != stopped ]] || break; sleep 0.1; done
    [[ "$(status)" == stopped ]] || fail "it does not end"
}
# Becomes a program of another image, in the background: the same network, the same volume, and nothing of the first image but what is in that volume.
as_program() { exec ip netns exec "$name" setpriv --reuid "$user" --regid "$user" --clear-groups --bounding-set=-all --no-new-privs env -i PATH=/usr/bin:/bin "$@"; }

echo "container-test: what other tools read"
for kind in docker-archive oci-archive; do
    skopeo inspect "$kind:$image" >"$folder/$kind.json" || fail "skopeo does not take it for a $kind"
done
skopeo copy --quiet --insecure-policy "docker-archive:$image" "oci:$folder/oci:test"
umoci unpack --image "$folder/oci:test" "$folder/bundle" >/dev/null 2>&1 || fail "umoci does not unpack it"
size=$(du -sm "$folder/bundle/rootfs" | cut -f1)
((size <= 25)) || fail "it has $size MiB"

echo "container-test: a TAP device for user $user, in a network namespace"
ip netns add "$name"
ip -n "$name" link set lo up
ip -n "$name" tuntap add cw0 mode tap user "$user"
ip -n "$name" address add 10.99.0.1/24 dev cw0
ip -n "$name" link set cw0 up
mkdir -m 755 "$folder/volume" && chown "$user:$user" "$folder/volume"
cat >"$folder/volume/host.toml" <<'TOML'
[[ports]]
port = "tap:cw0"
name = "tap0"
addresses = ["10.99.0.2/24"]
TOML

# Settings for runc. The entry point and the variables are the image's own, and so is the user unless it is root ("root") with one capability.
settings() { python3 - "$folder" "$name" "$1" <<'SETTINGS'
import json, sys
folder, name, user = sys.argv[1:]
path = f"{folder}/bundle/config.json"
with open(path) as file:
    config = json.load(file)
process = config["process"]
process["args"] = ["/usr/bin/clearway", "up", "--config", "/run/clearway/host.toml"]
process["terminal"] = False
process["noNewPrivileges"] = True
capabilities = []
if user == "root":
    process["user"] = {"uid": 0, "gid": 0}
    capabilities = ["CAP_NET_ADMIN"]
process["capabilities"] = {kind: capabilities for kind in ("bounding", "effective", "permitted")}
config["root"]["readonly"] = True
for namespace in config["linux"]["namespaces"]:
    if namespace["type"] == "network":
        namespace["path"] = f"/run/netns/{name}"
device = {"path": "/dev/net/tun", "type": "c", "major": 10, "minor": 200, "fileMode": 0o666, "uid": 0, "gid": 0}
config["linux"]["devices"] = [device]
config["linux"].setdefault("resources", {})["devices"] = [
    {"allow": False, "access": "rwm"},
    {"allow": True, "type": "c", "major": 10, "minor": 200, "access": "rw"},
]
config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in ("/run/clearway", "/etc/resolv.conf")]
config["mounts"].append({"destination": "/run/clearway", "type": "bind", "source": f"{folder}/volume", "options": ["bind", "rw"]})
with open(path, "w") as file:
    json.dump(config, file)
SETTINGS
}

echo "container-test: the host, with no capability, as $user"
settings image
start
pid=$(runc state "$name" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
grep -q '^CapBnd:[[:space:]]*0*$' "/proc/$pid/status" || fail "the host has capabilities"
grep -q "^Uid:[[:space:]]*$user" "/proc/$pid/status" || fail "the host is another user"

echo "container-test: a program of another image, over the volume"
runc exec "$name" /usr/bin/clearway install /run/clearway/bin >/dev/null
mkdir "$folder/www" && echo "over Clearway" >"$folder/www/index.html" && chmod 755 "$folder" "$folder/www"
as_program CLEARWAY_SOCKET="$folder/volume/host.sock" "$folder/volume/bin/clearway" run --required -- \
    python3 -m http.server --bind 10.99.0.2 --directory "$folder/www" 8080 >"$folder/program.log" 2>&1 &
program=$!
said=
for _ in $(seq 300); do
    said=$(ip netns exec "$name" curl -s --max-time 5 -w '%{local_ip} -> %{remote_ip}:%{remote_port}' http://10.99.0.2:8080/index.html) && break
    kill -0 "$program" 2>/dev/null || { cat "$folder/program.log" >&2; fail "the program ended"; }
    sleep 0.1
done
printf '%s\n' "$said"
[[ "$said" == "over Clearway"*"10.99.0.1 -> 10.99.0.2:8080" ]] || fail "no answer over Clearway"
[[ "$(ip netns exec "$name" ss -Htln 'sport = 8080')" == "" ]] || fail "the kernel has the program's socket"
runc exec "$name" /usr/bin/clearway ss -tln | grep -q ':8080' || fail "the host does not have the program's socket"

echo "container-test: its end"
kill "$program"
wait "$program" 2>/dev/null || true
program=
end
[[ ! -e "$folder/volume/host.sock" ]] || fail "the host leaves its socket behind"
echo "container-test: the host, root with one capability, makes its device"
runc delete "$name"
ip -n "$name" link delete cw0
chown 0:0 "$folder/volume"
settings root
start
ip -n "$name" link show cw0 >/dev/null || fail "it made no device"
end

echo "container-test: $size MiB, $(stat -c %s "$image" | awk '{printf "%.1f", $1 / 1e6}') MB as an archive"
