"""The page index of a Parquet file: where the data pages of each chunk begin, and with which row.

https://parquet.apache.org/docs/file-format/pageindex/. With it, a row group that is on a server
is cut into runs of rows, so that reading a row fetches the pages that have it and not the row
group. Only offset indexes are read: the smallest and largest values of pages (column indexes) do
not show where a row is.

The index is checked against the footer here; `pages.py` checks the rows of the pages that are read.
`verify` compares the offsets and rows of all pages (`index_faults`).

From it, and from the row groups, follow the sections of a remote file: its row groups, small ones
together, and large ones as runs of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel.containers.base import Section
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.filters.parquet_pages import ThriftError, pages_of, read_struct
from bushel.storage import File

from .footer import Chunk, Footer, Node, Part, RowGroup, count_in, structs_in
from .table import Groups

_OTHER_ROWS = (
    "readers that skip by this index find other rows: write "
    "the file again, or run `bushel index`, which ignores it"
)
_HINT = (
    "the page index is damaged: write or download the file "
    "again, or run `bushel index`, which does not read it"
)
# bytes that are read for the indexes of a file; they take some 10 bytes a page
_MOST_INDEX = 8 << 20
_MOST_BYTES = 1.125
"""Largest size of all runs of a row group, in its own bytes: pages that two of them have are fetched twice."""


class PageStarts(Struct, frozen=True):
    """The data pages of a chunk."""

    offset: I64  # int64[pages + 1], first byte of the header of each, and the end of the last one
    # int64[pages + 1], number of its first row in the row group, and the rows of the row group
    row: I64


def has_index(group: RowGroup) -> bool:
    """Return whether all chunks of a row group have an offset index."""
    return bool(group.chunks) and all(chunk.index is not None for chunk in group.chunks)


def read_starts(groups: Collection[RowGroup], file: File) -> list[list[PageStarts]]:
    """Return the pages of all chunks of row groups, whose indexes are read at once.

    Args:
        groups: Row groups that all have an index.
        file: The file.

    Returns:
        For each row group the pages of each chunk; nothing if the indexes are too large, or too far
        from each other.

    Raises:
        FormatError: An index is damaged, or does not fit its chunk.
    """
    spans = [chunk.index for group in groups for chunk in group.chunks if chunk.index is not None]
    if not spans:
        return []
    for at, length in spans:
        if not 0 <= at <= at + length <= file.size:
            raise FormatError(
                f"an offset index of {length} bytes at offset "
                f"{at} is not inside the {file.size} bytes of the file",
                file.path,
                hint=_HINT,
            )
    first, stop = min(at for at, _ in spans), max(at + length for at, length in spans)
    if stop - first > _MOST_INDEX:
        return []
    data = memoryview(file.read(first, stop - first))
    return [
        [_page_starts(data, first, chunk, group.rows, file.path) for chunk in group.chunks]
        for group in groups
    ]


def _page_starts(data: memoryview, first: int, chunk: Chunk, rows: int, path: str) -> PageStarts:
    """Return where the pages of a chunk begin, given the bytes of the file from an offset on.

    Raises:
        FormatError: The index is damaged, or does not fit the chunk.
    """
    at, length = chunk.index or (first, 0)
    try:
        parsed, _ = read_struct(data[at - first : at - first + length])
        listed = [
            [count_in(page, number) for number in (1, 2, 3)] for page in structs_in(parsed, 1)
        ]
        return _checked(np.array(listed, np.int64).reshape(-1, 3), chunk, rows)
    except ThriftError as error:
        where = at + error.offset
        raise FormatError(f"damaged offset index: {error}", path, where, _HINT) from error
    except ValueError as error:
        raise FormatError(f"an offset index is wrong: {error}", path, at, _HINT) from error


def _checked(pages: I64, chunk: Chunk, rows: int) -> PageStarts:
    """Return where the pages of a chunk begin, given int64[pages, 3]: offset, bytes and first row of each."""
    end = chunk.offset + chunk.length
    if not len(pages):
        raise ValueError(f"it has no pages for {rows} rows")
    offset, row = np.append(pages[:, 0], pages[-1, 0] + pages[-1, 1]), np.append(pages[:, 2], rows)
    if not np.array_equal(offset[1:], pages[:, 0] + pages[:, 1]) or not (pages[:, 1] > 0).all():
        raise ValueError("its pages do not follow each other")
    if int(offset[0]) < chunk.offset or int(offset[-1]) != end:
        inside = f"bytes {chunk.offset} to {end} of the file"
        raise ValueError(
            f"its pages take the bytes {int(offset[0])} to "
            f"{int(offset[-1])}, and their column {inside}"
        )
    if int(row[0]) or not (np.diff(row) >= 0).all():
        raise ValueError(f"the first rows of its pages do not ascend from 0 to {rows}")
    return PageStarts(offset, row)


def cut(group: RowGroup, starts: Sequence[PageStarts | None], bytes_of_run: int) -> list[RowGroup]:
    """Return a row group as runs of rows, each with the pages that have them; as one if that saves nothing.

    Args:
        group: The row group.
        starts: The pages of each chunk; None for a chunk that can only be read whole.
        bytes_of_run: Bytes that a run has, about.
    """
    indexed = [
        (chunk.length, starts_of_chunk)
        for chunk, starts_of_chunk in zip(group.chunks, starts, strict=True)
        if starts_of_chunk is not None
    ]
    if not indexed:
        return [group]
    length, leader = max(indexed, key=lambda each: each[0])
    whole = sum(chunk.length for chunk in group.chunks)
    borders = [*_borders(leader, bytes_of_run * length / max(1, whole)), group.rows]
    runs = []
    for first, end in pairwise(borders):
        if end > first:
            chunks = [
                replace(chunk, part=_part(chunk, starts_of_chunk, group.rows, first, end))
                for chunk, starts_of_chunk in zip(group.chunks, starts, strict=True)
            ]
            runs.append(replace(group, rows=end - first, chunks=tuple(chunks), first=first))
    taken = sum(stop - start for run in runs for chunk in run.chunks for start, stop in chunk.spans)
    if len(runs) > 1 and taken <= whole * _MOST_BYTES:
        return runs
    return [group]


def _borders(pages: PageStarts, least: float) -> Iterator[int]:
    """Yield the first rows of the runs of pages that have at least `least` bytes each."""
    start = int(pages.offset[0])
    yield 0
    for offset, row in zip(pages.offset[1:-1].tolist(), pages.row[1:-1].tolist(), strict=True):
        if offset - start >= least:
            start = offset
            yield row


def _part(chunk: Chunk, pages: PageStarts | None, rows: int, first: int, end: int) -> Part:
    """Return the pages of a chunk that have the rows from `first` to `end`."""
    if pages is None:
        return Part(0, chunk.offset, chunk.offset + chunk.length, 0, rows)
    before = int(np.searchsorted(pages.row[:-1], first, "right")) - 1
    after = int(np.searchsorted(pages.row, end, "left"))
    dictionary = int(pages.offset[0]) - chunk.offset
    start, stop = int(pages.offset[before]), int(pages.offset[after])
    begin = int(pages.row[before])
    return Part(dictionary, start, stop, begin, int(pages.row[after]) - begin)


def index_faults(file: File, footer: Footer) -> Iterator[FormatError]:
    """Yield an error for each offset index that does not say where the pages of its column are. Headers are read."""
    leaves = [leaf for node in footer.fields for leaf in node.leaves()]
    for number, group in enumerate(footer.groups):
        if not has_index(group):
            continue
        try:
            starts_of_groups = read_starts([group], file)
        except FormatError as error:
            yield error
            continue
        for starts in starts_of_groups:  # none, if the index is too large to be used
            for leaf in leaves:
                message = _difference(file, group, group.chunks[leaf.leaf], starts[leaf.leaf], leaf)
                if message is not None:
                    where = f"row group {number}, column {'.'.join(leaf.path)!r}"
                    at = (group.chunks[leaf.leaf].index or (None, 0))[0]
                    yield FormatError(f"{where}: {message}", file.path, at, _OTHER_ROWS)


def _difference(
    file: File, group: RowGroup, chunk: Chunk, starts: PageStarts, leaf: Node
) -> str | None:
    """Return how the index of a chunk differs from its pages, or why these cannot be compared, else None."""
    offsets, rows, at = [], [0], chunk.offset
    try:
        for page in pages_of(file.read, chunk.offset, chunk.length):
            if not page.dictionary:
                offsets.append(at)
                rows.append(rows[-1] + page.values)
            at = page.next
    except (FilterError, ValueError) as error:  # of a column that pyarrow decodes
        return str(error)
    if starts.offset[:-1].tolist() != offsets:
        return (
            f"its offset index has {len(starts.offset) - 1} pages, "
            f"which are not the {len(offsets)} that are there"
        )
    # of lists, the pages have to be expanded to find out
    if not leaf.repeats and starts.row.tolist() != rows:
        first = int(np.flatnonzero(starts.row != np.array(rows))[0])
        what = f"says that page {first} begins with"
        if first == len(offsets):
            what = "ends with"
        return (
            f"its offset index {what} row {int(starts.row[first])}, but that is row {rows[first]}"
        )
    return None


# bytes of a section: of small row groups that follow each other, or of a run of rows of a large one
_SECTION = 8 << 20
_GAP = 64 << 10  # bytes between chunks that are read rather than left out by another request


def sections_of(whole: Groups, file: File) -> Iterator[Section]:
    """Yield the sections of a file. The page index is read if the file has large row groups.

    Args:
        whole: All its row groups.
        file: The file.

    Raises:
        FormatError: The page index is damaged, or does not fit the footer.
    """
    groups = whole.groups
    large = {
        number: group
        for number, group in enumerate(groups)
        if group.stop - group.start > 2 * _SECTION and has_index(group)
    }
    pages = dict(zip(large, read_starts(large.values(), file), strict=False))
    first = number = 0
    while first < len(groups):
        last = first + 1
        runs = [groups[first]]
        if first in pages:
            chunks = _cuttable(whole, groups[first], pages[first])
            runs = cut(groups[first], chunks, _SECTION)
        parts: list[tuple[RowGroup, ...]] = [(run,) for run in runs]
        if len(runs) == 1:  # and small ones after it
            while last < len(groups) and groups[last].stop - groups[first].start <= _SECTION:
                last += 1
            parts = [groups[first:last]]
        for part in parts:
            spans = joined_spans(chunk for group in part for chunk in group.chunks)
            details = replace(whole, groups=part)
            start, stop = (spans[0][0], spans[-1][1]) if spans else (0, 0)
            yield Section(number, details.rows, start, stop, details, spans)
            number += 1
        first = last


def _cuttable(whole: Groups, group: RowGroup, pages: list[PageStarts]) -> list[PageStarts | None]:
    """Return the pages of the chunks; None for a chunk that is read whole.

    pyarrow decodes whole row groups, and compressed numbers of lists are a block with their
    dictionary.
    """
    cuttable: list[PageStarts | None] = list(pages)
    for column in whole.columns:
        for leaf in column.node.leaves():
            has_dictionary = int(pages[leaf.leaf].offset[0]) > group.chunks[leaf.leaf].offset
            if column.form == "decoded" or (column.form == "lists" and has_dictionary):
                cuttable[leaf.leaf] = None
    return cuttable


def joined_spans(chunks: Iterable[Chunk]) -> tuple[tuple[int, int], ...]:
    """Return the ranges to read of chunks, ascending; ranges with only a small gap between them are joined."""
    ranges: list[tuple[int, int]] = []
    for start, stop in sorted(span for chunk in chunks for span in chunk.spans):
        if ranges and start <= ranges[-1][1] + _GAP:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], stop)
        else:
            ranges.append((start, stop))
    return tuple(ranges)
