#!/usr/bin/env python3
"""Draws the dashboard of packaging/grafana from a real Prometheus that scrapes a real host under load.

Panels, their places, queries, legends and units are read from the dashboard's file, so the pictures show what its queries
answer; Grafana itself would draw them in its own way. Everything runs in a network namespace of this script's own. Root.

    scripts/dashboard.py --out docs/charts        # dashboard-light.svg and dashboard-dark.svg
"""

import argparse
import contextlib
import html
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
DASHBOARD = HERE / "packaging/grafana/clearway.json"
PROMETHEUS, METRICS = "127.0.0.1:9490", "127.0.0.1:9466"
# How often Prometheus looks, and over how long the dashboard's rates go: four looks, as Grafana's rate interval.
LOOK_SECONDS = 1
RATE = f"{4 * LOOK_SECONDS}s"
# Only what hangs takes so long.
LIMIT_SECONDS = 120

SETTINGS = f"""
[metrics]
listen = "{METRICS}"
"""
# Programs in two namespaces that are joined, and a lossy link to the kernel.
SCRIPT = """
create loopback interface
create loopback interface
set interface state loop0 up
set interface state loop1 up
ip table add 1
ip table add 2
set interface ip table loop0 1
set interface ip table loop1 2
set interface ip address loop0 172.16.1.1/24
set interface ip address loop1 172.16.2.1/24
ip route add 172.16.1.1/32 table 2 via lookup in table 1
ip route add 172.16.2.1/32 table 1 via lookup in table 2
create tap id 0 host-if-name cw0 host-ip4-addr 10.94.0.1/24 fault loss=2%
set interface state tap0 up
set interface ip address tap0 10.94.0.2/24
app ns add id server if loop0
app ns add id client if loop1
app ns add id web if tap0
"""
# Serves short connections to the kernel; a port without anybody makes drops with a reason.
WEB = """
import socket, threading
listener = socket.create_server(('10.94.0.2', 8080), backlog=128)
def serve(conn):
    with conn:
        while conn.recv(4096):
            conn.sendall(b'x' * 20000)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
ASK = """
import contextlib, random, socket, sys, threading, time
end = time.time() + float(sys.argv[1])
def ask():
    while time.time() < end:
        with contextlib.suppress(OSError), socket.create_connection(('10.94.0.2', 8080), 5) as conn:
            for _ in range(random.randint(1, 20)):
                conn.sendall(b'?')
                left = 20000
                while left > 0 and (got := conn.recv(65536)):
                    left -= len(got)
                time.sleep(0.02)
        with contextlib.suppress(OSError):
            socket.create_connection(('10.94.0.2', 81), 0.2)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.sendto(b'x', ('10.94.0.2', 9))
for _ in range(16):
    threading.Thread(target=ask).start()
