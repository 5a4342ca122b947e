"""Columns of Parquet whose values have no extents, decoded by pyarrow: nested values and rarer encodings."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from typing_extensions import Buffer

from bushel.errors import FormatError, needed_by
from bushel.storage import File

__all__ = ["decoded"]

_LARGEST = 256 << 20
"""Limit in bytes of the values of one column that a table keeps."""


class _Handle(io.RawIOBase):
    """A file for pyarrow, which seeks in it."""

    def __init__(self, file: File) -> None:
        super().__init__()
        self._file, self._position = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + (0, self._position, self._file.size)[whence])
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        size = max(0, min(len(view), self._file.size - self._position))
        if size:
            view[:size] = self._file.read(self._position, size)
        self._position += size
        return size


def decoded(file: File, name: str, groups: Sequence[int]) -> list[bytes | None]:
    """Return the values of a column in some row groups as JSON; None for a null.

    Bytes become text in base64, times text of ISO 8601, and decimals text.

    Raises:
        MissingPackageError: pyarrow is not installed.
        FormatError: pyarrow cannot read the column, or its values take more than 256 MiB.
    """
    with needed_by(f"{file.path}: column {name!r}, which is nested or has an unusual encoding,", "bushel[arrow]"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    values: list[bytes | None] = []
    size = 0
    try:
        with ParquetFile(_Handle(file)) as opened:
            for batch in opened.iter_batches(batch_size=1024, row_groups=list(groups), columns=[name]):
                for value in batch.column(0).to_pylist():
                    encoded = None if value is None else msgspec.json.encode(_plain(value))
                    values.append(encoded)
                    size += len(encoded or b"")
                if size > _LARGEST:
                    message = f"the values of column {name!r} take more than {_LARGEST} bytes as JSON"
                    raise FormatError(message, file=file.path, hint="leave the column out with fields=")
    except (ArrowException, OSError, ValueError) as error:
        raise FormatError(f"column {name!r}: {error}", file=file.path) from error
    return values


def _plain(value: Any) -> Any:
    """Return a value with the types of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value
