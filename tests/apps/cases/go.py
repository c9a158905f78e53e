"""Debian's programs in Go: linked with the C library, but they make their system calls themselves (`--trap`)."""

import json
import shutil

from harness.registry import TRAPPED, case

GO = {"inproc-server": TRAPPED, "inproc-client": TRAPPED}
SERVER_IN_GO = {"inproc-server": TRAPPED}


@case("caddy/curl", "caddy", "curl, ab", "trapped; Debian's page, 2,000 requests over 20 connections that stay", ["caddy", "curl", "apache2-utils"], cannot=SERVER_IN_GO)
def caddy(w):
    w.server(["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"], trap=True)
    w.await_port(80)
    w.same("page", w.client(["curl", "-sS", f"http://{w.address}/"]).sha)
    said = w.client(["ab", "-q", "-k", "-n", "2000", "-c", "20", f"http://{w.address}/"]).out
    w.same("ab", [line for line in said.splitlines() if line.startswith(("Complete", "Failed", "Non-2xx"))])


@case("etcd/etcdctl", "etcd", "etcdctl", "both trapped; keys of 100 KB, a range, a watch by another connection", ["etcd-server", "etcd-client"], cannot=GO)
def etcd(w):
    url = f"http://{w.address}:2379"
    w.server(["etcd", "--data-dir", w.tmp / "data", "--listen-client-urls", url, "--advertise-client-urls", url], trap=True)
    w.await_port(2379)
    asks = ["etcdctl", f"--endpoints={url}"]
    env = {"ETCDCTL_API": "3"}
    watch = w.start("client", [*asks, "watch", "--prefix", "key", "--rev", "1"], env=env, trap=True)
    for number in range(3):
        value = w.bytes(50_000, number).hex()
        w.client([*asks, "put", f"key{number}"], data=value.encode(), env=env, trap=True)
    w.same("keys", w.client([*asks, "get", "--prefix", "key"], env=env, trap=True).sha)
    watch.await_text("key2")
    watch.stop()


@case("prometheus/promtool", "prometheus", "promtool", "both trapped; it asks itself for its figures, and is asked for them", ["prometheus"], cannot=GO)
def prometheus(w):
    folder = w.write("data/.keep", "").parent
    shutil.rmtree(folder)
    settings = w.write("prometheus.yml", f"""global:
  scrape_interval: 1s
scrape_configs:
  - job_name: itself
    static_configs:
      - targets: ["{w.address}:9090"]
""")
    w.server(["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder}", f"--web.listen-address={w.address}:9090"], trap=True)
    w.await_port(9090)

    def up():
        said = w.client(["promtool", "query", "instant", "-o", "json", f"http://{w.address}:9090", "up"], trap=True).out
        return [result["value"][1] for result in json.loads(said)]

    w.eventually("it reaches itself", lambda: up() == ["1"])
    w.same("up", up())
