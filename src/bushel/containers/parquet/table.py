"""The table of a Parquet file or of some of its row groups, which grows column by column.

The types of its fields follow from the footer and the first bytes of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import GrowingArrays
from bushel.containers.features import Feature, codec_by_magic
from bushel.containers.row_table import RowTable
from bushel.filters.parquet import DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT, OtherEncoding
from bushel.filters.parquet_pages import DICTIONARY, PLAIN, Leaf, pages_of, payload_of
from bushel.kernels import decode_deltas
from bushel.spec import Field, Spec
from bushel.storage import File, Seekable

from .footer import (
    BOOLEAN,
    BYTE_ARRAY,
    BYTE_ARRAYS,
    UNSIGNED,
    FileColumn,
    Footer,
    Form,
    Node,
    RowGroup,
    dtype_of,
    element_of,
    holds_json,
)
from .values import Scanned, scalars_of, scan_lists, scan_places

_INT32 = 1  # a physical type
_STRINGS = (0, 4)  # converted types UTF8 and ENUM
_STRING_TYPE, _ENUM_TYPE = 1, 4
_DECIMAL = 5
"""The converted type DECIMAL, and the logical one."""
_KNOWN = frozenset((PLAIN, DICTIONARY, 2, 3, 4, DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT))
"""Encodings that are read, with PLAIN_DICTIONARY, and RLE and BIT_PACKED, which levels have."""
_HEAD, _EXPANDED = 32 << 10, 16 << 20
"""Bytes that are read for the first value of a column, and of a compressed page."""


def column_of(
    node: Node, file: File, footer: Footer, features: Mapping[str, Feature]
) -> FileColumn:
    """Return a column with its field.

    Values that have no extents are `json`. The type of byte arrays follows from the feature, or
    from the first value.

    Raises:
        FilterError, ThriftError, ValueError: The first page is damaged.
    """
    leaf, above = element_of(node)
    if leaf is None or not _has_extents(leaf, above, footer):
        return FileColumn(node, Field(node.name, "json"), "decoded", node)
    feature, dtype = features.get(node.name, Feature()), dtype_of(leaf)
    form: Form = "numbers"
    if leaf.physical in BYTE_ARRAYS and dtype is None:
        form = "bytes"
        if holds_json(leaf):
            codec = "json"
        elif leaf.converted in _STRINGS or leaf.logical in (_STRING_TYPE, _ENUM_TYPE):
            codec = "utf8"
        else:
            head = b"" if feature.codec else _first_value(file, footer, leaf)
            codec = feature.codec or codec_by_magic(head, feature.sound)
    elif above is not None:
        form, codec = "lists", "array"
        if feature.tensor is not None:
            codec, _ = feature.tensor.codecs(np.dtype(dtype).name)
    elif leaf.physical == BOOLEAN:
        codec = "bool"
    else:
        number = "float" if "f" in (dtype or "") else "int"
        if leaf.converted in UNSIGNED:
            number = "uint"
        codec = leaf.time or feature.time or number
    field = Field(node.name, codec, form == "bytes" and above is not None)
    return FileColumn(node, field, form, leaf, above)


def _has_extents(leaf: Node, group: Node | None, footer: Footer) -> bool:
    if _DECIMAL in (leaf.converted, leaf.logical):  # their bytes alone mean nothing
        return False
    # NumPy has times of 64 bits only
    if group is not None and leaf.time is not None and leaf.physical == _INT32:
        return False
    if (
        leaf.physical not in BYTE_ARRAYS
        and dtype_of(leaf) is None
        and (group is not None or leaf.physical != BOOLEAN)
    ):
        return False
    return all(
        _KNOWN.issuperset(row_group.chunks[leaf.leaf].encodings) for row_group in footer.groups
    )


def _first_value(file: File, footer: Footer, leaf: Node) -> bytes:
    """Return the first bytes of the first byte array; none if that takes too many bytes."""
    group = next((row_group for row_group in footer.groups if row_group.rows), None)
    if group is None or leaf.physical != BYTE_ARRAY:
        return b""
    chunk = group.chunks[leaf.leaf]
    page = next(pages_of(file.read, chunk.offset, chunk.length), None)
    if (
        page is None
        or not page.values
        or not (page.dictionary or page.encoding in (PLAIN, DELTA_LENGTHS))
    ):
        return b""
    is_stored = chunk.codec == "stored"
    if not is_stored and (page.length > _EXPANDED or page.size > 4 * _EXPANDED):
        return b""

    def read(offset: int, length: int) -> bytes | memoryview:
        return file.read(offset, min(length, _HEAD) if is_stored else length)

    leaf_of_pages = Leaf(chunk.codec, leaf.definition, leaf.repeats)
    values = payload_of(page, read, leaf_of_pages).values()
    if page.encoding == PLAIN:
        return bytes(values[4 : 4 + min(16, int.from_bytes(values[:4], "little"))])
    lengths, start = decode_deltas(values)
    if len(lengths):
        return bytes(values[start : start + min(16, int(lengths[0]))])
    return b""


class Groups(Struct, frozen=True):
    """The row groups of a file, or some of them."""

    groups: tuple[RowGroup, ...]  # these, or a run of rows of one
    columns: tuple[FileColumn, ...]
    features: Mapping[str, Feature]  # Hugging Face's metadata of columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)


class Table(RowTable):
    """The table of a file, or of some of its row groups. Its columns are complete after `finish`."""

    def __init__(self, file: File, groups: Groups, declared: Spec | None) -> None:
        super().__init__(file, groups.features, declared, groups.rows)
        self._groups, self._columns_of_file = groups.groups, groups.columns
        self._arrays = GrowingArrays()
        self._scanned: list[Callable[[Mapping[str, np.ndarray]], None]] = []

    def add(self, column: FileColumn) -> None:
        """Add a field, whose type is known.

        Raises:
            FilterError, ValueError: Its pages are damaged.
        """
        field, places = column.field, (self.file, self._groups, column, self._arrays)
        try:
            if column.form == "bytes":
                self._add_scanned(field, field.codec, scan_places(*places))
            elif column.form == "lists":
                self._add_scanned(field, self._stored_lists(column), scan_lists(*places))
            elif column.form == "numbers":
                values, null = scalars_of(self.file, self._groups, column)
                if column.leaf.converted in UNSIGNED:
                    values = values.view(f"<u{values.dtype.itemsize}")
                self.put_numbers(field.name, field.codec, values, null)
            else:
                self.put_values(field.name, self.decoded(field.name))
        except OtherEncoding:
            self.put_values(field.name, self.decoded(field.name))

    def finish(self) -> None:
        """Put the fields that were added in place, in the order of the schema."""
        arrays = self._arrays.finish()
        for put in self._scanned:
            put(arrays)
        names = (column.field.name for column in self._columns_of_file)
        self.fields = {name: self.fields[name] for name in names}

    def _add_scanned(self, field: Field, stored: str, scanned: Scanned) -> None:
        number = 0 if scanned.blocks is None else self.add_blocks(scanned.blocks)
        self._scanned.append(
            lambda arrays: self.put(field, stored, number, *scanned.within(arrays))
        )

    def _stored_lists(self, column: FileColumn) -> str:
        """Return the codec of the stored bytes of a list of numbers."""
        leaf, dtype = column.leaf, np.dtype(dtype_of(column.leaf))
        name = leaf.time or (f"u{dtype.name}" if leaf.converted in UNSIGNED else dtype.name)
        tensor = self.features.get(column.field.name, Feature()).tensor
        return f"array({name},-1)" if tensor is None else tensor.codecs(name)[1]

    def pieces(self, name: str) -> Iterator[Any]:
        """Yield the values of a column in the row groups as arrays of pyarrow."""
        from pyarrow.parquet import ParquetFile

        numbers = [group.number for group in self._groups]
        with ParquetFile(Seekable(self.file)) as opened:
            for batch in opened.iter_batches(batch_size=1024, row_groups=numbers, columns=[name]):
                yield batch.column(0)

    def decoded(self, name: str) -> list[bytes | None]:
        """Return the values of a column as JSON. For a run of rows, its row group is read whole."""
        first = self._groups[0].first if self._groups else 0
        return super().decoded(name)[first : first + self.rows]
