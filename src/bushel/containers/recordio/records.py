"""Single records: reading the one at an offset, and writing one at the end of a file.

Datasets are read and written through the index (`container`, `writer`); this is for programs that
keep offsets themselves, as MXNet's do.
"""

from __future__ import annotations

import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from bushel import kernels
from bushel.errors import FormatError, name_file
from bushel.storage import AnyPath, ExtentError, File, open_file

from .scan import MAGIC, follow, hint, scan_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

_parse = struct.Struct("<II").unpack_from
_LENGTH = (1 << 29) - 1


def read_record(file: File, offset: int, end: int | None = None) -> tuple[bytes, int]:
    """Return the payload of the record at an offset, and the offset after the record.

    Args:
        file: The file.
        offset: Offset of the record.
        end: Offset of its end or of a later record, if known: then one read suffices.

    Raises:
        FormatError: The offset has no complete record.
    """
    try:
        raw = file.read(offset, 8 if end is None else end - offset)
        magic, word = _parse(raw)
        if magic == MAGIC and word <= _LENGTH:  # flag 0: the record is complete
            if end is not None and 0 <= len(raw) - 8 - word < 4:
                return raw[8 : 8 + word], end
            return file.read(offset + 8, word), offset + 8 + (word + 3 & ~3)
    except (ExtentError, struct.error) as error:
        raise FormatError(
            f"the record is truncated: {error}", file.path, offset, hint(file)
        ) from None
    if magic != MAGIC or word >> 29 > 1:
        raise FormatError("expected the header of a record", file.path, offset, hint(file))
    records = follow(file, np.array([offset], np.int64), None)
    return records.payload(file, 0), offset + 8 + (int(records.span[0]) + 3 & ~3)


class RecordSink:
    """Writes records at the end of a file. When `append` returns, the record is in the file.

    Several threads may share a sink.

    Args:
        path: Path of the file.
        append: Whether to keep the existing records and add to them; by default the file is
            overwritten.
        known: Offset of a record in an existing file: only the bytes after it are checked.

    Raises:
        FormatError: The existing file does not end with a complete record.
    """

    def __init__(self, path: AnyPath, *, append: bool = False, known: int = 0) -> None:
        self._path, self._end = path, 0
        padding = 0
        if append and path.exists():
            file = open_file(path)
            _, _, fault = scan_records(file, known if known < file.size else 0)
            if fault is not None:
                raise fault
            self._end, padding = file.size, -file.size % 4
        mode = "ab" if append else "wb"
        self._file: IO[bytes] = (
            cast("IO[bytes]", open(path, mode, buffering=0))  # noqa: SIM115
            if isinstance(path, Path)
            else path.open(mode)
        )
        self._lock = threading.Lock()
        if padding:
            self._write(bytes(padding))

    @property
    def position(self) -> int:
        """The size of the file in bytes."""
        return self._end

    def append(self, payload: Buffer) -> int:
        """Write a record.

        Returns:
            The offset of the record.

        Raises:
            ValueError: The payload has more than 2**29 - 1 bytes.
            OSError: The record cannot be written; the file is then restored where the system allows
                that.
        """
        framed = kernels.split_recordio(payload)
        with self._lock:
            offset = self._end
            self._write(framed)
        return offset

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:  # a write may be partial
                left = left[self._file.write(left) :]
            self._file.flush()
        except OSError as error:
            name_file(error, self._path)
            with suppress(OSError):  # the first error has more details than one from truncating
                self._file.truncate(self._end)
                self._file.seek(self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
