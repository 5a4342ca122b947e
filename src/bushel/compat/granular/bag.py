"""Single bag files, and the records of a bag by number."""

from __future__ import annotations

import copy
import operator
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

import bushel
from bushel.compat.errors import raised_as
from bushel.containers import FieldExtents, ReadOptions, get_container
from bushel.containers.bag import encode_table, read_refs, read_spec
from bushel.storage import AnyPath, ExtentError, File, FilePool, Staging, open_file

from .base import (
    Closing,
    DamagedError,
    ExistsError,
    OutOfRangeError,
    WrongIndexError,
    WrongTypeError,
    WrongUseError,
)
from .paths import MemoryPath, files_as_shard, folder_of, granular_path, with_suffix

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST_RECORDS = (1 << 32) - 1
"""A bag has fewer records than this."""


class Records:
    """The records of the bag at `path`, whose open file is in `pool`. `hold`: the first read reads the whole bag."""

    __slots__ = ("_data", "_length", "_offset", "_open", "_path", "_pool", "_size", "held")

    def __init__(
        self,
        column: FieldExtents,
        pool: FilePool,
        path: AnyPath,
        open_bag: Callable[[], File],
        *,
        hold: bool,
    ) -> None:
        self._pool, self._path, self._open, self.held = pool, str(path), open_bag, hold
        # Memoryviews give Python's numbers, three times as fast as NumPy.
        self._offset = np.ascontiguousarray(column.offset).data
        self._length = np.ascontiguousarray(column.length).data
        self._size = int((column.offset + column.length).max()) if hold and column.rows else 0
        self._data: bytes | None = None

    def __len__(self) -> int:
        return len(self._offset)

    def one(self, row: int) -> bytes:
        """Return one record."""
        start, length = self._offset[row], self._length[row]
        if self._data is not None:
            return self._data[start : start + length]
        return self._read(start, length)

    def many(self, first: int, last: int) -> list[bytes]:
        """Return the records `first` to `last`, with a single read if they are adjacent, which is usual."""
        if first >= last:
            return []
        start, end = self._offset[first], self._offset[last - 1] + self._length[last - 1]
        lengths = self._length[first:last].tolist()
        if sum(lengths) != end - start:
            return [self.one(row) for row in range(first, last)]
        buffer = self._read(start, end - start)
        records, position = [], 0
        for length in lengths:
            records.append(buffer[position : position + length])
            position += length
        return records

    def _read(self, start: int, length: int) -> bytes:
        try:
            if not self.held:
                return self._pool.get(self._path, self._open).read(start, length)
            if self._data is None:
                self._data = self._pool.get(self._path, self._open).read(0, self._size)
            return self._data[start : start + length]
        except ExtentError as error:
            raise DamagedError(
                f"the file has {error.found} bytes where {error.expected} are needed",
                file=self._path,
                offset=0 if self.held else start,
                hint="run `bushel verify` on the dataset",
            ) from error


def mapped(columns: Sequence[FieldExtents]) -> list[FieldExtents]:
    """Return the same columns in a mapped temporary file without a name, rather than in memory."""
    arrays = [
        array
        for column in columns
        for array in (column.offset, column.length, column.starts)
        if array is not None
    ]
    with tempfile.TemporaryFile() as file:
        for array in arrays:
            array.tofile(file)
        file.flush()
        ends = np.cumsum([array.size for array in arrays])
        if not ends[-1]:
            return list(columns)
        parts = iter(np.split(np.memmap(file, np.int64, "r"), ends[:-1]))
    return [
        replace(
            column,
            offset=next(parts),
            length=next(parts),
            starts=None if column.starts is None else next(parts),
        )
        for column in columns
    ]


def check_record(record: Any, closed: bool, length: int) -> None:
    """Raise an error if a record cannot be appended to a bag of `length` records."""
    if closed or length >= MOST_RECORDS:
        raise WrongUseError(
            "the bag is closed" if closed else f"a bag has fewer than {MOST_RECORDS} records"
        )
    if not isinstance(record, bytes):
        raise WrongTypeError(f"a record is bytes, not {type(record).__name__}")


