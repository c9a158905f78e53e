"""Databases and caches."""

import glob
import os
import pathlib
import re

from harness.registry import FORKS, TWO_PROGRAMS, case


def redis(w, port=6379, *more, user="redis"):
    """As Debian's unit starts it: its user, its file."""
    w.write("/run/redis/.keep", "")
    entry = os.stat("/var/lib/redis")
    os.chown("/run/redis", entry.st_uid, entry.st_gid)
    os.chmod("/run/redis", 0o2755)
    elsewhere = [] if w.loopback else ["--bind", "0.0.0.0", "::", "--protected-mode", "no"]
    server = w.server(["redis-server", "/etc/redis/redis.conf", "--daemonize", "no", "--logfile", "", "--port", port, *elsewhere, *more], user=user)
    w.await_port(port)
    return server


def cli(w, *words, port=6379, **more):
    return w.client(["redis-cli", "-h", w.address, "-p", port, *words], **more).out


REDIS = ["redis-server", "redis-tools"]
REDIS_CHANGED = "over TAP `bind 0.0.0.0 ::` and `protected-mode no`: Debian's file serves the loopback only"


@case("redis/cli", "redis", "redis-cli", "values, 5 MB in one, a pipe of 20,000 commands, saving in the background", REDIS, short=True, socket_mode="666", changed=REDIS_CHANGED)
def redis_cli(w):
    redis(w)
    cli(w, "set", "word", "value")
    w.same("word", cli(w, "get", "word"))
    cli(w, "-x", "set", "long", data=w.bytes(5_000_000))
    w.same("long", w.client(["redis-cli", "-h", w.address, "get", "long"]).sha)
    commands = "".join(f"SET key:{n} {n}\r\n" for n in range(20_000))
    w.same("pipe", cli(w, "--pipe", data=commands.encode()).splitlines()[-1])
    w.same("count", cli(w, "dbsize"))
    cli(w, "bgsave")
    w.eventually("the dump is written", lambda: "rdb_bgsave_in_progress:0" in cli(w, "info", "persistence"))
    w.same("saved", "rdb_last_bgsave_status:ok" in cli(w, "info", "persistence"))


@case("redis/benchmark", "redis", "redis-benchmark", "10,000 requests of 50 connections, in pipes of 16, and 20 at a time without", REDIS, socket_mode="666", changed=REDIS_CHANGED)
def redis_benchmark(w):
    redis(w)
    for options in (["-P", "16"], ["-c", "20"]):
        out = w.client(["redis-benchmark", "-h", w.address, "-q", "-t", "set,get,lpush", "-n", "10000", *options]).out
        w.same(f"done {options}", re.findall(r"(\w+): [\d.]+ requests", out.replace("\r", "\n")))
    w.same("clients left", cli(w, "client", "list").count("\n"))


@case("redis/replication", "redis", "redis", "a replica loads 3 MB, follows 2,000 writes, and becomes a master", REDIS, socket_mode="666",
      changed=REDIS_CHANGED + "; the replica has a folder and a port of its own",
      cannot={"inproc-server": TWO_PROGRAMS, "inproc-client": TWO_PROGRAMS})
def redis_replication(w):
    redis(w)
    w.same("before", cli(w, "debug", "sleep", "0"))
    cli(w, "-x", "set", "long", data=w.bytes(3_000_000))
    folder = w.write("replica/.keep", "").parent
    entry = os.stat("/var/lib/redis")
    os.chown(folder, entry.st_uid, entry.st_gid)
    replica_address = "127.0.0.1" if w.loopback else w.client_address
    elsewhere = [] if w.loopback else ["--bind", "0.0.0.0", "::", "--protected-mode", "no"]
    w.start("client", ["redis-server", "/etc/redis/redis.conf", "--daemonize", "no", "--logfile", "", "--dir", folder, "--pidfile", f"{folder}/pid", "--port", "6380", *elsewhere,
                       "--replicaof", w.address, "6379"], user="redis")

    def replica(*words):
        return w.run("server", ["redis-cli", "-h", replica_address, "-p", "6380", *words], code=None).out

    w.eventually("the replica has loaded", lambda: "master_link_status:up" in replica("info", "replication"))
    w.same("long", w.run("server", ["redis-cli", "-h", replica_address, "-p", "6380", "get", "long"]).sha)
    cli(w, "--pipe", data="".join(f"SET key:{n} {n}\r\n" for n in range(2000)).encode())
    w.eventually("the replica has followed", lambda: replica("dbsize").strip() == "2001")
    replica("replicaof", "no", "one")
    w.same("role", replica("role").splitlines()[0])


