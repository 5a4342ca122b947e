"""The pages of a leaf in the row groups that are read, chunk by chunk, and the rows that its levels make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Bools
from bushel.filters.parquet_pages import Leaf, Page, Payload, pages_of, payload_of, present
from bushel.kernels import present_elements
from bushel.storage import File

from .footer import Chunk, Footer, Node


class OtherEncoding(Exception):
    """The values of a leaf have no extents: pyarrow has to decode them."""


class ChunkPages(Struct, frozen=True):
    """The pages of a leaf in one row group."""

    file: File
    node: Node
    chunk: Chunk
    rows: int  # rows of the pages that are read
    kept: slice  # the wanted ones among these rows

    @property
    def leaf(self) -> Leaf:
        """The properties of the leaf that its pages need."""
        return Leaf(self.chunk.codec, self.node.definition, self.node.repeats)

    def __iter__(self) -> Iterator[tuple[Page, Payload]]:
        for start, stop in self.chunk.spans:
            for page in pages_of(self.file.read, start, stop - start):
                yield page, payload_of(page, self.file.read, self.leaf)

    def present(self, page: Page, payload: Payload) -> tuple[int, Bools | None]:
        """Return the number of values of a page that are there, and which these are; None for all."""
        return present(page, payload, self.leaf)

    def check(self, values: int) -> None:
        """Raise ValueError if a leaf that does not repeat has another number of values than rows."""
        if values != self.rows:
            raise ValueError(
                f"column {self.name!r} has {values} values in a row group of {self.rows} rows"
            )

    @property
    def name(self) -> str:
        """The name of the leaf."""
        return ".".join(self.node.path)


def chunks_of(file: File, footer: Footer, node: Node) -> Iterator[ChunkPages]:
    """Yield the chunks of a leaf."""
    for group in footer.groups:
        chunk = group.chunks[node.leaf]
        rows, chosen = group.rows, slice(None)
        if chunk.part is not None:
            rows, first = chunk.part.rows, group.first - chunk.part.first
            chosen = slice(first, first + group.rows)
        yield ChunkPages(file, node, chunk, rows, chosen)


class ListRows:
    """The rows of a chunk of a leaf that repeats once, which its pages fill."""

    def __init__(self, pages: ChunkPages, group: Node) -> None:
        self.pages, self.list_level = pages, group.definition
        # elements of each row; 1 for each row that is a null; number of rows that have begun
        self.counts, self.absent = np.empty(pages.rows, np.int64), np.empty(pages.rows, np.uint8)
        self.begun = 0

    def add(self, page: Page, payload: Payload) -> tuple[int, int, Bools | None]:
        """Add the rows of a page.

        Returns:
            The number of elements of the page, the number of those that are there, and which these
            are; None for all.

        Raises:
            ValueError: The levels are damaged.
        """
        if payload.repetition is None or payload.definition is None:
            raise ValueError("a list has no levels")
        self.begun, elements, count, present_rows = present_elements(
            payload.repetition,
            payload.definition,
            self.pages.node.definition,
            self.list_level,
            page.values,
            self.begun,
            self.counts,
            self.absent,
        )
        return elements, count, present_rows

    def finish(self) -> tuple[I64, Bools]:
        """Return int64[rows], the elements of each row, and bool[rows], the nulls, when all pages were added.

        Raises:
            ValueError: The pages have another number of rows.
        """
        if self.begun != self.pages.rows:
            name, rows = self.pages.name, self.pages.rows
            raise ValueError(f"column {name!r} has {self.begun} rows in a row group of {rows}")
        return self.counts, self.absent.view(np.bool_)
