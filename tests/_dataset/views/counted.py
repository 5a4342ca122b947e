"""Files that note what is read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bushel._dataset.read import shards
from bushel.storage import File, open_file


class Counted:
    """A file that is not local, and records the reads of it."""

    asked: list[tuple[int, int]]

    def __init__(self, path: Path, asked: list[tuple[int, int]]) -> None:
        self._file: File = open_file(path)
        self.asked = asked
        self.path, self.size, self.mtime_ns = self._file.path, self._file.size, self._file.mtime_ns

    def read(self, offset: int, length: int, /) -> bytes:
        self.asked.append((offset, length))
        return self._file.read(offset, length)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list of what is read of the files of datasets that are opened from here on: offsets and lengths."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(shards, "open_known", lambda path, *_: Counted(path, asked))
    return asked
