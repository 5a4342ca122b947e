"""Comparing the page index of a Parquet file with its pages, for `verify`: readers use it to skip to rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bushel.containers.parquet.footer import Chunk, Footer, RowGroup
from bushel.containers.parquet.page_index import PageStarts, has_index, read_starts
from bushel.containers.parquet.schema import Node
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.filters.parquet_pages import pages_of
from bushel.storage import File

_HINT = "readers that skip by this index find other rows: write the file again, or run `bushel index`, which ignores it"


def index_faults(file: File, footer: Footer) -> Iterator[FormatError]:
    """Yield an error for each offset index that does not say where the pages of its column are. Headers are read."""
    leaves = sorted((leaf for node in footer.fields for leaf in node.leaves()), key=lambda leaf: leaf.leaf)
    for number, group in enumerate(footer.groups):
        if not has_index(group):
            continue
        try:
            found = read_starts([group], lambda offset, length: bytes(file.read(offset, length)), file.size, file.path)
        except FormatError as error:
            yield error
            continue
        for starts in found:  # none, if the index is too large to be used
            for leaf in leaves:
                message = _difference(file, group, group.chunks[leaf.leaf], starts[leaf.leaf], leaf)
                if message is not None:
                    where = f"row group {number}, column {'.'.join(leaf.path)!r}"
                    at = (group.chunks[leaf.leaf].index or (None, 0))[0]
                    yield FormatError(f"{where}: {message}", file=file.path, offset=at, hint=_HINT)


def _difference(file: File, group: RowGroup, chunk: Chunk, starts: PageStarts, leaf: Node) -> str | None:
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
        return f"its offset index has {len(starts.offset) - 1} pages, which are not the {len(offsets)} that are there"
    if not leaf.repeats and starts.row.tolist() != rows:  # of lists, the pages have to be expanded to find out
        first = int(np.flatnonzero(starts.row != np.array(rows))[0])
        what = "ends with" if first == len(offsets) else f"says that page {first} begins with"
        return f"its offset index {what} row {int(starts.row[first])}, but that is row {rows[first]}"
    return None
