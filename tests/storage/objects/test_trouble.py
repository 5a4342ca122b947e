"""Objects that change under a reader, servers that answer byte by byte, and credentials in what is printed."""

from __future__ import annotations

import json
import logging
import pickle
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from tests.interrupts import interruptible
from tests.storage.objects.range_server import Fault, Handler, Server
from tests.storage.objects.s3_server import storing

import bushel
from bushel.storage import as_path, open_file

SPEC = {"data": "bytes", "label": "int"}
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIDSECRETONE",
    "AWS_SECRET_ACCESS_KEY": "secret-number-two",
    "AWS_SESSION_TOKEN": "secret-number-three",
    "AZURE_STORAGE_ACCOUNT_NAME": "account",
    "AZURE_STORAGE_SAS_TOKEN": "sv=2021&sig=secret-number-four",
}
PARTS = ["SECRETONE", "secret-number"]


def write(folder: Path, value: int) -> None:
    with bushel.Writer(folder, SPEC, container="tar", shard_samples=8, sync=False) as writer:
        for number in range(32):
            writer.append({"data": bytes([value, number]) * 4000, "label": number}, key=f"k{number}")


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_an_object_that_changes_in_mid_epoch(server: Server, tmp_path: Path, batches: int) -> None:
    write(server.folder / "set", 1)
    write(tmp_path / "other", 2)
    dataset = bushel.open(f"{server.url}/set")
    loader = bushel.Loader(dataset, 4, shuffle=True, seed=0, threads=1, prefetch_bytes=100_000)  # less than the dataset
    epoch = iter(loader)
    found = [next(epoch) for _ in range(batches)]
    for path in (tmp_path / "other").glob("*.tar"):
        path.replace(server.folder / "set" / path.name)
    with pytest.raises(bushel.errors.FormatError, match="the object has changed since the dataset was opened"):
        found.extend(epoch)
    values = {bytes(value[:1]) for batch in found for value in batch["data"]}
    assert values <= {b"\1"}, "bytes of both"


def drip(handler: Handler, data: bytes) -> bool:
    first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
    state = handler.server.state
    whole = (state.folder / handler.path.lstrip("/")).read_bytes()
    handler.begin(206, len(data), whole, state.folder / handler.path.lstrip("/"), (int(first), int(last) + 1))
    for number in range(len(data)):
        if state.wake.wait(0.02):
            break
        handler.wfile.write(data[number : number + 1])
        handler.wfile.flush()
    handler.close_connection = True
    return True


def dripping(count: int) -> Fault:
    """The fault for the first requests of data only."""
    left = [count]

    def fault(handler: Handler, data: bytes) -> bool:
        left[0] -= 1
        return left[0] >= 0 and drip(handler, data)

    return fault


def test_drips_are_given_up_and_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).bytes(100_000)
    (server.folder / "x").write_bytes(data)
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.1")
    file = open_file(as_path(f"{server.url}/x"))
    server.fault = dripping(2)
    assert file.read(10, 50_000) == data[10:50_010]


def test_drips_that_do_not_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server.folder / "set", 1)
    dataset = bushel.open(f"{server.url}/set")
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.1")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "0.5")
    server.fault = drip
    with pytest.raises(ConnectionError, match=r"http://.*tar: \d+ requests failed.*BUSHEL_NETWORK_PATIENCE"):
        dataset.read([0, 20])


def test_ctrl_c_while_it_drips(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server.folder / "set", 1)
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.2")
    code = (
        "import sys, bushel; dataset = bushel.open(sys.argv[1]); print('ready', flush=True); sys.stdin.readline(); "
        "print('reading', flush=True); dataset.read([0, 20])"
    )
    command = [sys.executable, "-c", code, f"{server.url}/set"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=interruptible(), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        server.fault = drip
        before = len(server.asked)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "reading\n"
        while len(server.asked) == before:
            server.wake.wait(0.02)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in text
    assert process.returncode != 0


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "somewhere")
    for name in ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "0.2")
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.2")


def assert_silent(text: str) -> None:
    printed = [line for line in text.splitlines() if any(part in line for part in PARTS)]
    assert not printed, printed


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("url", ["s3://bucket/set/x.tar", "az://box/set/x.tar"])
@pytest.mark.parametrize("status", [403, 404, 500, 503, None], ids=str)
def test_no_credentials_in_errors(
    url: str, status: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    with storing(lambda method, query: None if status is None else (status, b"<Error>no</Error>")) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", store.url)
        attempts = (
            lambda: bushel.open(url),
            lambda: bushel.verify(url),
            lambda: bushel.index(url),
            lambda: bushel.Writer(url, SPEC).close(),
        )
        for attempt in attempts:
            with pytest.raises((OSError, bushel.BushelError)) as caught:
                attempt()
            assert_silent("".join(traceback.format_exception(caught.value)) + repr(caught.value))
            assert not any(part.encode() in pickle.dumps(caught.value) for part in PARTS)
        assert store.heard.wait(60)
    assert_silent(caplog.text)


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("command", [["info"], ["verify"], ["ls"], ["get"], ["index"]], ids=" ".join)
def test_no_credentials_on_the_command_line(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with storing(lambda method, query: (403, b"<Error>no</Error>")) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        more = ["0"] if command == ["get"] else []
        for options in ([], ["-v"], ["-vv"]):
            done = subprocess.run(
                [sys.executable, "-m", "bushel", *command, "s3://bucket/x.tar", *more, *options],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode != 0
            assert_silent(done.stdout + done.stderr)


@pytest.mark.usefixtures("secrets")
def test_no_credentials_in_what_is_stored(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    write(server.folder / "set", 1)
    for url in ("s3://bucket/x.tar", "az://box/x.tar"):
        path = as_path(url)
        assert_silent(repr(path) + str(path))
        assert not any(part.encode() in pickle.dumps(path) for part in PARTS)
    dataset = bushel.open(f"{server.url}/set")
    loader = bushel.Loader(dataset, 4)
    next(iter(loader))
    assert_silent(json.dumps(loader.state_dict()) + repr(loader) + repr(dataset) + repr(dataset.info))
    assert not any(part.encode() in pickle.dumps(dataset) for part in PARTS)
