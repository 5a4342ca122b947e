"""Buckets in memory, which take the place of those that a network leads to."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from bushel.storage.objects import client
from bushel.storage.objects.location import ObjectPath

__all__ = ["Buckets", "objects_in"]


class Buckets:
    """Makes buckets of this process, by the URLs of their roots.

    Attributes:
        scratch: Where what is unfinished is staged.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(exist_ok=True)
        self._stores: dict[str, MemoryStore] = {}
        monkeypatch.setattr(client, "_make", lambda process, root, settings, retries: self.store(root))
        monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def store(self, root: str) -> MemoryStore:
        """The bucket at `s3://name`."""
        return self._stores.setdefault(root, MemoryStore())

    def staged(self) -> list[str]:
        """Names of the staging folders of unfinished shards."""
        return sorted(path.name for path in self.scratch.glob("bushel-*/*/.bushel/staging/*"))


def objects_in(root: ObjectPath, *, sidecars: bool = False) -> dict[str, bytes]:
    """Names, relative to a folder, and contents of all objects in it; without what Bushel adds, unless asked for."""
    found = {}
    for page in root.store.list(root.key or None):
        for each in page:
            name = each["path"].removeprefix(f"{root.key}/")
            if sidecars or ".bushel" not in name.split("/"):
                found[name] = bytes(root.store.get(each["path"]).bytes())
    return found
