"""A server that keeps the objects of S3 buckets, with conditional puts, listings and a clock that a test sets.

It also compares generations, as Google Cloud Storage does (`as_google`).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from obstore.store import GCSStore
from tests.storage.objects.range_server import QuietServer, running

from bushel.storage.objects import client

__all__ = ["Kept", "as_google", "keeping"]


@dataclass
class Kept:
    """What a test sees of the server.

    Attributes:
        url: The endpoint.
        objects: "bucket/key" to content and time of the last put.
        asked: "METHOD bucket/key" of every request so far; a listing is "LIST bucket/prefix".
        generations: "bucket/key" to the number of the put that made the object.
        now: The clock of the server, in seconds since 1970.
        compares: How If-Match is compared with an ETag: with its quotes, without ("plain"), or "never" equal.
        before: Called in the thread of a request with its entry of `asked`, before it is answered.
    """

    url: str
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    generations: dict[str, int] = field(default_factory=dict)
    now: float = 1_700_000_000.0
    compares: Literal["quoted", "plain", "never"] = "quoted"
    lock: threading.Lock = field(default_factory=threading.Lock)
    before: Callable[[str], None] | None = None

    def matches(self, key: str, wanted: str) -> bool:
        """Return whether an object has the ETag in a header If-Match."""
        if self.compares == "never" or key not in self.objects:
            return False
        return wanted == (self.tag(key) if self.compares == "quoted" else self.tag(key).strip('"'))

    def tag(self, key: str) -> str:
        """The ETag of an object, which is that of its content, as of S3."""
        return f'"{hashlib.md5(self.objects[key][0]).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HTTPServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", key: str | None = None) -> None:
        kept = self.server.kept
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if key is not None:
            self.send_header("ETag", kept.tag(key))
            self.send_header("x-goog-generation", str(kept.generations.get(key, 1)))
            self.send_header("Last-Modified", formatdate(kept.objects[key][1], usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _key(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)

    def do_GET(self) -> None:
        kept, (key, query) = self.server.kept, self._key()
        prefix = f"{key}/{query.get('prefix', [''])[0]}"
        asked = f"LIST {prefix}" if "list-type" in query else f"{self.command} {key}"
        kept.asked.append(asked)
        if kept.before is not None:
            kept.before(asked)
        with kept.lock:
            if "list-type" in query:
                self._answer(200, self._listing(key, prefix, "delimiter" in query))
            elif key in kept.objects:
                self._answer(200, kept.objects[key][0], key)
            else:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_HEAD = do_GET

    def _listing(self, bucket: str, prefix: str, delimited: bool) -> bytes:
        kept, found, folders = self.server.kept, "", dict[str, None]()
        for key in sorted(kept.objects):
            if not key.startswith(prefix):
                continue
            rest = key.removeprefix(prefix)
            if delimited and "/" in rest:
                folders[f"{prefix}{rest.partition('/')[0]}/".removeprefix(f"{bucket}/")] = None
                continue
            found += (
                f"<Contents><Key>{escape(key.removeprefix(f'{bucket}/'))}</Key><Size>{len(kept.objects[key][0])}</Size>"
                f"<LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>{escape(kept.tag(key))}</ETag></Contents>"
            )
        found += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

    def do_PUT(self) -> None:
        kept, (key, _) = self.server.kept, self._key()
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with kept.lock:
            kept.asked.append(f"PUT {key}")
            wanted = self.headers.get("If-Match")
            changed = wanted is not None and not kept.matches(key, wanted)
            generation = self.headers.get("x-goog-if-generation-match")
            there = kept.generations.get(key, 1) if key in kept.objects else 0
            changed = changed or (generation is not None and generation != str(there))
            if changed or (self.headers.get("If-None-Match") == "*" and key in kept.objects):
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            else:
                kept.objects[key] = data, kept.now
                kept.generations[key] = there + 1
                self._answer(200, key=key)

    def do_DELETE(self) -> None:
        kept, (key, _) = self.server.kept, self._key()
        with kept.lock:
            kept.asked.append(f"DELETE {key}")
            kept.objects.pop(key, None)
            self._answer(204)

    def do_POST(self) -> None:
        kept, (bucket, query) = self.server.kept, self._key()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        with kept.lock:
            if "delete" not in query:
                self._answer(501, b"<Error><Code>NotImplemented</Code></Error>")
                return
            deleted = ""
            for piece in body.split("<Key>")[1:]:
                key = f"{bucket}/{piece.partition('</Key>')[0]}"
                kept.asked.append(f"DELETE {key}")
                kept.objects.pop(key, None)
                deleted += f"<Deleted><Key>{escape(key.removeprefix(f'{bucket}/'))}</Key></Deleted>"
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


class _HTTPServer(QuietServer):
    kept: Kept


@contextmanager
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """Run the server, as the endpoint of all S3 buckets."""
    server = _HTTPServer(("127.0.0.1", 0), _Handler)
    server.kept = Kept(f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.kept.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "5")
    with running(server, threading.Event()):
        yield server.kept


def as_google(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every bucket be one of Google Cloud Storage at this server."""
    names = ("client_email", "private_key", "private_key_id")
    account = json.dumps({"gcs_base_url": kept.url, "disable_oauth": True, **dict.fromkeys(names, "")})
    store = GCSStore("bucket", service_account_key=account, client_options={"allow_http": True})
    monkeypatch.setattr(client, "_make", lambda *_: store)
