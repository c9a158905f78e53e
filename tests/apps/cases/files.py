"""Programs that carry files: sshd, rsync, vsftpd, git."""

import hashlib
import os
import pathlib
import subprocess

from harness.registry import FORKS, case


def tree(w, name):
    """A folder with files of many sizes; each way has the same."""
    for n in range(60):
        w.write(f"{name}/d{n % 7}/f{n}", w.bytes(n * n * 37, n))
    w.write(f"{name}/long", w.bytes(10_000_000))
    return w.tmp / name


def digest(folder):
    """What is in a folder, as one text."""
    found = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def sshd(w):
    key = w.tmp / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(["useradd", "-m", "-d", "/srv/visitor", "-s", "/bin/bash", "visitor"], check=True)
    keys = w.write("/srv/visitor/.ssh/authorized_keys", pathlib.Path(f"{key}.pub").read_text())
    subprocess.run(["chown", "-R", "visitor:visitor", "/srv/visitor"], check=True)
    for path in (keys.parent, keys):
        path.chmod(0o700)
    if not os.path.exists("/etc/ssh/ssh_host_ed25519_key"):
        subprocess.run(["ssh-keygen", "-A"], check=True)
    w.write("/run/sshd/.keep", "")
    pathlib.Path("/run/sshd").chmod(0o755)
    server = w.server(["/usr/sbin/sshd", "-D", "-e"])
    w.await_port(22)
    return server, ["-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"]


SSH = ["openssh-server", "openssh-client"]


@case("sshd/ssh", "sshd", "ssh", "a command, 5 MB through `cat`, 10 logins, a forwarded port", SSH,
      cannot={"inproc-server": FORKS})
def ssh(w):
    server, options = sshd(w)
    to = ["ssh", *options, f"visitor@{w.address}"]
    w.same("command", w.client([*to, "id -un; echo $((6 * 7))"]).out)
    w.same("through cat", w.client([*to, "cat"], data=w.bytes(5_000_000)).sha)
    for n in range(10):
        w.same(f"login {n}", w.client([*to, f"exit {n}"], code=None).code)
    # From the client's port 2222 to the sshd itself, whose first line comes back through it.
    here = w.client_address
    forward = w.start("client", ["ssh", *options, "-N", "-L", f"{here}:2222:{w.address}:22", f"visitor@{w.address}"])
    ask = f"import socket; s = socket.create_connection(('{here}', 2222), 10); print(s.recv(20)[:7]); s.close()"
    w.eventually("the forwarded port answers", lambda: "SSH-2.0" in w.run("server", ["python3", "-c", ask], code=None).out)
    forward.stop()


@case("sshd/scp", "sshd", "scp", "a folder there and back", SSH,
      cannot={"inproc-server": FORKS})
def scp(w):
    server, options = sshd(w)
    folder = tree(w, "sent")
    w.client(["scp", "-q", "-r", *options, folder, f"visitor@{w.address}:there"])
    w.client(["scp", "-q", "-r", *options, f"visitor@{w.address}:there", w.tmp / "back"])
    w.same("there", digest("/srv/visitor/there"))
    w.same("back", digest(w.tmp / "back"))


@case("sshd/sftp", "sshd", "sftp", "put, rename, list and get in a batch", SSH,
      cannot={"inproc-server": FORKS})
def sftp(w):
    server, options = sshd(w)
    file = w.write("file", w.bytes(4_000_000))
    batch = w.write("batch", f"put {file} one\nrename one two\nls -1\nget two {w.tmp}/got\nrm two\nls -1\n")
    w.same("said", w.client(["sftp", "-q", *options, "-b", batch, f"visitor@{w.address}"]).out.replace(str(w.tmp), ""))
    w.same("got", hashlib.sha256((w.tmp / "got").read_bytes()).hexdigest())


@case("rsync/daemon", "rsync", "rsync", "a folder there, changed, there again, and back", ["rsync"],
      changed="Debian has no rsyncd.conf: one with a module that may be written to",
      cannot={"inproc-server": FORKS, "inproc-client": FORKS})
