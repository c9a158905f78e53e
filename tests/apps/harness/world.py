"""The world of one case: namespaces of its own, a host, and the programs in it.

The process that uses this is alone in its process, mount and network namespaces (see `runner.start`): whatever a program does to files
below /etc, /run and /var it does to a copy, every port is free, and when the first process ends the kernel ends all others.
"""

import hashlib
import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import time

#: Seconds that one step may take: longer than anything takes on a busy machine, so that only what hangs reaches it.
TIMEOUT = float(os.environ.get("CLEARWAY_APPS_TIMEOUT", 60))

CONNECTS = pathlib.Path(__file__).resolve().parent.parent / "programs" / "connects.py"
SCRATCH = pathlib.Path("/mnt")
PROGRAMS = SCRATCH / "clearway"
SOCKET = "/run/clearway/host.sock"
OURS, OURS6 = "10.98.0.2", "fd98::2"
PEER, PEER6 = "10.98.0.1", "fd98::1"

#: How the host begins its network, for each way that needs one.
LOOPBACK = """
[[ports]]
port = "loop"
name = "loop0"
addresses = ["127.0.0.1/8", "::1/128"]
"""
TAP = f"""
[[ports]]
port = "tap:cw0"
name = "tap0"
addresses = ["{OURS}/24", "{OURS6}/64"]
"""

#: Folders of which each world has a copy that nobody else sees.
COPIED = ["/etc", "/var/lib", "/var/log", "/var/www", "/var/cache", "/var/spool", "/srv"]


class Failed(Exception):
    """The case does not hold; the text says why."""


class Running:
    """A program that was started; its output goes to a file."""

    def __init__(self, process, log, what):
        self.process, self.log, self.what = process, log, what

    def text(self):
        return self.log.read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def send_signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def wait(self, seconds=TIMEOUT):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.what} does not end; it says: {self.text()[-2000:]}") from None

    def succeed(self, seconds=TIMEOUT):
        code = self.wait(seconds)
        if code != 0:
            raise Failed(f"{self.what} ended with {code}: {self.text()[-3000:]}")
        return self.text()

    def await_text(self, part, seconds=TIMEOUT):
        until = time.monotonic() + seconds
        while part not in self.text():
            if not self.alive():
                raise Failed(f"{self.what} ended with {self.process.returncode} without saying {part!r}: {self.text()[-3000:]}")
            if time.monotonic() > until:
                raise Failed(f"{self.what} never says {part!r}; it says: {self.text()[-3000:]}")
            time.sleep(0.02)

    def stop(self, number=signal.SIGTERM, seconds=15):
        """Ends it as a system would: asked first, killed when that does not help. Says whether asking was enough."""
        self.send_signal(number)
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False


class Done:
    """A program that ended."""

    def __init__(self, code, out, err, what):
        self.code, self.raw, self.err, self.what = code, out, err.decode(errors="replace"), what

    @property
    def out(self):
        return self.raw.decode(errors="replace")

    @property
    def sha(self):
        return hashlib.sha256(self.raw).hexdigest()

    def __str__(self):
        return f"{self.what}: exit code {self.code}: {self.out[-2000:]} {self.err[-2000:]}"


