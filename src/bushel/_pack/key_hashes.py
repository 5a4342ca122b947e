"""Find keys that several parts have, without a table of all keys in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

import numpy as np

from bushel._index.table import Keys
from bushel._runtime.arrays import U64

_RANGES = 256  # hashes are compared in this many equal ranges, one after another
_IN_MEMORY = 4 << 20  # number of hashes that are not in a file
_BOUNDS = np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(56)


class KeyHashes:
    """The hashes of the keys of all parts: up to 4 million in memory, the others sorted in a file without a name.

    Args:
        folder: The folder for that file; None for the usual one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._closing = folder, ExitStack()
        self._file: IO[bytes] | None = None
        self._runs: list[list[int]] = []  # offsets of the ranges of each sorted run in the file
        self._recent: list[U64] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    def add(self, hashes: U64) -> None:
        """Add the hashes of keys that differ."""
        self._recent.append(hashes)
        self._count += len(hashes)
        if self._count >= _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        """Write the hashes that are in memory to the file."""
        if self._file is None:
            import tempfile  # which few runs need

            file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            self._file = self._closing.enter_context(file)
        hashes = np.sort(np.concatenate(self._recent))
        starts = [0, *np.searchsorted(hashes, _BOUNDS).tolist(), len(hashes)]
        first = self._file.seek(0, 2)
        self._file.write(hashes.data)
        self._runs.append([first + 8 * start for start in starts])
        self._recent, self._count = [], 0

    def repeated(self) -> U64:
        """Return the hashes that were added more than once, ascending."""
        if self._file is None:
            return _repeated(self._recent)
        if self._recent:
            self._spill()
        return np.concatenate([_repeated(self._in_range(number)) for number in range(_RANGES)])

    def _in_range(self, number: int) -> list[U64]:
        assert self._file is not None
        pieces: list[U64] = []
        for starts in self._runs:
            self._file.seek(starts[number])
            data = self._file.read(starts[number + 1] - starts[number])
            pieces.append(np.frombuffer(data, np.uint64))
        return pieces


def _repeated(pieces: Sequence[U64]) -> U64:
    hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *pieces]))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def keys_with(hashes: U64, tables: Iterable[Keys]) -> list[str]:
    """Return the keys of a part that have one of these hashes, in order."""
    keys: list[str] = []
    for table in tables:
        rows = table.order[np.isin(table.hashes, hashes)]
        if len(rows):
            keys += table.take(np.sort(rows))
    return keys


def taken_keys(parts: Iterable[tuple[int, Sequence[str]]]) -> list[tuple[str, int, int]]:
    """Return the keys that an earlier part has, with the numbers of the first part that has them, and of theirs.

    The parts are ascending, and have the keys that other parts may have, too.
    """
    first: dict[str, int] = {}
    placed = [
        (key, first.setdefault(key, number), number) for number, keys in parts for key in keys
    ]
    return [(key, before, number) for key, before, number in placed if before != number]
