"""The ways to change a target that `race` interleaves: a writer in each mode, and the functions that write datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import bushel
from bushel._writer.target import Mode

__all__ = ["JPEG", "WAYS", "options_of", "prepare_sources", "spec_of", "write"]

_COUNT = 4
JPEG = (
    bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb004300")
    + bytes([1] * 64)
    + bytes.fromhex(
        "ffc0000b080008000801011100ffc40014000100000000000000000000000000000000ffc4001410010000000000000000000000000000000000"
        "ffda0008010100003f00bfffd9"
    )
)


def spec_of(container: str) -> dict[str, str]:
    """Return a spec that the container holds."""
    return {"data": "jpg" if container == "gulp" else "bytes", "label": "int"}


def options_of(path: Path) -> dict[str, Any]:
    """Return the options of a writer, which makes two shards unless the target is one file."""
    return {"sync": False} if path.suffix else {"sync": False, "shard_samples": 3}


def _samples(container: str, name: str, count: int = _COUNT) -> list[dict[str, Any]]:
    values = [JPEG + name.encode() * 50 if container == "gulp" else name.encode() * 300 for _ in range(count)]
    return [{"__key__": f"{name}{n}", "data": value, "label": n} for n, value in enumerate(values)]


def _writer(mode: Mode) -> Callable[[Path, str, str, Path], None]:
    def run(path: Path, container: str, name: str, sources: Path) -> None:
        with bushel.Writer(path, spec_of(container), container=container, mode=mode, **options_of(path)) as writer:
            for sample in _samples(container, name):
                writer.append(sample)

    return run


def _pack(parts: int | None) -> Callable[[Path, str, str, Path], None]:
    def run(path: Path, container: str, name: str, sources: Path) -> None:
        options: dict[str, Any] = {"sync": False} if parts else options_of(path)
        samples = _samples(container, name)
        bushel.pack(samples, path, container=container, spec=spec_of(container), parts=parts, threads=1, **options)

    return run


def _convert(path: Path, container: str, name: str, sources: Path) -> None:
    bushel.convert(sources / f"{name}0", path, container=container, threads=1, **options_of(path))


def _merge(path: Path, container: str, name: str, sources: Path) -> None:
    parts = [sources / f"{name}{number}" for number in range(2)]
    bushel.merge(parts, path, container=container, threads=1, **options_of(path))


def _repair(path: Path, container: str, name: str, sources: Path) -> None:
    bushel.repair(sources / f"{name}0", path, to=container, threads=1, shard_samples=None if path.suffix else 3)


def _remove(path: Path, container: str, name: str, sources: Path) -> None:
    keys = [f"{writer}{'ab'.index(name)}" for writer in ("old", "a", "b")]
    bushel.remove(path, keys=keys, ignore_missing=True, reason=name)


def _erase(path: Path, container: str, name: str, sources: Path) -> None:
    bushel.erase(path)


def _split(path: Path, container: str, name: str, sources: Path) -> None:
    target = path.parent / "halves" if path.suffix else path  # a folder, also where the others write one file
    bushel.split(sources / f"{name}0", target, {"one": 0.5, "two": 0.5}, container=container, threads=1, sync=False)


def _index(path: Path, container: str, name: str, sources: Path) -> None:
    bushel.index(path)


WAYS: Mapping[str, Callable[[Path, str, str, Path], None]] = {
    "create": _writer("create"),
    "append": _writer("append"),
    "resume": _writer("resume"),
    "overwrite": _writer("overwrite"),
    "pack": _pack(None),
    "parts": _pack(2),
    "convert": _convert,
    "repair": _repair,
    "merge": _merge,
    "index": _index,
    "remove": _remove,
    "erase": _erase,
    "split": _split,
}
"""Functions of the target, its container, the name of the writer (`a` or `b`) and the folder of `prepare_sources`."""


def write(path: Path, container: str, way: str, name: str, sources: Path) -> None:
    """Change a target in one of `WAYS`."""
    WAYS[way](path, container, name, sources)


def prepare_sources(folder: Path, container: str) -> None:
    """Write what `convert`, `merge` and `repair` read: two datasets for each writer."""
    for name in ("a", "b"):
        for number in range(2):
            path = folder / f"{name}{number}"
            with bushel.Writer(path, spec_of(container), container=container, sync=False) as writer:
                for sample in _samples(container, name, 4 - 2 * number):
                    writer.append({**sample, "__key__": f"{number}{sample['__key__']}"})
