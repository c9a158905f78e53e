"""Waits until somebody listens: `connects.py ADDRESS PORT SECONDS`."""

import socket
import sys
import time

address, port, until = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
while True:
    try:
        socket.create_connection((address, port), 2).close()
        break
    except OSError as error:
        if time.monotonic() > until:
            sys.exit(f"nobody listens at {address} port {port}: {error}")
        time.sleep(0.05)
