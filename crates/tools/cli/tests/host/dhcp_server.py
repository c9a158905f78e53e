"""A DHCP server that does what real ones do seldom: it says what cannot be before it says what can,
keeps silent, or gives very short leases.

    dhcp_server.py INTERFACE OWN-ADDRESS OFFERED-ADDRESS MODE-FILE [hostile]

The first word of the file says whom it answers: `all`, `broadcast` (who asks its address alone is not
answered) or `none`. It writes a line for each message that it gets.
"""

import socket
import struct
import sys

interface, own, offered, mode_file = sys.argv[1:5]
hostile = sys.argv[5:] == ["hostile"]
# Linux has it, and not every Python names it.
IP_PKTINFO = 8
KINDS = {1: "discover", 3: "request", 4: "decline", 7: "release"}
# A lease of ten seconds, the shortest that clients take; T1 and T2 soon after each other.
LEASE, T1, T2 = 10, 5, 6


def options_of(message):
    found, at = {}, 240
    while at < len(message) and message[at] != 255:
        if message[at] == 0:
            at += 1
            continue
        code, length = message[at], message[at + 1]
        found[code] = message[at + 2 : at + 2 + length]
        at += 2 + length
    return found


def answer(asked, kind, yours=offered, server=own, lease=LEASE, exchange=None, more=b""):
    out = bytearray(240)
    out[0:3] = b"\x02\x01\x06"
    out[4:8] = exchange or asked[4:8]
    out[10:12] = asked[10:12]
    out[16:20] = socket.inet_aton(yours)
    out[28:44] = asked[28:44]
    out[236:240] = bytes([99, 130, 83, 99])
    out += bytes([53, 1, kind, 54, 4]) + socket.inet_aton(server)
    out += struct.pack("!BBI", 51, 4, lease) + struct.pack("!BBI", 58, 4, T1)
    out += struct.pack("!BBI", 59, 4, T2) + bytes([1, 4, 255, 255, 255, 0])
    out += bytes([3, 4]) + socket.inet_aton(own) + more
    return bytes(out) + b"\xff"


def bad_offers(asked):
    """One for each reason for which an offer is dropped."""
    other = bytes(byte ^ 0xFF for byte in asked[4:8])
    yield "dhcp-too-short", answer(asked, 2)[:100]
    yield "dhcp-no-reply", b"\x01" + answer(asked, 2)[1:]
    yield "dhcp-option-too-long", answer(asked, 2)[:-1] + b"\x0f\xc8short"
    yield "dhcp-bad-value", answer(asked, 2, more=b"\x06\x03\x01\x02\x03")
    yield "dhcp-unknown-kind", answer(asked, 3)
    yield "dhcp-other-exchange", answer(asked, 2, exchange=other)
    yield "dhcp-unasked", answer(asked, 5)
    yield "dhcp-bad-lease", answer(asked, 2, lease=0)
    yield "dhcp-bad-lease", answer(asked, 2, yours="224.0.0.1")
    yield "dhcp-bad-lease", answer(asked, 2, yours="10.97.0.255")


socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
socket_.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
socket_.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
socket_.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
socket_.bind(("", 67))
print("listens", flush=True)
while True:
    message, control, _, _ = socket_.recvmsg(2048, 256)
    asked_alone = any(
        level == socket.IPPROTO_IP and kind == IP_PKTINFO and data[8:12] != b"\xff" * 4
        for level, kind, data in control
    )
    options = options_of(message)
    kind = KINDS.get(options[53][0], "?")
    ours = socket.inet_ntoa(message[12:16])
    mode = open(mode_file).read().split()[0]
    print(kind, "alone" if asked_alone else "all", ours, mode, flush=True)
    if mode == "none" or (mode == "broadcast" and asked_alone) or kind not in ("discover", "request"):
        continue
    to = ours if ours != "0.0.0.0" else "255.255.255.255"
    if kind == "discover":
        if hostile:
            for _, bad in bad_offers(message):
                socket_.sendto(bad, (to, 68))
        socket_.sendto(answer(message, 2), (to, 68))
    else:
        if hostile and ours == "0.0.0.0":
            # Somebody else grants what was not asked of him.
            socket_.sendto(answer(message, 5, server="10.97.0.66"), (to, 68))
        socket_.sendto(answer(message, 5), (to, 68))
