"""Single bag files of generation C: records in a `.bag`, their ends in an `.idx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bushel.compat.granular.bag import MOST_RECORDS
from bushel.compat.granular.bag import BagReader as AnyBagReader
from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import WrongTypeError, WrongUseError
from bushel.compat.granular.paths import LocalCopy, granular_path, with_suffix
from bushel.containers.bag.tables import encode_table
from bushel.errors import FormatError
from bushel.storage import Sink

__all__ = ["BagReader", "BagWriter"]


class BagWriter(Closing):
    """Writes records, or goes on with a bag that is there.

    What was flushed can be read, and survives the death of this process. What an earlier writer left unfinished
    (records without an end in the index, a part of an end) is taken away when a new one begins. On a file system that
    is not local, files are copied when they are closed.

    Args:
        bag_path: File of the records.
        idx_path: File of their ends; by default with `.idx` in place of `.bag`.

    Raises:
        FormatError: The index goes on behind the end of the records.
    """

    def __init__(self, bag_path: Any, idx_path: Any = None) -> None:
        super().__init__()
        bag = granular_path(bag_path)
        idx = with_suffix(bag, ".idx") if idx_path is None else granular_path(idx_path)
        self.bag_path, self.idx_path = bag_path, idx
        self._copies = [LocalCopy(bag), LocalCopy(idx)]
        ends = _committed(self._copies[1].path)
        offset = int(ends[-1]) if len(ends) else 0
        size = self._copies[0].path.stat().st_size if self._copies[0].path.exists() else 0
        if size < offset:
            hint = "run `bushel verify` on the dataset, or delete both files"
            raise FormatError(f"{size} bytes, where {idx} tells of {offset}", file=str(bag), hint=hint)
        self._length, self._ends = len(ends), list[int]()
        self._idx = Sink(self._copies[1].path, 8 * len(ends))
        self._bag = Sink(self._copies[0].path, offset)

    @property
    def size(self) -> int:
        """Bytes of both files."""
        return self._bag.position + 8 * len(self)

    def __len__(self) -> int:
        return self._length

    def append(self, record: bytes, flush: bool = True) -> int:
        """Add one record.

        Returns:
            Its number.

        Raises:
            WrongTypeError: It is not bytes.
            WrongUseError: The bag is closed, or full.
        """
        if self.closed or self._length >= MOST_RECORDS:
            raise WrongUseError("the bag is closed" if self.closed else f"a bag has less than {MOST_RECORDS} records")
        if not isinstance(record, bytes):
            raise WrongTypeError(f"a record is bytes, not {type(record).__name__}")
        self._bag.write(record)
        self._ends.append(self._bag.position)
        self._length += 1
        if flush:
            self.flush()
        return self._length - 1

    def flush(self) -> None:
        """Hand what was written to the operating system: records first, so that the index never tells of more."""
        if self._ends:
            self._bag.flush()
            self._idx.write(encode_table(np.array(self._ends, np.int64), "C"))
            self._idx.flush()
            self._ends.clear()

    def cut(self, length: int) -> None:
        """Take away all records from number `length` on, which have been flushed."""
        if length < self._length:
            ends = _committed(self._copies[1].path)
            self._idx.truncate(8 * length)
            self._bag.truncate(int(ends[length - 1]) if length else 0)
            self._length = length

    def close(self) -> None:
        """Flush, and close the files."""
        if self.closed:
            return
        self.flush()
        for sink, copy in zip((self._bag, self._idx), self._copies, strict=True):
            sink.close()
            copy.publish()
        self.closed = True


class BagReader(AnyBagReader):
    """Reads a bag of any generation.

    Args:
        bag_source: A path, or bytes.
        idx_source: A path or bytes of the ends; by default the file beside the bag.
        cache_index: Whether the table is kept in memory; otherwise it is mapped from a temporary file.
        cache_data: Whether the records are kept in memory too.
        single_file: Whether this is a bag of an older generation. It is found out from the files too.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is no bag.
    """

    def __init__(
        self,
        bag_source: Any,
        idx_source: Any = None,
        cache_index: bool = True,
        cache_data: bool = False,
        single_file: bool = False,
    ) -> None:
        if single_file and idx_source is not None:
            raise WrongUseError("a single file has no idx_source")
        if idx_source is None and not single_file and not isinstance(bag_source, bytes | bytearray | memoryview):
            table = with_suffix(granular_path(bag_source), ".idx")
            idx_source = table if table.exists() else None
        super().__init__(bag_source, cache_index, cache_data, index=idx_source)


def _committed(path: Path) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The ends in an index, without a part of one that a dying writer left."""
    if not path.exists():
        return np.zeros(0, "<u8")
    return np.fromfile(path, "<u8", path.stat().st_size // 8)