"""

THEMES = {
    "light": {
        "page": "#f4f5f5", "panel": "#ffffff", "line": "#d8dadd", "grid": "#e9eaec", "text": "#24292e", "faint": "#6a737d",
        "series": ["#1f60c4", "#b3560f", "#2f7d32", "#8f3bb8", "#c4162a", "#007a78", "#7a5c00", "#5f6b7a"],
    },
    "dark": {
        "page": "#111217", "panel": "#181b1f", "line": "#2f333a", "grid": "#262a31", "text": "#dcdfe4", "faint": "#9096a1",
        "series": ["#6ea6ff", "#ff9830", "#73bf69", "#ca95e5", "#ff7383", "#4fd1c5", "#e0b400", "#a9b3c1"],
    },
}
COLUMN, ROW, GAP, MARGIN = 50, 30, 8, 12


class World:
    """The host, what loads it, and Prometheus. All of it goes at the end."""

    def __init__(self, clearway: str, folder: pathlib.Path) -> None:
        self.clearway, self.folder, self.netns = clearway, folder, f"dashboard-{os.getpid()}"
        self.started: list[subprocess.Popen] = []
        subprocess.run(["ip", "netns", "add", self.netns], check=True)
        subprocess.run(["ip", "-n", self.netns, "link", "set", "lo", "up"], check=True)

    def start(self, *words: str) -> subprocess.Popen:
        log = (self.folder / f"log-{len(self.started)}").open("w")
        env = os.environ | {"CLEARWAY_SOCKET": str(self.folder / "host.sock")}
        inside = ["ip", "netns", "exec", self.netns, *words]
        child = subprocess.Popen(inside, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder)
        self.started.append(child)
        return child

    def run(self, namespace: str, *words: str) -> subprocess.Popen:
        return self.start(self.clearway, "run", "--required", "--ns", namespace, "--", *words)

    def get(self, path: str, **query: str) -> dict:
        words = [word for name, value in query.items() for word in ("--data-urlencode", f"{name}={value}")]
        curl = ["ip", "netns", "exec", self.netns, "curl", "-sS", "-G", "--max-time", "20", *words, f"http://{PROMETHEUS}{path}"]
        said = subprocess.run(curl, capture_output=True, text=True, check=False).stdout
        return json.loads(said) if said.startswith("{") else {}

    def remove(self) -> None:
        for child in reversed(self.started):
            child.terminate()
        for child in self.started:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
        subprocess.run(["ip", "netns", "del", self.netns], check=False)


def until(what: str, is_so) -> None:
    end = time.time() + LIMIT_SECONDS
    while not is_so():
        if time.time() > end:
            raise SystemExit(f"this never came true: {what}")
        time.sleep(0.1)


def load(world: World, seconds: int) -> float:
    """Loads the host for so long. Answers when that began."""
    (world.folder / "host.toml").write_text(SETTINGS)
    (world.folder / "script").write_text(SCRIPT)
    scrape = {"job_name": "clearway", "scrape_interval": f"{LOOK_SECONDS}s", "static_configs": [{"targets": [METRICS]}]}
    (world.folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    world.start(world.clearway, "up", "-c", "host.toml", "--script", "script", "--socket", "host.sock")
    until("the host is ready", lambda: (world.folder / "host.sock").exists())
    world.start("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={PROMETHEUS}")
    world.run("web", "python3", "-c", WEB)
    world.run("server", "iperf3", "-s")
    until("Prometheus has seen the host", lambda: world.get("/api/v1/query", query='up{job="clearway"} == 1').get("data", {}).get("result"))
    began = time.time()
    time.sleep(seconds * 0.1)
    world.start("python3", "-c", ASK, str(seconds * 0.55))
    time.sleep(seconds * 0.3)
    # Bounded, so that what goes over the lossy link can be seen beside it.
    world.run("client", "iperf3", "-c", "172.16.1.1", "-t", str(int(seconds * 0.4)), "-P", "2", "-b", "40M")
    time.sleep(seconds * 0.6)
    return began


def series(world: World, panel: dict, began: float, end: float) -> list[tuple[str, list[tuple[float, float]]]]:
    """What the panel's queries answer: name and points of each series."""
    found = []
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", RATE).replace("$instance", ".*")
        answer = world.get("/api/v1/query_range", query=query, start=str(began), end=str(end), step="1")
        if answer.get("status") != "success":
            raise SystemExit(f"{panel['title']}: {query}: {answer}")
        for one in answer["data"]["result"]:
            legend = re.sub(r"{{\s*(\w+)\s*}}", lambda m: one["metric"].get(m[1], ""), target.get("legendFormat", ""))
            points = [(float(at), float(value)) for at, value in one["values"]]
            found.append((legend, [(at, value) for at, value in points if math.isfinite(value)]))
    return [one for one in found if one[1]]


