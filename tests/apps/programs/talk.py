"""asyncio at both ends: `talk.py serve [uvloop] PORT`, `talk.py ask [uvloop] ADDRESS PORT`."""

import asyncio
import hashlib
import sys
import tempfile

LONG = 10_000_000


async def answer(reader, writer):
    """Echoes lines; `long N` is followed by so many bytes, which come back; `file` is answered by sendfile."""
    try:
        while line := await reader.readline():
            words = line.split()
            if words[:1] == [b"long"]:
                left = int(words[1])
                while left:
                    data = await reader.readexactly(min(left, 65536))
                    writer.write(data)
                    await writer.drain()
                    left -= len(data)
            elif words[:1] == [b"file"]:
                with tempfile.TemporaryFile() as file:
                    file.write(b"from a file " * 100_000)
                    file.seek(0)
                    await writer.drain()
                    try:
                        await asyncio.get_running_loop().sendfile(writer.transport, file, fallback=True)
                    except NotImplementedError:  # by uvloop
                        writer.write(file.read())
                        await writer.drain()
            else:
                writer.write(line.upper())
                await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data.upper(), address)


class Waiting(asyncio.DatagramProtocol):
    def __init__(self):
        self.got = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, address):
        if not self.got.done():
            self.got.set_result(data)


async def serve(port):
    server = await asyncio.start_server(answer, "0.0.0.0", port)
    await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, local_addr=("0.0.0.0", port))
    print("ready", flush=True)
    await server.serve_forever()


async def one(address, port, n):
    reader, writer = await asyncio.open_connection(address, port)
    got = []
    for turn in range(10):
        writer.write(f"connection {n} turn {turn}\n".encode())
        got.append(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return b"".join(got)


async def ask(address, port):
    all_of_them = await asyncio.gather(*(one(address, port, n) for n in range(100)))
    print("100 connections", hashlib.sha256(b"".join(all_of_them)).hexdigest())
    reader, writer = await asyncio.open_connection(address, port)
    data = hashlib.shake_128(b"long").digest(LONG)
    writer.write(f"long {LONG}\n".encode() + data)
    back = await reader.readexactly(LONG)
    print("long", back == data)
    writer.write(b"file\n")
    print("file", hashlib.sha256(await reader.readexactly(1_200_000)).hexdigest())
    writer.write_eof()
    print("end", await reader.read())
    writer.close()
    for n in range(20):
        for attempt in range(3):
            transport, waiting = await asyncio.get_running_loop().create_datagram_endpoint(Waiting, remote_addr=(address, port))
            transport.sendto(f"datagram {n}".encode())
            try:
                print(await asyncio.wait_for(waiting.got, 3))
                break
            except asyncio.TimeoutError:
                print("lost", n)
            finally:
                transport.close()
    try:
        await asyncio.open_connection(address, port + 1)
    except OSError as error:
        print("refused", error.errno)


def main():
    words = sys.argv[1:]
    if "uvloop" in words:
        import uvloop

        uvloop.install()
        words.remove("uvloop")
    asyncio.run(serve(int(words[1])) if words[0] == "serve" else ask(words[1], int(words[2])))


main()
