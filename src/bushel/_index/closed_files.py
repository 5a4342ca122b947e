"""The small files of a shard that has very many of them: each is opened, read and closed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bushel import kernels
from bushel._runtime.arrays import I64
from bushel.storage import File

from .shard import SMALL_FILE, FileStamp, FileStamps, Shard, sizes_of


class ClosedFiles:
    """The files of a shard in a local folder. Small ones are closed between reads.

    Args:
        shard: The shard.
        stamps: The facts that its table records of its files.
        file_of: Returns the open file of a number, for a file that is large, or whose time is
            unknown.
    """

    __slots__ = ("_file_of", "_shard", "_stamps")

    def __init__(
        self, shard: Shard, stamps: Sequence[FileStamp], file_of: Callable[[int], File]
    ) -> None:
        self._shard, self._stamps, self._file_of = shard, stamps, file_of

    def files(self, numbers: Sequence[int]) -> Sequence[File]:
        """Return the files of these numbers. Raise OSError if one cannot be opened."""
        from bushel.storage.fileobject import SmallFile

        sizes, times = (facts.tolist() for facts in self._facts(np.array(numbers, np.int64)))
        forget = getattr(self._stamps, "forget", None)
        return [
            SmallFile(path, size, time, forget)
            if time and size <= SMALL_FILE
            else self._file_of(number)
            for number, path, size, time in zip(
                numbers, self._shard.path_texts(numbers), sizes, times, strict=True
            )
        ]

    def read(self, numbers: I64, offset: I64, length: I64) -> list[bytes] | None:
        """Read an extent of each of these files, without an object for each file.

        Args:
            numbers: int64[n], the numbers of the files.
            offset: int64[n], bytes.
            length: int64[n], bytes.

        Returns:
            The bytes of each; None if one has to be read in another way, which also raises its
            error.
        """
        size, time = self._facts(numbers)
        if not (
            (time != 0)
            & (size <= SMALL_FILE)
            & (offset >= 0)
            & (length >= 0)
            & (offset <= size - length)
        ).all():
            return None
        if isinstance(self._stamps, FileStamps):
            names = self._stamps.names
        else:
            names = self._shard.files
        paths = [names[number] for number in numbers.tolist()]
        contents = kernels.read_small_files(
            paths, size, time, offset, length, folder=str(self._shard.root)
        )
        return None if None in contents else contents  # type: ignore[return-value]

    def _facts(self, numbers: I64) -> tuple[I64, I64]:
        """Return the sizes and the times of files."""
        stamps = self._stamps
        if isinstance(stamps, FileStamps):
            return stamps.sizes[numbers], stamps.times[numbers]
        chosen = [stamps[number] for number in numbers.tolist()]
        return sizes_of(chosen), np.array([stamp.mtime_ns for stamp in chosen], np.int64)
