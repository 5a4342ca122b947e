"""The types of the fields of a Parquet file, from its footer and the first bytes of its columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bushel.containers.features import Feature
from bushel.containers.first_bytes import codec_by_magic
from bushel.containers.parquet.footer import Footer
from bushel.containers.parquet.schema import (
    BOOLEAN,
    BYTE_ARRAY,
    BYTE_ARRAYS,
    UNSIGNED,
    Node,
    dtype_of,
    element_of,
    holds_json,
)
from bushel.filters.parquet import DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT
from bushel.filters.parquet_pages import DICTIONARY, PLAIN, Leaf, Page, pages_of, payload_of
from bushel.kernels import decode_deltas
from bushel.spec import Field
from bushel.storage import File

_INT32 = 1  # a physical type
_STRINGS = (0, 4)  # converted types UTF8 and ENUM
_STRING_TYPE, _ENUM_TYPE = 1, 4
_DECIMAL = 5
"""The converted type DECIMAL, and the logical one."""
_KNOWN = frozenset((PLAIN, DICTIONARY, 2, 3, 4, DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT))
"""Encodings that are read, with PLAIN_DICTIONARY, and RLE and BIT_PACKED, which levels have."""
_HEAD = 64 << 10
# bytes that are read for the first value of a column; and of a compressed page, if need be
_EXPANDED = 16 << 20


def field_of(node: Node, file: File, footer: Footer, features: Mapping[str, Feature]) -> Field:
    """Return the field of a column.

    Values that have no extents are `json`. The type of byte arrays follows from the feature, or
    from the first value.

    Raises:
        FilterError, ThriftError, ValueError: The first page is damaged.
    """
    leaf, group = element_of(node)
    feature = features.get(node.name, Feature())
    if leaf is None or not _has_extents(leaf, group, footer):
        return Field(node.name, "json")
    dtype = dtype_of(leaf)
    if leaf.physical in BYTE_ARRAYS and dtype is None:
        text = leaf.converted in _STRINGS or leaf.logical in (_STRING_TYPE, _ENUM_TYPE)
        declared = "utf8" if text else feature.codec
        if holds_json(leaf):
            declared = "json"
        codec = declared or codec_by_magic(_first_value(file, footer, leaf), feature.sound)
        return Field(node.name, codec, group is not None)
    if group is not None:
        return Field(
            node.name,
            "array" if feature.tensor is None else feature.tensor.codecs(np.dtype(dtype).name)[0],
        )
    if leaf.physical == BOOLEAN:
        return Field(node.name, "bool")
    if (time := leaf.time or feature.time) is not None:
        return Field(node.name, time)
    if leaf.converted in UNSIGNED:
        return Field(node.name, "uint")
    return Field(node.name, "float" if "f" in (dtype or "") else "int")


def is_decoded(node: Node, field: Field) -> bool:
    """Return whether pyarrow decodes a column: its values have no extents."""
    leaf, _ = element_of(node)
    return leaf is None or (
        field.codec == "json" and not (holds_json(leaf) and leaf.physical in BYTE_ARRAYS)
    )


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
    head = file.read(chunk.offset, min(chunk.length, _HEAD))

    def read(offset: int, length: int) -> bytes | memoryview:
        start = offset - chunk.offset
        if start + length <= len(head):
            return head[start : start + length]
        return file.read(offset, length)

    page = next(pages_of(read, chunk.offset, chunk.length), None)
    if (
        page is None
        or not page.values
        or not (page.dictionary or page.encoding in (PLAIN, DELTA_LENGTHS))
    ):
        return b""
    if chunk.codec == "stored":
        start = page.offset - chunk.offset
        values = _after_levels(memoryview(head)[start : start + page.length], page, leaf)
    elif page.length <= _EXPANDED and page.size <= 4 * _EXPANDED:
        values = payload_of(page, read, Leaf(chunk.codec, leaf.definition, leaf.repeats)).values()
    else:
        return b""
    if page.encoding == PLAIN:
        return bytes(values[4 : 4 + min(16, int.from_bytes(values[:4], "little"))])
    lengths, start = decode_deltas(values)
    if len(lengths):
        return bytes(values[start : start + min(16, int(lengths[0]))])
    return b""


def _after_levels(data: memoryview, page: Page, leaf: Node) -> memoryview:
    """Return the values of a page that is not compressed; `data` may be only its beginning."""
    if page.dictionary:
        return data
    if page.before is not None:
        return data[sum(page.before) :]
    for largest in (leaf.repeats, leaf.definition):
        if largest:
            data = data[4 + int.from_bytes(data[:4], "little") :]
    return data
