"""The undamaged datasets of a campaign: a few kilobytes each, in memory, with the values that are true of them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.samples import make_samples
from tests.conformance.target import Target, numbered
from tests.formats import FORMATS
from tests.fuzz.datasets import FOREIGN, ORIGINALS
from tests.paths import GOLDEN

import bushel
from bushel.errors import FormatError

__all__ = ["CONTAINERS", "TIME", "Material", "Value", "make_materials", "plain", "repaired_as", "write_files"]

CONTAINERS = (*ORIGINALS, *FOREIGN)

TIME = 1_700_000_000_000_000_000
"""Modification time of all undamaged files, in nanoseconds."""

_LARGEST = 48_000
"""Original datasets of more bytes than this take too long a time per case."""

Value = bytes | tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """An undamaged dataset.

    Attributes:
        name: Name of its folder.
        files: Its data files, by path in the folder.
        sidecars: The files of its index, by path in the folder.
        samples: Stored bytes of every field, by key.
        values: All of these values, whatever the key and the field, and as a repair would encode them.
    """

    name: str
    files: Mapping[str, bytes]
    sidecars: Mapping[str, bytes]
    samples: Mapping[str, Mapping[str, Value]]
    values: frozenset[Value]


def make_materials(container: str, folder: Path) -> list[Material]:
    """Write the datasets of a container into a folder, and read them. They are the same in every process."""
    for number, (name, generation) in enumerate(FORMATS):
        if name == container:
            _write(Target(name, folder, generation), number)
    for name in FOREIGN.get(container, ()):
        ignored = shutil.ignore_patterns(".bushel", "EXPECTED.json")
        shutil.copytree(GOLDEN / "foreign" / name, folder / name.replace("/", "-"), ignore=ignored)
    for number, original in enumerate(ORIGINALS.get(container, ())):
        source = GOLDEN / original
        if sum(path.stat().st_size for path in source.rglob("*") if path.is_file()) <= _LARGEST:
            shutil.copytree(source, folder / f"original-{number}", ignore=shutil.ignore_patterns(".bushel"))
    return [_material(path, repaired_as(container)) for path in sorted(folder.iterdir())]


def repaired_as(container: str) -> str | None:
    """Return `to=` of `bushel.repair`: a container that is only read is repaired to one that is written."""
    return "recordio" if container in FOREIGN else None


def _write(target: Target, number: int) -> None:
    images = {"image": "jpg", "label": "int"}
    one = target.fit(limit=1)
    mixed = target.fit(limit=5)
    name = f"{target.generation or ''}-{number}"
    target.write(f"images{name}", images, make_samples(images, 1, 3), numbered(3))
    target.write(f"one{name}", one, make_samples(one, 2, 4), None)
    target.write(f"mixed{name}", mixed, make_samples(mixed, 3, 4), numbered(4))
    target.write(f"shards{name}", images, make_samples(images, 4, 4), numbered(4), shard_samples=2)
    large: dict[str, str] = {"image": "jpg[]"} if target.container == "gulp" else {"raw": "bytes"}
    rng = random.Random(5)  # more bytes than the stamp of a file covers
    values = [b"\xff\xd8\xff" + rng.randbytes(9000) for _ in range(3)]  # gulp takes what begins like a JPEG
    samples: list[dict[str, Any]] = [
        {name: [value] if kind.endswith("[]") else value} for value in values for name, kind in large.items()
    ]
    target.write(f"large{name}", large, samples, numbered(3))


def _material(folder: Path, to: str | None) -> Material:
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, ns=(TIME, TIME))
    for sidecars in list(folder.rglob(".bushel")):
        shutil.rmtree(sidecars)
    with bushel.index(folder, keys=True, pickle=True) as dataset:
        read = dataset.read(range(len(dataset)), decode=False)
    samples = {sample.pop("__key__"): {name: plain(value) for name, value in sample.items()} for sample in read}
    files: dict[str, bytes] = {}
    index: dict[str, bytes] = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = str(path.relative_to(folder))
        (index if ".bushel" in path.parts else files)[name] = path.read_bytes()
    values = _values(samples.values()) | _rewritten(folder, to)
    return Material(folder.name, files, index, samples, frozenset(values))


def _values(samples: Iterable[Mapping[str, Value]]) -> set[Value]:
    values: set[Value] = set()
    for sample in samples:
        for value in sample.values():
            values.add(value)
            values.update(value if isinstance(value, tuple) else ())
    return values


def _rewritten(folder: Path, to: str | None) -> set[Value]:
    """Return the values as Bushel itself encodes them: another package may encode the same number in other bytes."""
    copy = folder.parent.parent / "rewritten"
    try:
        bushel.repair(folder, copy, threads=1, to=to)
        with bushel.open(copy) as dataset:
            read = dataset.read(range(len(dataset)), decode=False)
    except FormatError:  # it has no samples
        return set()
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return _values({name: plain(each[name]) for name in each.keys() - {"__key__"}} for each in read)


def plain(value: Any) -> Value:
    """Return stored bytes as values that can be compared."""
    return tuple(bytes(each) for each in value) if isinstance(value, list) else bytes(value)


def write_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files with the time of undamaged ones."""
    for name, data in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(TIME, TIME))
