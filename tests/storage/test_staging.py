from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.descriptors import open_files
from tests.full_disk import little_room

from bushel.storage import Sink, Staging
from bushel.storage import staging as staging_module
from bushel.storage.publish import recover

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.binary(max_size=40)),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("extend"), st.integers(0, 20)),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=30,
)


@pytest.mark.parametrize(("buffer", "large"), [(1, 1), (16, 1 << 15), (1 << 20, 1 << 15), (60, 8), (1 << 20, 8)])
@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_sink_is_a_growing_string(
    buffer: int, large: int, steps: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_BUFFER", buffer)
    monkeypatch.setattr(staging_module, "_LARGE", large)
    path = tmp_path / "x"
    path.unlink(missing_ok=True)
    sink, model = Sink(path), b""
    for step, value in steps:
        if step == "write":
            assert sink.write(value) == len(model)
            model += value
        elif step == "truncate":
            model = model[: int(value * len(model))]
            sink.truncate(len(model))
        elif step == "extend":
            model += bytes(value)
            sink.truncate(len(model))
        elif step == "flush":
            sink.flush()
            assert path.read_bytes() == model
        else:
            sink.close(sync=False)
            with path.open("ab") as file:
                file.write(b"half a sample that nobody knows of")
            sink = Sink(path, len(model))
        assert sink.position == len(model)
    sink.close()
    sink.close()
    assert path.read_bytes() == model


def test_a_view_that_an_interrupted_flush_left_behind_does_no_harm(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "x")
    sink.write(b"abc")
    with memoryview(sink._waiting):  # as a traceback of Ctrl-C holds it
        sink.close(sync=False)
    assert (tmp_path / "x").read_bytes() == b"abc"


@pytest.mark.parametrize("buffer", [4, 1 << 20])
@pytest.mark.parametrize(
    "data",
    [b"12345678", bytearray(b"12345678"), memoryview(b"12345678"), array("h", range(4)), np.arange(4, dtype=np.int16)],
)
def test_anything_of_bytes_can_be_written(
    tmp_path: Path, data: Any, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_BUFFER", buffer)
    sink = Sink(tmp_path / "x")
    assert (sink.write(data), sink.write(b""), sink.write(data), sink.position) == (0, 8, 8, 16)
    sink.write(np.zeros((0, 3), np.int64).data)
    sink.close()
    assert (tmp_path / "x").read_bytes() == bytes(data) * 2


def test_a_sink_for_another_file_than_it_was(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    with pytest.raises(OSError, match="3 bytes, but 4 were written"):
        Sink(tmp_path / "x", 4)
    with pytest.raises(FileNotFoundError):
        Sink(tmp_path / "y", 4)
    closed = Sink(tmp_path / "x", 2)
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.write(bytes(1 << 21))


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_the_system_may_write_less_than_it_was_given(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_LARGE", 8)
    whole = os.pwritev

    def little(handle: int, pieces: list[memoryview], offset: int) -> int:
        return whole(handle, [memoryview(b"".join(pieces))[:most]], offset)

    monkeypatch.setattr(os, "pwritev", little)
    sink, written = Sink(tmp_path / "x"), b""
    for number in range(100):
        piece = bytes([number]) * (number % 13)
        sink.write(piece)
        written += piece
        if number == 50:
            sink.flush()
    sink.close()
    assert (tmp_path / "x").read_bytes() == written


@pytest.mark.parametrize("most", [5, 1000])
@pytest.mark.parametrize(("slice_size", "pieces_at_once"), [(1, 1), (4, 3), (40, 1000), (1 << 18, 1024)])
def test_pieces_are_written_in_slices(
    tmp_path: Path, slice_size: int, pieces_at_once: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_SLICE", slice_size)
    monkeypatch.setattr(staging_module, "_MOST_PIECES", pieces_at_once)
    whole, calls = os.pwritev, []

    def counted(handle: int, pieces: list[memoryview], offset: int) -> int:
        calls.append((len(pieces), sum(map(len, pieces))))
        return whole(handle, [memoryview(b"".join(pieces))[:most]], offset)

    monkeypatch.setattr(os, "pwritev", counted)
    sizes = [0, 3, 0, 29, 1, 8, 9, 200, 0, 0, 7] * 3
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    sink = Sink(tmp_path / "x")
    sink.write(b"before")
    assert sink.write_pieces(pieces) == 6
    sink.close()
    assert (tmp_path / "x").read_bytes() == b"before" + b"".join(pieces)
    assert all(count <= pieces_at_once and size <= 3 * slice_size for count, size in calls)


@pytest.mark.parametrize("large", [8, 1 << 15])
@pytest.mark.parametrize("buffer", [1, 100, 1 << 20])
def test_a_write_that_fails_leaves_the_sink_where_it_was(
    tmp_path: Path, buffer: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_BUFFER", buffer)
    monkeypatch.setattr(staging_module, "_LARGE", large)
    sink = Sink(tmp_path / "x")
    written = b""
    with little_room(1000):
        with pytest.raises(OSError, match="too large") as caught:  # noqa: PT012 - fails in one of them
            while True:
                sink.write(bytes([len(written) % 256]) * 70)
                written += bytes([len(written) % 256]) * 70
                if buffer > 100:
                    sink.flush()
        assert caught.value.errno == errno.EFBIG
        assert (tmp_path / "x").stat().st_size <= 1000
        sink.truncate(len(written))
        with pytest.raises(OSError, match="too large"):
            sink.write(bytes(1 << 21))
    assert sink.position == len(written)
    assert sink.write(b"and on") == len(written)
    sink.close()
    assert (tmp_path / "x").read_bytes() == written + b"and on"


def test_a_file_is_closed_even_where_its_last_bytes_cannot_be_written(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "x")
    for name in ("a", "b"):
        staging.open(name).write(bytes(2000))
    opened = len(open_files(tmp_path))
    with little_room(1000), pytest.raises(OSError, match="too large"):
        staging.close()
    assert len(open_files(tmp_path)) == opened - 2
    staging.close()
    staging.discard()
    assert list(tmp_path.iterdir()) == []


NAMES = ["s/a.bin", "s/b.bin", "s/.bushel/index.safetensors"]


def fill(root: Path, folder: str | None) -> Staging:
    staging = Staging(root, "shard", folder=folder, sync=False)
    for name in [*NAMES, "s/a.bin.part"]:
        staging.open(name).write(name.encode())
    (staging.place / "other").write_bytes(b"what no one needs")
    staging.seal()
    return staging


def final(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in files
        if not path.relative_to(root).as_posix().startswith(".bushel")
    }


@pytest.mark.parametrize("folder", [None, "s"])
def test_commit_gives_names_to_whole_files_only(tmp_path: Path, folder: str | None) -> None:
    staging = fill(tmp_path, folder)
    assert final(tmp_path) == {}
    staging.commit(NAMES)
    assert final(tmp_path) == {name: name.encode() for name in NAMES}
    assert not (tmp_path / ".bushel").exists(), "nothing of the staging is left"


@pytest.mark.parametrize("folder", [None, "s"])
def test_discard_leaves_nothing(tmp_path: Path, folder: str | None) -> None:
    fill(tmp_path, folder).discard()
    assert list(tmp_path.iterdir()) == []


class KilledError(Exception):
    """In place of a kill: unlike an `OSError`, it is ignored nowhere."""


def dying(rename: Callable[..., None], moments: list[int]) -> Callable[..., None]:
    def wrapper(*arguments: Any, **options: Any) -> None:
        if moments[0] == 0:
            raise KilledError
        moments[0] -= 1
        rename(*arguments, **options)

    return wrapper


@pytest.mark.parametrize("folder", [None, "s"])
@pytest.mark.parametrize("moment", range(6))
def test_a_commit_that_was_cut_short_can_be_completed(
    tmp_path: Path, folder: str | None, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = fill(tmp_path, folder)
    with monkeypatch.context() as patched:
        moments = [moment]
        for owner, name in ((os, "rename"), (os, "replace"), (os, "rmdir"), (Path, "unlink")):
            patched.setattr(owner, name, dying(getattr(owner, name), moments))
        with suppress(KilledError):
            staging.commit(NAMES)
    found, whole = final(tmp_path), {name: name.encode() for name in NAMES}
    assert found.items() <= whole.items()
    assert folder is None or len(found) in (0, 3), "a folder appears whole"
    recover(tmp_path, staging.place)
    assert final(tmp_path) in ([whole] if found else [whole, {}])
    assert not staging.place.exists()


def test_two_shards_are_staged_beside_each_other(tmp_path: Path) -> None:
    one, two = Staging(tmp_path, "a/b"), Staging(tmp_path, "a%2Fc")
    one.open("x").write(b"x")
    two.open("y").write(b"y")
    assert one.place != two.place
    one.discard()
    assert sorted(path.name for path in two.place.iterdir()) == ["y"]
    two.seal()
    two.commit(["y"])
    assert final(tmp_path) == {"y": b"y"}


def test_positions_and_truncation_of_all_files(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "x", sync=False)
    a, b = staging.open("a"), staging.open("b")
    a.write(b"first")
    before = staging.positions
    a.write(b"second")
    b.write(b"third")
    assert staging.positions == {"a": 11, "b": 5}
    staging.truncate(before)
    b.write(b"!")
    staging.flush()
    assert [(staging.place / name).read_bytes() for name in "ab"] == [b"first", b"!"]
    staging.close()
    again = Staging(tmp_path, "x", sync=False)
    again.keep({"a": 3})
    again.open("a").write(b"!")
    again.open("b").write(b"anew")
    again.seal()
    again.commit(["a", "b"])
    assert final(tmp_path) == {"a": b"fir!", "b": b"anew"}


def test_writers_beside_each_other_may_come_and_go(tmp_path: Path) -> None:
    """One removes the folders that are empty while another makes its own in them."""

    def come_and_go(number: int) -> None:
        for _ in range(50):
            Staging(tmp_path, f"{number}.tar").discard()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come_and_go, range(8)))
    assert list(tmp_path.iterdir()) == []
