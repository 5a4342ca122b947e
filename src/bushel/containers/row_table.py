"""The table of a file of rows and columns, which grows column by column, for Parquet and Arrow.

Values without extents are decoded by pyarrow and kept as JSON (`as_json`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from bushel._index.columns import NUMBERS, Column, Kind
from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, U8, Bools, GrowingArrays, if_any, offsets_of
from bushel._runtime.messages import log_warning
from bushel.codecs.scalars import time_dtype
from bushel.errors import FormatError, needed_by
from bushel.spec import Field, Spec
from bushel.storage import Blocks, File

from .features import Feature, labels_of
from .plain_table import joined_values

_JSON_TYPE = "extension<arrow.json"
_LARGEST = 256 << 20  # limit in bytes of the values of one column that a table keeps


def as_json(columns: Iterable[Any]) -> list[bytes | None]:
    """Return the values of arrays of pyarrow as JSON; None for a null.

    Bytes become text in base64, times text of ISO 8601, and decimals text. NaN and the infinities
    stay, as in `json`. Texts whose logical type is JSON become what they stand for.

    Raises:
        ValueError: The values take more than 256 MiB, a text is not JSON, or an array is damaged.
    """
    values: list[bytes | None] = []
    size = 0
    for column in columns:
        for value in _python_values(column):
            encoded = None if value is None else msgspec.json.encode(_plain(value))
            values.append(encoded)
            size += len(encoded or b"")
        if size > _LARGEST:
            raise ValueError(f"its values take more than {_LARGEST} bytes as JSON")
    return values


def _python_values(column: Any) -> list[Any]:
    """Return the values of an array of pyarrow; times outside the years 1 to 9999 as NumPy writes them."""
    from pyarrow import ArrowInvalid

    try:  # of damaged offsets, pyarrow makes values without looking
        column.validate(full=True)
    except ArrowInvalid:
        column.view(_in_bytes(column.type)).validate(full=True)
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        values = [_of_scalar(scalar) for scalar in column]
    if _JSON_TYPE in str(column.type):
        values = [_parsed(value, column.type) for value in values]
    return values


def _in_bytes(kind: Any) -> Any:
    """Return a type of pyarrow with the same layout, in which times and decimals, which have limits, are bytes."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_temporal(kind) or types.is_decimal(kind):
        return pa.binary(kind.bit_width // 8)
    inner = [
        field.with_type(_in_bytes(field.type)) for field in map(kind.field, range(kind.num_fields))
    ]
    if types.is_struct(kind):
        return pa.struct(inner)
    if types.is_list(kind) or types.is_map(kind):
        return pa.list_(*inner)
    if types.is_large_list(kind):
        return pa.large_list(*inner)
    return kind


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
        pairs = zip(scalar.values.field(0), scalar.values.field(1), strict=True)
        return [[_of_scalar(key), _of_scalar(value)] for key, value in pairs]
    if isinstance(scalar, pa.ListScalar):  # also lists of a fixed size and large ones
        return [_of_scalar(element) for element in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {key: _of_scalar(scalar[key]) for key in scalar}
    if isinstance(scalar, pa.DurationScalar):
        return f"{scalar.value} {scalar.type.unit}"
    if isinstance(scalar, pa.TimestampScalar | pa.Date32Scalar | pa.Date64Scalar):
        unit: Any = {pa.date32(): "D", pa.date64(): "ms"}.get(scalar.type) or scalar.type.unit
        return str(np.datetime64(scalar.value, unit))
    return scalar.as_py()


def _plain(value: Any) -> Any:
    """Return a value with the types of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return msgspec.Raw(json.dumps(value).encode())  # msgspec writes null for these
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return value


_TEXTS = ("utf8", "json")
_STEP = 1 << 16  # rows that are processed together, so that a large file takes little memory


def check_pyarrow(file: File, name: str) -> None:
    """Check that pyarrow, which decodes a column, is installed. Raise MissingPackageError if it is not."""
    what = f"{file.path}: column {name!r}, which is nested or of an unusual type or encoding,"
    with needed_by(what, "bushel[arrow]"):
        import pyarrow  # noqa: F401 - to be there


_STORED: Mapping[str, tuple[Kind, str, str]] = {
    "b": ("bool", "?", "bool"),
    "f": ("float", "<f8", "float"),
    "i": ("int", "<i8", "i64"),
    "u": ("uint", "<u8", "u64"),
}
"""The kind of the column, the dtype of the stored numbers and their codec, by NumPy's letter of the values."""


class _Numbers(NamedTuple):
    """A field of numbers that the table holds."""

    start: int  # where they begin in the bytes that the table holds
    rows: int
    kind: Kind  # of the column
    kept: bool  # whether the bytes that the table holds are the values of the column


class RowTable:
    """The table of a file. The arrays of numbers go to a temporary file if they are large.

    Attributes:
        file: The file.
        features: The metadata of columns, as far as they have some.
        declared: The fields that the caller declares.
        rows: Number of rows.
        fields: The extents so far. File 0 is the file itself, 1 the block file of values in the
            table, others follow. The extents of numbers are complete after `index`.
    """

    def __init__(
        self, file: File, features: Mapping[str, Feature], declared: Spec | None, rows: int = 0
    ) -> None:
        self.file, self.features, self.declared, self.rows = file, features, declared or {}, rows
        self.fields: dict[str, FieldExtents] = {}
        self._columns: dict[str, Column] = {}
        self._blocks: list[Blocks] = []
        self._room = GrowingArrays()
        self._numbers: dict[str, _Numbers] = {}
        self._size = 0

    def add_blocks(self, blocks: Blocks) -> int:
        """Add a block file, and return its number among the files."""
        self._blocks.append(blocks)
        return 1 + len(self._blocks)

    def put_numbers(self, name: str, codec: str | None, values: np.ndarray, null: Bools) -> None:
        """Add a field of numbers or truth values, which the table holds, and its column.

        Args:
            name: The field.
            codec: Its codec; None if it follows from the numbers.
            values: The numbers.
            null: bool[rows], those that are missing and 0.
        """
        rows = len(values)
        kind, dtype, stored = _STORED[values.dtype.kind]
        codec = codec or kind
        steps = [slice(first, first + _STEP) for first in range(0, rows, _STEP)]
        if kind == "float" and values.dtype.itemsize <= 4:
            dtype, stored = "<f4", "f32"
        elif time_dtype(codec) is not None:
            stored = codec
        elif kind == "uint" and not any(int(values[step].max()) >= 1 << 63 for step in steps):
            kind = "int"
        self._hold(np.zeros(-self._size % 8, np.uint8))
        width, start = np.dtype(dtype).itemsize, self._size
        for step in steps:
            piece = np.ascontiguousarray(values[step], dtype)
            missing = np.array(null[step], np.bool_)
            offset = self._hold(piece.view(np.uint8)) + width * np.arange(len(piece))
            length = np.where(missing, -1, width).astype(np.int64)
            self._room.add(f"{name} ", offset=offset, length=length, missing=missing)
            if width < 8:
                self._room.append(f"{name} values", piece.astype(NUMBERS[kind]))
        self._numbers[name] = _Numbers(start, rows, kind, width == 8)
        self.put(Field(name, codec), stored, 1, NO_NUMBERS, NO_NUMBERS)

    def pieces(self, name: str) -> Iterable[Any]:
        """Return the values of a column as arrays of pyarrow."""
        raise NotImplementedError

    def decoded(self, name: str) -> list[bytes | None]:
        """Return the values of a column as JSON (`as_json`), which pyarrow decodes; None for a null.

        Raises:
            MissingPackageError: pyarrow is not installed.
            FormatError: It cannot read the column, or its values take more than 256 MiB.
        """
        check_pyarrow(self.file, name)
        from pyarrow import ArrowException

        try:
            values = as_json(self.pieces(name))
        except (
            ArithmeticError,  # of decimals
            ArrowException,
            KeyError,
            NotImplementedError,
            OSError,
            ValueError,
        ) as error:
            what: object = error
            if isinstance(error, KeyError):  # of intervals of days
                what = "pyarrow has no values of its type"
            raise self._unreadable(name, what) from error
        if len(values) < self.rows:  # of lists of truth values whose pages have the encoding RLE
            raise self._unreadable(name, f"pyarrow reads {len(values)} of {self.rows} values")
        return values

    def _unreadable(self, name: str, what: object) -> FormatError:
        return FormatError(
            f"column {name!r}: {what}",
            self.file.path,
            hint="write the file again without this column, or in another encoding",
        )

    def put_values(self, name: str, values: Sequence[bytes | None]) -> None:
        """Add a field of JSON, which the table holds; None is a missing value."""
        data, offset, length = joined_values(values)
        self.put(Field(name, "json"), "json", 1, self._hold(data) + offset, length)

    def _hold(self, data: U8) -> int:
        """Keep bytes in the table, and return their position."""
        start, self._size = self._size, self._size + len(data)
        self._room.append("held", data)
        return start

    def put(
        self,
        own: Field,
        stored: str,
        file: int,
        offset: I64,
        length: I64,
        starts: I64 | None = None,
        absent: Bools | None = None,
    ) -> None:
        """Add a field, with the arguments of `FieldExtents`.

        A list with a null among its elements has no extents. Lists of texts become JSON, as lists of
        numbers do, also where the caller declares it; of other values, these lists are missing.
        """
        has_null = starts is not None and bool((length < 0).any())
        is_declared = self.declared.get(own.name) == Field(own.name, "json")
        if starts is not None and own.codec in _TEXTS and (has_null or is_declared):
            self.put_values(own.name, self.decoded(own.name))
            return
        if starts is not None and has_null:
            offset, length, starts, absent = _without_lists_of_nulls(
                self.file.path, own, offset, length, starts, absent
            )
        places = offset, length, None, starts, if_any(absent)
        self.fields[own.name] = FieldExtents(own, stored, file, *places)

    def index(self, container: str, shard: Shard) -> ShardIndex:
        """Return the checked table of the file. Nothing is added afterwards.

        Raises:
            FormatError: A value is not inside the file.
        """
        blocks = self._finish()
        return ShardIndex(
            self.rows,
            stamps(shard, [self.file]),
            self.fields,
            container,
            labels=labels_of(self.features, self.fields),
            columns=self._columns,
            blocks=blocks,
        ).check(self.file.path)

    def _finish(self) -> tuple[Blocks, ...]:
        """Complete the numbers, and return the block files: the values in the table, then the compressed pages."""
        arrays: dict[str, np.ndarray] = self._room.finish()
        table, none = arrays.get("held", NO_NUMBERS.view(np.uint8)), NO_NUMBERS
        for name, numbers in self._numbers.items():
            offset, length = (arrays.get(f"{name} {part}", none) for part in ("offset", "length"))
            self.fields[name] = replace(self.fields[name], offset=offset, length=length)
            values = table[numbers.start : numbers.start + 8 * numbers.rows]
            if not numbers.kept:
                values = arrays.get(f"{name} values", none)
            missing = if_any(arrays.get(f"{name} missing"))
            self._columns[name] = Column(numbers.kind, values.view(NUMBERS[numbers.kind]), missing)
        return Blocks.in_table(table), *self._blocks


def _without_lists_of_nulls(
    path: str, own: Field, offset: I64, length: I64, starts: I64, absent: Bools | None
) -> tuple[I64, I64, I64, Bools]:
    """Return the extents, starts and missing lists of a sequence without lists that have a null; say how many."""
    counts = np.diff(starts)
    rows = np.repeat(np.arange(len(counts)), counts)
    has_null = np.zeros(len(counts), np.bool_)
    has_null[rows[length < 0]] = True
    log_warning(
        "%s: %d of %d lists of the column %r have a null among their elements, which the "
        "type %s has no value for: these samples lack the field (the first is in row %d)",
        path,
        np.count_nonzero(has_null),
        len(counts),
        own.name,
        own.type,
        int(has_null.argmax()),
    )
    present = ~has_null[rows]
    starts = offsets_of(np.where(has_null, 0, counts))
    missing = has_null if absent is None else absent | has_null
    return offset[present], length[present], starts, missing
