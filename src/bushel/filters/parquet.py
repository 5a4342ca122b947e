"""Pages of Parquet whose values do not lie in them as they are.

`parquet` expands all pages of a column chunk of numbers, its dictionary among them, to the plain numbers. A chunk is
one block, since its pages refer to the dictionary at its beginning. The side input is text: the filter of the pages,
the largest definition and repetition level, and the bytes of a number, such as `snappy 3 1 4`.

`parquet-values` expands one page of byte arrays to these, one after another. The side input is text: the filter of the
page, the bytes to which it expands, where the values begin in these, their encoding, and the bytes of a value if it is
fixed, such as `zstd 4096 8 7 0`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bushel.filters.base import Filter
from bushel.filters.parquet_encodings import DELTA_PREFIXES, NUMBERS, number_bytes, prefixed_byte_arrays
from bushel.filters.parquet_pages import DICTIONARY, Leaf, expanded, indices, pages_of, payload_of, present

if TYPE_CHECKING:
    from typing_extensions import Buffer


def side_of(leaf: Leaf, width: int) -> bytes:
    """Return the side input of a chunk, given the bytes of a number."""
    return f"{leaf.codec} {leaf.definition} {leaf.repetition} {width}".encode()


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    codec, definition, repetition, width = bytes(side or b"").decode("ascii").split()
    leaf, size = Leaf(codec, int(definition), int(repetition)), int(width)
    data = memoryview(stored).cast("B")
    target = np.frombuffer(out, np.uint8)
    dictionary = np.zeros((0, size), np.uint8)
    filled = 0

    def read(offset: int, length: int) -> memoryview:
        return data[offset : offset + length]

    for page in pages_of(read, 0, len(data)):
        payload = payload_of(page, read, leaf)
        values = payload.values()
        if page.dictionary:
            dictionary = np.frombuffer(values[: len(values) // size * size], np.uint8).reshape(-1, size)
            continue
        count, _ = present(page, payload, leaf)
        if page.encoding == DICTIONARY:
            numbers = dictionary[indices(values, count, len(dictionary))].reshape(-1)
        elif page.encoding in NUMBERS:
            numbers = number_bytes(values, page.encoding, count, size)
        else:
            raise ValueError(f"a page has encoding {page.encoding}, which is not of numbers or of a dictionary")
        if len(numbers) != count * size or filled + len(numbers) > len(target):
            raise ValueError("a page has more or fewer numbers than its levels announce")
        target[filled : filled + len(numbers)] = numbers
        filled += len(numbers)
    return filled


def values_side(codec: str, size: int, start: int, encoding: int, width: int) -> bytes:
    """Return the side input of a page of byte arrays: see above."""
    return f"{codec} {size} {start} {encoding} {width}".encode()


def _expand_values(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    codec, *numbers = bytes(side or b"").decode("ascii").split()
    size, start, encoding, width = map(int, numbers)
    values = expanded(memoryview(stored).cast("B"), codec, size)[start:]
    target = np.frombuffer(out, np.uint8)
    if encoding == DELTA_PREFIXES:
        return prefixed_byte_arrays(values).write(target)
    data = number_bytes(values, encoding, len(out) // width, width)
    target[: len(data)] = data
    return len(data)


FILTERS = {"parquet": Filter("parquet", _expand), "parquet-values": Filter("parquet-values", _expand_values)}
