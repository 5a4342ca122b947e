"""Make the table of a shard from plain arrays, for containers that are only read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bushel._index.table import FieldExtents, Keys, Shard, ShardIndex, stamps
from bushel.spec import Field
from bushel.storage import open_file

if TYPE_CHECKING:
    from bushel._index.columns import Column
    from bushel.storage import Blocks


class PlainField(NamedTuple):
    """Where the values of a field are.

    Attributes:
        type: Type of the field: its codec, followed by `[]` for a sequence.
        offset: int64[rows], bytes from the start of the file: of each sample's value, or of each
            element.
        length: int64[rows], bytes; -1 for a sample without the field.
        starts: int64[samples + 1], for a sequence: number of elements before each sample.
        crc32: uint32[rows], CRC-32 of each value as the file has them, or None.
        file: Number of the file in `Shard.files`.
        codec: Codec of the stored bytes, if it differs from the codec of the type.
        absent: bool[samples], for a sequence: which samples lack it; None if all have it.
    """

    type: str
    offset: npt.ArrayLike
    length: npt.ArrayLike
    starts: npt.ArrayLike | None = None
    crc32: npt.ArrayLike | None = None
    file: int = 0
    codec: str | None = None
    absent: npt.NDArray[np.bool_] | None = None


def table_of(
    container: str,
    shard: Shard,
    samples: int,
    fields: Mapping[str, PlainField],
    keys: Iterable[str] | None = None,
    *,
    blocks: tuple[Blocks, ...] = (),
    columns: Mapping[str, Column] | None = None,
) -> ShardIndex:
    """Return the checked table of a shard. Its files are looked at for their sizes and times.

    Args:
        container: Name of the container.
        shard: The shard.
        samples: Number of samples.
        fields: Where the values of each field are.
        keys: The key of each sample; None if samples have none of their own.
        blocks: The block files of the shard, whose numbers follow the numbers of its files.
        columns: Values of scalar fields that the container has in memory, by field.

    Raises:
        FormatError: A value is not in its file, or an array has the wrong length.
        FileNotFoundError: A file is missing.

    Examples:
        >>> from bushel.containers import PlainField, Shard, table_of
        >>> Path("two.txt").write_text("first other")
        11
        >>> lines = PlainField("utf8", [0, 6], [5, 5])
        >>> table = table_of("text", Shard(Path(), "two.txt", ("two.txt",)), 2, {"line": lines})
        >>> table.samples, list(table.fields)
        (2, ['line'])
    """
    files = list(map(open_file, shard.paths))
    extents = {}
    for name, place in fields.items():
        field = Field(name, place.type.removesuffix("[]"), place.type.endswith("[]"))
        extents[name] = FieldExtents(
            field,
            place.codec or field.codec,
            place.file,
            np.ascontiguousarray(place.offset, np.int64),
            np.ascontiguousarray(place.length, np.int64),
            None if place.crc32 is None else np.ascontiguousarray(place.crc32, np.uint32),
            None if place.starts is None else np.ascontiguousarray(place.starts, np.int64),
            place.absent if place.absent is not None and place.absent.any() else None,
        )
    table_keys = None if keys is None else Keys.of(keys)
    table = ShardIndex(
        samples,
        stamps(shard, files),
        extents,
        container,
        table_keys,
        columns=columns or {},
        blocks=blocks,
    )
    return table.check(str(shard.path(0)))
