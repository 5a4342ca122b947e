"""The shards of files, and tables of shards from plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U8, if_any, joined
from bushel.errors import SpecError
from bushel.kernels import crc32
from bushel.spec import Field, Spec, format_spec
from bushel.storage import AnyPath, names_in, open_file

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
            if_any(place.absent),
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


def joined_values(values: Sequence[bytes | None]) -> tuple[U8, I64, I64]:
    """Return the bytes of values one after another, and offset and length of each; None is a missing value."""
    data, ends = joined([value or b"" for value in values])
    return data, ends[:-1], np.where([value is None for value in values], MISSING, np.diff(ends))


def with_values(
    index: ShardIndex,
    field: Field,
    values: Sequence[bytes | None],
    column: Column | None,
    rows: I64 | slice = slice(None),
    *,
    sums: bool = False,
) -> ShardIndex:
    """Return a table with one more field, whose stored values the table holds.

    Args:
        index: The table.
        field: The field.
        values: The stored values; None is a missing one.
        column: The values of the samples as a column of the index, if they are one.
        rows: int64[samples], number of the value of each sample; by default, they are in order.
        sums: Whether values get checksums.
    """
    data, offset, length = joined_values(values)
    checksums = None
    if sums:
        checksums = np.array([crc32(value or b"") for value in values], np.uint32)[rows]
    places = offset[rows], length[rows], checksums
    extents = FieldExtents(field, field.codec, index.next_file, *places)
    return index.with_field(extents, data, column)


def declared_field(spec: Spec | None, path: str) -> Field | None:
    """Return the field that the caller declares for a file with one; None if none is declared.

    Raises:
        SpecError: Another number of fields is declared, or a sequence.
    """
    if not spec:
        return None
    field = next(iter(spec.values()))
    if len(spec) > 1 or field.sequence:
        raise SpecError(
            f"{path} has one plain field, but spec= declares "
            f"{format_spec(spec)}: declare one, without []"
        )
    return field


def file_shards(
    path: AnyPath, owns: Callable[[str], object], beside: Callable[[str], object] = lambda _: True
) -> list[Shard] | None:
    """Return the shard of a file, or a shard for each file of a folder, sorted by name; None without any.

    Args:
        path: The file or folder.
        owns: Returns whether a file of this name, in lower case, is one of the container.
        beside: Returns whether another file of this name may be in the folder. Hidden files may.
    """
    if not path.is_dir():
        if owns(path.name.lower()):
            return [Shard.of(path)]
        return None
    names = sorted(name for name in names_in(path) if not name.startswith("."))
    owned = [name for name in names if owns(name.lower())]
    strange = (name for name in names if not owns(name.lower()) and not beside(name))
    if owned and next(strange, None) is None:
        return [Shard(path, name, (name,)) for name in owned]
    return None
