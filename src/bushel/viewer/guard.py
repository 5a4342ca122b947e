"""Access to the viewer: a token in the path of URLs, a check of the Host header, and headers that bind the browser.

Every program and every web page on the machine can reach a viewer, so its address alone gives no
access: the path must contain the token. It is not kept in a cookie: browsers send a cookie of
127.0.0.1 to the servers on all its ports, and another one there could use it. The Host header must
name this server, or another web site could have its own name resolve to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from msgspec import Struct

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
)

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of every answer."""

_REFUSED = (
    "This page belongs to a viewer that `bushel view` started. Open "
    "the URL that it printed in its terminal: the token in it changes "
    "when the viewer is started again, unless --token-file keeps it.\n"
)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,128}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


def new_token() -> str:
    """Return a token of 192 random bits for URLs."""
    return secrets.token_urlsafe(24)


def kept_token(path: Path) -> str:
    """Return the token in a file, which is made with a new token if it does not exist.

    Raises:
        ValueError: It holds something else, or other users may read it.
        OSError: It cannot be read or written.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_text("utf-8", "replace").strip()
        if _TOKEN.fullmatch(token) is None:
            raise ValueError(
                f"{path}: expected a token of 32 to 128 letters, "
                "digits, - and _; name a file that does not exist yet"
            ) from None
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ValueError(
                f"{path}: other users can read or write this token: chmod 600 {path}"
            ) from None
        return token
    with os.fdopen(file, "w") as writable:
        token = new_token()
        writable.write(f"{token}\n")
    return token


class Door(Struct, frozen=True):
    """The requirements that a request must meet."""

    token: str
    hosts: tuple[
        str, ...
    ] = ()  # names that the Host header may have, apart from loopback addresses
    # whether every IP address is a valid Host, because the server listens on all interfaces
    any_address: bool = False
    # whether pages may be shown in a frame of a page on this machine, such as a notebook
    framed: bool = False

    def admits(self, token: str) -> bool:
        """Return whether this is the token, in a time that does not depend on the number of correct characters."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def allowed_host(door: Door, header: str | None) -> bool:
    """Return whether a Host header names this server."""
    match = _HOST.fullmatch(header or "")
    if match is None:
        return False
    name = match[1].strip("[]").lower().rstrip(".")
    if name == "localhost" or name in (host.strip("[]").lower() for host in door.hosts):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:  # a name, which an attacker may have chosen
        return False
    return address.is_loopback or door.any_address


def _refusal(status: int, text: str) -> Any:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(text, status, {"cache-control": "no-store"})


class Guard:
    """ASGI middleware that refuses requests without token, with a foreign Host, or of other methods than reading.

    Paths are `/-/TOKEN/…`. The application sees what follows; `bushel.prefix` of the scope is the
    part before, with which its links begin.
    """

    def __init__(self, app: App, door: Door) -> None:
        self._app, self._door = app, door
        ancestors = "'none'"
        if door.framed:
            ancestors = "'self' http://localhost:* http://127.0.0.1:* https://localhost:*"
        self._policy = _POLICY.format(ancestors=ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._with_headers(send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not allowed_host(self._door, headers.get(b"host")):
            await _refusal(421, "This server does not answer for that host name.\n")(
                scope, receive, answer
            )
            return
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await _refusal(405, "The viewer only reads.\n")(scope, receive, answer)
            return
        origin = headers.get(b"origin")
        if (
            scope["method"] == "POST"
            and origin is not None
            and origin.partition("://")[2] != headers.get(b"host")
        ):
            await _refusal(403, "Another site cannot ask this.\n")(scope, receive, answer)
            return
        token, _, rest = scope["path"].removeprefix("/-/").partition("/")
        if not scope["path"].startswith("/-/") or not self._door.admits(token):
            await _refusal(403, _REFUSED)(scope, receive, answer)
            return
        path = f"/{rest}"
        raw = path.encode("utf-8", "surrogateescape")
        inner = {**scope, "path": path, "raw_path": raw, "bushel.prefix": f"/-/{token}"}
        await self._app(inner, receive, answer)

    def _with_headers(self, send: Send) -> Send:
        added = [*HEADERS.items(), ("content-security-policy", self._policy)]
        fixed = [(name.encode(), value.encode()) for name, value in added]

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in fixed if name not in names]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return guarded
