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
import numpy as np

from bushel.errors import FormatError

_JSON_TYPE = "extension<arrow.json"
_LARGEST = 256 << 20  # limit in bytes of the values of one column that a table keeps


def as_json(columns: Iterable[Any], name: str, path: str) -> list[bytes | None]:
    """Return the values of arrays of pyarrow as JSON; None for a null.

    Bytes become text in base64, times text of ISO 8601, and decimals text. NaN and the infinities
    stay, as in `json`. Texts whose logical type is JSON become what they stand for.

    Raises:
        FormatError: The values take more than 256 MiB, or pyarrow has no Python value for them.
    """
    values: list[bytes | None] = []
    size = 0
    for column in columns:
        rows = _python_values(column, name, path)
        if _JSON_TYPE in str(column.type):
            try:
                rows = [_parsed(value, column.type) for value in rows]
            except ValueError as error:
                raise FormatError(
                    f"column {name!r} has a text that is not JSON: {error}", file=path
                ) from error
        for value in rows:
            encoded = None if value is None else msgspec.json.encode(_plain(value))
            values.append(encoded)
            size += len(encoded or b"")
        if size > _LARGEST:
            message = f"the values of column {name!r} take more than {_LARGEST} bytes as JSON"
            raise FormatError(message, file=path, hint="leave the column out with fields=")
    return values


def _python_values(column: Any, name: str, path: str) -> list[Any]:
    """Return the values of an array of pyarrow; times outside the years 1 to 9999 as NumPy writes them."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        return [_of_scalar(scalar) for scalar in column]
    except Exception as error:  # pyarrow lacks some types in its tables of Python classes
        raise FormatError(
            (
                f"column {name!r} has values of type {column.type}, which pyarrow cannot convert"
                f" ({error!r})"
            ),
            file=path,
            hint="leave the column out when the file is written",
        ) from error
    return values


def _parsed(value: Any, kind: Any) -> Any:
    """Return a value of a type of pyarrow in which the texts that are JSON are parsed."""
    if value is None or _JSON_TYPE not in str(kind):
        return value
    if getattr(kind, "extension_name", "") == "arrow.json":
        return msgspec.json.decode(value)
    if isinstance(value, dict):
        return {name: _parsed(element, kind.field(name).type) for name, element in value.items()}
    if hasattr(kind, "item_type"):  # a map, whose keys are not JSON
        return [[key, _parsed(element, kind.item_type)] for key, element in value]
    return [_parsed(element, kind.value_type) for element in value]


def _of_scalar(scalar: Any) -> Any:
    """Return the value of a scalar of pyarrow, whose times Python may not hold."""
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.MapScalar):
        return [
            [_of_scalar(key), _of_scalar(value)] for key, value in zip(*_items(scalar), strict=True)
        ]
    if isinstance(scalar, pa.ListScalar):  # also lists of a fixed size and large ones
        return [_of_scalar(element) for element in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {key: _of_scalar(scalar[key]) for key in scalar}
    if isinstance(scalar, pa.TimestampScalar):
        return str(np.datetime64(scalar.value, scalar.type.unit))
    if isinstance(scalar, pa.DurationScalar):
        return f"{scalar.value} {scalar.type.unit}"
    if isinstance(scalar, pa.Date32Scalar):
        return str(np.datetime64(scalar.value, "D"))
    if isinstance(scalar, pa.Date64Scalar):
        return str(np.datetime64(scalar.value, "ms"))
    return scalar.as_py()


def _items(scalar: Any) -> tuple[Any, Any]:
    """Return the keys and values of a map."""
    pairs = scalar.values
    return pairs.field(0), pairs.field(1)


def _plain(value: Any) -> Any:
    """Return a value with the types of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return msgspec.Raw(json.dumps(value).encode())  # msgspec writes null for these
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value
