"""read_samples: dicts of keys and stored bytes, for random extents, rows and keys."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import ExtentError, MappedFile, crc32, read_samples

CONTENT = np.random.default_rng(0).bytes(10_000)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> MappedFile:
    path: Path = tmp_path_factory.mktemp("samples") / "data"
    path.write_bytes(CONTENT)
    return MappedFile(path)


def _text(keys: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [key.encode("utf-8", "surrogateescape") for key in keys]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


KEYS = st.lists(st.text(st.characters(codec="utf-8"), max_size=8) | st.just("\udcff"), min_size=1, max_size=20)


@given(KEYS, st.data())
def test_as_slices_of_the_file(file: MappedFile, keys: list[str], data: st.DataObject) -> None:
    extent = st.tuples(st.integers(0, 9_000), st.integers(-1, 1_000))
    columns = {
        name: data.draw(st.lists(extent, min_size=len(keys), max_size=len(keys)), label=name) for name in ("a", "b")
    }
    rows = data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=40), label="rows")
    checked = data.draw(st.booleans(), label="checked")
    fields = []
    for name, extents in columns.items():
        offset, length = np.array(extents, np.int64).T.copy()
        sums = [crc32(CONTENT[start : start + max(size, 0)]) for start, size in extents]
        fields.append((name, 0, offset, length, np.array(sums, np.uint32) if checked else None))
    expected = [
        {"__key__": keys[row]}
        | {name: CONTENT[own[row][0] :][: own[row][1]] for name, own in columns.items() if own[row][1] >= 0}
        for row in rows
    ]
    chosen = np.array(rows, np.int64)
    assert read_samples([file], fields, chosen, "__key__", _text(keys)) == expected
    assert read_samples([file], fields, chosen, "__key__", [keys[row] for row in rows]) == expected


def test_one_length_of_all_values(file: MappedFile) -> None:
    offset, length = np.arange(0, 90, 9), np.broadcast_to(np.int64(7), 10)
    chosen = np.array([8, 0, 8], np.int64)
    samples = read_samples([file], [("a", 0, offset, length, None)], chosen, "k", ["x", "y", "z"])
    assert [sample["a"] for sample in samples] == [CONTENT[at : at + 7] for at in (72, 0, 72)]
    samples = read_samples([file], [("a", 0, offset, np.arange(20)[::2], None)], chosen, "k", ["x", "y", "z"])
    assert [len(sample["a"]) for sample in samples] == [16, 0, 16]


def _field(offset: int, length: int, sums: list[int] | None = None) -> tuple[Any, ...]:
    own = None if sums is None else np.array(sums, np.uint32)
    return "a", 0, np.array([offset], np.int64), np.array([length], np.int64), own


def test_without_rows_the_arrays_are_the_samples(file: MappedFile) -> None:
    assert read_samples([file], [_field(5, 3)], None, "k", ["x"]) == [{"k": "x", "a": CONTENT[5:8]}]


@pytest.mark.parametrize(
    ("offset", "length", "sums", "reason"),
    [(9_999, 2, None, "beyond"), (-1, 1, None, "beyond"), (0, -2, None, "beyond"), (0, 4, [1], "checksum")],
)
def test_unreadable_extents(file: MappedFile, offset: int, length: int, sums: list[int] | None, reason: str) -> None:
    with pytest.raises(ExtentError) as raised:
        read_samples([file], [_field(offset, length, sums)], None, "k", ["x"])
    assert raised.value.reason == reason


@pytest.mark.parametrize("row", [-1, 1, 2**62])
def test_rows_out_of_range(file: MappedFile, row: int) -> None:
    with pytest.raises(IndexError):
        read_samples([file], [_field(0, 1)], np.array([row], np.int64), "k", _text(["x"]))
    with pytest.raises(IndexError):
        read_samples([file], [], np.array([row], np.int64), "k", _text(["x"]))


@pytest.mark.parametrize("offsets", [[0, 9], [5, 1], [-1, 1]])
def test_keys_outside_their_text(file: MappedFile, offsets: list[int]) -> None:
    keys = (np.zeros(4, np.uint8), np.array(offsets, np.int64))
    with pytest.raises(ValueError, match="key 0 is at bytes"):
        read_samples([file], [_field(0, 1)], np.array([0], np.int64), "k", keys)


def test_arguments_that_do_not_fit(file: MappedFile) -> None:
    for number in (1, -1, 2**32, 2**64):
        with pytest.raises(ValueError, match="1 files"):
            read_samples([file], [("a", number, *_field(0, 1)[2:])], None, "k", ["x"])
    with pytest.raises(ValueError, match="same number of rows"):
        read_samples([file], [_field(0, 1)], None, "k", ["x", "y"])
    with pytest.raises(ValueError, match="same length"):
        read_samples([file], [_field(0, 1)], np.array([0], np.int64), "k", ["x", "y"])
    with pytest.raises(ValueError, match="for all fields"):
        read_samples([file], [_field(0, 1), _field(0, 1, [0])], None, "k", ["x"])
    for keys in ("x", ("x",), (1, 2)):
        with pytest.raises(TypeError):
            read_samples([file], [_field(0, 1)], np.array([0], np.int64), "k", keys)  # type: ignore[arg-type]
    for field in (("a",), (1, 0, *_field(0, 1)[2:]), "abcde"):
        with pytest.raises(TypeError):
            read_samples([file], [field], None, "k", ["x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="MappedFile"):
        read_samples([1], [_field(0, 1)], None, "k", ["x"])  # type: ignore[list-item]
    assert read_samples([], [], None, "k", ["x", "y"]) == [{"k": "x"}, {"k": "y"}]


@given(st.lists(st.tuples(st.integers(0, 9_000), st.integers(-1, 900)), min_size=1, max_size=20), st.integers(0, 5))
def test_views_of_memory_of_the_caller(file: MappedFile, extents: list[tuple[int, int]], more: int) -> None:
    offset, length = np.array(extents, np.int64).T.copy()
    fields: list[Any] = [("a", 0, offset, length, None), ("b", 0, offset, length, None)]
    keys, taken = [str(row) for row in range(len(extents))], list[npt.NDArray[np.uint8]]()

    def room(size: int) -> npt.NDArray[np.uint8]:
        taken.append(np.full(size + more, 99, np.uint8))
        return taken[-1]

    samples = read_samples([file], fields, None, "k", keys, {"a", "c"}, room)
    total = int(np.maximum(length, 0).sum())
    assert len(taken) == (total > 0)
    for sample, (start, size) in zip(samples, extents, strict=True):
        expected = CONTENT[start:][:size]
        assert sample.get("b") == (None if size < 0 else expected)
        if size < 0 or not total:
            assert sample.get("a") == sample.get("b")
            continue
        view = sample["a"]
        assert isinstance(view, memoryview)
        assert view.readonly
        assert view == expected
    if taken:
        assert taken[0][:total].tobytes() == b"".join(CONTENT[start:][: max(size, 0)] for start, size in extents)
        assert (taken[0][total:] == 99).all()


def test_bytes_where_there_is_no_room(file: MappedFile) -> None:
    [sample] = read_samples([file], [_field(5, 3)], None, "k", ["x"], {"a"}, lambda size: None)
    assert sample == {"k": "x", "a": CONTENT[5:8]}
    assert type(sample["a"]) is bytes


@pytest.mark.parametrize("room", [bytes(9), bytearray(2), np.zeros(9, np.int16), np.zeros((3, 3), np.uint8)])
def test_room_that_does_not_fit(file: MappedFile, room: Any) -> None:
    with pytest.raises(ValueError, match="a writable buffer of single bytes that is large enough"):
        read_samples([file], [_field(5, 3)], None, "k", ["x"], {"a"}, lambda size: room)
