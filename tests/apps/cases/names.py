"""Servers and clients of UDP: names and time."""

import os
import re

from harness.registry import FORKS, case


def dig(w, *words, **more):
    return w.client(["dig", f"@{w.address}", "+time=2", "+tries=3", *words], **more)


def ask(w, port, name):
    """Answers to queries of all kinds, by UDP and TCP, and 200 of one program."""
    first = w.tmp / "queries"
    w.eventually("the server answers", lambda: "NOERROR" in dig(w, "-p", port, name, code=None).out)
    w.same("A", dig(w, "-p", port, "+short", name).out)
    w.same("over TCP", dig(w, "-p", port, "+short", "+tcp", name).out)
    w.same("IPv6", w.client(["dig", f"@{w.address6}", "-p", port, "+time=2", "+short", name]).out)
    w.same("none", re.findall("status: (\\w+)", dig(w, "-p", port, "none.test").out))
    first.write_text("\n".join(f"{name} A" for _ in range(200)) + "\n")
    w.same("200 of one program", dig(w, "-p", port, "+short", "-f", str(first)).out.count("\n"))


@case("dnsmasq/dig", "dnsmasq", "dig", "names of /etc/hosts over UDP, TCP and IPv6, 200 queries", ["dnsmasq", "bind9-dnsutils"],
      changed="it asks no other server (`no-resolv`), and answers for `test.`",
      cannot={"inproc-server": FORKS})
def dnsmasq(w):
    w.write("/etc/hosts", "127.0.0.1 localhost\n192.0.2.7 seven.test\n")
    w.server(["dnsmasq", "--keep-in-foreground", "--log-facility=-", "--no-resolv", "--local=/test/"])
    ask(w, "53", "seven.test")


@case("unbound/dig", "unbound", "dig", "2 threads: local data over UDP, TCP and IPv6, 200 queries", ["unbound", "bind9-dnsutils"],
      changed="2 threads, local data, no remote control; over TAP `interface: 0.0.0.0` and leave for 10.98.0.0/24")
def unbound(w):
    both = "" if w.loopback else "interface: 0.0.0.0\ninterface: ::0\naccess-control: 10.98.0.0/24 allow\naccess-control: fd98::/64 allow\n"
    w.write("/etc/unbound/unbound.conf.d/case.conf", f"server:\nnum-threads: 2\n{both}local-zone: \"test.\" static\nlocal-data: \"seven.test. A 192.0.2.7\"\nremote-control:\ncontrol-enable: no\n")
    for name in os.listdir("/etc/unbound/unbound.conf.d"):
        if name != "case.conf":
            os.unlink(f"/etc/unbound/unbound.conf.d/{name}")
    w.server(["unbound", "-d", "-p", "-c", "/etc/unbound/unbound.conf"])
    ask(w, "53", "seven.test")


@case("chrony/ntpdig", "chronyd", "ntpdig", "the time of a server without a clock of its own", ["chrony", "ntpsec-ntpdig"],
      changed="`local stratum 8` and leave for the client; the clock is not set (-x)")
def chrony(w):
    w.write("/etc/chrony/conf.d/case.conf", "local stratum 8\nallow all\ncmdport 0\n")
    w.write("/run/chrony/.keep", "")
    w.server(["chronyd", "-d", "-x"])
    w.eventually("chronyd answers", lambda: w.client(["ntpdig", "-t", "2", w.address], code=None).code == 0)
    w.same("stratum", re.findall(r"\bs(\d+)\b", w.client(["ntpdig", "-t", "5", w.address]).out))


@case("chrony/chronyd", "chronyd", "chronyd", "a client asks once for the offset", ["chrony"], changed="`local stratum 8` and leave for the client; no clock is set (-x, -Q)")
def chrony_client(w):
    w.write("/etc/chrony/conf.d/case.conf", "local stratum 8\nallow all\ncmdport 0\n")
    w.write("/run/chrony/.keep", "")
    w.server(["chronyd", "-d", "-x"])
    config = f"server {w.address} iburst maxsamples 2\ncmdport 0\nport 0\npidfile {w.tmp}/client.pid\nbindcmdaddress /\n"
    path = w.write("client.conf", config)
    done = w.client(["chronyd", "-Q", "-t", "25", "-f", path])
    w.same("offset is known", "wrong by" in done.out + done.err)
