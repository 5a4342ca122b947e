"""Expanded bytes for each byte that is read, for any order of the samples. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, ranges

from .table import FieldExtents, ShardIndex

if TYPE_CHECKING:
    from bushel.storage import Blocks

COSTLY = 10
"""Bytes that are expanded for each byte that is read, above which `info` and loaders warn."""

_LOOKED_AT = 1 << 17  # samples of a table

KEPT = 256_000_000
"""Bytes of expanded blocks that a process keeps by default. If all fit, each is expanded once."""


def _expanded(distinct: float, touched: float) -> float:
    """Return the bytes that reads expand: each block once if it is kept, else again for every value."""
    if distinct:
        return max(min(distinct, touched), touched * (1 - KEPT / distinct))
    return 0.0


class Part(Struct, frozen=True):
    """Some samples of a view that are in one shard."""

    table: ShardIndex
    rows: I64  # int64[n], their numbers in the shard
    places: I64  # int64[n], their positions in the view, ascending


class Expansion(Struct, frozen=True):
    """The blocks that samples of a view need, from which the costs of orders follow.

    A row is a sample with a block that has to be expanded for it. The samples stand for all samples
    of the view.
    """

    samples: int  # number of samples of the view
    examined: int  # number of samples that were looked at
    returned: int  # stored bytes of their values
    place: I64  # int64[rows], position of the sample in the view
    block: I64  # int64[rows], number of the block
    size: I64  # int64[rows], bytes that it expands to
    # number of neighbouring samples that share a block of the field whose blocks expand to the most
    # bytes
    run: int

    @classmethod
    def of(cls, parts: Sequence[Part], samples: int, fields: Collection[str]) -> Expansion | None:
        """Return the expansion of a view.

        Args:
            parts: Samples of the view, each at most once.
            samples: Number of samples of the view.
            fields: The fields to be read.

        Returns:
            None if nothing has to be expanded.
        """
        rows: list[tuple[I64, I64, I64]] = []
        returned, numbered, most, run = 0, 0, 0, 1
        # of each block file, however many fields are in it
        first_of: dict[tuple[int, int], int] = {}
        for part in parts:
            for name, field in part.table.fields.items():
                if name not in fields:
                    continue
                sample, value = _values(field, part.rows)
                returned += int(field.length[value].sum())
                if (blocks := part.table.blocks_of(field.file)) is None:
                    continue
                number, block = _blocks_of(blocks, field, value)
                if not len(block):
                    continue
                size = blocks.sizes[block]
                first = first_of.setdefault((id(part.table), field.file), numbered)
                numbered = max(numbered, first + len(blocks))
                rows.append((part.places[sample[number]], block + first, size))
                counts = np.bincount(block)
                present = np.flatnonzero(counts)
                if (total := int(blocks.sizes[present].sum())) > most:
                    most, run = total, int(np.median(counts[present]))
        if not rows or not returned:
            return None
        place, block, size = (
            np.concatenate(parts_of_rows) for parts_of_rows in zip(*rows, strict=True)
        )
        if len(rows) > 1:
            once = np.unique(place * numbered + block, return_index=True)[1]
            place, block, size = place[once], block[once], size[once]
        return cls(
            samples,
            sum(len(part.rows) for part in parts),
            returned,
            place,
            block,
            size,
            max(1, run),
        )

    @property
    def in_stored_order(self) -> float:
        """Bytes that are expanded for each byte that is read, in stored order."""
        return self._distinct(self.samples) / self.returned

    @property
    def at_random(self) -> float:
        """Bytes that are expanded for each byte that is read, in random order."""
        return self.in_blocks(self.samples, 1)

    def in_blocks(self, size: int, window: int) -> float:
        """Return the bytes that are expanded for each byte that is read, in an order of blocks."""
        share = self._share(size, window)
        touched = int(self.size.sum()) * share
        return _expanded(self._distinct(size) * share, touched) / (self.returned * share)

    def best_blocks(self, size: int, window: int) -> tuple[int, int]:
        """Return size and window for an order of blocks.

        They are the usual ones unless blocks of files cost more than twice what they cost in stored
        order. Then a block of the order has the samples of one or more of those. A window needs at
        most half of the bytes that a process keeps expanded, which leaves as many for the next
        window, unless a single block needs more.
        """
        usual = self.in_blocks(size, window)
        if usual <= 2 * self.in_stored_order:
            return size, window
        size_of_run = self.run * max(1, min(-(-size // self.run), self._kept_at_once(self.run)))
        width = max(1, min(window, self._kept_at_once(size_of_run)))
        if self.in_blocks(size_of_run, width) < usual / 2:
            return (size_of_run, width)
        return (size, window)

    def _kept_at_once(self, size: int) -> int:
        """Return how many blocks of the order need half of the bytes that a process keeps expanded."""
        return int(KEPT / 2 / (self._distinct(size) * self._share(size, 1)))

    def _share(self, size: int, window: int) -> float:
        """Return the size of a window in relation to the samples that were looked at."""
        blocks = -(-self.samples // size)
        return self.samples / self.examined * min(window, blocks) / blocks

    def _distinct(self, size: int) -> int:
        """Return the bytes of all blocks, counted once for each block of the order that needs them."""
        block_of_order = self.place // size
        order = np.lexsort((self.block, block_of_order))
        block_of_order, block = block_of_order[order], self.block[order]
        again = np.append(
            False, (block_of_order[1:] == block_of_order[:-1]) & (block[1:] == block[:-1])
        )
        return int(self.size[order[~again]].sum())


def expansion_of(tables: Iterable[ShardIndex]) -> float:
    """Return how many bytes blocks expand to for each byte that is read, when samples are read in random order.

    The first samples of a large table stand for all. Returns 0 if no block has to be expanded.
    """
    parts, samples, fields = [], 0, set[str]()
    for table in tables:
        rows = np.arange(min(table.samples, _LOOKED_AT))
        parts.append(Part(table, rows, rows + samples))
        samples += table.samples
        fields |= table.fields.keys()
    if not any(part.table.blocks for part in parts):
        return 0.0
    expansion = Expansion.of(parts, samples, fields)
    return 0.0 if expansion is None else expansion.at_random


def _values(field: FieldExtents, rows: I64) -> tuple[I64, I64]:
    """Return the extents of samples that have bytes: the index in `rows` of the sample of each, and its own number."""
    value, counts = field.rows_of(rows)
    sample = np.repeat(np.arange(len(rows)), counts)
    has_bytes = field.length[value] > 0
    return sample[has_bytes], value[has_bytes]


def _blocks_of(blocks: Blocks, field: FieldExtents, value: I64) -> tuple[I64, I64]:
    """Return the blocks to be expanded for extents: the index in `value` of the extent, and the number of the block."""
    first = blocks.start.searchsorted(field.offset[value], "right") - 1
    counts = blocks.start.searchsorted(field.offset[value] + field.length[value], "left") - first
    number = np.repeat(np.arange(len(value)), counts)
    block = ranges(first, counts)
    expanded = ~blocks.is_stored(block)
    return number[expanded], block[expanded]
