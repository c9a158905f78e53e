"""The client: connections of three kinds, and a line of JSON for each event.

- busy ones ask every quarter of a second, and are closed and made anew after some seconds;
- quiet ones ask so rarely that their bucket in the router counts as idle meanwhile;
- short ones ask once, so many each second. One that is refused is tried again, from another port.

It runs until its standard input ends.
"""

import asyncio
import json
import random
import sys
import time

ASK_EVERY, LIFE = 0.25, (3.0, 6.0)
# A host that is dead answers nobody; whoever waits so long gives the connection up.
GIVE_UP = 2.0


def tell(**what: object) -> None:
    print(json.dumps({"at": time.time(), **what}), flush=True)


class Client:
    def __init__(self, address: str, port: str) -> None:
        self.address, self.port = address, int(port)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection; as often as it takes."""
        begun, tries = time.time(), 0
        while True:
            tries += 1
            try:
                made = asyncio.open_connection(self.address, self.port)
                streams = await asyncio.wait_for(made, GIVE_UP)
                if tries > 1:
                    tell(event="connected", tries=tries, seconds=time.time() - begun)
                return streams
            except ConnectionRefusedError:
                tell(event="refused")
            except (OSError, asyncio.TimeoutError):
                tell(event="unreachable")
            await asyncio.sleep(0.02)

    async def talk(self, kind: str, every: float, life: float) -> None:
        """One connection to its end; what is told is whether it broke before."""
        reader, writer = await self.connect()
        host, spoke, pause = "", time.time(), 0.0
        until = time.time() + life
        try:
            while True:
                pause = max(pause, time.time() - spoke)
                spoke = time.time()
                writer.write(b"who\n")
                host = (await asyncio.wait_for(reader.readline(), GIVE_UP)).decode().strip() or host
                if reader.at_eof():
                    raise ConnectionResetError
                if time.time() >= until:
                    break
                await asyncio.sleep(every)
            tell(event="done", kind=kind, host=host)
        except (OSError, asyncio.TimeoutError):
            # How long it had been silent tells whether its bucket may have counted as idle.
            tell(event="lost", kind=kind, host=host, pause=max(pause, time.time() - spoke))
        finally:
            writer.close()

    async def long(self, kind: str, every: float) -> None:
        while True:
            await self.talk(kind, every, random.uniform(*LIFE) if kind == "busy" else 3600.0)

    async def shorts(self, rate: float) -> None:
        running = set()
        while True:
            task = asyncio.create_task(self.talk("short", 0.0, 0.0))
            running.add(task)
            task.add_done_callback(running.discard)
            await asyncio.sleep(1.0 / rate)


async def main(address: str, port: str, busy: str, quiet: str, rate: str, silence: str) -> None:
    client, loop = Client(address, port), asyncio.get_running_loop()
    tasks = [client.long("busy", ASK_EVERY) for _ in range(int(busy))]
    tasks += [client.long("quiet", float(silence)) for _ in range(int(quiet))]
    tasks.append(client.shorts(float(rate)))
    running = [asyncio.create_task(task) for task in tasks]
    await loop.run_in_executor(None, sys.stdin.read)
    for task in running:
        task.cancel()


asyncio.run(main(*sys.argv[1:]))
