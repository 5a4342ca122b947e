"""`FileWriter` and `FileReader`: records by their numbers."""

from __future__ import annotations

import errno
import operator
import os
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from bushel import Dataset, Writer
from bushel.compat.errors import WrongTypeError, WrongUseError
from bushel.containers import Shard, ShardIndex
from bushel.containers.ffrecord import index_all_records
from bushel.errors import InUseError
from bushel.integrity import removed_positions

from .errors import MissingPathError, NoPlaceError, RecordIndexError, as_runtime_errors

PathLike: TypeAlias = "str | os.PathLike[str]"
Record = npt.NDArray[np.uint8]


def checked_name(fname: PathLike) -> Path:
    """Return the path of a file to write, if it can be one."""
    if not isinstance(fname, (str, os.PathLike)):
        raise WrongTypeError(f"fname must be text or a path, not {type(fname).__name__}")
    path = Path(fname)
    if path.suffix != ".ffr":
        raise WrongUseError(f"the name of an FFRecord file ends in .ffr; this one does not: {path}")
    return path


def check_folder(path: Path) -> None:
    """Raise a `NoPlaceError` if the folder of a file to write does not exist."""
    if not path.parent.is_dir():
        raise NoPlaceError(errno.ENOENT, "no such folder", str(path.parent))


def new_writer(path: Path, spec: Mapping[str, str], **options: Any) -> Writer:
    """Open a writer of a file, and then remove an old file of this name, which no other process writes now.

    Raises:
        InUseError: Another process writes it.
        NoPlaceError: The folder does not exist.
    """
    check_folder(path)
    options = {"container": "ffrecord", "mode": "overwrite", **options}
    old = Path(os.path.realpath(path))
    try:
        writer = Writer(path, spec, **options)
    except InUseError:
        raise
    except FileExistsError:  # it is not a dataset, so no writer is open for it
        old.unlink()
        writer = Writer(path, spec, **options)
    old.unlink(missing_ok=True)
    return writer


def drop_index(path: Path) -> None:
    """Delete the sidecar of a finished file: the file has its own index, and programs list and remove folders."""
    path = Path(os.path.realpath(path))
    sidecar = Path(str(Shard.of(path).sidecar))
    sidecar.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        sidecar.parent.rmdir()


