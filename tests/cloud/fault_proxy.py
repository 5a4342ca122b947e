"""A TCP proxy before a real server, which cuts, delays and refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Proxy:
    """What a test does with the proxy.

    Attributes:
        url: Where it listens.
        mode: Given the number of a connection since the mode was set, what happens to it: `pass`, `cut:N` after N
            bytes of the answer, `busy` (503), `refuse` (closed at once), `stall:N` (silent after N bytes) or `slow:N`
            (N bytes at a time, with pauses).
        connections: Connections since the mode was set.
    """

    url: str
    mode: Callable[[int], str] = lambda number: "pass"
    connections: int = 0
    _open: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)

    def become(self, mode: Callable[[int], str]) -> None:
        """Set the mode, for connections from now on."""
        with self._lock:
            self.mode, self.connections = mode, 0

    def next(self) -> str:
        """The mode of a new connection."""
        with self._lock:
            self.connections += 1
            return self.mode(self.connections - 1)

    def drop(self) -> None:
        """Close the connections that are open now."""
        with self._lock:
            dropped, self._open = self._open, []
        for connection in dropped:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def hold(self, connection: socket.socket) -> None:
        """Remember a connection, to close it in the end."""
        with self._lock:
            self._open.append(connection)

    def wait(self, seconds: float) -> None:
        """Do nothing for so long, or until the end."""
        self._end.wait(seconds)

    def end(self) -> None:
        """Close all connections."""
        self._end.set()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_of(server: str) -> Iterator[Proxy]:
    """Run a proxy before the server at this URL. It makes one connection for each of its clients'."""
    parts = urlsplit(server)
    target = (parts.hostname or "", parts.port or 80)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    proxy = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            proxy.hold(client)
            thread = threading.Thread(target=_serve, args=(client, target, proxy), daemon=True)
            thread.start()
            threads.append(thread)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield proxy
    finally:
        proxy.end()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join(5)


def _serve(client: socket.socket, target: tuple[str, int], proxy: Proxy) -> None:
    mode, _, text = proxy.next().partition(":")
    with client, suppress(OSError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(60)
        if mode == "refuse":
            return
        if mode == "busy":
            client.recv(1 << 16)
            client.sendall(_BUSY)
            return
        with socket.create_connection(target, timeout=60) as server:
            proxy.hold(server)
            upward = threading.Thread(target=_pump, args=(client, server), daemon=True)
            upward.start()
            _answer(server, client, mode, int(text or 0), proxy)
            for connection in (server, client):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            upward.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _answer(server: socket.socket, client: socket.socket, mode: str, limit: int, proxy: Proxy) -> None:
    sent = 0
    while data := server.recv(limit if mode == "slow" else 1 << 16):
        if mode in ("cut", "stall"):
            data = data[: limit - sent]
        client.sendall(data)
        sent += len(data)
        if mode == "cut" and sent >= limit:
            return
        if mode == "stall" and sent >= limit:
            proxy.wait(60)
            return
        if mode == "slow":
            proxy.wait(0.05)
