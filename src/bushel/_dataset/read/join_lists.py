"""Joins by a field that holds lists of names: a sample has a partner for each of its names, and lists of their values.

The values stay where they are. One block file has the files and block files of all shards that hold values, one after
another, and each list is a sequence of extents in it. So lists are read, checked and written like other sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bushel._dataset.read.join_names import Names
from bushel._dataset.read.labels import labels_of
from bushel._dataset.read.shards import OpenShard, promises_checksums
from bushel._index.elements import Group
from bushel._index.identity import table_digest
from bushel._index.joined_blocks import JoinedBlocks
from bushel._index.name_stems import Form, hashes_of, text_of
from bushel._index.table import MISSING, FieldExtents, Shard, ShardIndex
from bushel._runtime.arrays import I64, U8, U64, Bools, offsets_of
from bushel.errors import SpecError, UnsupportedError
from bushel.kernels import crc32, decode_keys
from bushel.spec import Field
from bushel.storage import AnyPath


@dataclass(frozen=True)
class ListedNames:
    """The names in the lists of a field, for all samples one after another."""

    on: str  # the field
    starts: I64  # int64[samples + 1], the number of the first name of each sample
    has_list: Bools  # bool[samples], whether the sample has a list, which may be empty
    text: U8  # uint8[bytes], the names in UTF-8, one after another
    offsets: I64  # int64[names + 1], where each of them begins

    @classmethod
    def of(cls, names: Names) -> ListedNames:
        """Return the names in the lists of a field that some samples have.

        Raises:
            TypeError: A value is not a list of texts or whole numbers.
        """
        lists = list(names.lists())
        starts = offsets_of(len(own or ()) for own in lists)
        text, offsets = text_of([name for own in lists for name in own or ()])
        return cls(names.on, starts, np.array([own is not None for own in lists], np.bool_), text, offsets)

    def hashes(self, form: Form = "whole") -> tuple[U64, Bools]:
        """Return the hash of each name in a form, and that all of them are names."""
        found = hashes_of(self.text, self.offsets, form)
        return found, np.ones(len(found), np.bool_)

    def take(self, places: I64) -> list[str]:
        """Return some of the names, given their numbers."""
        return decode_keys(self.text, self.offsets, places)


class _Shards(Shard, frozen=True):
    """The files of several shards, as if one shard had them all."""

    owners: tuple[tuple[Shard, int], ...] = ()  # the shard of each file, and the number of the file there

    def path(self, number: int) -> AnyPath:
        """Return the path of one of the files."""
        shard, own = self.owners[number]
        return shard.path(own)


def lists_of_values(other: Names, container: str, fields: Mapping[str, str], starts: I64, partners: I64) -> OpenShard:
    """Return a shard whose samples have lists of the values of other samples.

    Args:
        other: The samples of the dataset that has the values.
        container: The container of that dataset.
        fields: The fields that are wanted of it, with their new names.
        starts: int64[samples + 1], the number of the first partner of each sample.
        partners: int64[n], the positions of the partners in the whole dataset, sample by sample.

    Raises:
        SpecError: A field is a sequence itself, or is stored by several codecs.
        UnsupportedError: The dataset is read in sections, as remote Parquet files without an index are.
        FormatError: A shard is damaged, and the damage touches a partner.
    """
    spec, reader = {name: other.selection.fields[name] for name in fields}, other.reader
    if sequences := [name for name, field in spec.items() if field.sequence]:
        raise SpecError(
            f"field {sequences[0]!r} of the dataset that is joined is a sequence itself, and Bushel has no lists of "
            "sequences: choose other fields of it with ds.select_fields([...])"
        )
    groups = reader.readable(partners, list(fields)) if len(partners) else []
    groups = [group for group in groups if not fields.keys().isdisjoint(group.index.fields)]
    owners = [reader.shards[group.number] for group in groups]
    if any(shard.section is not None for shard in owners):
        raise UnsupportedError("lists of values of remote files need their index: run `bushel index` on them first")
    joined = JoinedBlocks()
    bases = [joined.add(group.index) for group in groups]
    number = len(joined.files)
    found = {
        name: _lists(groups, [base.get(name, 0) for base in bases], field, number, starts)
        for name, field in spec.items()
    }
    container = next((each.container for each in owners if promises_checksums(each)), container)
    table = ShardIndex(
        len(starts) - 1,
        tuple(joined.files),
        found,
        container,
        labels=labels_of(owners, spec),
        blocks=(joined.blocks(),),
    )
    root = next((each.shard.root for each in owners if not each.local), None)
    if root is None:
        root = owners[0].shard.root if owners else reader.shards[0].shard.root
    name = f"lists-{crc32(partners.tobytes(), crc32(starts.tobytes())):08x}"
    files = tuple((each.shard, own) for each in owners for own in range(len(each.index.files)))
    shard = _Shards(root, name, tuple(stamp.name for stamp in joined.files), owners=files)
    opened = OpenShard.of(container, shard, table.check(name), stored=False, checked=True)
    # where values have no checksums, which values the lists have is known by the name alone
    opened.recorded = f"{name}-{table_digest(table)}"
    return opened


def _lists(groups: Sequence[Group], bases: Sequence[int], field: Field, number: int, starts: I64) -> FieldExtents:
    """Return the extents of the lists of a field."""
    count = int(starts[-1])
    offset, length, sums = np.zeros(count, np.int64), np.full(count, MISSING, np.int64), np.zeros(count, np.uint32)
    codecs, summed = set[str](), True
    for group, base in zip(groups, bases, strict=True):
        if (own := group.index.fields.get(field.name)) is None:
            continue
        places: Any = slice(None) if group.places is None else group.places
        offset[places], length[places] = own.offset[group.rows] + base, own.length[group.rows]
        codecs.add(own.codec)
        if own.crc32 is None:
            summed = False
        else:
            sums[places] = own.crc32[group.rows]
    if len(codecs) > 1:
        raise SpecError(
            f"field {field.name!r} is stored as {' and as '.join(sorted(codecs))} in the dataset that is joined: lists "
            "need one way, so write it as one dataset with `bushel convert`"
        )
    # a list has a value for each name, or is missing
    short = offsets_of(length == MISSING)
    absent = short[starts[1:]] > short[starts[:-1]]
    counts = np.where(absent, 0, np.diff(starts))
    kept = np.repeat(~absent, np.diff(starts))
    return FieldExtents(
        replace(field, sequence=True),
        codecs.pop() if codecs else field.codec,
        number,
        offset[kept],
        length[kept],
        sums[kept] if summed else None,
        starts=offsets_of(counts),
        absent=absent if absent.any() else None,
    )
