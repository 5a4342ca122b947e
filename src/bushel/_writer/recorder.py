"""Values for columns, recorded while a shard is written, so that nothing has to be read again when it is complete.

The stored bytes of numbers and short texts are recorded, lengths of texts, and headers of images.
If anything is missing in the end, as after a resumed write, the columns are found in the files
instead, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bushel._index.column_names import expanded, known_column_of, usual_columns
from bushel._index.column_scan import RecordedValues, characters_of, lengths_of_texts
from bushel._index.contents import ColumnRequest
from bushel._index.table import MISSING, ShardIndex
from bushel.codecs import get_codec
from bushel.codecs.base import NumberLayout
from bushel.containers.base import Layout, Stored
from bushel.containers.stored_column import StoredColumn
from bushel.kernels import crc32, image_header

_BYTES = (bytes, bytearray, memoryview)

_MEAN, _ALLOWED = 64, 1 << 16
"""Texts are recorded while their mean size is at most this many bytes; the first ones always."""


class Recorder:
    """Records values of the samples of a new shard, from which its columns are made."""

    def __init__(self, layout: Layout, request: ColumnRequest) -> None:
        fields = {column.field.name: column.field for column in layout.columns}
        columns = [known_column_of(name, fields) for name in expanded(request.names, fields)]
        if request.usual:
            columns += usual_columns(fields)
        readings = {(column.field.name, column.reading) for column in columns if column is not None}
        self._fields: dict[str, _ValueRecorder | _TextRecorder | _HeaderRecorder] = {}
        for column in layout.columns:
            name = column.field.name
            if (name, "image") in readings:
                self._fields[name] = _HeaderRecorder()
            elif column.codec == "utf8" and (name, "length") in readings:
                self._fields[name] = _TextRecorder()
            elif (name, "value") in readings and (
                column.codec == "utf8" or isinstance(get_codec(column.codec).layout, NumberLayout)
            ):
                self._fields[name] = _ValueRecorder()

    def add(self, values: Mapping[str, Stored]) -> None:
        """Record a sample that was written."""
        useless = None
        for name, field in self._fields.items():
            if not field.add(values.get(name)):
                useless = name
        if useless is not None:
            del self._fields[useless]

    def add_rows(self, columns: Mapping[str, StoredColumn], rows: int) -> None:
        """Record the first samples of columns, which were written."""
        for name in [
            name for name, field in self._fields.items() if not field.add_rows(columns[name], rows)
        ]:
            del self._fields[name]

    def recorded(self, index: ShardIndex) -> dict[str, RecordedValues]:
        """Return the recorded values by field, of those fields whose values are all recorded as the index has them."""
        recorded = {name: field.recorded(index, name) for name, field in self._fields.items()}
        return {name: values for name, values in recorded.items() if values is not None}


class _ValueRecorder:
    """Records stored bytes of numbers or texts."""

    def __init__(self) -> None:
        self._data, self._lengths = bytearray(), array("q")

    def add(self, value: Stored | None) -> bool:
        """Record a value. Return False if no more need to be recorded, because they are too large."""
        if value is None:
            self._lengths.append(MISSING)
        elif isinstance(value, _BYTES):
            before = len(self._data)
            self._data += value
            self._lengths.append(len(self._data) - before)
        return self._is_small()

    def add_rows(self, column: StoredColumn, rows: int) -> bool:
        ends = column.offsets[: rows + 1]
        self._data += column.data[int(ends[0]) : int(ends[-1])].data
        self._lengths.frombytes(np.diff(ends).tobytes())
        return self._is_small()

    def _is_small(self) -> bool:
        return len(self._data) <= _MEAN * len(self._lengths) + _ALLOWED

    def recorded(self, index: ShardIndex, name: str) -> RecordedValues | None:
        length = np.frombuffer(self._lengths, np.int64)
        column = index.fields[name]
        if len(length) != index.samples or int(np.maximum(length, 0).sum()) != len(self._data):
            return None
        if not np.array_equal(length < 0, column.length < 0):
            return None
        present = np.flatnonzero(length >= 0)
        if len(present) and column.crc32 is not None:
            first, last = (
                self._data[: length[present[0]]],
                self._data[len(self._data) - length[present[-1]] :],
            )
            if [crc32(first), crc32(last)] != column.crc32[present[[0, -1]]].tolist():
                return None
        return RecordedValues(length, np.frombuffer(self._data, np.uint8))


class _TextRecorder:
    """Records the characters of texts, and their bytes while they are short."""

    def __init__(self) -> None:
        self._values: _ValueRecorder | None = _ValueRecorder()
        self._characters, self._bytes = array("q"), array("q")

    def add(self, value: Stored | None) -> bool:
        plain = value if isinstance(value, _BYTES) else None
        self._characters.append(MISSING if plain is None else characters_of(plain))
        self._bytes.append(MISSING if plain is None else memoryview(plain).nbytes)
        if self._values is not None and not self._values.add(value):
            self._values = None
        return True

    def add_rows(self, column: StoredColumn, rows: int) -> bool:
        ends = column.offsets[: rows + 1]
        self._characters.frombytes(lengths_of_texts(column.data, ends).tobytes())
        self._bytes.frombytes(np.diff(ends).tobytes())
        if self._values is not None and not self._values.add_rows(column, rows):
            self._values = None
        return True

    def recorded(self, index: ShardIndex, name: str) -> RecordedValues | None:
        length = np.frombuffer(self._bytes, np.int64)
        if not np.array_equal(length, index.fields[name].length):
            return None
        if self._values is None:
            values = None
        else:
            values = self._values.recorded(index, name)
        characters = np.frombuffer(self._characters, np.int64)
        return replace(values or RecordedValues(length), characters=characters)


class _HeaderRecorder:
    """Records headers of images."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def add(self, value: Stored | None) -> bool:
        self._rows += image_header(value) if isinstance(value, _BYTES) else _NO_HEADER
        return True

    def add_rows(self, column: StoredColumn, rows: int) -> bool:
        view, ends = column.data.data, column.offsets[: rows + 1].tolist()
        for first, last in zip(ends[:-1], ends[1:], strict=True):
            self._rows += image_header(view[first:last])
        return True

    def recorded(self, index: ShardIndex, name: str) -> RecordedValues | None:
        headers = np.frombuffer(self._rows, np.int32).reshape(-1, 5)
        if len(headers) != index.samples:
            return None
        return RecordedValues(index.fields[name].length, headers=headers)


_NO_HEADER = bytes(20)
