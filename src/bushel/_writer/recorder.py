"""Values for columns, recorded while a shard is written, so that nothing has to be read again when it is complete.

The stored bytes of numbers and short texts are recorded, lengths of texts, and headers of images.
If anything is missing in the end, as after a resumed write, the columns are found in the files
instead, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np

from bushel._index.column_scan import RecordedValues, characters_of, lengths_of_texts
from bushel._index.contents import Contents
from bushel._index.names import expanded, known_column_of, usual_columns
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel.codecs import get_codec
from bushel.codecs.base import NumberLayout
from bushel.containers.base import Layout, Stored
from bushel.containers.stored_column import StoredColumn
from bushel.kernels import image_header

_BYTES = (bytes, bytearray, memoryview)
_MEAN, _ALLOWED = 64, 1 << 16
"""The bytes of values are recorded while their mean size is at most this many; the first ones always."""


class Recorder:
    """Records values of the samples of a new shard, from which its columns are made."""

    def __init__(self, layout: Layout, contents: Contents) -> None:
        fields = {column.field.name: column.field for column in layout.columns}
        columns = [known_column_of(name, fields) for name in expanded(contents.columns, fields)]
        if contents.usual:
            columns += usual_columns(fields)
        readings = {(column.field.name, column.reading) for column in columns if column is not None}
        self._fields: dict[str, _FieldRecorder] = {}
        for column in layout.columns:
            name, is_text = column.field.name, column.codec == "utf8"
            is_plain = is_text or isinstance(get_codec(column.codec).layout, NumberLayout)
            headers = (name, "image") in readings
            lengths = is_text and (name, "length") in readings
            if headers or lengths or (is_plain and (name, "value") in readings):
                self._fields[name] = _FieldRecorder(headers=headers, characters=lengths)

    def add(self, values: Mapping[str, Stored]) -> None:
        """Record a sample that was written."""
        for name, field in self._fields.items():
            field.add(values.get(name))

    def add_rows(self, columns: Mapping[str, StoredColumn], rows: int) -> None:
        """Record the first samples of columns, which were written."""
        for name, field in self._fields.items():
            field.add_rows(columns[name], rows)

    def recorded(self, index: ShardIndex) -> dict[str, RecordedValues]:
        """Return the recorded values by field, of those fields whose values are recorded as the index has them."""
        pairs = [(name, field.recorded(index.fields[name])) for name, field in self._fields.items()]
        return {name: values for name, values in pairs if values is not None}


class _FieldRecorder:
    """Records the length of each value of a field, and the header of an image, or the bytes while they are few.

    With `characters`, it counts the characters of each text.
    """

    def __init__(self, *, headers: bool, characters: bool) -> None:
        self._lengths = array("q")
        self._headers = bytearray() if headers else None
        self._data = None if headers else bytearray()
        self._characters = array("q") if characters else None

    def add(self, value: Stored | None) -> None:
        """Record a value."""
        data = value if isinstance(value, _BYTES) else b""
        self._lengths.append(MISSING if data is not value else memoryview(data).nbytes)
        if self._headers is not None:
            self._headers += image_header(data)
        if self._characters is not None:
            self._characters.append(characters_of(data))
        self._record(data)

    def add_rows(self, column: StoredColumn, rows: int) -> None:
        """Record the first values of a column without missing ones."""
        ends = column.offsets[: rows + 1]
        self._lengths.frombytes(np.diff(ends).tobytes())
        if self._headers is not None:
            self._headers += b"".join(map(image_header, column.rows(0, rows).pieces))
        if self._characters is not None:
            self._characters.frombytes(lengths_of_texts(column.data, ends).tobytes())
        self._record(column.data[ends[0] : ends[-1]].data)

    def _record(self, data: bytes | bytearray | memoryview) -> None:
        """Record the bytes of values whose lengths are recorded, while they are few."""
        if self._data is not None:
            self._data += data
            if len(self._data) > _MEAN * len(self._lengths) + _ALLOWED:
                self._data = None

    def recorded(self, column: FieldExtents) -> RecordedValues | None:
        """Return the recorded values; None if the lengths in the index are others."""
        lengths = np.frombuffer(self._lengths, np.int64)
        if not np.array_equal(lengths, column.length):
            return None
        data = headers = characters = None
        if self._data is not None:
            data = np.frombuffer(self._data, np.uint8)
        if self._headers is not None:
            headers = np.frombuffer(self._headers, np.int32).reshape(-1, 5)
        if self._characters is not None:
            characters = np.where(lengths == MISSING, MISSING, self._characters)
        return RecordedValues(lengths, data, headers, characters)
