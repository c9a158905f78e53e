"""socketserver with threads and with forks, http.server: `servers.py serve PORT`, `servers.py ask ADDRESS PORT`."""

import http.server
import socket
import socketserver
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


class Datagrams(socketserver.DatagramRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.read().upper())


class Forking(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 50


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 50


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, *words):
        pass


def serve(port):
    servers = [Threads(("", port), Lines), Forking(("", port + 1), Lines), http.server.ThreadingHTTPServer(("", port + 2), Pages), socketserver.UDPServer(("", port), Datagrams)]
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    servers[0].serve_forever()


def lines(address, port, n):
    with socket.create_connection((address, port), 20) as conversation, conversation.makefile("rwb") as file:
        got = b""
        for turn in range(5):
            file.write(f"line {turn} of {n}\n".encode())
            file.flush()
            got += file.readline()
        return got


def ask(address, port):
    for which in (port, port + 1):
        with ThreadPoolExecutor(8) as pool:
            print(b"".join(pool.map(lambda n: lines(address, which, n), range(40))).decode())
    for n in range(40):
        body = str(n).encode() * 10_000
        with urllib.request.urlopen(f"http://{address}:{port + 2}/", data=body, timeout=20) as answer:
            print(n, answer.read() == body[::-1])
    for n in range(20):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(5)
            asking.sendto(f"datagram {n}".encode(), (address, port))
            print(asking.recvfrom(100)[0])


serve(int(sys.argv[2])) if sys.argv[1] == "serve" else ask(sys.argv[2], int(sys.argv[3]))
