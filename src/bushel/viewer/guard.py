"""Access to the viewer: a token, a check of the Host header, and headers that bind the browser.

A viewer is reachable by every program and every web page on the machine, so an address alone opens nothing. The token
in the printed URL does; a cookie carries it from then on. The Host header must name this server, or another web site
could have its own name resolve to 127.0.0.1 (DNS rebinding) and read data with the visitor's cookie.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

__all__ = ["HEADERS", "Door", "Guard", "allowed_host", "new_token"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
)

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of every answer."""

_REFUSED = (
    "This page belongs to a viewer that `bushel view` started. Open the URL with ?token=… that it printed in its "
    "terminal; the browser then keeps a cookie.\n"
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


def new_token() -> str:
    """Return a token of 192 random bits for URLs."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Door:
    """The requirements that a request must meet.

    Attributes:
        token: The token.
        hosts: Names that the Host header may have, besides loopback addresses.
        any_address: Whether every IP address is a valid Host, because the server listens on all interfaces.
        cookie: Name of the cookie. Cookies are shared by all ports of a host, so the port is in the name.
        framed: Whether pages may be shown in a frame of a page on this machine, such as a notebook.
    """

    token: str
    hosts: tuple[str, ...] = ()
    any_address: bool = False
    cookie: str = "bushel"
    framed: bool = False

    def admits(self, token: str | None) -> bool:
        """Return whether this is the token, in a time that does not depend on how much of it is right."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


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


class Guard:
    """ASGI middleware that refuses requests without token, with a foreign Host, or of other methods than reading.

    A path `/-/TOKEN/…` is admitted, too, and its links keep that prefix: cookies of a frame whose page has another
    host name are not sent.
    """

    def __init__(self, app: App, door: Door) -> None:
        self._app, self._door = app, door
        ancestors = "'self' http://localhost:* http://127.0.0.1:* https://localhost:*" if door.framed else "'none'"
        self._policy = _POLICY.format(ancestors=ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not allowed_host(self._door, headers.get(b"host")):
            await self._refuse(send, 421, "This server does not answer for that host name.\n")
            return
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await self._refuse(send, 405, "The viewer only reads.\n")
            return
        origin = headers.get(b"origin")
        if scope["method"] == "POST" and origin is not None and origin.partition("://")[2] != headers.get(b"host"):
            await self._refuse(send, 403, "Another site cannot ask this.\n")
            return
        scope = dict(scope)
        prefix, token, path = self._token_in_path(scope["path"])
        if token is not None:
            if not self._door.admits(token):
                await self._refuse(send, 403, _REFUSED)
                return
            scope["path"], scope["raw_path"] = path, path.encode("utf-8", "surrogateescape")
            scope["bushel.prefix"] = prefix
        elif not self._door.admits(_cookie(headers.get(b"cookie", ""), self._door.cookie)):
            await self._first_visit(scope, send)
            return
        await self._app(scope, receive, self._with_headers(send))

    @staticmethod
    def _token_in_path(path: str) -> tuple[str, str | None, str]:
        if not path.startswith("/-/"):
            return "", None, path
        token, _, rest = path[3:].partition("/")
        return f"/-/{token}", token, f"/{rest}"

    async def _first_visit(self, scope: Scope, send: Send) -> None:
        """Set the cookie of a request that brings the token in its query, and redirect to the URL without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = dict(query).get("token")
        if not self._door.admits(token):
            await self._refuse(send, 403, _REFUSED)
            return
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = scope["path"]
        # a path that begins with two slashes would name another host
        target = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
        cookie = f"{self._door.cookie}={self._door.token}; Path=/; HttpOnly; SameSite=Lax"
        extra = [
            (b"location", target.encode("latin-1", "replace")),
            (b"set-cookie", cookie.encode()),
            (b"cache-control", b"no-store"),
        ]
        await self._with_headers(send)({"type": "http.response.start", "status": 303, "headers": extra})
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, send: Send, status: int, text: str) -> None:
        body = text.encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await self._with_headers(send)({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _with_headers(self, send: Send) -> Send:
        added = [*HEADERS.items(), ("content-security-policy", self._policy)]
        fixed = [(name.encode(), value.encode()) for name, value in added]

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in fixed if name not in own]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return guarded


def _cookie(header: str, name: str) -> str | None:
    for part in header.split(";"):
        key, equals, value = part.strip().partition("=")
        if equals and key == name:
            return value
    return None
