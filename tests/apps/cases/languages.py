"""Languages and their libraries, as server and client of programs of their own (files beside this)."""

import pathlib
import re
import shutil

from harness.registry import FORKS, TWO_PROGRAMS, case

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"

# Its record of itself below /tmp has its pid for a name, which is another process' in another
# namespace: where both run at once the second warns of it.
JAVA = ("java", "-XX:-UsePerfData")


def copied(w, name):
    """The program where every user of the world can read it."""
    return w.write(name, (PROGRAMS / name).read_text())


def talk(w, server, client, *more, env=None):
    """A server that says `ready`, and a client whose words have to be the same in every way."""
    running = w.server([*server, "7000"], env=env)
    running.await_text("ready")
    w.same("client", w.client([*client, w.address, "7000", *more], env=env).out)
    return running


@case("python/asyncio", "Python asyncio", "Python asyncio", "streams and datagrams: 100 connections at once, 10 MB, TLS-less start_server, sendfile", ["python3"], short=True)
def asyncio(w):
    talk(w, ["python3", "-u", copied(w, "talk.py"), "serve"], ["python3", "-u", w.tmp / "talk.py", "ask"])


@case("python/uvloop", "Python uvloop", "Python uvloop", "the same over libuv", ["python3", "python3-uvloop"])
def uvloop(w):
    talk(w, ["python3", "-u", copied(w, "talk.py"), "serve", "uvloop"], ["python3", "-u", w.tmp / "talk.py", "ask", "uvloop"])


@case("python/multiprocessing", "Python multiprocessing", "Python multiprocessing", "a manager over TCP, and a listener whose connections go to workers by SCM_RIGHTS", ["python3"],
      cannot={"inproc-server": FORKS})
def multiprocessing(w):
    talk(w, ["python3", "-u", copied(w, "processes.py"), "serve"], ["python3", "-u", w.tmp / "processes.py", "ask"])


@case("python/socketserver", "Python socketserver", "Python urllib", "threads and forks: 40 requests each", ["python3"],
      cannot={"inproc-server": FORKS})
def socketserver(w):
    talk(w, ["python3", "-u", copied(w, "servers.py"), "serve"], ["python3", "-u", w.tmp / "servers.py", "ask"])


@case("node/cluster", "node cluster", "node http", "4 workers, who get connections handed over, two of them after they used the network: 400 requests of 20 connections, 5 MB", ["nodejs"],
      cannot={"inproc-server": FORKS})
def node_cluster(w):
    talk(w, ["node", copied(w, "cluster.js"), "cluster"], ["node", copied(w, "ask.js")])


@case("node/single", "node http", "node http", "one process: 400 requests of 20 connections, 5 MB; datagrams", ["nodejs"])
def node(w):
    talk(w, ["node", copied(w, "cluster.js"), "single"], ["node", copied(w, "ask.js"), ])


@case("java/http", "Java HttpServer", "Java HttpClient", "200 requests, 20 at once, 5 MB; sockets of java.net and java.nio", ["openjdk-17-jdk-headless"])
def java(w):
    w.run("local", ["javac", "-d", w.tmp, copied(w, "Talk.java")])
    talk(w, [*JAVA, "-cp", w.tmp, "Talk", "serve"], [*JAVA, "-cp", w.tmp, "Talk", "ask"])


@case("java/netty", "Netty", "Netty", "an echo: 50 connections at once, 5 MB, over NIO", ["openjdk-17-jdk-headless", "libnetty-java"])
def netty(w):
    jars = ":".join(f"/usr/share/java/netty-{name}.jar" for name in ("common", "buffer", "transport", "resolver"))
    w.run("local", ["javac", "-cp", jars, "-d", w.tmp, copied(w, "NettyTalk.java")])
    path = f"{w.tmp}:{jars}"
    talk(w, [*JAVA, "-cp", path, "NettyTalk", "serve"], [*JAVA, "-cp", path, "NettyTalk", "ask"])


@case("mosquitto/pubsub", "mosquitto", "mosquitto_pub", "300 messages of each quality of service, one of 1 MB", ["mosquitto", "mosquitto-clients"],
      changed="over TAP a listener of all addresses, for anybody: Debian's file serves the loopback only",
      cannot={"inproc-client": TWO_PROGRAMS})
def mosquitto(w):
    if not w.loopback:
        w.write("/etc/mosquitto/conf.d/case.conf", "listener 1883\nallow_anonymous true\n")
    for folder in ("/run/mosquitto", "/var/log/mosquitto"):
        w.write(f"{folder}/.keep", "")
        shutil.chown(folder, "mosquitto", "mosquitto")
    w.server(["mosquitto", "-c", "/etc/mosquitto/mosquitto.conf"])
    w.await_port(1883)
    at = ["-h", w.address, "-p", "1883"]
    for quality in "012":
        # Into a file it would write only when a buffer is full; what stdbuf sets makes it a line at a time.
        lines = {"LD_PRELOAD": "/usr/libexec/coreutils/libstdbuf.so", "_STDBUF_O": "L"}
        listener = w.start("client", ["mosquitto_sub", *at, "-q", quality, "-t", f"t{quality}", "-C", "301", "-W", "40", "-d"], env=lines)
        listener.await_text("received SUBACK")
        w.client(["mosquitto_pub", *at, "-q", quality, "-t", f"t{quality}", "-l"], data="".join(f"message {n}\n" for n in range(300)).encode())
        w.client(["mosquitto_pub", *at, "-q", quality, "-t", f"t{quality}", "-s"], data=b"x" * 1_000_000)
        text = listener.succeed()
        w.same(f"quality {quality}", [len(re.findall("^message ", text, re.M)), text.count("x" * 1_000_000)])
