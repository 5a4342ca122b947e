"""The reader of datasets that are joined: a sample has fields of several datasets, each in shards of its own.

The tables of the joined datasets are used as they are. A batch is divided by the shards of the
first dataset, as ever, and then by the shards of each other one, in which the matches of the
samples are. So every value is read in the way that is fastest for its shard, as if the dataset that
has it were read alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._index.elements import Elements, Group
from bushel._runtime.arrays import I64
from bushel.spec import KEY

from .reader import Reader
from .selection import Sample
from .shard_fields import only, renamed_shard
from .shards import OpenShard, ShardRows, union_of_fields
from .sides import Joined, Rows, Side

if TYPE_CHECKING:
    from bushel._dataset.open.completeness import Incomplete


class JoinedReader(Reader):
    """Reads samples whose fields are in several datasets.

    Args:
        shards: The shards of all datasets, the first one's before the others'.
        counted: Number of shards of the first dataset.
        sides: The other datasets.
        verify: As for `Reader`.
        incomplete: As for `Reader`.
        joins: The descriptions of the joins.
    """

    def __init__(
        self,
        shards: Sequence[OpenShard],
        counted: int,
        sides: Sequence[Side],
        *,
        verify: bool | None,
        incomplete: Incomplete | None,
        joins: tuple[Joined, ...],
    ) -> None:
        super().__init__(shards, verify=verify, incomplete=incomplete)
        self.sides, self.joins, self._all = tuple(sides), joins, ShardRows(self.shards)
        self.counted, self.starts = tuple(self.shards[:counted]), self.starts[: counted + 1]
        self.keyed = any(shard.keyed for shard in self.counted)
        of_sides = (self.shards[side.shards.start : side.shards.stop] for side in sides)
        self.divisions = [self.counted, *of_sides]
        for shards in self.divisions:  # one may have no samples
            for name, field in union_of_fields(shards).items():
                self.fields.setdefault(name, field)

    @property
    def all(self) -> ShardRows:
        """All shards, whose samples are counted one after another, starting with the shards of the first dataset."""
        return self._all

    def rows_of(self, name: str, positions: I64) -> I64:
        """Return the places of the values of a field among the samples of all shards; -1 for none."""
        in_first = any(field.name == name for shard in self.counted for field in shard.fields)
        rows = positions if in_first else np.full(len(positions), -1, np.int64)
        for side in self.sides:
            if name in side.names:
                partners = self._partners(side, positions)
                rows = np.where(partners >= 0, partners, rows)
        return rows

    def _partners(self, side: Side, positions: I64) -> I64:
        """Return the places of the matches of samples among the samples of all shards; -1 for none."""
        rows = side.rows[positions].astype(np.int64)
        return np.where(rows >= 0, rows + self.all.starts[side.shards.start], -1)

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by the shards of the first dataset, and by shards of the others that have needed fields."""
        groups_of_all = self.all.groups(positions)
        for side in self.sides:
            if names is not None and side.names.isdisjoint(names):
                continue
            partners = self._partners(side, positions)
            present = np.flatnonzero(partners >= 0)
            groups = self.all.groups(partners[present])
            if len(present) < len(positions):
                groups = [replace(group, places=present[group.in_batch]) for group in groups]
            groups_of_all += groups
        return groups_of_all

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]:
        """Return the number of the shard that holds a sample, or this field of it, and its row there."""
        return self._homes(position, [name or ""])[name or ""]

    def _homes(self, position: int, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return shard and row of each field of a sample. A field that it lacks has the shard and row of the sample."""
        homes = dict.fromkeys(names, super().row_of(position))
        for side in self.sides:
            of_side, partner = side.names.intersection(homes), int(side.rows[position])
            if of_side and partner >= 0:
                home = self.all.row_of(int(self.all.starts[side.shards.start]) + partner)
                homes |= dict.fromkeys(of_side, home)
        return homes

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of these samples, which are keys of the first dataset."""
        groups_of_all = self.all.groups(positions) if groups is None else groups
        return super().keys(
            positions, [group for group in groups_of_all if group.number < len(self.counted)]
        )

    def sample(
        self, position: int, wanted: Mapping[str, Elements], home: tuple[int, int] | None = None
    ) -> Sample:
        """Read and decode one sample: the fields of each dataset by themselves."""
        homes = self._homes(position, [*wanted, KEY])
        number, row = homes.pop(KEY)
        keys = self.shards[number].index.keys
        key = str(position) if keys is None else keys[row]
        sample: Sample = {KEY: key}
        for home in dict.fromkeys(homes.values()):
            fields_there = {
                name: elements for name, elements in wanted.items() if homes[name] == home
            }
            sample |= super().sample(position, fields_there, home) | {KEY: key}
        return sample


def joined_readers(
    own: Reader,
    their: Reader,
    partners: I64,
    joined: Joined,
    *,
    names: Collection[str],
    others: Mapping[str, str],
) -> JoinedReader:
    """Return a reader of the samples of a dataset that also have fields of their matches in another one.

    Args:
        own: The reader of the dataset.
        their: The reader of the other one.
        partners: int64[n], for each sample of the whole first dataset the position of its match
            in the whole other one; -1 for none.
        joined: The description of the join.
        names: The fields of the first dataset that are kept.
        others: The fields of the other dataset that are kept, with their new names.
    """
    shards = [only(shard, names) for shard in own.shards]
    added = [renamed_shard(only(shard, others), others) for shard in their.shards]
    count, start = len(their.counted), len(shards)
    rows: Rows = partners
    if their.starts[-1] < 1 << 31:
        rows = partners.astype(np.int32)
    sides = [replace(side, names=side.names.intersection(names)) for side in own.sides]
    new = frozenset(field.name for shard in added[:count] for field in shard.fields)
    sides.append(Side(range(start, start + count), new, rows))
    for side in their.sides:
        moved = range(start + side.shards.start, start + side.shards.stop)
        new = frozenset(others[name] for name in side.names if name in others)
        # a sample without a match has the last one, -1
        rows_of_side: Any = np.append(side.rows, np.int32(-1))[partners]
        sides.append(Side(moved, new, rows_of_side))
    reader = JoinedReader(
        shards + added,
        len(own.counted),
        sides,
        verify=max(own.verify, their.verify, key=(False, None, True).index),
        incomplete=own.incomplete or their.incomplete,
        joins=(*own.joins, *their.joins, joined),
    )
    reader.remaining = own.remaining
    return reader


def joined_in_turn(
    shards: list[OpenShard],
    readers: Sequence[tuple[Reader, Collection[str]]],
    *,
    verify: bool | None,
    incomplete: Incomplete | None,
) -> JoinedReader:
    """Return the reader of concatenated datasets. At least one of them is joined.

    Args:
        shards: The shards that the positions in each dataset count, with the wanted fields.
        readers: The reader of each dataset, and its wanted fields.
        verify: As for `Reader`.
        incomplete: As for `Reader`.
    """
    samples = sum(int(reader.starts[-1]) for reader, _ in readers)
    counted, sides, start = len(shards), list[Side](), 0
    for reader, names in readers:
        end, moved = start + int(reader.starts[-1]), len(shards) - len(reader.counted)
        for side in reader.sides:
            rows: Any = np.full_like(side.rows, -1, shape=samples)
            rows[start:end] = side.rows
            numbers = range(side.shards.start + moved, side.shards.stop + moved)
            sides.append(Side(numbers, side.names.intersection(names), rows))
        shards = [*shards, *(only(shard, names) for shard in reader.shards[len(reader.counted) :])]
        start = end
    joins = tuple(join for reader, _ in readers for join in reader.joins)
    return JoinedReader(shards, counted, sides, verify=verify, incomplete=incomplete, joins=joins)
