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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.paths import ROOT

import bushel
from bushel._dataset.views.saved_views import _load
from bushel._index.removal_list import load_removal_list
from bushel._index.sidecar import load_manifest
from bushel.errors import FormatError

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


@pytest.fixture(params=["bag", "tar"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A dataset with small files of all kinds beside it."""
    path, labels = tmp_path / "data", {"label": ["cat", "dog", "emu"]}
    with bushel.Writer(path, {"label": "int"}, container=request.param, labels=labels, sync=False) as writer:
        for number in range(3):
            writer.append({"label": number}, key=f"k{number}")
    bushel.remove(path, keys=["k1"], reason="opt-out")
    bushel.open(path)[[0]].save_view("list")
    bushel.open(path).where("label > 1").save_view("condition")
    assert bushel.verify(path).problems == ()
    return path


LOADERS: dict[str, Callable[[Path], object]] = {
    "manifest.json": load_manifest,
    "removed.safetensors": load_removal_list,
    "views/list.safetensors": _load,
    "views/condition.safetensors": _load,
}


@pytest.mark.parametrize("name", LOADERS)
def test_every_byte_of_small_files(name: str, small: Path) -> None:
    """Names of optional members, times and white space, too: two bits of each byte."""
    file = small / ".bushel" / name
    before = file.read_bytes()
    for at, byte in enumerate(before):
        for bit in (1 << at % 8, 1 << (at + 5) % 8):
            file.write_bytes(before[:at] + bytes([byte ^ bit]) + before[at + 1 :])
            with pytest.raises(FormatError, match=file.name) as raised:
                LOADERS[name](file)
            assert raised.value.hint, (at, bit)
        if at % 40 == 0 and "views" not in name:
            [problem, *_] = bushel.verify(small, threads=1).problems
            assert (problem.kind, problem.file) == ("index", str(file))
        if at % 40 == 0:
            with pytest.raises(FormatError, match=file.name):
                bushel.open(small, view=file.stem if "views" in name else None)
