"""One wrong table entry or payload costs the samples that it touches and no others, in every container.

`DAMAGE_SEEDS` is the number of random damages for each container, with and without an index.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.formats import FORMATS, each_format
from tests.integrity.small import reading, write
from tests.integrity.spots import COUNT, SPOTS, Generation, damage, payload_spots, undecidable

import bushel
from bushel.errors import FormatError

SEEDS = int(os.environ.get("DAMAGE_SEEDS", "12"))


def contents(path: Path, spec: Any) -> list[tuple[str, Any]]:
    dataset = bushel.open(path, index="memory", spec=spec)
    dataset = dataset.select_fields([name for name in dataset.spec if spec is None or name in spec])
    return [(one.pop("__key__"), one) for one in dataset.read(range(len(dataset)), decode=False)]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("indexed", ["no index", "same time", "newer"])
@each_format
def test_one_damage(tmp_path: Path, container: str, generation: Generation, indexed: str, seed: int) -> None:
    rng = random.Random(f"{container} {generation} {indexed} {seed}")
    source = write(tmp_path / "in", container, generation, COUNT, None)
    spec = dict(reading(source).spec)
    original = contents(source, spec)
    spots = SPOTS[container](source)
    spot = rng.choice(payload_spots(source) if rng.random() < 0.2 else spots)
    before = spot.file.read_bytes()
    data, stat = bytearray(before), spot.file.stat()
    damage(data, spot, rng)
    spot.file.write_bytes(data)
    if indexed == "same time":
        os.utime(spot.file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if indexed == "no index":
        for sidecars in source.rglob(".bushel"):
            shutil.rmtree(sidecars)
    bushel.repair(source, tmp_path / "out")
    found = contents(tmp_path / "out", spec)
    touched = set(spot.samples)
    if indexed == "no index":
        touched |= undecidable(spot, before, bytes(data))
    missing = [number for number in range(COUNT) if number not in touched and original[number] not in found]
    others = [name for name, value in found if value not in [value for _, value in original]]
    what = f"{spot}: {before[spot.start : spot.stop]!r} is now {bytes(data[spot.start : spot.stop])!r}"
    assert missing == [], what
    assert len(others) <= (0 if indexed == "same time" else len(spot.samples)), (what, others)
    assert len(found) <= COUNT + (container == "recordio"), what


def test_all_kinds_of_entries_are_damaged(tmp_path: Path) -> None:
    for container, generation in FORMATS:
        source = write(tmp_path / f"{container}{generation}", container, generation, COUNT, None)
        spots = SPOTS[container](source)
        assert len(spots) >= 2 * COUNT
        assert set().union(*(spot.samples for spot in spots)) == set(range(COUNT))
    with pytest.raises(FormatError):
        bushel.repair(Path(__file__).parent / "small.py", tmp_path / "none")
