"""A TCP proxy that hands on every answer a fixed time later: ``delay.py SERVER MILLISECONDS [LINK]``.

It prints its URL, and runs until it is terminated. Requests pass at once, so the time is the time of a round trip. All
answers together have `LINK` bytes a second. Without it, data on the way are not limited, as on a fast network.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

CHUNK = 1 << 20
PIECE = 1 << 16
"""Bytes that pass a link at a time, so that connections share it."""
END = b""


@dataclass(slots=True)
class Way:
    """How answers come.

    Attributes:
        seconds: Time after which each comes.
        rate: Bytes a second of all of them; infinite without a link.
        free: When the link is free again.
    """

    seconds: float
    rate: float = float("inf")
    free: float = 0.0

    async def wait(self, size: int) -> None:
        """Wait until the link has passed this number of bytes, after those that came before."""
        now = asyncio.get_running_loop().time()
        self.free = max(now, self.free) + size / self.rate
        if self.free > now:
            await asyncio.sleep(self.free - now)


async def main() -> None:
    """Listen on a free port of loopback."""
    server, way = sys.argv[1], Way(float(sys.argv[2]) / 1000, *map(float, sys.argv[3:]))
    listener = await asyncio.start_server(partial(_connect, server, way), "127.0.0.1", 0, limit=CHUNK)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await listener.serve_forever()


async def _connect(server: str, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parts = urlsplit(server)
    there, back = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=CHUNK)
    try:
        await asyncio.gather(_pass_on(reader, back, Way(0.0)), _pass_on(there, writer, way))
    except ConnectionError:
        pass  # one side has left; the other one sees the end of its connection
    finally:
        back.close()
        writer.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, way: Way) -> None:
    clock = asyncio.get_running_loop().time
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            due, data = await waiting.get()
            if due > clock():
                await asyncio.sleep(due - clock())
            if data == END:
                target.write_eof()
                return
            step = len(data) if way.rate == float("inf") else PIECE
            for start in range(0, len(data), step):
                piece = data[start : start + step]
                await way.wait(len(piece))
                target.write(piece)
                await target.drain()

    async def receive() -> None:
        data = b"none yet"
        while data != END:
            data = await source.read(CHUNK)
            waiting.put_nowait((clock() + way.seconds, data))

    await asyncio.gather(send(), receive())


if __name__ == "__main__":
    asyncio.run(main())
