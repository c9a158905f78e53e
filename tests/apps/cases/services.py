"""Mail, a database of threads, and a proxy."""

import pathlib
import re
import shutil

from cases.languages import copied
from harness.registry import FORKS, TWO_PROGRAMS, case


@case("dovecot/imap", "dovecot", "Python imaplib", "a master that empties its environment and hands its listeners to processes of its own: 6 logins, letters of 200 KB there and back", ["dovecot-imapd", "python3"],
      changed="one password for everybody, letters below /var/spool, no TLS", socket_mode="666",
      cannot={"inproc-server": FORKS})
def dovecot(w):
    folder = w.write("/var/spool/letters/.keep", "").parent
    shutil.chown(folder, "mail", "mail")
    w.write("/etc/dovecot/local.conf", f"""protocols = imap
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/%u
first_valid_uid = 1
passdb {{
  driver = static
  args = password=word
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/%u
}}
""")
    w.server(["dovecot", "-F"])
    w.await_port(143)
    w.same("letters", w.client(["python3", copied(w, "letters.py"), w.address, "143"]).out)


@case("postfix/smtp-source", "postfix", "smtp-source", "chroot, a user of its own for most processes, each executed with a list of variables: 60 letters of 20 KB by 5 connections, handed on to smtp-sink", ["postfix"],
      changed="Debian's examples of main.cf and master.cf, since it has none before it was asked; `mynetworks`, `relayhost`, `mydestination` and `maillog_file`, no names asked for; with `loopback` the kernel's is up too, for a set-gid program",
      socket_mode="666", cannot={"inproc-server": FORKS, "inproc-client": TWO_PROGRAMS})
def postfix(w):
    shutil.copy("/usr/share/postfix/master.cf.dist", "/etc/postfix/master.cf")
    w.write("/etc/postfix/main.cf", pathlib.Path("/usr/share/postfix/main.cf.debian").read_text() + f"""
compatibility_level = 3.6
mynetworks = 127.0.0.0/8 10.98.0.0/24
myhostname = a.test
mydestination =
relayhost = [{w.client_address}]:2525
maillog_file = /var/log/postfix.log
smtp_dns_support_level = disabled
smtpd_peername_lookup = no
""")
    if w.loopback:
        # A program of it is set-gid, so it is the kernel's, and will have an interface that is up.
        w.run("local", ["ip", "link", "set", "lo", "up"])
    letters = w.write("letters/.keep", "").parent
    w.start("client", ["smtp-sink", "-u", "root", "-d", f"{letters}/%H%M%S.", ":2525", "200"])
    w.server(["postfix", "start-fg"])
    w.await_port(25)
    w.client(["smtp-source", "-s", "5", "-m", "60", "-l", "20000", "-f", "a@a.test", "-t", "b@b.test", f"{w.address}:25"])

    def arrived():
        return [len(re.findall(b"^X+$", file.read_bytes(), re.M)) for file in letters.glob("[0-9]*")]

    w.eventually("60 letters are handed on", lambda: sum(1 for lines in arrived() if lines) >= 60)
    w.same("lines of each", sorted(set(arrived())))


@case("mariadb/mysqlslap", "MariaDB", "mysqlslap", "a thread for each connection: 4 MB in a row, 2,000 queries of 16 connections", ["mariadb-server", "mariadb-client"],
      changed="it has a folder of its own, and lets everybody in; over TAP `bind-address = 0.0.0.0`", socket_mode="666")
def mariadb(w):
    folder = w.write("/var/lib/words/.keep", "").parent
    (folder / ".keep").unlink()
    shutil.chown(folder, "mysql", "mysql")
    w.run("local", ["mariadb-install-db", "--user=mysql", f"--datadir={folder}"])
    shutil.chown(w.write("/run/mysqld/.keep", "").parent, "mysql", "mysql")
    elsewhere = [] if w.loopback else ["--bind-address=0.0.0.0"]
    w.server(["mariadbd", f"--datadir={folder}", "--skip-grant-tables", "--skip-networking=0", *elsewhere], user="mysql")
    w.await_port(3306)
    at = ["-h", w.address, "-P", "3306"]
    words = "create database x; use x; create table t (i int, s longtext); insert into t values (1, repeat('ab', 2000000)); select i, length(s), md5(s) from t; select s from t"
    w.same("row", w.client(["mariadb", *at, "-e", words]).sha)
    out = w.client(["mysqlslap", *at, "--auto-generate-sql", "-c", "16", "--number-of-queries=2000"]).out
    w.same("load", re.findall(r"(?:Number of clients|Average number of queries).*", out))


@case("squid/curl", "squid", "curl", "a proxy before a server of Python's: 20 MB, 50 requests", ["squid", "curl", "python3"],
      changed="everybody may ask, and nothing is kept", socket_mode="666",
      cannot={"inproc-server": TWO_PROGRAMS})
def squid(w):
    w.write("/etc/squid/conf.d/case.conf", "http_access allow all\ncache deny all\nvisible_hostname squid\nshutdown_lifetime 1 seconds\n")
    pages = w.write("pages/long", w.bytes(20_000_000)).parent
    w.write("pages/short", "a page\n")
    w.server(["python3", "-m", "http.server", "--bind", "127.0.0.1", "8000"], cwd=pages)
    for name in ("/var/log/squid", "/run/squid", "/var/spool/squid"):
        shutil.chown(w.write(f"{name}/.keep", "").parent, "proxy", "proxy")
    w.server(["squid", "--foreground", "-f", "/etc/squid/squid.conf"])
    w.await_port(3128)
    ask = ["curl", "-sS", "--fail", "-x", f"http://{w.address}:3128"]
    w.same("long", w.client([*ask, "http://127.0.0.1:8000/long"]).sha)
    w.same("short", w.client([*ask, *[f"http://127.0.0.1:8000/short?{n}" for n in range(50)]]).out.count("a page"))
