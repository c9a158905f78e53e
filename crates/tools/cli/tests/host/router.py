"""An IPv6 router that says one thing and ends: what real ones do seldom, and what they never do.

    router.py INTERFACE [--from ADDRESS] [--hops N] [--lifetime S] [--flags N] [--mtu N]...
              [--prefix ADDRESS/LENGTH,FLAGS,VALID,PREFERRED]... [--dns ADDRESS,S]...
              [--route ADDRESS/LENGTH,FLAGS,S]... [--option HEX]... [--cut N] [--bad-checksum]
              [--times N]

The advertisement goes to all on the link, as an Ethernet frame.
"""

import argparse
import ipaddress
import socket
import struct

parser = argparse.ArgumentParser()
parser.add_argument("interface")
parser.add_argument("--from", dest="source", default="fe80::99")
parser.add_argument("--hops", type=int, default=255)
parser.add_argument("--lifetime", type=int, default=1800)
parser.add_argument("--flags", type=int, default=0)
parser.add_argument("--mtu", type=int, action="append", default=[])
for many in ("prefix", "dns", "route", "option"):
    parser.add_argument(f"--{many}", action="append", default=[])
parser.add_argument("--cut", type=int, default=0)
parser.add_argument("--bad-checksum", action="store_true")
parser.add_argument("--times", type=int, default=1)
args = parser.parse_args()

MAC = bytes([2, 0, 0, 0, 0, 0x99])


def packed(address):
    return ipaddress.IPv6Address(address).packed


def options():
    out = b"\x01\x01" + MAC
    for mtu in args.mtu:
        out += struct.pack("!BBHI", 5, 1, 0, mtu)
    for text in args.prefix:
        place, flags, valid, preferred = text.split(",")
        address, length = place.split("/")
        out += struct.pack("!BBBBIII", 3, 4, int(length), int(flags), int(valid), int(preferred), 0)
        out += packed(address)
    for text in args.dns:
        address, seconds = text.split(",")
        out += struct.pack("!BBHI", 25, 3, 0, int(seconds)) + packed(address)
    for text in args.route:
        place, flags, seconds = text.split(",")
        address, length = place.split("/")
        out += struct.pack("!BBBBI", 24, 3, int(length), int(flags), int(seconds)) + packed(address)
    for text in args.option:
        out += bytes.fromhex(text)
    return out


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


message = struct.pack("!BBHBBHII", 134, 0, 0, 64, args.flags, args.lifetime, 0, 0) + options()
message = message[: len(message) - args.cut]
source, to = packed(args.source), packed("ff02::1")
pseudo = source + to + struct.pack("!II", len(message), 58)
total = checksum(pseudo + message) ^ (0x5555 if args.bad_checksum else 0)
message = message[:2] + struct.pack("!H", total) + message[4:]
header = struct.pack("!IHBB", 6 << 28, len(message), 58, args.hops) + source + to
frame = b"\x33\x33\0\0\0\x01" + MAC + b"\x86\xdd" + header + message
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((args.interface, 0))
for _ in range(args.times):
    link.send(frame)
