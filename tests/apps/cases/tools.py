"""Programs by which people try a network."""

import hashlib
import json
import re

from harness.registry import FORKS, TWO_PROGRAMS, case


def iperf3(w, *options):
    server = w.server(["iperf3", "-s", "-1", "--forceflush"])
    server.await_text("Server listening")
    out = w.client(["iperf3", "-c", w.address, "-t", "1", "-J", *options]).out
    server.succeed()
    end = json.loads(out[out.index("{"):])["end"]
    received = [end[key]["bytes"] for key in ("sum_received", "sum") if key in end]
    w.check(received[0] > 100_000, f"iperf3 {options}: {received} bytes")


@case("iperf3/tcp", "iperf3", "iperf3", "one stream, four, backwards, both ways, IPv6", ["iperf3"])
def iperf3_tcp(w):
    for options in ([], ["-P", "4"], ["-R"], ["--bidir"], ["-Z"]):
        iperf3(w, *options)
    server = w.server(["iperf3", "-s", "-1", "--forceflush"])
    server.await_text("Server listening")
    w.client(["iperf3", "-6", "-c", w.address6, "-t", "1"])
    server.succeed()


@case("iperf3/udp", "iperf3", "iperf3", "20 Mbit/s, there and back", ["iperf3"])
def iperf3_udp(w):
    for options in (["-u", "-b", "20M"], ["-u", "-b", "20M", "-R"]):
        iperf3(w, *options)


@case("iperf2/both", "iperf", "iperf", "a stream, both at once, UDP with a report of the server", ["iperf"],
      cannot={"inproc-server": TWO_PROGRAMS})
def iperf2(w):
    w.server(["iperf", "-s"])
    w.server(["iperf", "-s", "-u"])
    w.await_port(5001)
    for options in ([], ["-P", "4"], ["-u", "-b", "10M"]):
        out = w.client(["iperf", "-c", w.address, "-t", "1", *options])
        w.check("bits/sec" in out.out, str(out))
        w.same(f"warnings {options}", re.findall("WARNING.*", out.out + out.err))


@case("socat/tcp", "socat", "socat", "an echo with a child for each: 5 MB, and 20 short ones", ["socat"], short=True,
      cannot={"inproc-server": FORKS})
def socat_tcp(w):
    w.server(["socat", "TCP-LISTEN:7000,fork,reuseaddr", "EXEC:cat"])
    w.await_port(7000)
    w.same("5 MB", w.client(["socat", "-t", "20", "-", f"TCP:{w.address}:7000"], data=w.bytes(5_000_000)).sha)
    for n in range(20):
        w.same(f"short {n}", w.client(["socat", "-t", "20", "-", f"TCP:{w.address}:7000"], data=b"a line\n" * n).out)


@case("socat/udp", "socat", "socat", "an echo with a child for each peer, 6 peers; and UDP-RECVFROM", ["socat"],
      cannot={"inproc-server": FORKS})
def socat_udp(w):
    w.server(["socat", "UDP-LISTEN:7001,fork,reuseaddr", "EXEC:cat"])
    w.server(["socat", "UDP-RECVFROM:7002,fork", "EXEC:cat"])
    for port in (7001, 7002):
        ask = ["socat", "-T", "1", "-", f"UDP:{w.address}:{port}"]
        w.eventually(f"port {port} answers", lambda: w.client(ask, data=b"there?\n", code=None).out == "there?\n")
        w.same(f"6 peers of {port}", [w.client(["socat", "-t", "1", "-", f"UDP:{w.address}:{port}"], data=f"peer {n}\n".encode()).out for n in range(6)])


@case("nc/both", "nc", "nc", "5 MB from client to server and back, datagrams, a scan of ports", ["netcat-openbsd"])
def nc(w):
    server = w.server(["nc", "-l", "-N", "7000"])
    import time
    w.eventually("the client gets through", lambda: w.client(["nc", "-N", w.address, "7000"], data=w.bytes(5_000_000), code=None).code == 0)
    server.succeed()
    w.same("there", hashlib.sha256(server.log.read_bytes()).hexdigest())
    file = w.write("file", w.bytes(5_000_000))
    w.server(["bash", "-c", f"nc -l -N 7001 < {file}"])
    got = []
    def gets_it():
        done = w.client(["nc", "-d", w.address, "7001"], code=None)
        got.append(done.sha)
        return done.code == 0
    w.eventually("the client gets the file", gets_it)
    w.same("back", got[-1])
    udp = w.server(["nc", "-u", "-l", "7002"])
    def arrives():
        w.client(["nc", "-u", "-w", "1", w.address, "7002"], data=b"a datagram\n")
        return "a datagram" in udp.text()
    w.eventually("the datagram arrives", arrives)
    w.same("nobody there", w.client(["nc", "-z", "-w", "3", w.address, "7003"], code=None).code)


@case("openssl/s_server", "openssl s_server", "openssl s_client", "TLS 1.3 and 1.2, a line back reversed, 3 MB over HTTPS by curl", ["openssl", "curl"],
      cannot={"inproc-server": TWO_PROGRAMS})
def openssl(w):
    w.run("local", ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", w.tmp / "key", "-out", w.tmp / "cert", "-days", "2", "-subj", "/CN=case"])
    pair = ["-key", w.tmp / "key", "-cert", w.tmp / "cert"]
    w.server(["openssl", "s_server", "-accept", "4433", "-rev", *pair])
    w.server(["openssl", "s_server", "-accept", "4434", "-WWW", *pair], cwd=w.write("www/file", w.bytes(3_000_000)).parent)
    w.await_port(4433)
    w.await_port(4434)
    for protocol in ("-tls1_3", "-tls1_2"):
        script = f"(echo a line; sleep 1) | openssl s_client -quiet -no_ign_eof -connect {w.address}:4433 {protocol}"
        w.same(protocol, w.client(["bash", "-c", script], code=None).out)
    w.same("file", w.client(["curl", "-sSfk", "--http0.9", f"https://{w.address}:4434/file"]).sha)


@case("bash/dev-tcp", "python3", "bash", "a request and its answer through /dev/tcp, by echo, cat and read", ["bash", "python3"], short=True,
      cannot={"inproc-client": FORKS})
def bash(w):
    page = w.write("www/page", b"a page of several words\n" * 1000).parent
    w.server(["python3", "-u", "-m", "http.server", "-d", page, "-b", "0.0.0.0", "8080"])
    w.await_port(8080)
    # With echo's own newline the request ends, and not a byte is behind it: a server that closes while one is unread
    # resets, and Linux then drops what it has not sent yet.
    script = f"exec 3<>/dev/tcp/{w.address}/8080; echo -e 'GET /page HTTP/1.0\\r\\n\\r' >&3; read -r status <&3; echo \"$status\"; cat <&3 | tail -n 1000"
    w.same("answer", w.client(["bash", "-c", script]).out)
    script = f"for n in 1 2 3 4 5; do exec 3<>/dev/tcp/{w.address}/8080; printf 'HEAD /page HTTP/1.0\\r\\n\\r\\n' >&3; read -r status <&3; echo $n $status; exec 3>&-; done"
    w.same("five", w.client(["bash", "-c", script]).out)
    w.same("refused", w.client(["bash", "-c", f"exec 3<>/dev/tcp/{w.address}/8081"], code=None).code)