def rsync(w):
    there = w.write("there/.keep", "").parent
    log = w.folder / "rsyncd.txt"
    w.write("/etc/rsyncd.conf", f"log file = {log}\n[files]\npath = {there}\nread only = no\nuse chroot = yes\nuid = root\ngid = root\n")
    w.server(["rsync", "--daemon", "--no-detach"])
    w.await_port(873)
    folder = tree(w, "sent")
    url = f"rsync://{w.address}/files/"
    w.client(["rsync", "-a", f"{folder}/", url])
    w.write("sent/long", w.bytes(3_000_000) + b"changed" + w.bytes(6_000_000))
    w.client(["rsync", "-a", "--delete", f"{folder}/", url])
    w.client(["rsync", "-a", url, f"{w.tmp}/back/"])
    w.same("there", digest(there))
    w.same("back", digest(w.tmp / "back"))
    w.same("list", len(w.client(["rsync", "-r", url]).out.splitlines()))


def vsftpd(w):
    subprocess.run(["useradd", "-m", "-d", "/srv/visitor", "-s", "/bin/bash", "visitor"], check=True)
    subprocess.run(["chpasswd"], input=b"visitor:a-word\n", check=True)
    w.write("/srv/visitor/file", w.bytes(3_000_000))
    for n in range(20):
        w.write(f"/srv/visitor/small/{n}", w.bytes(n * 100, n))
    subprocess.run(["chown", "-R", "visitor:visitor", "/srv/visitor"], check=True)
    pathlib.Path("/run/vsftpd/empty").mkdir(parents=True)
    w.server(["vsftpd", "/etc/vsftpd.conf"])
    w.await_port(21, address=w.address)


VSFTPD_CHANGED = "a local user; `write_enable=YES` is not set, so files are only fetched"


@case("vsftpd/curl", "vsftpd", "curl", "a list and 3 MB, passive, extended passive and active", ["vsftpd", "curl"], changed=VSFTPD_CHANGED,
      cannot={"inproc-server": FORKS})
def ftp_curl(w):
    vsftpd(w)
    url = f"ftp://visitor:a-word@{w.address}/"
    w.same("list", w.client(["curl", "-sSf", "-l", url]).out.split())
    w.same("extended passive", w.client(["curl", "-sSf", url + "file"]).sha)
    w.same("passive", w.client(["curl", "-sSf", "--disable-epsv", url + "file"]).sha)
    w.same("active", w.client(["curl", "-sSf", "-P", "-", url + "file"]).sha)


@case("vsftpd/lftp", "vsftpd", "lftp", "a folder of 20 files, three at a time", ["vsftpd", "lftp"], changed=VSFTPD_CHANGED,
      cannot={"inproc-server": FORKS})
def ftp_lftp(w):
    vsftpd(w)
    w.client(["lftp", "-c", f"set net:max-retries 2; set ftp:ssl-allow no; open -u visitor,a-word {w.address}; mirror --parallel=3 small {w.tmp}/got"])
    w.same("got", digest(w.tmp / "got"))


@case("git/daemon", "git daemon", "git", "a clone, a push, a fetch, 30 clones", ["git"],
      cannot={"inproc-server": FORKS, "inproc-client": FORKS})
def git(w):
    work, bare = w.tmp / "work", w.tmp / "srv" / "project.git"
    identity = {name: "a" for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")}
    identity |= {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    def local(*words):
        return w.run("local", ["git", *words], env=identity)
    local("init", "-q", "-b", "main", work)
    for n in range(30):
        w.write(f"work/f{n}", w.bytes(2_000 * n, n))
    local("-C", work, "add", ".")
    local("-C", work, "commit", "-q", "-m", "one")
    local("clone", "-q", "--bare", work, bare)
    w.server(["git", "daemon", f"--base-path={w.tmp}/srv", "--export-all", "--enable=receive-pack", "--reuseaddr"])
    w.await_port(9418)
    url = f"git://{w.address}/project.git"
    w.client(["git", "clone", "-q", url, w.tmp / "clone"], env=identity)
    w.same("cloned", digest_work(w.tmp / "clone"))
    w.write("clone/more", w.bytes(1_000_000))
    for words in (["add", "."], ["commit", "-q", "-m", "two"]):
        local("-C", w.tmp / "clone", *words)
    w.client(["git", "-C", w.tmp / "clone", "push", "-q", "origin", "main"], env=identity)
    w.same("pushed", w.client(["git", "ls-remote", url]).out)
    for n in range(30):
        w.client(["git", "clone", "-q", "--depth", "1", url, w.tmp / f"clone{n}"], env=identity)
    w.same("thirtieth", digest_work(w.tmp / "clone29"))


def digest_work(folder):
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()
