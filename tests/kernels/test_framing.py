"""The framing kernels: against plain Python, and with arguments that do not fit."""

import tarfile
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bushel.containers.tar import end_of_archive, header_of
from bushel.kernels import (
    bytes_offsets,
    contain_magic,
    crc32_rows,
    frame_idx,
    frame_recordio,
    frame_tar,
    join_bytes,
    split_recordio,
)

MAGIC = (0xCED7230A).to_bytes(4, "little")
VALUES = st.lists(st.binary(max_size=300) | st.lists(st.sampled_from([MAGIC, b"abcd"])).map(b"".join), max_size=12)


def joined(values: list[bytes], before: bytes = b"") -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.cumsum([len(before), *map(len, values)], dtype=np.int64)
    return np.frombuffer(before + b"".join(values), np.uint8), offsets


@given(VALUES, st.binary(max_size=5))
def test_checksums_and_records(values: list[bytes], before: bytes) -> None:
    data, offsets = joined(values, before)
    assert crc32_rows(data, offsets).tolist() == [zlib.crc32(value) for value in values]
    records = [split_recordio(value) for value in values]
    framed, ends, split = frame_recordio(data, offsets)
    assert framed.tobytes() == b"".join(records)
    assert ends.tolist() == np.cumsum([len(record) for record in records]).tolist()
    assert split.tolist() == [
        len(record) != 8 + -(-len(value) // 4) * 4 for record, value in zip(records, values, strict=True)
    ]


@given(st.lists(st.integers(0, 2**63 - 1)), st.integers(0, 2**60))
def test_lines_of_an_idx(offsets: list[int], first: int) -> None:
    numbers = np.array(offsets, np.int64)
    lines, ends = frame_idx(None, first, numbers)
    expected = [f"{first + row}\t{offset}\n".encode() for row, offset in enumerate(offsets)]
    assert lines.tobytes() == b"".join(expected)
    assert ends.tolist() == np.cumsum([len(line) for line in expected]).tolist()
    keys = [b"k" * (row % 3) + b"\xc3\xa9" for row in range(len(offsets))]
    lines, _ = frame_idx(joined(keys), 0, numbers)
    assert lines.tobytes() == b"".join(b"%b\t%d\n" % pair for pair in zip(keys, offsets, strict=True))


@given(st.lists(st.tuples(st.binary(max_size=1100), st.binary(max_size=9)), max_size=5))
def test_members_of_a_tar(samples: list[tuple[bytes, bytes]]) -> None:
    keys = [f"sample{number}" for number in range(len(samples))]
    columns = [joined([sample[place] for sample in samples]) for place in range(2)]
    text = joined([key.encode() for key in keys])
    framed, ends, starts, places = frame_tar(header_of("x", 7), *text, [b".a", b".b"], columns, 1 << 60)
    archive = framed.tobytes() + end_of_archive(len(framed))
    assert len(framed) == (int(ends[-1]) if samples else 0)
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        members = opened.getmembers()
    assert [member.name for member in members] == [key + suffix for key in keys for suffix in (".a", ".b")]
    assert [member.offset_data for member in members] == starts.tolist()
    values = [value for sample in samples for value in sample]
    assert [archive[member.offset_data :][: member.size] for member in members] == values
    assert all(header_of(member.name, member.size) == archive[member.offset :][:512] for member in members)
    assert (places == -1).all()
    longest = 4
    rest, *same, places = frame_tar(header_of("x", 7), *text, [b".a", b".b"], columns, longest)
    assert all(map(np.array_equal, same, (ends, starts)))
    assert [place >= 0 for place in places.tolist()] == [len(value) > longest for value in values]
    pieces, at = [], 0
    for place, value in zip(places.tolist(), values, strict=True):
        if place >= 0:
            pieces += [rest[at:place].tobytes(), value]
            at = place
    assert b"".join([*pieces, rest[at:].tobytes()]) == framed.tobytes()


@pytest.mark.parametrize("offsets", [[], [0, 5], [2, 1], [-1, 1], [0, 3, 2], [0, -(2**62)]])
def test_offsets_that_do_not_fit(offsets: list[int]) -> None:
    bad = (np.zeros(4, np.uint8), np.array(offsets, np.int64))
    for call in (crc32_rows, frame_recordio):
        with pytest.raises(ValueError, match="offsets"):
            call(*bad)
    with pytest.raises(ValueError, match="offsets"):
        frame_idx(bad, 0, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="offsets"):
        frame_tar(bytes(512), *bad, [], [], 0)


def test_other_arguments_that_do_not_fit() -> None:
    one = joined([b"k"])
    cases: list[tuple[Any, ...]] = [
        (bytes(511), *one, [], []),
        (bytes(512), *one, [b"x"], []),
        (bytes(512), *one, [b"x" * 100], [one]),
        (bytes(512), *one, [b"x"], [joined([b"a", b"b"])]),
    ]
    for arguments in cases:
        with pytest.raises(ValueError):
            frame_tar(*(*arguments, 0))
    for columns in ([one[0]], [(one[0],)], [(1, 2)]):
        with pytest.raises(TypeError):
            frame_tar(bytes(512), *one, [b"x"], columns, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        frame_idx(None, -1, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="negative"):
        frame_idx(None, 0, np.array([-5], np.int64))
    with pytest.raises(ValueError, match="same length"):
        frame_idx(one, 0, np.zeros(2, np.int64))
    with pytest.raises(TypeError):
        frame_idx(3, 0, np.zeros(2, np.int64))  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_bytes_are_joined(values: list[bytes], first: int, last: int) -> None:
    offsets = bytes_offsets(values)
    assert offsets is not None
    assert offsets.tolist() == [len(b"".join(values[:end])) for end in range(len(values) + 1)]
    if first > last or last > len(values):
        with pytest.raises(ValueError, match="has changed"):
            join_bytes(values, first, last, 0)
        return
    joined = b"".join(values[first:last])
    assert join_bytes(values, first, last, len(joined)) == joined


def test_only_bytes_are_joined() -> None:
    class Own(bytes):
        """A subclass, whose buffer need not be its bytes."""

    for other in (Own(b"x"), bytearray(b"x"), None, "x"):
        assert bytes_offsets([b"a", other]) is None
        with pytest.raises(ValueError, match="has changed"):
            join_bytes([b"a", other], 0, 2, 2)  # type: ignore[list-item]
    for size in (1, 3):
        with pytest.raises(ValueError, match="has changed"):
            join_bytes([b"a", b"b"], 0, 2, size)
    with pytest.raises(TypeError, match="expected a list"):
        bytes_offsets((b"a",))  # type: ignore[arg-type]


def test_values_with_the_magic_word() -> None:
    magic = bytes.fromhex("0a23d7ce")
    values = [b"", magic, b"a" + magic, bytes(4) + magic, bytes(100) + magic + b"ab", magic[:3], bytes(64) + magic]
    data, offsets = joined(values)
    assert contain_magic(data, offsets).tolist() == [False, True, False, True, True, False, True]
    assert contain_magic(data, offsets[2:4]).tolist() == [False]
    with pytest.raises(ValueError, match="ascend"):
        contain_magic(data, offsets[::-1].copy())