class FileWriter:
    """A writer of a file `fname` (ending in `.ffr`) with `n` records; `count` are written so far.

    The file appears under its name when all records are written and the writer is closed; until
    then it is staged in `.bushel/overwrite` beside it. An old file of this name is removed at once,
    unless another process is writing it.
    """

    def __init__(self, fname: PathLike, n: int) -> None:
        self._path = checked_name(fname)
        n = operator.index(n)
        check_folder(self._path)
        if n < 0:
            raise ValueError(f"the number of records must be at least 0, not {n}")
        self.n, self.count = n, 0
        self._writer = new_writer(self._path, {"data": "bytes"}, expected=n)
        self._finalizer = weakref.finalize(
            self, _forgotten, self._writer, self._path, n, os.getpid()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        elif self._finalizer.detach() is not None:
            self._writer.suspend()

    def write_one(self, buf: Buffer) -> None:
        """Add a record: all bytes of an object with a buffer, such as `bytes`, `bytearray`, or any array.

        Raises:
            RuntimeError: `n` records are written already, or the writer is closed.
            TypeError: The object has no buffer.
            SpecError: The record starts like the table of a packed folder, or the first record like
                a packed sample of `bushel.Writer`: readers would misinterpret the file.
        """
        if not self._finalizer.alive:
            raise RuntimeError(f"the writer of {self._path} is closed")
        if self.count >= self.n:
            raise RuntimeError(f"Exceed total number of samples: {self._path} is to have {self.n}")
        if not isinstance(buf, bytes):
            view = memoryview(buf)
            buf = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
        self._writer.append({"data": buf})
        self.count += 1

    def close(self) -> None:
        """Finish the file; with fewer than `n` records it is discarded, and a RuntimeError raised."""
        if self._finalizer.detach() is None:
            return
        if self.count < self.n:
            self._writer.suspend()
            raise RuntimeError(
                f"{self._path} is to have {self.n} samples, and {self.count} were written"
            )
        self._writer.close()
        drop_index(self._path)


def _forgotten(writer: Writer, path: Path, n: int, process: int) -> None:
    """Finish the complete file of a writer that was not closed, or discard an incomplete one."""
    if os.getpid() != process:
        return
    if len(writer) == n:
        writer.close()
        drop_index(path)
        return
    writer.suspend()
    warnings.warn(
        (
            f"{path} is to have {n} samples, {len(writer)} were "
            "written, and it was not closed, so no file was made"
        ),
        ResourceWarning,
        stacklevel=2,
    )


class FileReader:
    """A reader of the `n` records of a file, a folder (its `.ffr` files by name) or a list of these, in order.

    Threads may share it, a forked process may continue to use it, and a pickled copy opens the
    files again. `check_data` compares records with their checksums; the header is always checked. A
    damaged file is a `DamagedFileError`. Records that `bushel remove` removed are skipped: `n`
    and the numbers count the other records, while `get_offsets` and `get_checksums` describe the
    whole file.
    """

    def __init__(self, fname: PathLike | Sequence[PathLike], check_data: bool = True) -> None:
        paths = _files(fname)
        self.fnames = [str(path) for path in paths]
        self.check_data = check_data
        self._shards = [Shard.of(path) for path in paths]
        with as_runtime_errors():
            tables = [(shard, index_all_records(shard)) for shard in self._shards]
        self._dataset = Dataset.from_tables("ffrecord", tables, verify=check_data)
        self._tables = [table for _, table in tables]
        self._closed = False
        with as_runtime_errors():
            self.numbers = _remaining(tables)
        self.n = len(self._dataset) if self.numbers is None else len(self.numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fnames, self.check_data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Record]:
        """Read any number of records at once, in any order, repeated or not: uint8[length] of each.

        The arrays are views of one buffer: copy an array to keep it without the others. Errors are
        a `RecordIndexError`, a `DamagedRecordError`, and a `RuntimeError` if the reader is closed.
        """
        try:
            positions = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        except ValueError as error:  # lists in the list
            raise TypeError(f"indices must be a list of integers, not {indices!r}") from error
        if not positions.size:
            self._check_open()
            return []
        if positions.dtype == bool and not isinstance(indices, np.ndarray):
            positions = positions.astype(np.int64)  # Python's numbers 0 and 1, not a mask
        if positions.dtype.kind not in "iu" or positions.ndim != 1:
            raise TypeError(f"indices must be a list of integers, not {indices!r}")
        self._check(int(positions.min()))
        self._check(int(positions.max()))
        if self.numbers is not None:
            positions = self.numbers[positions]
        with as_runtime_errors():
            buffer, offsets = self._dataset.gather(positions, "data")
        ends = offsets.tolist()
        return [buffer[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True)]

    def read_one(self, index: int) -> Record:
        """Read one record: uint8[length]. Raises as `read`."""
        position = operator.index(index)
        self._check(position)
        if self.numbers is not None:
            position = int(self.numbers[position])
        with as_runtime_errors():
            return np.frombuffer(bytearray(self._dataset[position]["data"]), np.uint8)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the reader is closed")

    def _check(self, index: int) -> None:
        self._check_open()
        if not 0 <= index < self.n:
            raise RecordIndexError(
                f"index {index} is out of range: the {self.n} records are 0 to {self.n - 1}"
            )

    def validate(self) -> None:
        """Read the headers again and compare them with their checksums; a `DamagedFileError` names the damaged one."""
        with as_runtime_errors():
            for shard in self._shards:
                index_all_records(shard)

    def get_offsets(self, file_index: int) -> npt.NDArray[np.int64]:
        """Return the offsets of the records of a file, followed by the file's size: int64[records + 1]."""
        table = self._tables[file_index]
        return np.append(table.fields["data"].offset, np.int64(table.files[0].size))

    def get_checksums(self, file_index: int) -> npt.NDArray[np.uint32]:
        """Return the CRC-32 of the records of a file: uint32[records]."""
        return np.array(self._tables[file_index].fields["data"].crc32, np.uint32)

    def close(self) -> None:
        """Close the files. Closing again does nothing."""
        self._closed = True
        self._dataset.close()


def _remaining(tables: Sequence[tuple[Shard, ShardIndex]]) -> npt.NDArray[np.int64] | None:
    """Return the numbers of the records that were not removed; None if none was."""
    removed, start = [np.zeros(0, np.int64)], 0
    for shard, table in tables:
        removed.append(removed_positions(shard.path(0), container="ffrecord") + start)
        start += table.samples
    gone = np.concatenate(removed)
    return np.delete(np.arange(start, dtype=np.int64), gone) if len(gone) else None


def _files(fname: PathLike | Sequence[PathLike]) -> list[Path]:
    if isinstance(fname, (list, tuple)):
        paths = [
            path
            for name in fname
            for path in _files(name if isinstance(name, os.PathLike) else str(name))
        ]
    elif isinstance(fname, (str, os.PathLike)):
        path = Path(fname)
        if not path.exists():
            raise MissingPathError(f"{path} does not exist")
        paths = sorted(path.glob("*.ffr")) if path.is_dir() else [path]
    else:
        raise TypeError(
            f"fname must be a file, a folder or a list of these, not {type(fname).__name__}"
        )
    if not paths:
        raise MissingPathError(f"at least one .ffr file is needed, and {fname} contains none")
    if other := next((path for path in paths if path.suffix != ".ffr"), None):
        raise WrongUseError(
            f"the name of an FFRecord file ends in .ffr; this one does not: {other}"
        )
    return paths


def checkFsAlign(fd: int) -> bool:
    """Return False: FFRecord reads with O_DIRECT from one file system, and these readers never do."""
    os.fstat(fd)
    return False
