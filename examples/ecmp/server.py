"""The service: answers each line with the name of the host that it runs on.

An ordinary program of sockets and threads; `clearway run` has it served by a host.
"""

import socket
import sys
import threading


def serve(conn: socket.socket, name: str) -> None:
    try:
        with conn, conn.makefile("rb") as lines:
            for _ in lines:
                conn.sendall(f"{name}\n".encode())
    except OSError:
        pass


def main(address: str, port: str, name: str) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(256)
    print("listens", flush=True)
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=serve, args=(conn, name), daemon=True).start()


main(*sys.argv[1:])
