"""Threads that append to one writer at once: each sample is there once, at the position that its thread was given."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.at_once import at_once

import bushel
from bushel.storage.staging import Sink

THREADS, EACH = 4, 1200
CONTAINERS = ("bag", "tar", "ffrecord", "recordio")


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Let threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def check(path: Path, given: list[tuple[int, int]], keys: dict[int, str] | None = None) -> None:
    """Check that a dataset has these positions and numbers, and nothing else, and the keys of these numbers."""
    dataset = bushel.open(path, index="memory", verify=True)
    assert sorted(position for position, _ in given) == list(range(len(dataset)))
    found = [sample["n"] for sample in dataset]
    assert [found[position] for position, _ in given] == [number for _, number in given]
    if keys is not None:
        assert [dataset.keys[position] for position, _ in given] == [keys[number] for _, number in given]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("keyed", [False, True])
def test_samples_are_where_append_says(tmp_path: Path, container: str, keyed: bool) -> None:
    if keyed and container == "ffrecord":
        pytest.skip("packed folders are written sample by sample")
    given: list[tuple[int, int]] = []
    keys = {number: f"k{number}" for number in range(THREADS * EACH)} if keyed else None
    options: dict[str, Any] = {"container": container, "sync": False, "shard_samples": 1000}
    over = threading.Event()

    with bushel.Writer(tmp_path / "ds", {"n": "int", "text": "utf8"}, **options) as writer:
        left = [THREADS]

        def append(first: int) -> None:
            for number in range(first, first + EACH):
                sample = {"n": number, "text": "x" * (number % 300)}
                given.append((writer.append(sample, None if keys is None else keys[number]), number))
            left[0] -= 1
            if not left[0]:
                over.set()

        def disturb() -> None:
            before = 0
            while not over.wait(0.002):
                writer.flush()
                assert before <= len(writer) <= THREADS * EACH
                before = len(writer)

        at_once(disturb, *(lambda first=number * EACH: append(first) for number in range(THREADS)))
        assert len(writer) == THREADS * EACH
    check(tmp_path / "ds", given, keys)


@pytest.mark.parametrize("container", ["bag", "tar"])
def test_columns_come_between(tmp_path: Path, container: str) -> None:
    given: list[tuple[int, int]] = []
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container=container, sync=False) as writer:

        def append() -> None:
            given.extend((writer.append({"n": number}), number) for number in range(EACH))

        def extend() -> None:
            for first in range(EACH, 2 * EACH, 100):
                numbers = range(first, first + 100)
                given.extend(zip(writer.extend({"n": np.arange(first, first + 100)}), numbers, strict=True))

        at_once(append, extend)
    check(tmp_path / "ds", given)


def test_one_thread_gets_a_key(tmp_path: Path) -> None:
    given: list[tuple[int, str]] = []
    refused: list[str] = []
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container="tar", sync=False) as writer:

        def append(thread: int) -> None:
            for number in range(400):
                key = f"k{number}"
                try:
                    given.append((writer.append({"n": thread}, key), key))
                except ValueError as error:
                    refused.append(str(error))

        at_once(*(lambda thread=thread: append(thread) for thread in range(THREADS)))
    dataset = bushel.open(tmp_path / "ds", index="memory")
    assert sorted(key for _, key in given) == sorted(f"k{number}" for number in range(400))
    assert len(refused) == 400 * (THREADS - 1)
    assert all(message.endswith("is in the dataset already") for message in refused)
    assert [dataset.keys[position] for position, _ in given] == [key for _, key in given]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_full_disk_loses_only_samples_that_met_it(
    tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, turns, given, failed = Sink._put, iter(range(10**9)), list[tuple[int, int]](), list[int]()

    def sometimes_full(self: Sink, pieces: Any) -> None:
        if next(turns) % 3 == 1:
            raise OSError(28, "No space left on device")
        put(self, pieces)

    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container=container, sync=False) as writer:
        for number in range(-10, 0):
            given.append((writer.append({"n": number}), number))
        monkeypatch.setattr(Sink, "_put", sometimes_full)

        def append(first: int) -> None:
            for number in range(first, first + EACH):
                try:
                    if number % 100 == 99:
                        writer.flush()
                    given.append((writer.append({"n": number}), number))
                except OSError:
                    failed.append(number)

        at_once(*(lambda first=number * EACH: append(first) for number in range(THREADS)))
        monkeypatch.setattr(Sink, "_put", put)
        assert len(writer) == len(given)
    assert failed
    check(tmp_path / "ds", given)


@pytest.mark.parametrize("change", ["shorter", "other"])
def test_a_list_that_another_thread_changes(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[Any] = [bytes(1000)] * 3000
    put = Sink._put

    def changed(self: Sink, pieces: Any) -> None:
        put(self, pieces)
        values[1000:] = [] if change == "shorter" else [1.5] * 2000

    with bushel.Writer(tmp_path / "ds", {"data": "bytes"}, container="bag", sync=False) as writer:
        monkeypatch.setattr(Sink, "_put", changed)
        with pytest.raises(ValueError, match="has changed"):
            writer.extend({"data": values})
        monkeypatch.setattr(Sink, "_put", put)
        assert 0 < len(writer) < 3000
        writer.append({"data": b"last"})
    dataset = bushel.open(tmp_path / "ds", index="memory", verify=True)
    assert {sample["data"] for sample in dataset[:-1]} == {bytes(1000)}
    assert dataset[-1]["data"] == b"last"


@pytest.mark.parametrize("end", ["close", "suspend"])
def test_no_thread_appends_to_a_writer_that_was_closed(tmp_path: Path, end: str) -> None:
    writer = bushel.Writer(tmp_path / "ds", {"n": "int"}, container="bag", sync=False)
    given: list[tuple[int, int]] = []
    closed, appended = threading.Event(), threading.Event()

    def append_forever() -> None:
        number = 0
        while True:
            was_closed = closed.is_set()
            given.append((writer.append({"n": number}), number))
            assert not was_closed
            appended.set()
            number += 1

    def append() -> None:
        with pytest.raises(ValueError, match="the writer is closed"):
            append_forever()

    def stop() -> None:
        appended.wait()
        getattr(writer, end)()
        closed.set()

    at_once(append, append, stop)
    if end == "close":
        check(tmp_path / "ds", given)


@pytest.mark.parametrize("as_column", [False, True])
def test_other_threads_append_while_keys_are_made(tmp_path: Path, as_column: bool) -> None:
    def keys() -> Iterator[str]:
        other = threading.Thread(target=writer.append, args=({"n": 0}, "first"), daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive(), "the writer was locked"
        yield "second"

    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container="tar", sync=False) as writer:
        columns: dict[str, Any] = {"n": [1]}
        positions = writer.extend(
            {**columns, "__key__": keys()} if as_column else columns, None if as_column else keys()
        )
        assert positions == range(1, 2)
    assert list(bushel.open(tmp_path / "ds").keys) == ["first", "second"]


def test_a_closed_writer_takes_no_keys(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "a.tar", {"x": "int"}, container="tar")
    writer.close()
    keys = iter("ab")
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.extend({"x": [1]}, keys=keys)
    assert next(keys) == "a"
