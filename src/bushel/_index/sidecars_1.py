"""Conversion of sidecars of version 1, which older versions of Bushel wrote: their special arrays become block files.

Version 1 had `__inline__`, the bytes of extents of file -1, and `FIELD.fragments` (int64[3, k]: row, start and length
in the record) for fields of records in several parts, whose extents are of the whole record.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.split_records import blocks_without, length_words, position_of
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64
from bushel.errors import FormatError
from bushel.storage import AnyPath, ExtentError, open_file
from bushel.storage.blocks import Blocks

INLINE = "__inline__"
FRAGMENTS = ".fragments"


def with_blocks(index: ShardIndex, arrays: Mapping[str, npt.NDArray[Any]], sidecar: AnyPath) -> ShardIndex:
    """Return the table of a sidecar of version 1 with block files in the place of inline bytes and fragments.

    Args:
        index: The table without them.
        arrays: All arrays of the sidecar.
        sidecar: Its path. The headers of the parts of records are read from the shard's first file.

    Raises:
        FormatError: The arrays do not fit together.
    """
    inline = arrays.get(INLINE)
    if any(own.file < 0 for own in index.fields.values()) or inline is not None:
        data = np.zeros(0, np.uint8) if inline is None else inline
        if data.dtype != np.uint8 or data.ndim != 1:
            raise _error(sidecar, f"array {INLINE!r} is not uint8[n]")
        number = len(index.files) + len(index.blocks)
        fields = {name: replace(own, file=number) if own.file < 0 else own for name, own in index.fields.items()}
        index = replace(index, fields=fields, blocks=(*index.blocks, Blocks.in_table(data)))
    split = {name: own for name in index.fields if (own := _fragments(arrays, name, index, sidecar)) is not None}
    return _with_whole_records(index, split, sidecar) if split else index


def _fragments(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, index: ShardIndex, sidecar: AnyPath
) -> tuple[I64, I64, I64] | None:
    """Return row, start and length of the values of a field that lie in records of several parts."""
    found = arrays.get(f"{name}{FRAGMENTS}")
    if found is None:
        return None
    known = found.dtype == np.int64 and found.ndim == 2 and len(found) == 3
    if not known or (np.diff(found[0], prepend=-1, append=index.fields[name].rows) <= 0).any():
        raise _error(sidecar, f"array '{name}{FRAGMENTS}' does not have ascending rows")
    rows, start, length = found
    return rows, start, length


def _with_whole_records(index: ShardIndex, split: Mapping[str, tuple[I64, I64, I64]], sidecar: AnyPath) -> ShardIndex:
    """Return the table whose fields lie in the file without the length words of later parts."""
    path = sidecar.parent.parent / index.files[0].name
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise FormatError("a file of the dataset is missing", file=str(path), hint="put it back") from error
    records: dict[int, int] = {}
    for name, (rows, _, _) in split.items():
        own = index.fields[name]
        records |= zip(own.offset[rows].tolist(), own.length[rows].tolist(), strict=True)
    words: list[int] = []
    for begin, size in sorted(records.items()):
        with suppress(FormatError, ExtentError):  # the file has changed: the checksums of these values do not fit
            words += [begin + at for at in length_words(file.read(begin, size))]
    left_out = np.unique(np.array(words, np.int64))
    number = len(index.files) + len(index.blocks)
    fields: dict[str, FieldExtents] = {}
    for name, own in index.fields.items():
        fields[name] = own
        if own.file == 0:
            offset, length = position_of(own.offset, left_out), own.length
            if name in split:
                rows, start, sizes = split[name]
                length = length.copy()
                offset[rows], length[rows] = position_of(own.offset[rows] + 8, left_out) + start, sizes
            fields[name] = replace(own, file=number, offset=offset, length=length)
    blocks = blocks_without(index.files[0].size, left_out).check(str(sidecar), [entry.size for entry in index.files])
    return replace(index, fields=fields, blocks=(*index.blocks, blocks))


def _error(sidecar: AnyPath, message: str) -> FormatError:
    return FormatError(f"the index is damaged: {message}", file=str(sidecar), hint="run `bushel index --force`")
