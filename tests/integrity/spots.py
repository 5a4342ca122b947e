"""Table entries and payloads of a dataset of `small.write`, the samples that need them, and damage to them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from tests.integrity.small import key, reading

COUNT = 9
Generation = Literal["B", "C"] | None


@dataclass(frozen=True)
class Spot:
    """Bytes of a file, and the samples that need them."""

    file: Path
    start: int
    stop: int
    samples: frozenset[int]
    ascending: bool = False  # a little-endian number of a table that ascends


def table_spots(file: Path, start: int, samples: int = COUNT) -> list[Spot]:
    """The ends of records: each is also the start of the next one."""
    return [
        Spot(
            file, start + 8 * row, start + 8 * row + 8, frozenset({row, row + 1} & set(range(samples))), ascending=True
        )
        for row in range(samples)
    ]


def bag_spots(folder: Path) -> list[Spot]:
    spots = []
    for bag in sorted(folder.glob("*.bag")):
        table = bag.with_suffix(".idx")
        if table.exists():
            spots += table_spots(table, 0)
            continue
        data = bag.read_bytes()
        start = int.from_bytes(data[-8:], "little")
        spots += table_spots(bag, start)
        if bag.name == "refs.bag":
            ends = [0, *np.frombuffer(data[start:], "<u8").tolist()]
            spots += [Spot(bag, ends[row], ends[row + 1], frozenset({row})) for row in range(COUNT)]
    return spots


def tar_spots(folder: Path) -> list[Spot]:
    import tarfile

    [file] = folder.glob("*.tar")
    numbers = {key(number): number for number in range(COUNT)}
    with tarfile.open(file) as archive:
        return [
            Spot(file, one.offset, one.offset + 512, frozenset({numbers[one.name.split(".")[0]]})) for one in archive
        ]


def ffrecord_spots(folder: Path) -> list[Spot]:
    [file] = folder.glob("*.ffr")
    spots = [Spot(file, 0, 4, frozenset()), Spot(file, 4, 12, frozenset())]
    for row in range(COUNT):
        spots.append(Spot(file, 12 + 4 * row, 16 + 4 * row, frozenset({row})))
        at = 12 + 4 * COUNT + 8 * row
        spots.append(Spot(file, at, at + 8, frozenset({max(row - 1, 0), row})))
    return spots


def gulp_spots(folder: Path) -> list[Spot]:
    [file] = folder.glob("*.gmeta")
    text = file.read_bytes()
    starts = [*(text.index(b'"%s"' % key(row).encode()) for row in range(COUNT)), len(text)]
    spots = []
    for row in range(COUNT):
        entry = text[starts[row] : starts[row + 1]]
        for number in re.finditer(rb"\d+", entry[entry.index(b"frame_info") :]):
            at = starts[row] + entry.index(b"frame_info") + number.start()
            spots.append(Spot(file, at, at + len(number[0]), frozenset({row})))
        spots.append(Spot(file, starts[row], starts[row + 1] - 4, frozenset({row})))
    return spots


def recordio_spots(folder: Path) -> list[Spot]:
    [file], [table] = folder.glob("*.rec"), folder.glob("*.idx")
    lines = table.read_bytes().splitlines(keepends=True)
    ends = np.cumsum([0, *map(len, lines)]).tolist()
    spots = []
    for row, line in enumerate(lines):
        offset = int(line.split(b"\t")[1])
        spots += [Spot(file, offset + at, offset + at + 4, frozenset({row})) for at in (0, 4)]
        spots.append(Spot(table, ends[row], ends[row + 1] - 1, frozenset({row})))
    return spots


SPOTS: dict[str, Callable[[Path], list[Spot]]] = {
    "bag": bag_spots,
    "tar": tar_spots,
    "ffrecord": ffrecord_spots,
    "gulp": gulp_spots,
    "recordio": recordio_spots,
}


def payload_spots(folder: Path) -> list[Spot]:
    """Bytes in the middle of the images, where nothing but a checksum shows a change."""
    dataset = reading(folder)
    spots = []
    for row in range(COUNT):
        file, offset = dataset.location(row, "image")
        assert file is not None
        assert offset is not None
        spots.append(Spot(Path(file), offset + 100, offset + 300, frozenset({row})))
    dataset.close()
    return spots


def damage(data: bytearray, spot: Spot, rng: random.Random) -> None:
    """Change at least one byte of a spot."""
    before = bytes(data)
    while bytes(data) == before:
        at = rng.randrange(spot.start, spot.stop)
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            data[spot.start : spot.stop] = rng.randbytes(spot.stop - spot.start)
        elif kind == 3:
            data[spot.start : spot.stop] = bytes([rng.choice([0, 255, 48])]) * (spot.stop - spot.start)
        elif spot.ascending:  # a little too small or too large
            value = int.from_bytes(data[spot.start : spot.stop], "little") + rng.randrange(-1500, 1500)
            data[spot.start : spot.stop] = max(value, 0).to_bytes(8, "little")
    assert len(data) == len(before)


def undecidable(spot: Spot, before: bytes, after: bytes) -> frozenset[int]:
    """The samples that a wrong end touches if it has merely changed places with one neighbour in its table.

    Then only the content of the records can show which of the two is wrong.
    """
    if not spot.ascending or spot.file.name.startswith("image") or spot.file.name == "refs.bag":
        return frozenset()
    data = after if spot.file.suffix == ".idx" else after[int.from_bytes(before[-8:], "little") :]
    first = 0 if spot.file.suffix == ".idx" else int.from_bytes(before[-8:], "little")
    ends = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    row = (spot.start - first) // 8

    def ascends_without(left_out: int) -> bool:
        rest = [end for number, end in enumerate(ends) if number != left_out]
        return all(one <= other for one, other in pairwise(rest))

    others = [other for other in (row - 1, row + 1) if 0 <= other < len(ends) and ascends_without(other)]
    return frozenset(sample for other in others for sample in (other, other + 1))
