"""NumberTable: values of random shards, rows and kinds, as Python would decode them; and tables that are."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import ExtentError, MappedFile, NumberForms, NumberTable, crc32

Column = tuple[MappedFile, np.ndarray, np.ndarray, np.ndarray | None, str, NumberForms | None]


def column(
    folder: Path, values: list[bytes], kind: str, headers: dict[int, bytes] | None, *, sums: bool = False
) -> Column:
    """Return the column of a new file with these values, each after a byte that is not part of it."""
    path = folder / f"{len(list(folder.iterdir()))}"
    path.write_bytes(b"".join(b"\xaa" + value for value in values))
    length = np.array([len(value) for value in values], np.int64)
    offset = np.cumsum(length + 1) - length
    crc = np.array([crc32(value) for value in values], np.uint32) if sums else None
    return MappedFile(path), offset, length, crc, kind, None if headers is None else NumberForms(headers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numbers")


def gathered(table: NumberTable, samples: list[int], dtype: Any, shape: tuple[int, ...] = ()) -> np.ndarray:
    out = np.zeros((len(samples), *shape), dtype)
    [bad], _ = table.gather(np.array(samples, np.int64), [[out]])
    assert bad is None
    return out


@given(st.data(), st.booleans())
def test_rows_of_many_shards_in_many_arrays(folder: Path, data: st.DataObject, checked: bool) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4), label="samples of shards")
    rng, rows, shards, first = np.random.default_rng(0), [], [], 0
    for number, size in enumerate(sizes):
        header = b"head" * (number % 2)  # codecs differ from shard to shard
        own = rng.integers(0, 1 << 16, (size, 3), np.uint16)
        stored = [header + row.tobytes() for row in own]
        shards.append((first, size, [column(folder, stored, "bytes", {len(stored[0]): header}, sums=checked)]))
        rows.append(own)
        first += size + 1  # between shards that the table has may be others
    whole = {start + row: own[row] for (start, size, _), own in zip(shards, rows, strict=True) for row in range(size)}
    chosen = data.draw(st.lists(st.sampled_from(sorted(whole)), min_size=1, max_size=20), label="samples")
    table = NumberTable(shards, 1)
    expected = np.stack([whole[sample] for sample in chosen])
    cut = data.draw(st.integers(0, len(chosen)))
    for _ in range(2):  # read from the file, then from the map
        out = [np.zeros((cut, 3), np.uint16), np.zeros((len(chosen) - cut, 3), np.uint16)]
        [bad], _ = table.gather(np.array(chosen, np.int64), [out])
        assert bad is None
        assert np.array_equal(np.concatenate(out), expected)


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        (
            "signed",
            [b"", b"\x7f", b"\xff", b"\x00\x80", b"\xff" * 8, b"\0" * 7 + b"\x80"],
            [0, 127, -1, -32768, -1, -(2**63)],
        ),
        ("unsigned", [b"", b"\xff", b"\xff" * 7, b"\xff" * 7 + b"\x7f"], [0, 255, 2**56 - 1, 2**63 - 1]),
        (
            "real",
            [struct.pack("<d", 0.1), struct.pack("<f", 0.1)],
            [0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]],
        ),
        ("whole-real", [struct.pack("<f", 7), struct.pack("<d", -(2.0**53))], [7, -(2**53)]),
        (
            "decimal",
            [b"7", b" -007\n", b"+12", b"9" * 18, b"-9223372036854775808", b"9223372036854775807"],
            [7, -7, 12, int("9" * 18), -(2**63), 2**63 - 1],
        ),
    ],
)
def test_kinds_of_numbers(folder: Path, kind: str, stored: list[bytes], expected: list[float]) -> None:
    table = NumberTable([(0, len(stored), [column(folder, stored, kind, None, sums=True)])], 1)
    found = gathered(table, list(range(len(stored))), np.float64 if kind == "real" else np.int64)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("signed", b"\0" * 9),
        ("unsigned", b"\0" * 7 + b"\x80"),  # beyond int64
        ("real", b"\0" * 5),
        ("whole-real", struct.pack("<f", 0.5)),
        ("whole-real", struct.pack("<f", float("nan"))),
        ("whole-real", struct.pack("<d", 2.0**60)),
        ("decimal", b""),
        ("decimal", b"-"),
        ("decimal", b"1_0"),
        ("decimal", b"1.0"),
        ("decimal", b"9223372036854775808"),
        ("decimal", b"-9223372036854775809"),
        ("decimal", b"0" * 20),
        ("decimal", b" " * 65),
    ],
)
def test_values_that_are_left_to_the_codec(folder: Path, kind: str, stored: bytes) -> None:
    table = NumberTable([(0, 2, [column(folder, [b"\0" * 4 if "real" in kind else b"1", stored], kind, None)])], 1)
    out = np.zeros(2, np.float64 if kind == "real" else np.int64)
    for _ in range(2):
        [bad], _ = table.gather(np.arange(2), [[out]])
        assert bad is not None
        assert bad.tolist() == [1]


def test_headers_lengths_and_checksums_that_differ(folder: Path) -> None:
    stored = [b"ABxyz", b"ACxyz", b"ABxy", b"ABxyw", b"ABxyz"]
    file, offset, length, sums, kind, forms = column(folder, stored, "bytes", {5: b"AB"}, sums=True)
    assert sums is not None
    sums[3] ^= 1
    length[4] = -1  # the sample lacks the field
    table = NumberTable([(10, 5, [(file, offset, length, sums, kind, forms)])], 1)
    out = np.zeros((7, 3), np.uint8)
    for _ in range(2):
        [bad], _ = table.gather(np.arange(9, 16), [[out]])
        assert bad is not None
        assert bad.tolist() == [0, 2, 3, 4, 5, 6]
        assert out[1].tobytes() == b"xyz"


@pytest.mark.parametrize(
    ("offset", "length"), [(-1, 4), (2**63 - 1, 4), (0, 2**62), (97, 4), (1, -5), (-(2**63), -(2**63))]
)
def test_extents_outside_their_file_are_not_read(folder: Path, offset: int, length: int) -> None:
    file, *_ = column(folder, [b"x" * 99], "bytes", None)
    own = np.array([offset], np.int64), np.array([length], np.int64), None
    for kind, forms in (("bytes", None), ("bytes", NumberForms({4: b""})), ("signed", None), ("decimal", None)):
        table = NumberTable([(0, 1, [(file, *own, kind, forms)])], 1)
        out = np.zeros(8 if kind in ("signed", "decimal") else 4, np.uint8)
        [bad], _ = table.gather(np.zeros(1, np.int64), [[out]])
        assert bad is not None
        table.prefetch(np.zeros(1, np.int64))
        assert not out.any()


def test_ragged_rows_and_padding(folder: Path) -> None:
    stored = [b"1a", b"2bc", b"", b"3def"]
    table = NumberTable([(0, 4, [column(folder, stored, "bytes", {2: b"1", 3: b"2", 4: b"3", 0: b""})])], 1)
    samples = np.array([3, 0, 2, 1, 9])
    sizes = table.measure(0, samples)
    assert sizes.tolist() == [3, 1, 0, 2, -1]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[:4])])
    out = np.zeros(6, np.uint8)
    assert table.gather_rows(0, samples[:4], out, offsets, None)[0] is None
    assert out.tobytes() == b"defabc"
    padded = np.zeros(20, np.uint8)
    assert table.gather_rows(0, samples[:4], padded, np.arange(5) * 5, b"-")[0] is None
    assert padded.tobytes() == b"def--a---------bc---"
    bad, _ = table.gather_rows(0, samples[:4], np.zeros(20, np.uint8), np.arange(5) * 2, b"-")
    assert bad is not None
    assert bad.tolist() == [0]  # does not fit into its room


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    own = column(tmp_path, [b"x" * 5000], "bytes", None)
    table = NumberTable([(0, 1, [own])], 1)
    out = np.zeros(5000, np.uint8)
    table.gather(np.zeros(1, np.int64), [[out]])
    Path(own[0].path).write_bytes(b"short")
    with pytest.raises(ExtentError) as caught:
        table.gather(np.zeros(1, np.int64), [[out]])
    assert caught.value.reason == "shrunk"


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    zero = np.zeros(1, np.int64)
    own: Column = MappedFile(tmp_path / "empty"), zero, zero, None, "signed", None
    assert gathered(NumberTable([(0, 1, [own])], 1), [0], np.int64).tolist() == [0]


def test_wrong_arguments(folder: Path) -> None:
    own = column(folder, [b"abcd"] * 2, "bytes", None)
    table = NumberTable([(0, 2, [own])], 1)
    two = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="each column"):
        table.gather(two, [])
    with pytest.raises(ValueError, match="row for each sample"):
        table.gather(two, [[]])
    with pytest.raises(ValueError, match="whole rows"):
        table.gather(two, [[np.zeros(5, np.uint8), np.zeros(3, np.uint8)]])
    with pytest.raises((ValueError, BufferError)):
        table.gather(two, [[np.zeros(8, np.uint8)[::2], np.zeros(4, np.uint8)]])
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        table.gather(two, [[frozen]])
    with pytest.raises(IndexError):
        table.measure(1, two)
    for offsets in ([0, 4, 9], [0, 5, 4], [-1, 4, 8]):
        with pytest.raises(ValueError, match="offsets"):
            table.gather_rows(0, two, np.zeros(8, np.uint8), np.array(offsets), None)
    with pytest.raises(ValueError, match="one more"):
        table.gather_rows(0, two, np.zeros(8, np.uint8), np.arange(2), None)
    with pytest.raises(ValueError, match="overlap"):
        NumberTable([(0, 2, [own]), (1, 2, [own])], 1)
    with pytest.raises(ValueError, match="per sample"):
        NumberTable([(0, 3, [own])], 1)
    with pytest.raises(ValueError, match="unknown"):
        NumberTable([(0, 2, [(*own[:4], "float", None)])], 1)
    with pytest.raises(ValueError, match="longer"):
        NumberForms({1: b"ab"})
    with pytest.raises(TypeError):
        NumberForms({"1": b""})  # type: ignore[dict-item]
