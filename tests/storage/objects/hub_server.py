"""Two HTTP servers on loopback that answer as the Hugging Face Hub and its content network do."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from tests.storage.objects.range_server import QuietServer, running

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_LARGE = 2000
_PAGE = 7
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass
class Hub:
    """What a test sees of the Hub.

    Attributes:
        url: The endpoint.
        files: URL of the content network.
        folder: The files of the repository `org/photos`.
        token: The token that is needed; None for a public dataset.
        busy: How many requests are still answered with 429.
        asked: (method, path) of every request to the Hub so far.
        leaked: Whether the content network was sent a token.
        wake: Set when the servers end.
    """

    url: str
    files: str
    folder: Path
    token: str | None = None
    busy: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    leaked: bool = False
    wake: threading.Event = field(default_factory=threading.Event)

    def listings(self) -> int:
        """Return how many requests for a first page of a listing there were."""
        return sum("/tree/" in path and "cursor" not in path for _, path in self.asked)


class _Server(QuietServer):
    state: Hub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.handle_request()

    def do_GET(self) -> None:
        self.handle_request()

    def handle_request(self) -> None:
        raise NotImplementedError

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def say_file(self, path: Path, tag: str) -> None:
        data = path.read_bytes()
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            self.say(200, data, ETag=f'"{tag}"', Accept_Ranges="bytes")
            return
        first, last = int(match[1]), min(int(match[2]), len(data) - 1)
        span = f"bytes {first}-{last}/{len(data)}"
        self.say(206, data[first : last + 1], ETag=f'"{tag}"', Content_Range=span)


class _HubHandler(_Handler):
    def handle_request(self) -> None:
        state = self.server.state
        state.asked.append((self.command, self.path))
        if state.busy:
            state.busy -= 1
            self.say(429)
            return
        if state.token is not None and self.headers.get("Authorization") != f"Bearer {state.token}":
            self.say(401)
            return
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        if path in ("/api/datasets/org/photos/revision/main", "/api/datasets/org/photos/revision/refs/convert/parquet"):
            self.say(200, json.dumps({"id": "org/photos", "sha": COMMIT}).encode())
        elif path.startswith(f"/api/datasets/org/photos/tree/{COMMIT}"):
            self.list(path.partition(COMMIT)[2].strip("/"), int(query.get("cursor", ["0"])[0]))
        elif path.startswith(f"/datasets/org/photos/resolve/{COMMIT}/"):
            self.resolve(path.partition(COMMIT)[2].strip("/"))
        else:
            self.say(404)

    def list(self, folder: str, cursor: int) -> None:
        root = self.server.state.folder
        if not (root / folder).is_dir():
            self.say(404)
            return
        entries = []
        for path in sorted((root / folder).rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            kind = "file" if path.is_file() else "directory"
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry = {"type": kind, "oid": git, "size": len(data), "path": path.relative_to(root).as_posix()}
            if len(data) > _LARGE:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        more = {}
        if cursor + _PAGE < len(entries):
            following = f"{self.server.state.url}{urlsplit(self.path).path}?recursive=true&cursor={cursor + _PAGE}"
            more = {"Link": f'<{following}>; rel="next"'}
        self.say(200, json.dumps(entries[cursor : cursor + _PAGE]).encode(), **more)

    def resolve(self, name: str) -> None:
        path = self.server.state.folder / name
        if not path.is_file():
            self.say(404)
        elif path.stat().st_size > _LARGE:
            linked = hashlib.sha256(path.read_bytes()).hexdigest()
            self.say(
                302, Location=f"{self.server.state.files}/{quote(name)}?signature=secret", X_Linked_ETag=f'"{linked}"'
            )
        else:
            self.say_file(path, hashlib.sha1(path.read_bytes()).hexdigest())


class _FilesHandler(_Handler):
    def handle_request(self) -> None:
        state = self.server.state
        state.leaked = state.leaked or "Authorization" in self.headers
        parts = urlsplit(self.path)
        if parts.query != "signature=secret":
            self.say(403)
        else:  # its tags differ from the listing's
            self.say_file(state.folder / unquote(parts.path).lstrip("/"), "of-the-network")


@contextmanager
def serving_hub(folder: Path) -> Iterator[Hub]:
    """Serve a folder as the dataset `org/photos`."""
    hub, files = _Server(("127.0.0.1", 0), _HubHandler), _Server(("127.0.0.1", 0), _FilesHandler)
    urls = [f"http://127.0.0.1:{server.server_address[1]}" for server in (hub, files)]
    hub.state = files.state = Hub(urls[0], urls[1], folder)
    with running(hub, hub.state.wake), running(files, hub.state.wake):
        yield hub.state


def hub_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Yield a Hub with an empty repository, which is the Hub of this process: the body of a fixture."""
    (tmp_path / "repository").mkdir()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "5")
    with serving_hub(tmp_path / "repository") as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served