def shown(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        for size, name in (1, "s"), (1e-3, "ms"), (1e-6, "µs"):
            if abs(value) >= size or name == "µs":
                return "0 s" if value == 0 else f"{value / size:.3g} {name}"
    if unit == "dateTimeFromNow":
        return f"{time.time() - value / 1000:.0f} s ago"
    suffix = {"bps": "b/s", "pps": "p/s", "bytes": "B"}.get(unit, "")
    steps = [(2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")] if unit == "bytes" else [(1e9, "G"), (1e6, "M"), (1e3, "k")]
    for size, name in steps:
        if abs(value) >= size:
            return f"{value / size:.3g} {name}{suffix}"
    return f"{value:.3g} {suffix}".strip()


def round_step(span: float, unit: str) -> float:
    """A round number of which some three or four make the span."""
    if unit == "bytes":
        return 2.0 ** math.ceil(math.log2(span / 4))
    size = 10 ** math.floor(math.log10(span / 4))
    return next(size * step for step in (1, 2, 2.5, 5, 10) if size * step >= span / 4 * 0.999)


class Picture:
    def __init__(self, theme: dict, columns: int, rows: int) -> None:
        self.theme = theme
        self.width, self.height = columns * COLUMN + 2 * MARGIN, rows * ROW + 2 * MARGIN + 28
        self.parts = [f'<rect width="{self.width}" height="{self.height}" fill="{theme["page"]}"/>']

    def text(self, x: float, y: float, text: str, size: int = 11, color: str = "text", anchor: str = "start", weight: str = "400") -> None:
        fill = self.theme.get(color, color)
        self.parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}">{html.escape(text)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f'<path d="M{x1:.0f} {y1:.1f}L{x2:.0f} {y2:.1f}" stroke="{self.theme["grid"]}"/>')

    def panel(self, panel: dict, found: list, span: tuple[float, float]) -> None:
        at = panel["gridPos"]
        x, y = MARGIN + at["x"] * COLUMN + GAP / 2, MARGIN + 28 + at["y"] * ROW + GAP / 2
        width, height = at["w"] * COLUMN - GAP, at["h"] * ROW - GAP
        self.parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width}" height="{height}" rx="2" fill="{self.theme["panel"]}" stroke="{self.theme["line"]}"/>'
        )
        self.text(x + 10, y + 18, panel["title"], 12, weight="600")
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        if panel["type"] == "stat":
            value = shown(found[0][1][-1][1], unit) if found else "no data"
            self.text(x + width / 2, y + height / 2 + 22, value, 28, self.theme["series"][2], "middle", "600")
        else:
            self.series(found, unit, panel["fieldConfig"]["defaults"].get("min"), (x, y, width, height), span)

    def series(self, found: list, unit: str, least: float | None, place: tuple, span: tuple[float, float]) -> None:
        x, y, width, height = place
        if not found:
            self.text(x + width / 2, y + height / 2, "no data", 12, "faint", "middle")
            return
        lines = self.legend(found, x, y, width, height)
        left, right, top, bottom = x + 62, x + width - 12, y + 32, y + height - 26 - 15 * lines
        values = [value for _, points in found for _, value in points]
        low, high = min([0.0, *values]) if least is None else least, max([0.0, *values])
        step = round_step(high - low if high > low else 1.0, unit)
        low, high = math.floor(low / step) * step, max(math.ceil(high / step), 1) * step
        across = lambda at: left + (at - span[0]) / (span[1] - span[0]) * (right - left)
        up = lambda value: bottom - (value - low) / (high - low) * (bottom - top)
        for number in range(round((high - low) / step) + 1):
            value = low + number * step
            self.line(left, up(value), right, up(value))
            self.text(left - 6, up(value) + 4, shown(value, unit), 10, "faint", "end")
        seconds = span[1] - span[0]
        for part in range(0, 5):
            at = span[0] + seconds * part / 4
            self.text(across(at), bottom + 14, f"{seconds * part / 4:.0f} s", 10, "faint", "middle" if part < 4 else "end")
        for number, (_, points) in enumerate(found):
            color = self.theme["series"][number % len(self.theme["series"])]
            path = "L".join(f"{across(at):.0f} {up(value):.1f}" for at, value in points)
            self.parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')

    def legend(self, found: list, x: float, y: float, width: float, height: float) -> int:
        """Writes it, and answers how many lines it took."""
        rows: list[list[tuple[str, str]]] = [[]]
        used = 0.0
        for number, (name, _) in enumerate(found):
            room = 30 + 6.2 * len(name)
            if rows[-1] and used + room > width - 20:
                rows.append([])
                used = 0.0
            rows[-1].append((name, self.theme["series"][number % len(self.theme["series"])]))
            used += room
        for row, names in enumerate(rows):
            at, line = x + 12, y + height - 9 - 15 * (len(rows) - 1 - row)
            for name, color in names:
                self.parts.append(f'<rect x="{at:.0f}" y="{line - 5:.0f}" width="12" height="3" fill="{color}"/>')
                self.text(at + 17, line, name, 11)
                at += 30 + 6.2 * len(name)
        return len(rows)

    def svg(self) -> str:
        font = "font-family=\"DejaVu Sans, Verdana, sans-serif\""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" {font} role="img">'
        return "\n".join([head, *self.parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--clearway", default=str(HERE / "target/release/clearway"))
    parser.add_argument("--seconds", type=int, default=100, help="how long the host is loaded")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder for the pictures")
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("making a network namespace needs root")
    for program in ("ip", "curl", "prometheus", "iperf3", args.clearway):
        if not shutil.which(program):
            raise SystemExit(f"{program} is not here; `make test` brings what is missing")
    dashboard = json.loads(DASHBOARD.read_text())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dashboard-"))
    world = World(args.clearway, folder)
    with contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder, True)
        at_end.callback(world.remove)
        try:
            began = load(world, args.seconds)
        except SystemExit:
            for log in sorted(folder.glob("log-*")):
                print(f"{log.name}: {log.read_text()[-2000:]}", file=sys.stderr)
            raise
        end = time.time()
        panels = [(panel, series(world, panel, began, end)) for panel in dashboard["panels"]]
        version = subprocess.run([args.clearway, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        empty = [panel["title"] for panel, found in panels if not found]
        print(f"{len(panels)} panels, without data: {', '.join(empty) or 'none'}", file=sys.stderr)
        rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
        for name, theme in THEMES.items():
            picture = Picture(theme, 24, rows)
            picture.text(MARGIN + 4, MARGIN + 18, dashboard["title"], 15, weight="600")
            note = f"drawn by scripts/dashboard.py from Prometheus' answers, not by Grafana; {version}"
            picture.text(picture.width - MARGIN - 4, MARGIN + 18, note, 11, "faint", "end")
            for panel, found in panels:
                picture.panel(panel, found, (began, end))
            (args.out / f"dashboard-{name}.svg").write_text(picture.svg())


main()
