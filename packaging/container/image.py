#!/usr/bin/env python3
"""Makes a container image of a folder: one archive that `docker load`, `podman load` and skopeo take.

The archive is an OCI image layout (image-spec 1.1) that also has the manifest.json of `docker save`. It has one layer. The same folder gives the
same bytes: names are sorted, times are SOURCE_DATE_EPOCH's (or 0), owners are those of OWNED and root's else.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile

# The user as whom the image runs: nobody's number on a common system.
USER = 65532
# What belongs to that user; a volume that is mounted there for the first time takes its owner and mode from it.
OWNED = {"run/clearway"}
MODES = {"tmp": 0o1777}


def layer(root: pathlib.Path, epoch: int) -> bytes:
    """The folder as a tar archive, in the order of names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            member = archive.gettarinfo(path, arcname=name)
            member.uid = member.gid = USER if name in OWNED else 0
            member.uname = member.gname = ""
            member.mtime = epoch
            member.mode = MODES.get(name, 0o777 if member.issym() else 0o755 if member.isdir() or member.mode & 0o111 else 0o644)
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return out.getvalue()


def settings(version: str, created: str, layer_digest: str) -> dict:
    """The image's configuration."""
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/clearway"],
            "Cmd": ["up"],
            "Env": ["PATH=/usr/bin", "CLEARWAY_SOCKET=/run/clearway/host.sock"],
            "Volumes": {"/run/clearway": {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {"Test": ["CMD", "/usr/bin/clearway", "health"], "Interval": 10_000_000_000, "Timeout": 6_000_000_000},
            "Labels": {
                "org.opencontainers.image.title": "clearway",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.description": "TCP/IP in user space, for unmodified programs",
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created": created, "created_by": "make container"}],
    }


def as_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def image(root: pathlib.Path, name: str, version: str, epoch: int) -> bytes:
    """The archive."""
    files: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict:
        files["blobs/sha256/" + digest(data).removeprefix("sha256:")] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    plain = layer(root, epoch)
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    packed = blob(gzip.compress(plain, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    config = blob(as_json(settings(version, created, digest(plain))), "application/vnd.oci.image.config.v1+json")
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = blob(as_json({"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [packed]}), manifest_type)
    reference = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/{name}:{version}"}
    files["index.json"] = as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest | {"annotations": reference}]})
    files["oci-layout"] = as_json({"imageLayoutVersion": "1.0.0"})

    def at(part: dict) -> str:
        return "blobs/sha256/" + part["digest"].removeprefix("sha256:")

    files["manifest.json"] = as_json([{"Config": at(config), "RepoTags": [f"{name}:{version}"], "Layers": [at(packed)]}])
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(files[path]), epoch, 0o644
            archive.addfile(member, io.BytesIO(files[path]))
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path, help="the folder that becomes the image's file system")
    parser.add_argument("out", type=pathlib.Path, help="the archive")
    parser.add_argument("--name", default="clearway", help="the image's name [default: %(default)s]")
    parser.add_argument("--version", required=True, help="its tag")
    given = parser.parse_args()
    if not given.root.is_dir():
        parser.error(f"{given.root} is no folder")
    archive = image(given.root, given.name, given.version, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(archive)
    print(f"{given.out}: {given.name}:{given.version}, {len(archive) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
