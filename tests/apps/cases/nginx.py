import os
import pathlib
import re
import signal
import time

from harness.registry import HANDS_OVER, TWO_PROGRAMS, case


def started(w):
    w.write("/var/www/html/index.html", "a page\n")
    w.write("/var/www/html/big", w.bytes(20_000_000))
    server = w.server(["nginx", "-g", in_front(w, "server")])
    w.await_port(80)
    return server


def in_front(w, role):
    """A stack inside of a process is that process's alone, so nginx has no other there."""
    return "daemon off; master_process off;" if w.inproc and role in w.on_clearway else "daemon off;"


#: What is changed in-process.
ONE_PROCESS = "in-process `master_process off`"


def url(w, path=""):
    return f"http://{w.address}/{path}"


@case("nginx/curl", "nginx", "curl", "a page, 20 MB, ranges, 200 requests over one connection, IPv6", ["nginx", "curl"], short=True, changed=ONE_PROCESS)
def curl(w):
    started(w)
    w.same("page", w.client(["curl", "-sSf", url(w)]).out)
    w.same("big", w.client(["curl", "-sSf", url(w, "big")]).sha)
    w.same("range", w.client(["curl", "-sSf", "-r", "1000-2000000", url(w, "big")]).sha)
    w.same("missing", w.client(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url(w, "none")]).out)
    many = w.client(["curl", "-sSf", "-w", "%{num_connects}\n", url(w, "index.html?[1-200]")]).out
    w.same("over one connection", many)
    w.same("IPv6", w.client(["curl", "-sSf", f"http://[{w.address6}]/big"]).sha)


@case("nginx/wget", "nginx", "wget", "20 MB, and 50 requests", ["nginx", "wget"], changed=ONE_PROCESS)
def wget(w):
    started(w)
    w.same("big", w.client(["wget", "-q", "-O", "-", url(w, "big")]).sha)
    w.same("many", w.client(["wget", "-q", "-O", "-", *[url(w, f"?{n}") for n in range(50)]]).sha)


@case("nginx/ab", "nginx", "ab", "2,000 requests of 20 connections, kept alive and one for each request", ["nginx", "apache2-utils"], changed=ONE_PROCESS)
def ab(w):
    started(w)
    for options in ([], ["-k"]):
        out = w.client(["ab", "-q", "-n", "2000", "-c", "20", *options, url(w)]).out
        lines = [line for line in out.splitlines() if line.startswith(("Complete requests", "Failed requests", "Write errors", "Non-2xx", "Keep-Alive"))]
        w.same(f"ab {options}", lines)


def wrk_errors(w, seconds, connections=50):
    out = w.client(["wrk", "-t2", f"-c{connections}", f"-d{seconds}", url(w)]).out
    requests = re.search(r"(\d+) requests in", out)
    w.check(requests and int(requests[1]) > connections, out)
    return [line.strip() for line in out.splitlines() if "Socket errors" in line or "Non-2xx" in line]


@case("nginx/wrk", "nginx", "wrk", "50 connections for 3 s", ["nginx", "wrk"], changed=ONE_PROCESS)
def wrk(w):
    started(w)
    w.same("errors", wrk_errors(w, 3))


@case("nginx/reload", "nginx", "curl", "HUP and reopening while requests come, 60 requests in all", ["nginx", "curl"],
      cannot={"inproc-server": "nginx with `master_process off` ends at HUP, over the kernel too"})
def reload(w):
    server = started(w)
    codes = ""
    for n in range(6):
        codes += w.client(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} ", url(w, "index.html?[1-10]")]).out
        server.send_signal(signal.SIGHUP if n % 2 else signal.SIGUSR1)
    w.same("codes", codes)


@case("nginx/upgrade", "nginx", "curl", "USR2 puts a new program in its place, the old one ends", ["nginx", "curl"],
      cannot={"inproc-server": HANDS_OVER})
def upgrade(w):
    w.write("/var/www/html/index.html", "a page\n")
    # In the background, as Debian's unit starts it: in the foreground nginx ignores USR2.
    w.run("server", ["/usr/sbin/nginx", "-g", "daemon on; master_process on;"])
    w.await_port(80)
    pid_file = pathlib.Path("/run/nginx.pid")
    old = int(pid_file.read_text())
    os.kill(old, signal.SIGUSR2)
    w.eventually("a new nginx writes its pid", lambda: pid_file.is_file() and pid_file.read_text().strip() not in ("", str(old)))
    os.kill(old, signal.SIGQUIT)
    w.eventually("the old nginx ends", lambda: not os.path.exists(f"/proc/{old}"))
    w.same("page", w.client(["curl", "-sSf", url(w, "index.html?[1-20]")]).out)
    new = int(pid_file.read_text())
    os.kill(new, signal.SIGQUIT)
    w.eventually("the new nginx ends", lambda: not os.path.exists(f"/proc/{new}"))


@case("nginx/proxy", "nginx", "nginx", "a reverse proxy before a server, 300 requests and 20 MB", ["nginx", "curl"], changed=ONE_PROCESS,
      cannot={"inproc-server": TWO_PROGRAMS})
def proxy(w):
    started(w)
    # The proxy is the client of the case; it listens where its own side can be reached, and curl asks from there.
    here = "127.0.0.1" if w.loopback else w.client_address
    w.write("proxy/nginx.conf", f"""
pid {w.tmp}/proxy/pid; error_log stderr;
events {{}}
http {{
  access_log off; client_body_temp_path {w.tmp}/proxy/1; proxy_temp_path {w.tmp}/proxy/2; fastcgi_temp_path {w.tmp}/proxy/3; uwsgi_temp_path {w.tmp}/proxy/4; scgi_temp_path {w.tmp}/proxy/5;
  upstream origin {{ server {w.address}:80; keepalive 4; }}
  server {{ listen 8080; location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
""")
    w.start("client", ["nginx", "-c", f"{w.tmp}/proxy/nginx.conf", "-g", in_front(w, "client")])
    # curl stands on the other side: beside the server, so that both hops of a TAP way cross the device.
    until = time.monotonic() + 30
    while True:
        done = w.run("server", ["curl", "-sSf", f"http://{here}:8080/"], code=None)
        if done.code == 0:
            break
        w.check(time.monotonic() < until, str(done))
        time.sleep(0.2)
    w.same("big", w.run("server", ["curl", "-sSf", f"http://{here}:8080/big"]).sha)
    w.same("many", w.run("server", ["curl", "-sSf", f"http://{here}:8080/index.html?[1-300]"]).sha)
