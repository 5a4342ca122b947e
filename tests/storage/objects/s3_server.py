"""A server that speaks as much of S3 as an upload and a listing need, and whose answers a test decides on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.storage.objects.range_server import QuietServer, running

_BEGUN = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
Answer = Callable[[str, str], tuple[int, bytes] | None]
"""Given method and query of a request: status and body; None for silence until the server ends."""


@dataclass
class Store:
    """What a test sees of the server.

    Attributes:
        url: The endpoint.
        answer: What it says.
        asked: "METHOD query" of every request so far.
        heard: Set with every request.
        wake: Set when the server ends.
    """

    url: str
    answer: Answer
    asked: list[str] = field(default_factory=list)
    heard: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)


def begun(method: str, query: str) -> tuple[int, bytes] | None:
    """A store on which a multipart upload begins and takes parts."""
    if method == "POST":
        return 200, _BEGUN
    return (200, b"") if "partNumber" in query else (404, b"")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HTTPServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _reply(self) -> None:
        store, query = self.server.store, urlsplit(self.path).query
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        store.asked.append(f"{self.command} {query}")
        store.heard.set()
        found = store.answer(self.command, query)
        if found is None:
            store.wake.wait(120)
            self.close_connection = True
            return
        self.send_response(found[0])
        self.send_header("Content-Length", str(len(found[1])))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found[1])

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _reply


class _HTTPServer(QuietServer):
    store: Store


@contextmanager
def storing(answer: Answer) -> Iterator[Store]:
    """Run the server."""
    server = _HTTPServer(("127.0.0.1", 0), _Handler)
    server.store = Store(f"http://127.0.0.1:{server.server_address[1]}", answer)
    with running(server, server.store.wake):
        yield server.store
