"""Flipped bits in golden datasets of all containers, with an index: verify finds each that carries anything.

The default run flips a sample of them; `FLIPS` is their number for each dataset. The nightly run flips one bit of every
byte of those that are not large.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.paths import ROOT

import bushel

GOLDEN = ROOT / "tests/golden"
FLIPS = int(os.environ.get("FLIPS", "4"))
LARGE = 1 << 14  # bytes of the largest files of which the nightly run flips every one


def datasets() -> Iterator[Path]:
    for manifest in sorted(GOLDEN.rglob("manifest.json")):
        content = json.loads(manifest.read_text())
        if "damaged" in manifest.parts or content["container"] == "lst" or content.get("stream"):
            continue
        path = manifest.parent / content["open"]
        yield path.parent if "{" in path.name else path
    yield from (expected.parent for expected in sorted((GOLDEN / "foreign").rglob("EXPECTED.json")))


DATASETS = list(dict.fromkeys(datasets()))


def indexed(source: Path, folder: Path) -> Path:
    """A copy of a golden dataset with an index that has all columns which writers record."""
    whole = source if source.is_dir() else source.parent
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("EXPECTED.json"))
    path = folder if source.is_dir() else folder / source.name
    bushel.index(path, columns="auto")
    assert bushel.verify(path).problems == ()
    return path


def files_of(path: Path) -> list[Path]:
    if path.is_dir():
        return [each for each in sorted(path.rglob("*")) if each.is_file() and each.stat().st_size]
    beside = (each for each in path.parent.rglob("*") if each.name.startswith((path.name, "manifest")))
    return sorted(each for each in beside if each.is_file() and each.stat().st_size)


def carries_nothing(file: Path, at: int, before: bytes, after: bytes) -> bool:
    """Whether a byte means nothing to Bushel's readers: padding, a time, or a table that the index stands for."""
    if file.name == "manifest.json" and file.parent.name == ".bushel":
        return bool(_facts(before) == _facts(after))
    if ".nv-meta" in file.parts or file.name.endswith(".tar.idx"):  # tables of Energon, of which the index was made
        return True
    if file.name in ("dataset_info.json", "state.json"):  # beside Arrow files, whose schema has the types
        return True
    if "meta" in file.parts:  # LeRobot: statistics, and tables of which the index was made
        return True
    if file.suffix == ".parquet":  # the footer, of which the index was made, has statistics
        return at >= len(before) - 8 - int.from_bytes(before[-8:-4], "little")
    if ".array_record" in file.name:  # zeros up to a multiple of 64 KiB
        return not any(before[max(at - 64, 0) : at + 64])
    if file.suffix == ".tar":  # bytes between members, and after the last one
        with tarfile.open(file) as archive:
            values = [(one.offset_data, one.offset_data + one.size) for one in archive]
        padding = not any(before[max(at - 12, 0) : at + 12])
        return padding and not any(first <= at < last for first, last in values)
    return False


def _facts(data: bytes) -> Any:
    """What a manifest says, without times and what is not used of a complete dataset."""
    try:
        content = json.loads(data.decode(errors="replace"))
    except ValueError:
        return None
    for shard in content.get("shards", ()):
        shard["files"] = [each[:2] for each in shard.get("files", ())]
    return {name: own for name, own in content.items() if name in ("container", "spec", "codecs", "shards", "labels")}


def flip(path: Path, file: Path, at: int, bit: int) -> None:
    """Flip a bit, keeping the time, and assert that verify finds it; then flip it back."""
    before, stat = file.read_bytes(), file.stat()
    after = before[:at] + bytes([before[at] ^ bit]) + before[at + 1 :]
    nothing = carries_nothing(file, at, before, after)
    file.write_bytes(after)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    try:
        if not nothing:
            assert not bushel.verify(path, threads=1).ok, (file.name, at, bit, before[max(at - 16, 0) : at + 16])
    except (bushel.BushelError, OSError):  # what is left is no dataset
        pass
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", DATASETS, ids=lambda path: str(path.relative_to(GOLDEN)).removesuffix("/data"))
def test_flips_are_found(source: Path, tmp_path: Path) -> None:
    path, rng = indexed(source, tmp_path / "copy"), random.Random(str(source.relative_to(GOLDEN)))
    for _ in range(FLIPS):
        file = rng.choice(files_of(path))
        flip(path, file, rng.randrange(file.stat().st_size), 1 << rng.randrange(8))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", DATASETS, ids=lambda path: str(path.relative_to(GOLDEN)).removesuffix("/data"))
def test_every_byte(source: Path, tmp_path: Path) -> None:
    path, rng = indexed(source, tmp_path / "copy"), random.Random(1)
    for file in files_of(path):
        size = file.stat().st_size
        for at in range(size) if size <= LARGE else sorted(rng.sample(range(size), LARGE // 8)):
            flip(path, file, at, 1 << rng.randrange(8))


def test_every_byte_of_a_list_of_removed_samples(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with bushel.Writer(path, {"label": "int"}, container="tar", sync=False) as writer:
        for number in range(3):
            writer.append({"label": number}, key=f"k{number}")
    bushel.remove(path, keys=["k1"], reason="opt-out")
    assert bushel.verify(path).problems == ()
    file = path / ".bushel" / "removed.safetensors"
    for at in range(file.stat().st_size):
        flip(path, file, at, 1 << at % 8)