@case("memcached/capabilities", "memcached", "memccapable", "the protocol tests of libmemcached, text and binary", ["memcached", "libmemcached-tools"], socket_mode="666",
      changed="over TAP `-l 0.0.0.0`: Debian's file serves the loopback only")
def memcached(w):
    listen = "127.0.0.1" if w.loopback else "0.0.0.0"
    # The options of /etc/memcached.conf.
    w.server(["memcached", "-m", "64", "-p", "11211", "-u", "memcache", "-l", listen])
    w.await_port(11211)
    out = w.client(["memccapable", "-h", w.address, "-p", "11211", "-t", "10"], code=None)
    w.same("tests", re.findall(r"^(.*?)\s*\[(pass|FAIL)\]", out.out + out.err, re.M))


@case("memcached/copy", "memcached", "memccp", "a megabyte less a little is stored and read again", ["memcached", "libmemcached-tools"],
      changed="over TAP `-l 0.0.0.0`: Debian's file serves the loopback only")
def memcached_copy(w):
    w.server(["memcached", "-m", "64", "-p", "11211", "-u", "memcache", "-l", "127.0.0.1" if w.loopback else "0.0.0.0"])
    w.await_port(11211)
    file = w.write("value", w.bytes(900_000))
    w.client(["memccp", f"--servers={w.address}:11211", file])
    w.same("value", w.client(["memccat", f"--servers={w.address}:11211", "value"]).sha)


POSTGRES = ["postgresql", "postgresql-contrib"]
POSTGRES_CHANGED = "the database `bench` is made, and 10.98.0.0/24 may enter without a word over TAP, where also `listen_addresses = '*'`"


def postgres(w):
    if not glob.glob("/etc/postgresql/*/main/postgresql.conf"):
        newest = sorted(os.listdir("/usr/lib/postgresql"))[-1]
        w.run("local", ["pg_createcluster", newest, "main"])
    config = pathlib.Path(sorted(glob.glob("/etc/postgresql/*/main/postgresql.conf"))[-1])
    release = config.parts[3]
    access = config.parent / "pg_hba.conf"
    mode = access.stat()
    text = access.read_text()
    added = "host all all 127.0.0.1/32 trust\nhost all all ::1/128 trust\nhost all all 10.98.0.0/24 trust\nlocal all all trust\n"
    access.write_text(added + text)
    os.chown(access, mode.st_uid, mode.st_gid)
    folder = w.write("/run/postgresql/.keep", "").parent
    os.chown(folder, mode.st_uid, mode.st_gid)
    more = [] if w.loopback else ["-c", "listen_addresses=*"]
    server = w.server([f"/usr/lib/postgresql/{release}/bin/postgres", "-D", f"/var/lib/postgresql/{release}/main", "-c", f"config_file={config}", *more], user="postgres")
    w.await_port(5432)
    w.run("local", ["createdb", "-h", "/run/postgresql", "bench"], user="postgres")
    return server


def psql(w, statement):
    return w.client(["psql", "-h", w.address, "-U", "postgres", "-At", "-c", statement, "bench"]).out


@case("postgresql/psql", "PostgreSQL", "psql", "queries, 100,000 rows, copying in 2 MB", POSTGRES, socket_mode="666", changed=POSTGRES_CHANGED,
      cannot={"inproc-server": FORKS})
def postgres_psql(w):
    postgres(w)
    w.same("sum", psql(w, "select sum(n) from generate_series(1, 100000) n"))
    w.same("rows", w.client(["psql", "-h", w.address, "-U", "postgres", "-At", "-c", "select n, md5(n::text) from generate_series(1, 100000) n", "bench"]).sha)
    psql(w, "create table t (word text)")
    w.client(["psql", "-h", w.address, "-U", "postgres", "-c", "copy t from stdin", "bench"], data=b"one word after the other\n" * 80_000)
    w.same("copied", psql(w, "select count(*), md5(string_agg(word, '')) from t"))


@case("postgresql/pgbench", "PostgreSQL", "pgbench", "8 clients, 400 transactions each, 40 each with a connection for each", POSTGRES, socket_mode="666", changed=POSTGRES_CHANGED,
      cannot={"inproc-server": FORKS})
def pgbench(w):
    postgres(w)
    base = ["pgbench", "-h", w.address, "-U", "postgres"]
    w.client([*base, "-i", "-q", "bench"])
    for options in (["-c", "8", "-j", "2", "-t", "400"], ["-C", "-c", "8", "-j", "2", "-t", "40"]):
        out = w.client([*base, *options, "bench"]).out
        w.same(f"pgbench {options}", re.findall(r"number of (?:transactions actually processed|failed transactions): .*", out))
    w.same("history", psql(w, "select count(*) from pgbench_history"))
