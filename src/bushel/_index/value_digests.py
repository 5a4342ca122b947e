"""SHA-256 of stored values, as a column of texts.

The digest of a plain field is the SHA-256 of its stored bytes; of a sequence, the SHA-256 of the digests of its
elements, 32 bytes each, one after another, so that other borders between the same bytes give another digest.
"""

from __future__ import annotations

import numpy as np

from bushel._index.columns import Column, of_texts
from bushel._index.table import MISSING, FieldExtents
from bushel._index.value_scan import each_chunk, present_rows
from bushel._runtime.arrays import I64, U8, Bools, offsets_of
from bushel.storage import Extents, File, read_many

_BYTES = 32
_SIGNS = np.frombuffer(b"0123456789abcdef", np.uint8)


def digests_of(column: FieldExtents, file: File, workers: int) -> Column:
    """Return the SHA-256 of each sample's value, in 64 hexadecimal digits. All values are read.

    Raises:
        ExtentError: The file is shorter than an extent requires.
    """
    from hashlib import sha256  # which imports OpenSSL

    found = np.zeros((column.rows, _BYTES), np.uint8)

    def of_chunk(rows: I64) -> U8:
        values = read_many([file], Extents(0, column.offset[rows], column.length[rows]))
        each = b"".join(sha256(value or b"").digest() for value in values)
        return np.frombuffer(each, np.uint8).reshape(len(rows), _BYTES)

    for rows, digests in each_chunk(column, present_rows(column), of_chunk, workers):
        found[rows] = digests
    if column.starts is None:
        return _column(found, column.length == MISSING)
    return _column(_of_sequences(found, column.starts), column.empty_and_absent[1])


def _of_sequences(elements: U8, starts: I64) -> U8:
    """Return uint8[samples, 32], the digest of the digests of each sample's elements."""
    from hashlib import sha256

    bounds = starts.tolist()
    each = (sha256(elements[first:last].tobytes()).digest() for first, last in zip(bounds, bounds[1:], strict=False))
    return np.frombuffer(b"".join(each), np.uint8).reshape(len(bounds) - 1, _BYTES)


def _column(digests: U8, missing: Bools) -> Column:
    text = np.empty((len(digests), 2 * _BYTES), np.uint8)
    text[:, 0::2], text[:, 1::2] = _SIGNS[digests >> 4], _SIGNS[digests & 15]
    lengths = np.where(missing, 0, 2 * _BYTES)
    offsets = offsets_of(lengths)
    return of_texts(text[~missing].reshape(-1), offsets, missing)