class World:
    """What a case uses. Of server and client each is on Clearway or on the kernel, as the way says."""

    def __init__(self, way, folder, socket_mode, workers):
        self.way, self.folder, self.observed, self._count = way, pathlib.Path(folder), {}, 0
        self.loopback, self.inproc = way in ("kernel", "loopback"), way.startswith("inproc")
        #: Who is on Clearway.
        self.on_clearway = tuple(role for role in ("server", "client") if way == "loopback" or way.endswith(f"-{role}"))
        #: Where the server listens, and from where the client comes.
        if self.loopback:
            self.address, self.address6, self.client_address = "127.0.0.1", "::1", "127.0.0.1"
        elif "server" in self.on_clearway:
            self.address, self.address6, self.client_address = OURS, OURS6, PEER
        else:
            self.address, self.address6, self.client_address = PEER, PEER6, OURS
        self.host, self.running, self.figures, self._tap_user = None, [], {}, None
        #: How long a soak takes.
        self.minutes = float(os.environ.get("CLEARWAY_APPS_MINUTES", 1))
        self._private_files()
        #: A folder for the case's files that every user may enter.
        self.tmp = SCRATCH / "work"
        self.tmp.mkdir(mode=0o755)
        if self.inproc:
            self._make_tap("root")
        elif way != "kernel":
            self._start_host(socket_mode, workers)
        # In the way `loopback` the kernel's loopback stays down: what arrives cannot have gone through it.
        if way != "loopback":
            _ip("link set lo up")

    def _private_files(self):
        binaries = os.environ["CLEARWAY_APPS_PROGRAMS"]
        _mount("--make-rprivate", "/")
        _mount("-t", "tmpfs", "-o", "mode=755,size=2g", "scratch", str(SCRATCH))
        PROGRAMS.mkdir()
        _mount("--bind", binaries, str(PROGRAMS))
        for path in COPIED:
            if not os.path.isdir(path):
                continue
            upper, work = (SCRATCH / "copies" / kind / path.strip("/").replace("/", "-") for kind in ("upper", "work"))
            mode = os.stat(path)
            for each in (upper, work):
                each.mkdir(parents=True)
            os.chown(upper, mode.st_uid, mode.st_gid)
            os.chmod(upper, mode.st_mode & 0o7777)
            _mount("-t", "overlay", "overlay", "-o", f"lowerdir={path},upperdir={upper},workdir={work}", path)
        _mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
        for name in ("netns", "clearway", "lock"):
            os.mkdir(f"/run/{name}")

    def _start_host(self, socket_mode, workers):
        config = f'[control]\nsocket-mode = "{socket_mode}"\n' + (LOOPBACK if self.way == "loopback" else TAP)
        if workers > 1:
            cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:workers])
            config += f'\n[cores]\nworkers = "{cores}"\n'
        path = self.folder / "host.toml"
        path.write_text(config)
        argv = [str(PROGRAMS / "clearway"), "up", "-c", str(path), "--socket", SOCKET]
        if self.way != "loopback":
            _ip("netns add peer")
            _ip("-n peer link set lo up")
            argv = ["ip", "netns", "exec", "peer", *argv]
        self.host = self._spawn(argv, "host", os.environ.copy())
        self.host.await_text("clearway is ready")
        if self.way != "loopback":
            _ip(f"-n peer addr add {PEER}/24 dev cw0")
            _ip(f"-n peer addr add {PEER6}/64 dev cw0 nodad")
            _ip("-n peer link set cw0 up")

    def _make_tap(self, user):
        """The interface that a program with the stack inside opens, with the kernel at its other end; `user` may open it."""
        if self._tap_user == user:
            return
        if self._tap_user:
            _ip("link del cw0")
        self._tap_user = user
        _ip(f"tuntap add dev cw0 mode tap user {user}")
        _ip(f"addr add {PEER}/24 dev cw0")
        _ip(f"-6 addr add {PEER6}/64 dev cw0 nodad")
        _ip("link set cw0 up")

    # Programs.

    def _argv(self, role, argv, user, trap):
        argv = [str(word) for word in argv]
        as_user = []
        if user:
            entry = pwd.getpwnam(user)
            as_user = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups", "--"]
        if role in self.on_clearway and self.inproc:
            self._make_tap(user or "root")
            return [*as_user, str(PROGRAMS / "clearway"), "run", "--inproc", "--port", "tap:cw0", "-a", f"{OURS}/24", "-a", f"{OURS6}/64", "--", *argv]
        if role in self.on_clearway:
            return [*as_user, str(PROGRAMS / "clearway"), "run", "--required", *(["--trap"] if trap else []), "--", *argv]
        peer = [] if self.loopback or self.inproc else ["ip", "netns", "exec", "peer"]
        return [*peer, *as_user, *argv]

    def _environment(self, more):
        home = self.tmp / "home"
        home.mkdir(exist_ok=True)
        # Not the PATH of who runs this: Debian's programs are meant.
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "CLEARWAY_SOCKET": SOCKET, **(more or {})}

    def _spawn(self, argv, what, env, stdin=subprocess.DEVNULL, cwd=None):
        self._count += 1
        log = self.folder / f"{self._count:02}-{what.replace('/', '-')}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(argv, stdin=stdin, stdout=file, stderr=file, env=env, cwd=cwd)
        return Running(process, log, what)

    def start(self, role, argv, user=None, env=None, cwd=None, stdin=subprocess.DEVNULL, trap=False):
        """Starts a program that goes on; `role` is "server" or "client". `trap`: no library can be loaded before it."""
        program = self._spawn(self._argv(role, argv, user, trap), f"{role}-{os.path.basename(str(argv[0]))}", self._environment(env), stdin, cwd)
        self.running.append(program)
        return program

    def server(self, argv, **more):
        return self.start("server", argv, **more)

    def run(self, role, argv, user=None, env=None, cwd=None, data=None, seconds=TIMEOUT, code=0, trap=False):
        """Runs a program to its end; it has to end with `code` (None: as it likes)."""
        what = " ".join(str(word) for word in argv)[:300]
        argv = self._argv(role, argv, user, trap)
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._environment(env), cwd=cwd)
        try:
            out, err = process.communicate(data or b"", timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Failed(f"{what} does not end within {seconds} s; it said {out[-1000:]!r} {err[-1000:]!r}") from None
        done = Done(process.returncode, out, err, what)
        self._count += 1
        (self.folder / f"{self._count:02}-{role}-{os.path.basename(str(what.split(' ')[0]))}.log").write_bytes(f"$ {what}\nexit code {done.code}\n".encode() + out[-100_000:] + err[-100_000:])
        if code is not None and done.code != code:
            raise Failed(str(done))
        return done

    def client(self, argv, **more):
        return self.run("client", argv, **more)

    def await_port(self, port, address=None, seconds=TIMEOUT):
        """Waits until the client can connect to the server's port."""
        self.run("client", ["python3", CONNECTS, address or self.address, port, seconds], seconds=seconds + 20)

    # Files.

    def write(self, path, content, mode=0o644):
        """A file: a name below the case's folder, or a whole path in the copied folders. Its path."""
        path = self.tmp / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    def bytes(self, count, seed=1):
        """The same bytes in every way."""
        return hashlib.shake_128(str(seed).encode()).digest(count)

    # What is found out.

    def same(self, name, value):
        """Notes something that has to be as it is over the kernel."""
        self.observed[name] = value

    def at_most(self, name, count):
        """Notes a number of mishaps, of which there may be as many as over the kernel, and no more."""
        self.observed[name] = {"at most": count}

    def figure(self, name, value):
        """Notes something that is shown, and not compared."""
        self.figures[name] = value

    def check(self, condition, why):
        if not condition:
            raise Failed(why)

    def eventually(self, what, is_so, seconds=TIMEOUT):
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise Failed(f"this never came true: {what}")
            time.sleep(0.05)

    def host_memory(self):
        """Bytes that the host holds: its own, and shared with programs; and its descriptors. Zeros when there is none."""
        if self.host is None:
            return {"own": 0, "shared": 0, "descriptors": 0}
        pid = self.host.process.pid
        sizes = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
        return {"own": int(sizes["RssAnon"]) * 1024, "shared": int(sizes["RssShmem"]) * 1024, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}

    def ctl(self, line):
        argv = [str(PROGRAMS / "clearway"), "ctl", "--socket", SOCKET, "--json", *line.split(" ")]
        out = subprocess.run(argv, capture_output=True, env=self._environment(None), timeout=30)
        if out.returncode != 0:
            raise Failed(f"ctl {line}: {out.stderr.decode()}")
        return json.loads(out.stdout)

    def finish(self):
        """Ends all programs, then looks at what they left in the host, and ends it."""
        for program in reversed(self.running):
            program.stop()
        _end_others(self.host)
        if self.host is None:
            return
        left = {}
        def empty():
            left.update({kind: self.ctl(f"show {line}")[kind] for kind, line in (("sessions", "session verbose"), ("apps", "app"))})
            return not any(left.values())
        try:
            self.eventually("", empty, seconds=TIMEOUT)
        except Failed:
            raise Failed(f"after all programs have ended the host still has {json.dumps(left)[:2000]}") from None
        if not self.host.stop(signal.SIGTERM):
            raise Failed("the host does not end on SIGTERM")
        if self.host.process.returncode != 0:
            raise Failed(f"the host ended with {self.host.process.returncode}: {self.host.text()[-2000:]}")
        for word in ("panic", "cut off"):
            if word in self.host.text():
                raise Failed(f"the host says: {self.host.text()[-2000:]}")


def _end_others(host):
    """Ends what the programs left behind, such as daemons. In this process namespace is nothing but this world's."""
    kept = {1, os.getpid(), host.process.pid if host else 0}
    for _ in range(100):
        others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in kept and _lives(name)]
        if not others:
            return
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def _lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _mount(*args):
    _must(["mount", *args])


