"""Batches whose bytes are read ahead from a server."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.storage.objects.range_server import Handler, Server, served

import bushel
from bushel.loader import Blocks
from bushel.loader.plan.plan import Steps
from bushel.loader.run import ahead_plan, read_ahead
from bushel.loader.run.read_ahead import ReadAhead

SAMPLES = 320
KEPT = {"decode": False, "collate": list}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(read_ahead, "_LONGEST_WAIT", 1e3)  # a machine that does much else is no slow link
    yield from served(tmp_path, monkeypatch, 60)


@pytest.fixture
def by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have groups end with every window, and hardly any gaps read."""
    monkeypatch.setattr(ahead_plan, "_ENOUGH_BYTES", 0)
    monkeypatch.setattr(ahead_plan, "_PRICE", 1100)


def write(folder: Path, container: str = "tar", samples: int = SAMPLES, **more: Any) -> bushel.Dataset:
    rng = np.random.default_rng(5)
    with bushel.Writer(folder, {"data": "bytes", "text": "bytes"}, container=container, **more) as writer:
        for number in range(samples):
            text = str(number).encode()
            writer.append({"data": rng.bytes(int(rng.integers(2000, 4000))), "text": text}, key=f"k{number}")
    return bushel.open(folder)


def loader(source: Server | bushel.Dataset, seed: int = 3, **more: Any) -> bushel.Loader[Any]:
    dataset = bushel.open(f"{source.url}/set") if isinstance(source, Server) else source
    arguments = {"batch_size": 8, "shuffle": Blocks(len(dataset), seed, 16, 4), **KEPT, **more}
    return bushel.Loader(dataset, **arguments)


def ranges(server: Server) -> list[tuple[str, int, int]]:
    """The ranges of data that were asked for."""
    found = []
    for method, path, ranged in list(server.asked):
        if method == "GET" and ranged is not None and ".bushel" not in path:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            found.append((path, int(first), int(last) + 1))
    return found


def all_bytes(server: Server) -> int:
    return sum(last - first for _, first, last in ranges(server))


@pytest.mark.usefixtures("by_window")
@pytest.mark.parametrize("container", ["bag", "ffrecord", "recordio", "tar"])
def test_blocks_are_requested_once_each(server: Server, container: str) -> None:
    local = write(server.folder / "set", container, shard_samples=128)
    epochs = loader(server)
    before = len(ranges(server))
    own = loader(local)
    assert [list(epochs), list(epochs)] == [list(own), list(own)]
    asked = ranges(server)[before:]
    assert len(asked) <= 2 * (SAMPLES // 16 * 2 + 8), "a block, in one shard or two, and little else"


@pytest.mark.parametrize("shuffle", [None, "exact", "blocks"])
@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 2)])
def test_order_and_values_are_those_of_local_files(server: Server, shuffle: Any, rank: int, world_size: int) -> None:
    local = write(server.folder / "set", shard_samples=128)
    more: dict[str, Any] = {"shuffle": shuffle, "seed": 7, "rank": rank, "world_size": world_size, "threads": 1}
    own, remote = loader(local, **more), loader(server, **more)
    assert list(remote) == list(own)
    before = len(ranges(server))
    assert list(remote) == list(own), "the second epoch"
    assert len(ranges(server)) - before <= (8 if world_size == 1 else 40), "not one for each of 160 samples"


@pytest.mark.usefixtures("by_window")
def test_resuming_in_a_window_reads_what_is_left_of_it(server: Server) -> None:
    local = write(server.folder / "set")
    whole = list(loader(local))
    first = loader(server)
    epoch = iter(first)
    for _ in range(30):  # of 40 batches, in windows of 8
        next(epoch)
    epoch.close()
    again = loader(server, batch_size=16)
    again.load_state_dict(first.state_dict())
    before = all_bytes(server)
    rest = [sample for batch in again for sample in batch]
    assert rest == [sample for batch in whole[30:] for sample in batch]
    needed = sum(len(sample["data"]) + len(sample["text"]) for sample in rest)
    assert all_bytes(server) - before <= 1.25 * needed + 2048 * len(rest)


def modules_in_the_process(values: Sequence[Any]) -> str:
    return " ".join(sys.modules)


@pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 imports all of itself")
def test_the_first_batch_does_not_import_masked_arrays(server: Server) -> None:
    write(server.folder / "set")
    batch = next(iter(loader(server, processes=1, collate={"text": modules_in_the_process})))
    assert "numpy.ma" not in batch["text"].split()
    assert "bushel.loader.run.read_ahead" in batch["text"].split()


def test_worker_processes_share_nothing(server: Server) -> None:
    local = write(server.folder / "set")
    assert list(loader(server, processes=2)) == list(loader(local))


@pytest.mark.usefixtures("by_window")
@pytest.mark.parametrize("prefetch_bytes", [1, 60_000, 400_000, 1 << 30])
@pytest.mark.parametrize(("prefetch", "late"), [(None, 0.0), (1, 0.02)])
def test_memory_is_bounded(
    server: Server, monkeypatch: pytest.MonkeyPatch, prefetch_bytes: int, prefetch: int | None, late: float
) -> None:
    local = write(server.folder / "set")
    made: list[ReadAhead] = []
    most = [0]

    class Watched(ReadAhead):
        def _proceed(self) -> None:
            if not made:
                made.append(self)
            super()._proceed()
            most[0] = max(most[0], self._held)

        @contextmanager
        def _taking(self, requests: Sequence[ahead_plan.Request]) -> Iterator[None]:
            with super()._taking(requests):
                yield
                time.sleep(late)  # the thread has its bytes, and is not scheduled yet

    monkeypatch.setattr(read_ahead, "ReadAhead", Watched)
    epoch = loader(server, prefetch_bytes=prefetch_bytes, prefetch=prefetch)
    batches = list(loader(local))
    assert list(epoch) == batches
    longest = max(last - first for _, first, last in ranges(server))
    assert made
    batch = max(sum(len(sample["data"]) + len(sample["text"]) for sample in batch) for batch in batches)
    # two batches are worked on until the size of the first one is known
    assert most[0] <= prefetch_bytes // 2 + longest + (prefetch or 2) * batch
    assert made[0]._held == 0, "everything was taken"


