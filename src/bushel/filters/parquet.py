"""Pages of Parquet whose values are not in them as they are.

`parquet` expands all pages of a column chunk of numbers, its dictionary among them, to the plain
numbers. A chunk is one block, since its pages refer to the dictionary at its beginning. The side
input is text: the filter of the pages, the largest definition and repetition level, and the bytes
of a number, such as `snappy 3 1 4`.

`parquet-values` expands one page of byte arrays to these, one after another. The side input is
text: the filter of the page, the bytes to which it expands, where the values begin in these, their
encoding, and the bytes of a value if it is fixed, such as `zstd 4096 8 7 0`.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8
from bushel.kernels import decode_deltas, join_prefixed

from .base import MAX_BLOCK, Buffer, Filter
from .parquet_pages import (
    DICTIONARY,
    Leaf,
    Page,
    Payload,
    expanded,
    indices,
    pages_of,
    payload_of,
    present,
)

DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT = 5, 6, 7, 9
"""DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT."""
NUMBERS = (0, DELTA, SPLIT)
"""The encodings that `number_bytes` decodes."""


class OtherEncoding(ValueError):
    """A page has an encoding that is read by pyarrow only, which has to decode its values."""


class Prefixed(Struct, frozen=True):
    """The byte arrays of a section of DELTA_BYTE_ARRAY."""

    prefix: I64  # int64[n], how many bytes each shares with the beginning of the one before it
    length: I64  # int64[n], bytes of the rest of each
    sizes: I64  # int64[n], bytes of each
    rests: memoryview  # the rests, one after another

    def write(self, out: U8) -> int:
        """Write them one after another, and return how many bytes were written.

        Raises:
            ValueError: There is too little room.
        """
        return join_prefixed(self.rests, self.prefix, self.length, out)


def number_bytes(values: memoryview, encoding: int, count: int, width: int) -> U8:
    """Return the bytes of numbers as PLAIN stores them.

    Args:
        values: The encoded numbers.
        encoding: `DELTA`, `SPLIT`, or 0 for PLAIN.
        count: Number of numbers.
        width: Bytes of each.

    Returns:
        uint8[count * width].

    Raises:
        ValueError: There are fewer numbers, or they are damaged.
    """
    if encoding == DELTA:
        numbers, _ = decode_deltas(values, count)
        return numbers.astype(f"<i{width}").view(np.uint8)
    if count * width > len(values):
        raise ValueError(f"{count} numbers of {width} bytes are announced in {len(values)} bytes")
    plain = np.frombuffer(values[: count * width], np.uint8)
    if encoding == SPLIT:
        return np.ascontiguousarray(plain.reshape(width, count).T).reshape(-1)
    return plain


def page_numbers(page: Page, payload: Payload, count: int, dictionary: np.ndarray) -> np.ndarray:
    """Return the numbers of a page, with the dtype of the dictionary of its chunk, which may be empty.

    Raises:
        OtherEncoding: They are encoded in another way.
        ValueError: They are damaged.
    """
    values, dtype = payload.values(), dictionary.dtype
    if page.encoding == DICTIONARY:
        return dictionary[indices(values, count, len(dictionary))]
    if page.encoding not in NUMBERS:
        what = f"a page has encoding {page.encoding}, which is not of numbers or of a dictionary"
        raise OtherEncoding(what)
    return number_bytes(values, page.encoding, count, dtype.itemsize).view(dtype)


def delta_byte_arrays(values: memoryview, count: int) -> tuple[I64, I64]:
    """Return offset and length of the byte arrays of a section of DELTA_LENGTH_BYTE_ARRAY.

    Raises:
        ValueError: They are damaged, or end before the last one does.
    """
    lengths, at = decode_deltas(values, count)
    ends = np.cumsum(lengths)
    if count and (
        int(lengths.min()) < 0
        or int(lengths.max()) > len(values)
        or int(ends[-1]) > len(values) - at
    ):
        raise ValueError(f"{count} byte arrays are announced in {len(values)} bytes, and take more")
    return ends - lengths + at, lengths


def prefixed_byte_arrays(values: memoryview, count: int = -1) -> Prefixed:
    """Find the byte arrays of a section of DELTA_BYTE_ARRAY: `count` of them, or as many as there are.

    Raises:
        ValueError: They are damaged, or take more than a block may have.
    """
    prefix, at = decode_deltas(values, count)
    rest = values[at:]
    offset, length = delta_byte_arrays(rest, len(prefix))
    sizes = prefix + length
    before = np.zeros_like(sizes)
    before[1:] = sizes[:-1]
    if len(wrong := np.flatnonzero((prefix < 0) | (prefix > before))):
        shared, most = int(prefix[wrong[0]]), int(before[wrong[0]])
        raise ValueError(
            f"a byte array begins with {shared} bytes of the one before it, which has {most}"
        )
    if int(sizes.sum()) > MAX_BLOCK:
        raise ValueError(f"byte arrays take more than {MAX_BLOCK} bytes")
    return Prefixed(prefix, length, sizes, rest[int(offset[0]) :] if len(offset) else rest)


def side_of(leaf: Leaf, width: int) -> bytes:
    """Return the side input of a chunk, given the bytes of a number."""
    return f"{leaf.codec} {leaf.definition} {leaf.repetition} {width}".encode()


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    codec, *numbers = bytes(side or b"").decode("ascii").split()
    definition, repetition, width = map(int, numbers)
    leaf = Leaf(codec, definition, repetition)
    data = memoryview(stored).cast("B")
    target = np.frombuffer(out, np.uint8)
    dictionary = np.zeros(0, f"V{width}")
    filled = 0

    def read(offset: int, length: int) -> memoryview:
        return data[offset : offset + length]

    for page in pages_of(read, 0, len(data)):
        payload = payload_of(page, read, leaf)
        if page.dictionary:
            values = payload.values()
            dictionary = np.frombuffer(values, dictionary.dtype, len(values) // width)
            continue
        count, _ = present(page, payload, leaf)
        expanded_page = page_numbers(page, payload, count, dictionary).view(np.uint8)
        end = filled + len(expanded_page)
        if len(expanded_page) != count * width or end > len(target):
            raise ValueError("a page has more or fewer numbers than its levels announce")
        target[filled:end] = expanded_page
        filled = end
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


FILTERS = {
    "parquet": Filter("parquet", _expand),
    "parquet-values": Filter("parquet-values", _expand_values),
}
