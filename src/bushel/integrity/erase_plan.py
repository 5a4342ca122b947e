"""Plan the pieces of files that are overwritten to erase samples. Pure: no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel.storage import IN_TABLE, plan_blocks

SHARED = "the bytes also belong to samples that were not removed"
PACKED = "the bytes are in a compressed block together with other values"
HELD = "the file has the values in another form (a pickle, or JSON that is not strict), and the index has a copy"


@dataclass(frozen=True, slots=True)
class EraseTargets:
    """The values that are overwritten, in the order of their bytes, and the values that are left."""

    field: I64  # int64[values], number of the field of each
    row: I64  # int64[values], its row in the field
    starts: I64  # int64[values + 1]; value `i` consists of the pieces `starts[i]` to `starts[i + 1]`
    file: I64  # int64[pieces], number of the file of each piece
    offset: I64  # int64[pieces], bytes from the start of that file
    size: I64  # int64[pieces], in bytes
    spoilt: I64  # numbers, among the samples that were asked for, of those with a value that is left
    left: Counter[str]  # why values are left, and how many

    def __len__(self) -> int:
        return len(self.field)

    def whole(self, samples: int) -> Bools:
        """Return bool[samples], whether every value of each sample is overwritten."""
        found = np.ones(samples, np.bool_)
        found[self.spoilt] = False
        return found

    def places(self, number: int) -> Iterator[tuple[int, int, int]]:
        """Yield file, offset and size of the pieces of a value."""
        own = slice(int(self.starts[number]), int(self.starts[number + 1]))
        yield from zip(self.file[own].tolist(), self.offset[own].tolist(), self.size[own].tolist(), strict=True)

    def parts(self, number: int, value: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield file, offset and bytes of the pieces of a value."""
        at = 0
        for file, offset, size in self.places(number):
            yield file, offset, value[at : at + size]
            at += size


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The pieces of the values of some samples."""

    sample: I64  # int64[values], which of the samples each value is of
    field: I64  # int64[values], number of its field
    row: I64  # int64[values], its row in the field
    value: I64  # int64[pieces], the number of the value of each piece, ascending
    file: I64  # int64[pieces], number of the file; below 0 for what lies in the table or is expanded
    offset: I64  # int64[pieces]
    size: I64  # int64[pieces]


def erase_targets(index: ShardIndex, samples: I64, kept_files: Mapping[int, str]) -> EraseTargets:
    """Return the values to overwrite in order to erase some samples.

    Args:
        index: The checked table of their shard.
        samples: int64[n], ascending numbers of the samples.
        kept_files: The files in which nothing may be overwritten, and why.
    """
    own = _pieces(index, samples)
    others = _pieces(index, np.setdiff1d(np.arange(index.samples, dtype=np.int64), samples, assume_unique=True))
    why = {-2: PACKED, IN_TABLE: HELD, **kept_files}
    reasons = np.zeros(len(own.sample), np.int64)
    texts = ["", SHARED, *why.values()]
    reasons[own.value[_shared(own, others)]] = 1
    for place, file in enumerate(why):
        reasons[own.value[own.file == file]] = 2 + place
    bad = reasons > 0
    left = Counter(
        {texts[number]: count for number, count in enumerate(np.bincount(reasons).tolist()) if number and count}
    )
    used = ~bad[own.value]
    number = np.cumsum(~bad) - 1
    starts = offsets_of(np.bincount(number[own.value[used]], minlength=np.count_nonzero(~bad)))
    return EraseTargets(
        own.field[~bad],
        own.row[~bad],
        starts,
        own.file[used],
        own.offset[used],
        own.size[used],
        np.unique(own.sample[bad]),
        left,
    )


def _pieces(index: ShardIndex, samples: I64) -> _Pieces:
    none = np.zeros(0, np.int64)
    columns: list[tuple[I64, ...]] = [(none,) * 7]
    values = 0
    for number, column in enumerate(index.fields.values()):
        rows, counts = column.rows_of(samples)
        sample = np.repeat(np.arange(len(samples), dtype=np.int64), counts)
        there = column.length[rows] > 0
        rows, sample = rows[there], sample[there]
        offset, size = column.offset[rows], column.length[rows]
        value = np.arange(len(rows), dtype=np.int64)
        file = np.full(len(rows), column.file, np.int64)
        if (blocks := index.blocks_of(column.file)) is not None:
            plan = plan_blocks(blocks, offset, size)
            value, file, offset, size = plan.row, plan.file.astype(np.int64), plan.offset, plan.size
        columns.append((sample, np.full(len(rows), number, np.int64), rows, value + values, file, offset, size))
        values += len(rows)
    return _Pieces(*(np.concatenate(each) for each in zip(*columns, strict=True)))


def _shared(own: _Pieces, others: _Pieces) -> Bools:
    """Return bool[pieces], whether a piece has bytes of the samples that were not removed."""
    found = np.zeros(len(own.file), np.bool_)
    for file in np.unique(own.file[own.file >= 0]).tolist():
        mine, theirs = np.flatnonzero(own.file == file), others.file == file
        order = np.argsort(others.offset[theirs], kind="stable")
        begin = others.offset[theirs][order]
        if not len(begin):
            continue
        reach = np.maximum.accumulate(begin + others.size[theirs][order])
        before = np.searchsorted(
            begin, own.offset[mine] + own.size[mine], side="left"
        )  # those that begin before its end
        found[mine] = (before > 0) & (reach[np.maximum(before - 1, 0)] > own.offset[mine])
    return found
