"""Servers and networks that fail: the same bytes in the end, or an error that says what is wrong; never a hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from obstore.store import LocalStore
from tests.ends_of_threads import own_threads, wait_for_none
from tests.interrupts import interruptible
from tests.storage.objects.conditional_store import keeping
from tests.storage.objects.range_server import Fault, Handler, Server
from typing_extensions import Buffer

import bushel
from bushel.kernels import RangeValues
from bushel.storage import Extents, as_path, gather, open_file, read_many
from bushel.storage.objects import client, retries
from bushel.storage.objects.ranges import receive_span
from bushel.storage.objects.remotefile import RemoteFile

DATA = np.random.default_rng(5).bytes(9_000_000)
EXTENTS = Extents(0, np.array([0, 3_000_000, 100], np.int64), np.array([50_000, 5_500_000, 0], np.int64))
WANTED = [DATA[:50_000], DATA[3_000_000:8_500_000], b""]


def times(count: int, fault: Fault) -> Fault:
    """The fault for the first requests only."""
    left, lock = [count], threading.Lock()

    def once_more(handler: Handler, data: bytes) -> bool:
        with lock:
            left[0] -= 1
            due = left[0] >= 0
        return due and fault(handler, data)

    return once_more


def cut(handler: Handler, data: bytes) -> bool:
    handler.begin(206, len(data), DATA, handler.server.state.folder / "x", _span(handler))
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True
    return True


def cut_at_once(handler: Handler, data: bytes) -> bool:
    handler.close_connection = True
    return True


def busy(handler: Handler, data: bytes) -> bool:
    handler.begin(503, 0)
    return True


def silent(handler: Handler, data: bytes) -> bool:
    handler.server.state.wake.wait(60)
    handler.close_connection = True
    return True


def silent_in_the_middle(handler: Handler, data: bytes) -> bool:
    handler.begin(206, len(data), DATA, handler.server.state.folder / "x", _span(handler))
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    return silent(handler, data)


def slow(handler: Handler, data: bytes) -> bool:
    handler.begin(206, len(data), DATA, handler.server.state.folder / "x", _span(handler))
    for start in range(0, len(data), 1 << 20):
        handler.server.state.wake.wait(0.1)
        handler.wfile.write(data[start : start + (1 << 20)])
    return True


def whole(handler: Handler, data: bytes) -> bool:
    handler.begin(200, len(DATA), DATA, handler.server.state.folder / "x")
    handler.wfile.write(DATA)
    return True


def another_range(handler: Handler, data: bytes) -> bool:
    handler.begin(206, len(data), DATA, handler.server.state.folder / "x", (7, 7 + len(data)))
    handler.wfile.write(data)
    return True


def _span(handler: Handler) -> tuple[int, int]:
    first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
    return int(first), int(last) + 1


@pytest.mark.parametrize(
    "fault", [cut, cut_at_once, busy, silent, silent_in_the_middle, slow], ids=lambda fault: fault.__name__
)
@pytest.mark.parametrize("read", ["many", "one", "gathered"])
def test_same_bytes(server: Server, monkeypatch: pytest.MonkeyPatch, fault: Fault, read: str) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.5")
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    server.fault = times(2, fault)
    if read == "many":
        assert read_many([file], EXTENTS) == WANTED
    elif read == "gathered":
        assert gather([file], EXTENTS)[0].tobytes() == b"".join(filter(None, WANTED))
    else:
        assert file.read(3_000_000, 5_500_000) == WANTED[1]


@pytest.mark.parametrize(
    ("fault", "timeout", "message"),
    [
        (cut, "30", "requests failed, the last one with"),
        (busy, "30", "503"),
        (silent, "0.5", "requests failed, the last one with"),
        (silent_in_the_middle, "0.5", "requests failed, the last one with"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_patience_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch, fault: Fault, timeout: str, message: str
) -> None:
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "1")
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", timeout)
    server.fault = fault
    with pytest.raises(ConnectionError, match=message) as caught:
        read_many([file], EXTENTS)
    assert f"{server.url}/x" in str(caught.value)
    server.fault = None
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "60")
    assert read_many([file], EXTENTS) == WANTED


@pytest.mark.parametrize(
    ("url", "cause"),
    [("http://127.0.0.1:1", "[Cc]onnection refused"), ("http://nowhere.invalid", "failed to lookup address")],
)
def test_nobody_there(monkeypatch: pytest.MonkeyPatch, url: str, cause: str) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "60")  # which is not waited for
    with pytest.raises(ConnectionError, match=f"{url}/.*{cause}.*; check the URL, the endpoint and the network"):
        bushel.open(f"{url}/x.tar")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "0.3")
    monkeypatch.setattr(retries, "_reached", {url})  # it may come back
    with pytest.raises(ConnectionError, match="set BUSHEL_NETWORK_PATIENCE to more seconds"):
        bushel.open(f"{url}/x.tar")


def test_threads_of_an_opening_that_fails_end_while_the_error_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "0.3")
    with pytest.raises(ConnectionError) as caught:
        bushel.open("http://127.0.0.1:1/x.tar")
    wait_for_none(lambda: [name for name in own_threads() if name.startswith("bushel-manifest")])
    assert caught.value.__traceback__


@pytest.mark.parametrize("name", ["x" * 300 + ".tar", "x" * 300 + "/a.tar"])
@pytest.mark.parametrize("store", ["server", "folder"])
def test_a_name_that_is_too_long_is_not_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str, store: str
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1000.0)  # with which a retry would fail
    url = f"{server.url}/{name}"
    if store == "folder":
        monkeypatch.setattr(client, "_make", lambda *_: LocalStore(prefix=str(server.folder)))
        url = f"s3://bucket/{name}"
    with pytest.raises(FileNotFoundError, match="its name is too long for the server"):
        open_file(as_path(url))
    rows = server.folder / "rows.jsonl"
    rows.write_text(f'{{"image": "{name}"}}\n')
    with pytest.raises(bushel.errors.FormatError, match="names files that cannot be found: 'xxx"):
        bushel.open(url.replace(name, "rows.jsonl"), spec={"image": "jpg(path)"})


def test_an_account_that_is_not_named_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1000.0)  # with which a retry would fail
    with pytest.raises(PermissionError, match="no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME"):
        bushel.open("az://container/x.tar")


def test_the_bytes_of_a_short_range_are_the_value(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (server.folder / "x").write_bytes(DATA)
    answers: list[object] = []
    fetch = RemoteFile.fetch

    def kept(file: RemoteFile, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        answers.append(answer := fetch(file, start, stop, give_up))
        return answer

    monkeypatch.setattr(RemoteFile, "fetch", kept)
    [value] = read_many([open_file(as_path(f"{server.url}/x"))], Extents(0, np.array([5]), np.array([1000])))
    assert value is answers[0]  # no copy of it
    assert value == DATA[5:1005]


def test_a_store_that_ignores_ranges_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1000.0)
    with keeping(monkeypatch) as kept:
        kept.objects["bucket/x.bin"] = (b"0123456789", 0.0)
        file = open_file(as_path("S3://bucket/x.bin"))
        with pytest.raises(bushel.errors.UnsupportedError, match="the server does not support this: .*non-partial"):
            file.read(2, 3)


def test_a_long_retry_is_reported_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    monkeypatch.setattr(retries, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(retries, "_warned", -1e9)
    server.fault = times(3, busy)
    with pytest.warns(RuntimeWarning, match=r"/x: .*503.*; trying again for up to \d+ seconds") as said:
        assert file.read(0, 100) == DATA[:100]
    assert len(said) == 1


def test_a_handle_needs_ranges(server: Server) -> None:
    """`python -m http.server` answers so."""
    (server.folder / "x").write_bytes(DATA)
    server.fault = whole
    with (
        as_path(f"{server.url}/x").open("rb") as handle,
        pytest.raises(bushel.errors.UnsupportedError, match=r"pipe:curl"),
    ):
        handle.read(10)


def test_server_without_ranges(server: Server) -> None:
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    server.fault = whole
    with pytest.raises((bushel.errors.UnsupportedError, ConnectionError), match="/x"):
        read_many([file], EXTENTS)


def test_answer_of_another_range(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "1")
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    server.fault = another_range
    with pytest.raises(OSError, match="/x"):
        read_many([file], EXTENTS)


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="BUSHEL_NETWORK_TIMEOUT is 'soon'"):
        bushel.open("http://127.0.0.1:1/x.tar")


def test_certificates_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_CA", "/missing.pem")
    with pytest.raises(ValueError, match=r"BUSHEL_NETWORK_CA is '/missing\.pem', which cannot be read: No such file"):
        bushel.open("https://127.0.0.1:1/x.tar")


READ = """
import sys, numpy as np
from bushel.storage import Extents, as_path, open_file, read_many
file = open_file(as_path(sys.argv[1]))
print("open", flush=True)
read_many([file], Extents(0, np.arange({count}) * 1_000_000, np.full({count}, 1000)))
"""


@pytest.mark.parametrize("count", [1, 6])
def test_interrupt(server: Server, count: int) -> None:
    (server.folder / "x").write_bytes(DATA)
    asked = threading.Event()

    def fault(handler: Handler, data: bytes) -> bool:
        asked.set()
        return silent(handler, data)

    server.fault = fault
    process = subprocess.Popen(
        [sys.executable, "-c", READ.format(count=count), f"{server.url}/x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**interruptible(), "BUSHEL_NETWORK_PATIENCE": "1000", "BUSHEL_NETWORK_TIMEOUT": "1"},
    )
    assert asked.wait(60)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    "fault", [cut, cut_at_once, busy, silent_in_the_middle, slow], ids=lambda fault: fault.__name__
)
def test_same_values_of_a_range(server: Server, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.5")
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    assert isinstance(file, RemoteFile)
    server.fault = times(2, fault)
    start, stop, offset, length = 1_000_000, 4_000_000, [0, 100_000, 100_000, 2_999_999], [90_000, 2_000_000, 0, 1]
    values = RangeValues(np.array(offset), np.array(length))
    receive_span(file, start, stop, values, threading.Event())
    assert values.take() == [DATA[start + at : start + at + size] for at, size in zip(offset, length, strict=True)]


def test_values_of_an_object_that_was_replaced(server: Server) -> None:
    (server.folder / "x").write_bytes(DATA)
    file = open_file(as_path(f"{server.url}/x"))
    assert isinstance(file, RemoteFile)
    (server.folder / "x").write_bytes(bytes(len(DATA)))
    with pytest.raises(bushel.errors.FormatError, match="changed since the dataset was opened"):
        receive_span(file, 0, 3_000_000, RangeValues(np.array([0]), np.array([9])), threading.Event())
