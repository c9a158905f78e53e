"""Web servers and proxies besides nginx."""

import signal

from harness.registry import FORKS, TWO_PROGRAMS, case


def pages(w):
    w.write("/var/www/html/index.html", "a page\n")
    w.write("/var/www/html/big", w.bytes(20_000_000))


def fetch(w, port=80):
    url = f"http://{w.address}:{port}/"
    w.same("page", w.client(["curl", "-sSf", url + "index.html"]).out)
    w.same("big", w.client(["curl", "-sSf", url + "big"]).sha)
    w.same("many", w.client(["curl", "-sSf", "-w", "%{num_connects}\n", url + "index.html?[1-90]"]).out)
    w.same("IPv6", w.client(["curl", "-sSf", f"http://[{w.address6}]:{port}/big"]).sha)


@case("lighttpd/curl", "lighttpd", "curl", "a page, 20 MB, 90 requests over one connection, IPv6", ["lighttpd", "curl"])
def lighttpd(w):
    pages(w)
    w.write("/run/lighttpd/.keep", "")
    w.server(["lighttpd", "-D", "-f", "/etc/lighttpd/lighttpd.conf"])
    w.await_port(80)
    fetch(w)


def apache(w):
    pages(w)
    for folder in ("/run/apache2", "/run/lock/apache2"):
        w.write(f"{folder}/.keep", "")
    w.server(["bash", "-c", ". /etc/apache2/envvars; exec apache2 -D FOREGROUND"])
    w.await_port(80)


@case("apache2/curl", "apache2", "curl", "mpm_event: a page, 20 MB, 90 requests over one connection, IPv6, graceful restart", ["apache2", "curl"],
      cannot={"inproc-server": FORKS})
def apache_curl(w):
    apache(w)
    fetch(w)
    w.running[0].send_signal(signal.SIGUSR1)
    w.same("after a graceful restart", w.client(["curl", "-sSf", "--retry", "5", "--retry-all-errors", f"http://{w.address}/index.html?[1-20]"]).out)


@case("apache2/ab", "apache2", "ab", "2,000 requests of 20 connections, kept alive and one for each request", ["apache2", "apache2-utils"],
      cannot={"inproc-server": FORKS})
def apache_ab(w):
    apache(w)
    for options in ([], ["-k"]):
        out = w.client(["ab", "-q", "-n", "2000", "-c", "20", *options, f"http://{w.address}/"]).out
        lines = [line for line in out.splitlines() if line.startswith(("Complete requests", "Failed requests", "Write errors", "Non-2xx"))]
        w.same(f"ab {options}", lines)


@case("haproxy/nginx", "haproxy", "curl", "with chroot and a change of user, before nginx: a page, 20 MB, 90 requests, 500 of ab", ["haproxy", "nginx", "curl", "apache2-utils"],
      changed="a frontend and a backend are added: Debian's file has none",
      cannot={"inproc-server": TWO_PROGRAMS})
def haproxy(w):
    pages(w)
    config = open("/etc/haproxy/haproxy.cfg").read()
    config += f"\nfrontend in\n    bind :::8080 v4v6\n    default_backend origin\nbackend origin\n    server one {'127.0.0.1' if w.loopback else w.address}:80\n"
    w.write("/etc/haproxy/haproxy.cfg", config)
    for folder in ("/run/haproxy", "/var/lib/haproxy/dev"):
        w.write(f"{folder}/.keep", "")
    w.server(["nginx", "-g", "daemon off;"])
    w.server(["haproxy", "-Ws", "-f", "/etc/haproxy/haproxy.cfg", "-p", "/run/haproxy.pid"])
    w.await_port(80)
    w.await_port(8080)
    fetch(w, 8080)
    out = w.client(["ab", "-q", "-n", "500", "-c", "10", f"http://{w.address}:8080/"]).out
    w.same("ab", [line for line in out.splitlines() if line.startswith(("Complete requests", "Failed requests"))])