class BagWriter(Closing):
    """Writes one bag file, which gets its name when it is closed.

    A table of version 2 holds ends, of version 1 (Granular before 0.20) starts.
    """

    def __init__(self, filepath: Any, version: int = 2) -> None:
        if version not in (1, 2):
            raise WrongUseError(f"version is 1 or 2, not {version!r}")
        super().__init__()
        path = granular_path(filepath)
        if path.exists():
            raise ExistsError(f"{path} exists already")
        self.version = version
        self._name = path.name
        self._staging = Staging(folder_of(path), path.name, locked=True)
        self._sink: Any = self._staging.open(path.name)
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of the file, with its table."""
        return self._end + 8 * (len(self._ends) + (self.version == 1))

    @property
    def _end(self) -> int:
        """Bytes of the records."""
        return self._ends[-1] if self._ends else 0

    def append(self, record: bytes, flush: bool = True) -> int:
        """Append a record and return its number."""
        check_record(record, self.closed, len(self._ends))
        self._sink.write(record)
        self._ends.append(self._end + len(record))
        return len(self._ends) - 1

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """Write the table, and give the file its name."""
        if self.closed:
            return
        self._sink.write(
            encode_table(np.array(self._ends, np.int64), "A" if self.version == 1 else "B")
        )
        self._publish()
        self.closed = True

    def _publish(self) -> None:
        self._staging.seal()
        self._staging.commit([self._name])


class BagReader(Closing):
    """Reads one bag file of any generation, or bytes that hold one.

    Records of samples that `bushel remove` removed are skipped: the numbers count the others.
    `cache_index` keeps the table in memory, rather than mapped from a temporary file, and
    `cache_data` the records. `index` is the `.idx` file of generation C, by default the one beside
    the bag, if it exists.
    """

    def __init__(
        self, source: Any, cache_index: bool = True, cache_data: bool = False, *, index: Any = None
    ) -> None:
        super().__init__()
        self._arguments = {
            "source": source,
            "cache_index": cache_index,
            "cache_data": cache_data,
            "index": index,
        }
        paths = [source_path(source)]
        if index is not None:
            paths.append(source_path(index))
        elif isinstance(paths[0], Path):
            paths += [table] if (table := with_suffix(paths[0], ".idx")).exists() else []
        with raised_as(DamagedError):
            shard_index = get_container("bag").index(files_as_shard(*paths), ReadOptions())
            [column] = shard_index.fields.values()
            if (rows := kept_records(paths[0], column.rows)) is not None:
                column = replace(column, offset=column.offset[rows], length=column.length[rows])
        if not cache_index:
            [column] = mapped([column])
        self._pool = FilePool()
        self._stamp = shard_index.files[0]
        self._records = Records(
            column, self._pool, paths[0], lambda: self._open(paths[0]), hold=cache_data
        )
        self._size = sum(stamp.size for stamp in shard_index.files)

    def _open(self, path: AnyPath) -> File:
        file, stamp = open_file(path), self._stamp
        if file.size != stamp.size or (stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns):
            raise DamagedError(
                "the bag has changed since it was opened", file=str(path), hint="make a new reader"
            )
        return file

    def __getstate__(self) -> dict[str, Any]:
        return {"_arguments": self._arguments}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        BagReader.__init__(self, **self._arguments)

    @property
    def size(self) -> int:
        """Bytes of the file, with its table."""
        return self._size

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        """Return a record; or the records of a slice or range, with a single read."""
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
        """Return another reader of the same file."""
        return copy.copy(self)

    def close(self) -> None:
        """Close the file. Reading opens it again."""
        self._pool.close()
        super().close()


def source_path(source: Any) -> AnyPath:
    """Return the path of a file, or of bytes as a file in memory."""
    if isinstance(source, bytes | bytearray | memoryview):
        return MemoryPath(bytes(source))  # type: ignore[return-value]
    path = granular_path(source)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    return path


def checked_range(index: slice | range) -> range:
    """Return the numbers of a slice or range, which Granular takes neither negative nor with a step."""
    start = 0 if index.start is None else operator.index(index.start)
    if index.stop is None:
        raise WrongTypeError(f"a range needs a stop, and {index!r} has none")
    if index.step not in (None, 1) or not 0 <= start <= operator.index(index.stop):
        raise WrongUseError(f"a range needs 0 <= start <= stop and no step, not {index!r}")
    return range(start, operator.index(index.stop))


def checked_index(index: Any) -> int:
    """Return an index as an integer, NumPy's too."""
    try:
        return operator.index(index)
    except TypeError:
        raise WrongIndexError(
            f"an index is an integer, a slice or a range, not {type(index).__name__}"
        ) from None


def kept_records(path: AnyPath, records: int) -> Numbers | None:
    """Return the numbers of the records of a local bag that were not removed, ascending; None if none was.

    A bag of a dataset loses the records that only removed samples refer to; a bag that is a dataset
    of its own loses those that were removed from it.

    Raises:
        FormatError: A list of removed samples is damaged or of another bag, or the dataset is
            damaged.
    """
    if not isinstance(path, Path):
        return None
    gone = np.zeros(records, np.bool_)
    gone[bushel.integrity.removed_positions(path, container="bag")] = True
    if path.with_name("spec.json").exists():
        rows = bushel.integrity.removed_positions(path.parent, container="bag")
        gone |= _of_removed_samples(path, records, rows) if len(rows) else False
    return np.flatnonzero(~gone) if gone.any() else None


def _of_removed_samples(path: Path, records: int, rows: Numbers) -> Flags:
    """Return which records of a bag of a dataset belong to removed samples only."""
    refs_path = path.with_name("refs.bag")
    # generation C: record i of every bag is of sample i
    if path == refs_path or not refs_path.exists():
        gone = np.zeros(records, np.bool_)
        gone[rows] = True
        return gone
    entries, refs = read_refs(
        read_spec(open_file(path.with_name("spec.json"))), open_file(refs_path)
    )
    removed = np.zeros(entries.records, np.bool_)
    removed[rows] = True
    if (ranges := refs.get(path.stem)) is None:  # a file that is not of the dataset
        return np.zeros(records, np.bool_)
    first = ranges.first.astype(np.int64)
    count = np.ones(len(first), np.int64) if ranges.count is None else ranges.count.astype(np.int64)
    lost, remaining = (_referred(first[rows], count[rows], records) for rows in (removed, ~removed))
    return lost & ~remaining


def _referred(first: Numbers, count: Numbers, records: int) -> Flags:
    """Return which records some samples refer to, given the first record of each sample and how many they are."""
    steps = np.zeros(records + 1, np.int64)
    np.add.at(steps, np.clip(first, 0, records), 1)
    np.add.at(steps, np.clip(first + count, 0, records), -1)
    return np.cumsum(steps[:-1]) > 0
