"""Zip archives by Python's `zipfile`, and what they must give, member by member."""

from __future__ import annotations

import zipfile
from pathlib import Path

import bushel
from bushel.containers.tar.names import field_name, split_name

__all__ = ["check", "samples_of", "written"]


def samples_of(path: Path) -> list[dict[str, bytes | str]]:
    """Return the samples of an archive, with the stored bytes of each field."""
    found: dict[str, dict[str, bytes | str]] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in sorted(archive.infolist(), key=lambda each: each.header_offset):
            parts = entry.filename.split("/")
            if parts[0] == "__MACOSX" or any(part.startswith(".") and part.strip(".") for part in parts):
                continue
            if entry.is_dir() or (split := split_name(entry.filename.encode("utf-8", "surrogateescape"))) is None:
                continue
            key = split[0].decode("utf-8", "surrogateescape")
            found.setdefault(key, {"__key__": key})[field_name(split[1])] = archive.read(entry)
    return list(found.values())


def check(path: Path) -> int:
    """Assert that Bushel reads what `zipfile` does, also the checksums, and return the number of samples."""
    with bushel.open(path, index="memory", verify=True) as dataset:
        found = [dict(sample) for sample in dataset.read(range(len(dataset)), decode=False)]
    assert found == samples_of(path)
    assert bushel.verify(path).problems == ()
    return len(found)


def written(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive, and return its path."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path