def _ip(words):
    _must(["ip", *words.split(" ")])


def _must(argv):
    done = subprocess.run(argv, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.decode()}")


def _keep_logs(folder):
    """What the programs wrote below /var/log goes with this world, so it is copied: the end of each file."""
    logs = SCRATCH / "copies" / "upper" / "var-log"
    for path in logs.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - 200_000))
                (folder / ("var-log-" + str(path.relative_to(logs)).replace("/", "-"))).write_bytes(file.read())


def inside(case, way, folder):
    """Runs one case in one way, in the namespaces that were made for it; what came of it goes to a file."""
    result = {"result": "failed", "why": "", "observed": {}}
    began = time.monotonic()
    try:
        world = World(way, folder, case.socket_mode, case.workers)
        try:
            case.run(world)
        finally:
            result["observed"], result["figures"] = world.observed, world.figures
        world.finish()
        result["result"] = "ok"
    except Failed as failed:
        result["why"] = str(failed)
    except Exception as error:  # A case that is wrong itself has failed, too; where, is in its log.
        import traceback
        traceback.print_exc(file=sys.stderr)
        result["why"] = f"{type(error).__name__}: {error}"
    if result["result"] != "ok":
        _keep_logs(pathlib.Path(folder))
    result["seconds"] = round(time.monotonic() - began, 1)
    (pathlib.Path(folder) / "result.json").write_text(json.dumps(result))
