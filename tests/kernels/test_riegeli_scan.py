"""scan_riegeli: the chunks of ArrayRecord files, up to one that is unusual."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.containers.arrayrecord_chunks import ROOM, array_record, chunk

from bushel.kernels import MappedFile, scan_riegeli

HEADER = 40


@pytest.mark.parametrize("kind", ["", "z"])
def test_chunks(kind: str, tmp_path: Path) -> None:
    rng = random.Random(0)
    groups = [[bytes(rng.choice((0, 1, 300, 100_000))) for _ in range(rng.choice((1, 2, 9)))] for _ in range(50)]
    chunks = [chunk(group, kind) for group in groups]
    (tmp_path / "x").write_bytes(array_record(chunks))
    file = MappedFile(str(tmp_path / "x"))
    end = HEADER + sum(map(len, chunks))
    found = scan_riegeli(file, 0, end, 1000)
    starts = [HEADER + sum(map(len, chunks[:number])) + HEADER for number in range(50)]
    assert (found.end, found.start.tolist()) == (end, starts)
    assert found.records.tolist() == [len(group) for group in groups]
    assert found.expanded.tolist() == [sum(map(len, group)) for group in groups]
    assert bytes(found.compression.tolist()) == (kind or "\0").encode() * 50
    values = [sum(map(len, group)) if not kind else None for group in groups]
    for row, size in enumerate(values):
        assert starts[row] < found.values[row] - found.sizes[row] <= found.values[row]
        if size is not None:
            assert starts[row] + found.length[row] - found.values[row] == size
    first = scan_riegeli(file, 0, end, 7)
    assert first.start.tolist() == starts[:7]
    assert scan_riegeli(file, first.end, end, 1000).start.tolist() == starts[7:]


@pytest.mark.parametrize(
    "odd",
    [
        chunk([b"x"], type="t"),
        chunk([b"x"], expanded=2),
        struct.pack("<QQQQQ", 0, 1 << 50, 0, ord("r") | 256, 1),
        struct.pack("<QQQQQ", 0, 1 << 63, 0, ord("r") | 256, 1),
        struct.pack("<QQQQQ", 0, 3, 0, ord("r") | 256, 1) + b"q\0x",
        struct.pack("<QQQQQ", 0, 3, 0, ord("r") | 256, 1) + b"z\2x",
        struct.pack("<QQQQQ", 0, 12, 0, ord("r") | 256, 1) + b"z" + b"\xff" * 11,
    ],
)
def test_it_stops_before_what_is_unusual(odd: bytes, tmp_path: Path) -> None:
    good = chunk([b"first"], "z")
    (tmp_path / "x").write_bytes(array_record([good, odd, good]))
    found = scan_riegeli(MappedFile(str(tmp_path / "x")), 0, 1 << 40, 1000)
    assert (found.end, found.start.tolist()) == (HEADER + len(good), [2 * HEADER])


def test_it_stops_at_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(array_record([chunk([b"x"])]))
    file = MappedFile(str(tmp_path / "x"))
    for position in (file.size, 2 * ROOM - 1, (1 << 63) - 2):
        assert scan_riegeli(file, position, (1 << 63) - 1, 1000).end == position
    (tmp_path / "empty").touch()
    assert scan_riegeli(MappedFile(str(tmp_path / "empty")), 0, 1, 1).end == 0
    with pytest.raises(ValueError, match="negative"):
        scan_riegeli(file, -1, 1, 1)
