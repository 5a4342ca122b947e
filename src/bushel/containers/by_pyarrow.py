"""Values of Parquet and Arrow without extents, which pyarrow decodes, as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from bushel.errors import FormatError

_LARGEST = 256 << 20  # limit in bytes of the values of one column that a table keeps


def as_json(columns: Iterable[Any], name: str, path: str) -> list[bytes | None]:
    """Return the values of arrays of pyarrow as JSON; None for a null.

    Bytes become text in base64, times text of ISO 8601, and decimals text. NaN and the infinities stay, as in `json`.

    Raises:
        FormatError: The values take more than 256 MiB.
    """
    values: list[bytes | None] = []
    size = 0
    for column in columns:
        for value in column.to_pylist():
            encoded = None if value is None else msgspec.json.encode(_plain(value))
            values.append(encoded)
            size += len(encoded or b"")
        if size > _LARGEST:
            message = f"the values of column {name!r} take more than {_LARGEST} bytes as JSON"
            raise FormatError(message, file=path, hint="leave the column out with fields=")
    return values


def _plain(value: Any) -> Any:
    """Return a value with the types of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return msgspec.Raw(json.dumps(value).encode())  # msgspec writes null for these
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value
