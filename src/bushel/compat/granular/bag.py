"""Single bag files."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import ExistsError, OutOfRangeError, WrongTypeError, WrongUseError
from bushel.compat.granular.paths import MemoryPath, files_as_shard, folder_of, granular_path, with_suffix
from bushel.compat.granular.records import Records, off_memory
from bushel.containers import get_container
from bushel.containers.bag.tables import encode_table
from bushel.containers.base import ReadOptions
from bushel.core.dataset.shards import OpenShard
from bushel.storage import AnyPath, FilePool, Staging

__all__ = ["MOST_RECORDS", "BagReader", "BagWriter", "checked_index", "checked_range", "source_path"]

MOST_RECORDS = (1 << 32) - 1
"""A bag has fewer records than this."""


class BagWriter(Closing):
    """Writes one bag file, which appears under its name when it is closed.

    Args:
        filepath: Where to; there must be nothing yet.
        version: Of the table: 2 of ends, 1 of starts (Granular before 0.20).

    Raises:
        ExistsError: There is such a file.
        WrongUseError: There is no such version.
    """

    def __init__(self, filepath: Any, version: int = 2) -> None:
        if version not in (1, 2):
            raise WrongUseError(f"version is 1 or 2, not {version!r}")
        super().__init__()
        path = granular_path(filepath)
        if path.exists():
            raise ExistsError(f"{path} is there already")
        self.version = version
        self._name = path.name
        self._staging = Staging(folder_of(path), path.name)
        self._sink = self._staging.open(path.name)
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of the file, with its table."""
        records = self._ends[-1] if self._ends else 0
        return records + 8 * (len(self._ends) + (self.version == 1))

    def append(self, record: bytes, flush: bool = True) -> int:
        """Add one record.

        Returns:
            Its number.

        Raises:
            WrongTypeError: It is not bytes.
            WrongUseError: The bag is closed, or full.
        """
        if self.closed or len(self._ends) >= MOST_RECORDS:
            raise WrongUseError("the bag is closed" if self.closed else f"a bag has less than {MOST_RECORDS} records")
        if not isinstance(record, bytes):
            raise WrongTypeError(f"a record is bytes, not {type(record).__name__}")
        self._sink.write(record)
        self._ends.append(self._sink.position)
        return len(self._ends) - 1

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._sink.flush()

    def close(self) -> None:
        """Write the table, and give the file its name."""
        if self.closed:
            return
        self._sink.write(encode_table(np.array(self._ends, np.int64), "A" if self.version == 1 else "B"))
        self._staging.seal([])
        self._staging.commit([self._name])
        self.closed = True


class BagReader(Closing):
    """Reads one bag file of any generation, or a byte string that holds one.

    Args:
        source: A path, or bytes.
        cache_index: Whether the table is kept in memory; otherwise it is mapped from a temporary file.
        cache_data: Whether the records are kept in memory too.
        index: The `.idx` file of generation C, by default the one beside the bag where there is one.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is no bag.
    """

    def __init__(self, source: Any, cache_index: bool = True, cache_data: bool = False, *, index: Any = None) -> None:
        super().__init__()
        self._arguments = (source, cache_index, cache_data, index)
        paths = [source_path(source)]
        if index is not None:
            paths.append(source_path(index))
        elif isinstance(paths[0], Path):
            paths += [table] if (table := with_suffix(paths[0], ".idx")).exists() else []
        shard = files_as_shard(*paths)
        records = get_container("bag").index(shard, ReadOptions())
        if not cache_index:
            records = off_memory(records)
        [column] = records.columns.values()
        self._pool = FilePool()
        self._shard = OpenShard.of("bag", shard, records, stored=False)
        self._records = Records(self._shard, column, self._pool, hold=cache_data)
        self._size = sum(stamp.size for stamp in records.files)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments}

    def __setstate__(self, state: dict[str, Any]) -> None:
        source, cache_index, cache_data, index = state["arguments"]
        BagReader.__init__(self, source, cache_index, cache_data, index=index)

    @property
    def size(self) -> int:
        """Bytes of the file, with its table."""
        return self._size

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        """A record by number; or those of a slice or range, with a single read.

        Raises:
            OutOfRangeError: There is none.
        """
        if type(index) is slice or type(index) is range:
            numbers = checked_range(index)
            return self._records.many(numbers.start, min(numbers.stop, len(self)))
        number = index if type(index) is int else checked_index(index)
        if not 0 <= number < len(self):
            raise OutOfRangeError(f"record {number} of a bag of {len(self)}")
        return self._records.one(number)

    def __iter__(self) -> Iterator[bytes]:
        return (self._records.one(number) for number in range(len(self)))

    def copy(self) -> Self:
        """Another reader of the same file."""
        new = type(self).__new__(type(self))
        new.__setstate__(self.__getstate__())
        return new

    def close(self) -> None:
        """Close the file. Reading opens it again."""
        self._pool.close()
        super().close()


def source_path(source: Any) -> AnyPath:
    """The path of a file, or of bytes as if they were one.

    Raises:
        FileNotFoundError: There is no such file.
        WrongTypeError: It is neither.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return MemoryPath(bytes(source))  # type: ignore[return-value]
    path = granular_path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    return path


def checked_range(index: slice | range) -> range:
    """The numbers of a slice or range as Granular takes them: neither negative nor with a step.

    Raises:
        WrongUseError: It is another one.
    """
    start = 0 if index.start is None else operator.index(index.start)
    if index.stop is None or index.step not in (None, 1) or not 0 <= start <= operator.index(index.stop):
        raise WrongUseError(f"a range needs 0 <= start <= stop and no step, not {index!r}")
    return range(start, operator.index(index.stop))


def checked_index(index: Any) -> int:
    """An index as an integer, NumPy's too.

    Raises:
        WrongTypeError: It is none.
    """
    try:
        return operator.index(index)
    except TypeError:
        raise WrongTypeError(f"an index is an integer, a slice or a range, not {type(index).__name__}") from None