def test_a_part_of_each_sample_is_not_read_with_the_rest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_plan, "_PRICE", 100)
    local = write(server.folder / "set")
    epoch = loader(server, fields=["text"])
    planned: list[list[ahead_plan.AheadRange]] = []

    def noted(*columns: Any) -> list[ahead_plan.AheadRange]:
        planned.append(plan(*columns))
        return planned[-1]

    plan = ahead_plan.plan_ahead
    monkeypatch.setattr(ahead_plan, "plan_ahead", noted)
    assert list(epoch) == list(loader(local, fields=["text"]))
    assert planned == [[]]


@pytest.mark.usefixtures("by_window")
@pytest.mark.parametrize("slow", [True, False])
def test_the_first_batch_does_not_wait_for_its_window_on_a_slow_link(
    server: Server, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    for module, name, value in (ahead_plan, "_LARGE", 0), (read_ahead, "_LOOK_AFTER", 0.0):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(read_ahead, "_LONGEST_WAIT", 1e-3 if slow else 1e3)
    local = write(server.folder / "set")
    epoch = loader(server)
    came = threading.Event()

    def fault(handler: Handler, data: bytes) -> bool:
        of_window = 20_000 < len(data) < 200_000  # shorter ones are of samples, longer ones of samples and gaps
        if ".bushel" in handler.path or not of_window or not slow:
            return False
        path = handler.server.state.folder / handler.path.lstrip("/")
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        handler.begin(206, len(data), path.read_bytes(), path, (int(first), int(last) + 1))
        handler.wfile.write(data[:-1000])
        handler.wfile.flush()
        came.wait(60)
        handler.wfile.write(data[-1000:])
        return True

    server.fault = fault
    batches, expected = iter(epoch), list(loader(local))
    assert next(batches) == expected[0]
    assert any(last - first < 5000 for _, first, last in ranges(server)) == slow
    came.set()
    assert list(batches) == expected[1:]


def failing(times: int) -> Any:
    """A fault of the first requests for data: they end too early."""
    left = [times]

    def fault(handler: Handler, data: bytes) -> bool:
        if ".bushel" in handler.path or left[0] <= 0 or len(data) < 100:
            return False
        left[0] -= 1
        path = handler.server.state.folder / handler.path.lstrip("/")
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        handler.begin(206, len(data), path.read_bytes(), path, (int(first), int(last) + 1))
        handler.wfile.write(data[:50])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.close()
        return True

    return fault


def test_short_answers_are_requested_again(server: Server) -> None:
    local = write(server.folder / "set")
    epoch = loader(server)
    server.fault = failing(3)
    assert list(epoch) == list(loader(local))


def test_damaged_bytes_are_an_error_of_their_sample(server: Server) -> None:
    write(server.folder / "set", "ffrecord")
    [path] = [path for path in (server.folder / "set").iterdir() if path.is_file()]
    dataset = bushel.open(f"{server.url}/set")
    offset = dataset.location(100, "data")[1]
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 255
    path.write_bytes(data)
    changed = bushel.open(f"{server.url}/set", index="memory")
    epoch = loader(changed, on_error="skip", decode=True)
    seen = [sample["__key__"] for batch in epoch for sample in batch]
    assert [bad.sample for bad in epoch.errors] == [100]
    assert len(seen) == SAMPLES - 1


def test_an_object_that_changes_is_an_error(server: Server) -> None:
    write(server.folder / "set", shard_samples=160)
    epoch = loader(server, prefetch_bytes=200_000)
    batches = iter(epoch)
    next(batches)
    for path in list((server.folder / "set").glob("*.tar")):
        path.with_suffix(".new").write_bytes(path.read_bytes().replace(b"k1", b"k2"))
        path.with_suffix(".new").replace(path)  # the server never sees a part of it
    with pytest.raises(bushel.errors.FormatError, match="the object has changed since the dataset was opened"):
        list(batches)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("bushel-loader")]


@pytest.mark.usefixtures("by_window")
@pytest.mark.parametrize("batches", [0, 1, 9])
def test_an_abandoned_iteration_leaves_nothing(server: Server, batches: int) -> None:
    write(server.folder / "set")
    epoch = iter(loader(server))
    for _ in range(batches):
        next(epoch)
    del epoch
    assert threads() == []


def test_leaving_while_the_server_is_silent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "1")
    write(server.folder / "set")
    batches = loader(server, prefetch_bytes=100_000)
    silent = threading.Event()

    def fault(handler: Handler, data: bytes) -> bool:
        if not silent.is_set():
            return False
        handler.server.state.wake.wait(30)
        return True

    server.fault = fault
    epoch = iter(batches)
    next(epoch)
    silent.set()
    time.sleep(0.1)
    started = time.monotonic()
    epoch.close()
    assert threads() == []
    assert time.monotonic() - started < 20, "requests are not made again"


def test_an_error_of_the_plan_is_raised(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server.folder / "set")
    batches = loader(server)

    def broken(steps: Steps, consumed: int) -> Iterator[Any]:
        raise RuntimeError("no plan")
        yield

    monkeypatch.setattr(Steps, "batches", broken)
    with pytest.raises(RuntimeError, match="no plan"):
        list(batches)
    assert threads() == []
