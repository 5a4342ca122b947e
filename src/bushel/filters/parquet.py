"""Column chunks of numbers in Parquet: all pages of a chunk, its dictionary among them, expand to the plain numbers.

A chunk is one block, since its pages refer to the dictionary at its beginning. The side input is text: the filter of
the pages, the largest definition and repetition level, and the bytes of a number, such as `snappy 3 1 4`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bushel.filters.base import Filter
from bushel.filters.parquet_pages import DICTIONARY, PLAIN, Leaf, indices, pages_of, payload_of

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
    done = 0
    for page in pages_of(lambda offset, length: data[offset : offset + length], 0, len(data)):
        payload = payload_of(page, data[page.offset : page.next], leaf)
        if page.dictionary:
            whole = len(payload.values) // size * size
            dictionary = np.frombuffer(payload.values[:whole], np.uint8).reshape(-1, size)
            continue
        levels = payload.definition
        count = page.values if levels is None else int((levels == leaf.definition).sum())
        if page.encoding == DICTIONARY:
            numbers = dictionary[indices(payload.values, count, len(dictionary))].reshape(-1)
        elif page.encoding == PLAIN:
            numbers = np.frombuffer(payload.values[: count * size], np.uint8)
        else:
            raise ValueError(f"a page has encoding {page.encoding}, which is not of plain numbers or of a dictionary")
        if len(numbers) != count * size or done + len(numbers) > len(target):
            raise ValueError("a page has more or fewer numbers than its levels announce")
        target[done : done + len(numbers)] = numbers
        done += len(numbers)
    return done


FILTERS = {"parquet": Filter("parquet", _expand)}
