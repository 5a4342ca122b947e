"""Columns of Parquet whose values have no extents, decoded by pyarrow: nested values and rarer encodings."""

from __future__ import annotations

import base64
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from bushel.errors import FormatError, UnsupportedError, needed_by
from bushel.storage import File

__all__ = ["decoded"]

_LARGEST = 256 << 20
"""Limit in bytes of the values of one column that a table keeps."""


def decoded(file: File, name: str) -> list[bytes | None]:
    """Return the values of a column as JSON; None for a null.

    Bytes become text in base64, times text of ISO 8601, and decimals text.

    Raises:
        MissingPackageError: pyarrow is not installed.
        UnsupportedError: The file is remote.
        FormatError: pyarrow cannot read the column, or its values take more than 256 MiB.
    """
    with needed_by(f"{file.path}: column {name!r}, which is nested or has an unusual encoding,", "bushel[arrow]"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    if "://" in file.path:
        raise UnsupportedError(
            f"{file.path}: column {name!r} is nested or has an encoding that can be read from local files only: "
            "download the file, or leave the column out with fields="
        )
    values: list[bytes | None] = []
    size = 0
    try:
        with ParquetFile(file.path) as opened:
            for batch in opened.iter_batches(batch_size=1024, columns=[name]):
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
