"""A small HTTP server on loopback that answers ranges, and can be made to answer badly."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

_RANGE = re.compile(r"bytes=(\d+)-(\d+)?")
_SUFFIX = re.compile(r"bytes=-(\d+)")
Fault = Callable[["Handler", bytes], bool]
"""Called with the handler of a request and the bytes that it asks for; whether it has answered."""


@dataclass
class Server:
    """What a test sees of the server.

    Attributes:
        url: Where the folder is.
        folder: What is served.
        asked: (method, path, range) of every request so far.
        fault: Answers instead of the server, where it wants to.
        tags: Whether answers carry ETags.
        times: Whether they carry times of modification.
        wake: Set when the server ends, so that faults that wait for long do not.
    """

    url: str
    folder: Path
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    fault: Fault | None = None
    tags: bool = True
    times: bool = True
    wake: threading.Event = field(default_factory=threading.Event)

    def gets(self, name: str) -> list[str | None]:
        """The ranges that were asked of the file of this name."""
        return [ranged for method, path, ranged in list(self.asked) if method == "GET" and path.endswith(name)]


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET."""

    protocol_version = "HTTP/1.1"
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        state, ranged = self.server.state, self.headers.get("Range")
        name = unquote(urlsplit(self.path).path).lstrip("/")
        state.asked.append((self.command, name, ranged))
        path = state.folder / name
        too_long = max(map(len, name.split("/"))) > 255
        if too_long or not path.is_file():
            self.send_response(414 if too_long else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = path.read_bytes()
        first, last, status = 0, len(data), 200
        if ranged is not None and (match := _RANGE.fullmatch(ranged)):
            first, last = int(match[1]), min(len(data), int(match[2]) + 1 if match[2] else len(data))
            status = 206
            if first >= len(data):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        elif ranged is not None and data and (match := _SUFFIX.fullmatch(ranged)):
            first, status = max(0, len(data) - int(match[1])), 206
        if body and state.fault is not None and state.fault(self, data[first:last]):
            return
        self.begin(status, last - first, data, path, (first, last) if status == 206 else None)
        if body:
            self.wfile.write(data[first:last])

    def begin(
        self, status: int, length: int, data: bytes = b"", path: Path | None = None, span: tuple[int, int] | None = None
    ) -> None:
        """Send everything but the bytes."""
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if path is not None:
            if self.server.state.times:
                self.send_header("Last-Modified", formatdate(path.stat().st_mtime, usegmt=True))
            if self.server.state.tags:
                self.send_header("ETag", f'"{hashlib.md5(data).hexdigest()}"')
        if span is not None:
            self.send_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()


class QuietServer(ThreadingHTTPServer):
    """A server of a test, which ends with its connections: clients keep them for long, and each has a thread here."""

    daemon_threads = False  # so that closing waits for them
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection, and remember it."""
        connection, client = super().get_request()
        self._connections.add(connection)
        return connection, client

    def shutdown_request(self, request: object) -> None:
        """End a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)  # type: ignore[arg-type]

    def server_close(self) -> None:
        """End what is left of them."""
        for connection in list(self._connections):
            with suppress(OSError):  # ended in the meantime
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are part of the tests."""


class _HTTPServer(QuietServer):
    state: Server


@contextmanager
def running(server: QuietServer, wake: threading.Event) -> Iterator[None]:
    """Serve in a thread; in the end, wake the requests that wait, and end it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        wake.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder."""
    server = _HTTPServer(("127.0.0.1", 0), Handler)
    server.state = Server(f"http://127.0.0.1:{server.server_address[1]}", folder)
    with running(server, server.state.wake):
        yield server.state


def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: int) -> Iterator[Server]:
    """Serve a new folder to a process that retries requests for `patience` seconds: the body of a fixture."""
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", str(patience))
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as state:
        yield state
