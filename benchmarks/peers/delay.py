"""A TCP proxy that hands on every answer a fixed time later: ``delay.py SERVER MILLISECONDS``.

It prints its URL, and runs until it is terminated. Requests pass at once, so the time is the time of a round trip. Data
on the way are not limited, as on a fast network.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from urllib.parse import urlsplit

CHUNK = 1 << 20
END = b""


async def main() -> None:
    """Listen on a free port of loopback."""
    server, seconds = sys.argv[1], float(sys.argv[2]) / 1000
    listener = await asyncio.start_server(partial(_connect, server, seconds), "127.0.0.1", 0, limit=CHUNK)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await listener.serve_forever()


async def _connect(server: str, seconds: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parts = urlsplit(server)
    there, back = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=CHUNK)
    try:
        await asyncio.gather(_pass_on(reader, back, 0.0), _pass_on(there, writer, seconds))
    except ConnectionError:
        pass  # one side has left; the other one sees the end of its connection
    finally:
        back.close()
        writer.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
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
            target.write(data)
            await target.drain()

    async def receive() -> None:
        data = b"none yet"
        while data != END:
            data = await source.read(CHUNK)
            waiting.put_nowait((clock() + seconds, data))

    await asyncio.gather(send(), receive())


if __name__ == "__main__":
    asyncio.run(main())
