"""The values of fields of a batch, one list for each field, for batches that are made without samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bushel._index.elements import Group
from bushel._runtime.arrays import I64
from bushel.codecs import get_codec

if TYPE_CHECKING:
    from bushel._dataset.read.reader import Reader


@dataclass(frozen=True, slots=True)
class FieldList:
    """The values of a field, one for each sample of a batch."""

    values: Sequence[Any]  # stored bytes, or values that were decoded or that the index has
    # the codec of each sample's stored bytes, or one for all; None if nothing is to be decoded
    codecs: str | list[str] | None
    # the stored bytes that were read of each sample; None if the index has the values
    sizes: Sequence[int] | None = None

    def size(self, start: int, stop: int) -> int:
        """Return the number of stored bytes that were read of some of the samples."""
        return 0 if self.sizes is None else sum(self.sizes[start:stop])

    def decoded(self) -> FieldList:
        """Return the values decoded, in a list. Raise CodecError if one cannot be decoded."""
        if self.codecs is None:
            return self
        if isinstance(self.codecs, list):
            both = zip(self.codecs, self.values, strict=True)
            return FieldList(
                [get_codec(codec).decode(value) for codec, value in both], None, self.sizes
            )
        decode: Callable[[Any], Any] = get_codec(self.codecs).decode
        # stored bytes of the codec `bytes` are the values
        return FieldList(
            self.values if decode is bytes else list(map(decode, self.values)), None, self.sizes
        )


def field_lists(
    reader: Reader, positions: I64, names: Sequence[str], *, decode: bool
) -> dict[str, FieldList] | None:
    """Read plain fields of samples in one read.

    Args:
        reader: The reader.
        positions: int64[n].
        names: The fields.
        decode: Whether values will be decoded. If so, those that the index has are not read.

    Returns:
        The values by field; None if a sample lacks one of them, or has a sequence there.

    Raises:
        CorruptError, FormatError: A sample cannot be read.
    """
    groups = reader.readable(positions, names)
    if not all(_has_plain(group, names) for group in groups):
        return None
    lists: dict[str, FieldList] = {}
    wanted = dict.fromkeys(names)
    if decode and len(unknown := reader.unknown(groups, wanted)) < len(names):
        from bushel._dataset.read.known_values import complete, known_values

        own = known_values(groups, len(positions), [name for name in names if name not in unknown])
        if not all(complete(values) for values in own.values()):
            return None
        lists = {name: FieldList(values, None) for name, values in own.items()}
    if rest := [name for name in names if name not in lists]:
        plan = reader.plan(groups, len(positions), dict.fromkeys(rest), parts=False)
        stored = reader.stored(plan, positions)
        if None in stored:
            return None
        lengths = list(map(len, cast("list[bytes]", stored)))
        for field in plan.fields:
            rows = slice(field.first, field.first + len(positions))
            lists[field.name] = FieldList(
                stored[rows], field.codecs if decode else None, lengths[rows]
            )
    return lists


def stored_size(reader: Reader, positions: I64, names: Sequence[str]) -> int:
    """Return the number of stored bytes of plain fields of samples."""
    plan = reader.plan(
        reader.groups(positions, names), len(positions), dict.fromkeys(names), parts=False
    )
    return sum(int(np.maximum(batch.extents.length, 0).sum()) for batch in plan.batches)


def _has_plain(group: Group, names: Sequence[str]) -> bool:
    """Return whether all fields of a shard's samples that are among these are plain."""
    columns = (group.index.fields.get(name) for name in names)
    return all(column is None or column.starts is None for column in columns)
