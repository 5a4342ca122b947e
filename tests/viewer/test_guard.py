"""Who gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from bushel.viewer.guard import Door, Guard, allowed_host, new_token

DOOR = Door("secret", hosts=("box.lan",))
HOME = "/-/secret/"


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain"), (b"x-prefix", scope.get("bushel.prefix", "").encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def ask(
    path: str = "/", query: str = "", method: str = "GET", door: Door = DOOR, **headers: str
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of the answer."""
    sent: list[MutableMapping[str, Any]] = []
    headers = {"host": "127.0.0.1:80", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Guard(_hello, door)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"].decode()


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8000", True),
        ("127.0.0.1", True),
        ("localhost:1", True),
        ("LOCALHOST", True),
        ("[::1]:80", True),
        ("box.lan:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:80", False),
        ("192.168.0.7:80", False),
        ("", False),
        (None, False),
        ("a:b:c", False),
        ("127.0.0.1:80:80", False),
    ],
)
def test_only_names_of_this_server_are_answered(host: str | None, allowed: bool) -> None:
    assert allowed_host(DOOR, host) is allowed


def test_on_all_interfaces_any_address_is_a_name_but_other_names_are_not() -> None:
    door = Door("secret", hosts=("box",), any_address=True)
    assert allowed_host(door, "192.168.0.7:80")
    assert allowed_host(door, "box:80")
    assert not allowed_host(door, "rebound.example:80")


def test_without_token_nothing_is_reported() -> None:
    for path in ("/", "/d/0", "/static/view.css", "/api/0/rows"):
        status, _, body = ask(path)
        assert status == 403
        assert "token" in body


def test_no_answer_sets_a_cookie_and_no_cookie_opens() -> None:
    """Browsers send a cookie of 127.0.0.1 to every port there."""
    assert "set-cookie" not in ask(HOME)[1]
    assert ask("/d/0", cookie="secret; bushel=secret; c=secret")[0] == 403
    assert ask("/", "token=secret")[0] == 403


@pytest.mark.parametrize("token", ["", "secre", "secrets", "SECRET", "é"])
def test_a_wrong_token_is_refused(token: str) -> None:
    assert ask(f"/-/{token}/d/0")[0] == 403
    assert ask(f"/-/{token}")[0] == 403


def test_a_token_in_the_path_is_the_beginning_of_links() -> None:
    status, headers, body = ask("/-/secret/d/0")
    assert (status, headers["x-prefix"], body) == (200, "/-/secret", "/d/0")


def test_a_foreign_host_is_refused_even_with_the_token() -> None:
    assert ask(HOME, host="evil.example")[0] == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    assert ask(HOME, method=method)[0] == 405


def test_other_sites_cannot_post() -> None:
    for origin, status in (("http://evil.example", 403), ("http://127.0.0.1:80", 200), ("null", 403)):
        assert ask(HOME, method="POST", origin=origin)[0] == status


def test_every_answer_binds_the_browser() -> None:
    for answer in (ask("/"), ask(HOME), ask("/-/wrong/"), ask("/", host="x")):
        headers = answer[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_frames_are_for_pages_of_this_machine_only() -> None:
    policy = ask("/-/t/", door=Door("t", framed=True))[1]["content-security-policy"]
    assert "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*" in policy


def test_tokens_differ_and_are_long() -> None:
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) >= 32
