"""Blocks of lines as arrays: the same as arrays of NumPy, in sidecars of this version and of the one before."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests._index.forging import exercise, forge, parsed
from tests.fuzz.mutations import MUTATIONS

import bushel
from bushel._index.line_arrays import LineArray, Lines
from bushel._index.sidecar import load_index
from bushel.errors import FormatError
from bushel.kernels import LineScanner

KEPT = Path(__file__).parent / "kept-lines"
"""Lines of JSON with the index of a version that had offset and length of each value as numbers of 8 bytes."""


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return objects whose fields have all kinds of values, in lines of very different lengths."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        row: dict[str, Any] = {
            "id": 10**12 + number,
            "text": "x" * rng.choice([0, 3, 300]),
            "same": "abc",
            "flag": True,
        }
        row["real"] = rng.choice([rng.random(), number, -0.5])
        row["mixed"] = rng.choice([None, 1, "a", 'b"', [1], False])
        if number % 7 == 3:
            row["rare"] = rng.choice([-1, 2**40])
        found.append(row if number % 5 else dict(reversed(row.items())))
    return found


def lines_of(objects: list[dict[str, Any]], size: int) -> Lines:
    """Return blocks of about this many samples."""
    scanner, blocks, firsts, start = LineScanner([]), [], [0], 0
    for first in range(0, len(objects), size):
        part = "".join(json.dumps(each) + "\n" for each in objects[first : first + size]).encode()
        assert scanner.feed(part, start, True) == len(part)
        blocks.append(scanner.take())
        firsts.append(firsts[-1] + len(objects[first : first + size]))
        start += len(part)
    at = np.cumsum([0, *map(len, blocks)])
    return Lines(np.concatenate(blocks), at, np.array(firsts), "x")


@pytest.mark.parametrize("part", ["offset", "length", "kind", "number", "real"])
@pytest.mark.parametrize("quotes", [False, True])
def test_it_is_like_an_array(part: Any, quotes: bool) -> None:
    lines, rng = lines_of(rows(200), 37), np.random.default_rng(0)
    for field in range(9):  # one more than there are
        array = LineArray(lines, field, part, quotes=quotes)
        whole = np.asarray(array)
        assert len(array) == len(whole) == 200
        assert array.dtype == whole.dtype
        assert [array[row] for row in range(-200, 200)] == [*whole, *whole]
        some = rng.integers(-200, 200, 50)
        mask = rng.integers(0, 2, 200) > 0
        for key in (
            slice(None),
            slice(30, 90),
            slice(-5, None),
            slice(9, 3),
            slice(None, None, -7),
            some,
            mask,
            some[:0],
        ):
            np.testing.assert_array_equal(array[key], whole[key])
        written = np.empty(len(some), array.dtype)
        array.write(some, written)
        np.testing.assert_array_equal(written, whole[some])
        np.testing.assert_array_equal(array != -1, whole != -1)
        np.testing.assert_array_equal(np.maximum(array, 0) + array, np.maximum(whole, 0) + whole)
        assert array.max() == whole.max()
        np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(array))), whole)
        for wrong in (200, -201, np.array([3, 200])):
            with pytest.raises(IndexError):
                array[wrong]


def test_extents_are_of_the_values() -> None:
    objects = rows(100)
    data = "".join(json.dumps(each) + "\n" for each in objects).encode()
    lines = lines_of(objects, 30)
    names = ["id", "text", "same", "flag", "real", "mixed", "rare"]
    found = [LineArray(lines, number, part, quotes=True) for number in range(7) for part in ("offset", "length")]
    values = {}
    for number in range(7):
        offset, length = found[2 * number], found[2 * number + 1]
        values[number] = [
            None if length[row] < 0 else json.loads(data[offset[row] : offset[row] + length[row]]) for row in range(100)
        ]
    for name in names:
        expected = [each.get(name) for each in objects]
        assert any(own == expected for own in values.values()), name


def test_a_sidecar_keeps_the_blocks(tmp_path: Path) -> None:
    objects = rows(500)
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    before = bushel.open(path, index="memory")
    bushel.index(path)
    stored = load_index(tmp_path / ".bushel" / "x.jsonl.safetensors", check=True)
    for name, own in stored.fields.items():
        assert isinstance(own.offset, LineArray), name
        assert own.crc32 is not None
    assert isinstance(stored.columns["id"].values, LineArray)
    arrays = load_file(tmp_path / ".bushel" / "x.jsonl.safetensors")
    assert len(arrays["__lines__.data"]) < 50 * len(objects)  # and not 16 bytes for each of seven values
    after = bushel.open(path, verify=True)
    assert list(after) == list(before)
    assert after.read(range(500), decode=False) == before.read(range(500), decode=False)
    for name in ("id", "real", "rare", "flag"):
        np.testing.assert_array_equal(after.column(name), before.column(name))
    assert list(after.where("rare == -1").keys) == list(before.where("rare == -1").keys)
    assert not bushel.verify(path).problems


@pytest.mark.parametrize("wrong", ["at", "first", "shorter", "samples", "missing"])
def test_arrays_that_do_not_fit(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows(20)))
    bushel.index(path)
    sidecar = tmp_path / ".bushel" / "x.jsonl.safetensors"
    arrays, header = parsed(sidecar)
    if wrong == "shorter":
        arrays["__lines__.data"] = arrays["__lines__.data"][:-1]
    elif wrong == "missing":
        arrays = {name: own for name, own in arrays.items() if not name.startswith("__lines__")}
    elif wrong == "samples":
        arrays["__lines__.first"] = np.array([0, 19])
    else:
        arrays[f"__lines__.{wrong}"] = arrays[f"__lines__.{wrong}"][::-1].copy()
    forge(sidecar, arrays, header)
    with pytest.raises(FormatError, match=r"index.*(lines|array|arrays)"):
        load_index(sidecar)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_blocks(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows(30, seed)))
    bushel.index(path)
    sidecar = tmp_path / ".bushel" / "x.jsonl.safetensors"
    arrays, header = parsed(sidecar)
    data = bytearray(arrays["__lines__.data"].tobytes())
    for _ in range(3):
        if rng.random() < 0.5:  # the heads of the fields
            data[rng.randrange(300)] = rng.randrange(256)
        else:
            rng.choice(MUTATIONS)(data, rng)
    size = len(arrays["__lines__.data"])
    data = (data + bytes(size))[:size] if rng.random() < 0.7 else data
    arrays["__lines__.data"] = np.frombuffer(bytes(data), np.uint8)
    arrays["__lines__.at"] = np.array([0, len(data)])
    forge(sidecar, arrays, header)
    exercise(path, verify=seed % 2 == 0)
