"""Arrays of NumPy: the rows of a `.npy` file are samples of one field; a `.npz` file has one field per array.

docs/format-npy.md has the rules. Nothing is unpickled: arrays of objects are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.codecs.arrays import NPY_HEADER_LIMIT, parse_npy
from bushel.errors import CodecError, FormatError, SpecError
from bushel.kernels import crc32
from bushel.storage import AnyPath, File

from .base import Container, ReadOptions, Report
from .plain_table import PlainField, file_shards, table_of
from .zip import ENCRYPTED, STORED, data_of, directory_of

_HEAD = NPY_HEADER_LIMIT + 12
_CHUNK = 1 << 20
_FIELD = "data"
_MOST_DIMENSIONS = 64  # of an array of NumPy
_LARGEST_ROW = 1 << 48
_TYPES = (
    "little-endian numbers are read in place: save such arrays with numpy.savez; bushel.pack(FILE, TARGET) takes texts "
    "and big-endian numbers, too, one file at a time; arrays of Python objects are pickles, which are not read"
)


class _Npy(Container):
    name = "npy"
    has_own_index = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file, or the shards of a folder that holds only arrays."""
        return file_shards(path, self.owns, beside=lambda _: False)

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the rows of the arrays in one file."""
        file = shard.open()
        fields, rows = {}, {}
        for name, (start, size, _) in _arrays(shard, file).items():
            fields[name], rows[name] = _rows_of(file, name, start, size)
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{name}: {count}" for name, count in rows.items())
            raise FormatError(
                f"its arrays have different numbers of rows ({counts}), so rows are not samples",
                file.path,
                hint=(
                    "bushel.pack takes it as a source, with a "
                    "dict of the arrays that belong together"
                ),
            )
        options.report(file.size)
        return table_of(
            self.name, shard, next(iter(rows.values()), 0), _declared(fields, options, file)
        )

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare the members of a `.npz` with their CRC-32."""
        file = shard.open()
        try:
            for name, (start, size, expected) in _arrays(shard, file).items():
                if expected is None:
                    continue
                computed = 0
                for at in range(start, start + size, _CHUNK):
                    chunk = file.read(at, min(_CHUNK, start + size - at))
                    computed = crc32(chunk, computed)
                    report(len(chunk))
                if computed != expected:
                    message = (
                        f"array {name!r}: its {size} bytes have CRC-32 "
                        f"{computed:#010x}, expected {expected:#010x}"
                    )
                    yield FormatError(message, file.path, start)
        except FormatError as error:
            yield error


CONTAINER = _Npy()


def _declared(
    fields: dict[str, PlainField], options: ReadOptions, file: File
) -> dict[str, PlainField]:
    """Return the fields with the names that the user gives."""
    if options.spec is None:
        return fields
    if len(fields) == 1 and len(options.spec) == 1:
        return dict(zip(options.spec, fields.values(), strict=True))
    if not fields.keys() <= options.spec.keys():
        have = ", ".join(fields) or "none"
        raise SpecError(f"{file.path} has the arrays {have}: spec= must name all of them")
    return fields


def _rows_of(file: File, name: str, start: int, size: int) -> tuple[PlainField, int]:
    """Return where the rows of one array are, and how many there are."""

    def refuse(message: str, hint: str | None = None) -> FormatError:
        return FormatError(f"array {name!r}: {message}", file.path, start, hint)

    head = file.read(start, min(size, _HEAD))
    try:
        dtype, shape, rest, fortran = parse_npy(head, "npy")
    except CodecError as error:
        raise refuse(str(error), _TYPES) from error
    if not shape or not all(type(length) is int and length >= 0 for length in shape):
        raise refuse(f"its shape is {shape}, which has no rows", "save it in another file")
    if len(shape) > _MOST_DIMENSIONS:
        raise refuse(
            f"its shape has {len(shape)} dimensions, and NumPy holds {_MOST_DIMENSIONS} at most"
        )
    if dtype.kind not in "biufc" or (dtype.itemsize > 1 and dtype.str.startswith(">")):
        raise refuse(f"its dtype is {dtype.str}", _TYPES)
    if fortran and len(shape) > 1:
        raise refuse(
            "it is in Fortran order, so a row is not in one piece",
            "save numpy.ascontiguousarray of it, or pack the file with bushel.pack",
        )
    count, row = shape[0], dtype.itemsize * math.prod(shape[1:])
    first, end = start + len(head) - len(rest), start + size
    if count and not row:
        raise refuse(f"its shape is {shape}, whose rows have no elements")
    if row > _LARGEST_ROW:
        raise refuse(f"its shape is {shape}, whose rows have {row} bytes")
    if first + count * row > end:
        raise refuse(
            f"its shape is {shape}, which needs {count * row} "
            f"bytes, but {end - first} follow the header"
        )
    kind = f"array({','.join([dtype.name, *map(str, shape[1:])])})"
    offset = first + row * np.arange(count)
    return PlainField(kind, offset, np.full(count, row, np.int64)), count


def _arrays(shard: Shard, file: File) -> dict[str, tuple[int, int, int | None]]:
    """Return where each array is: start and size in bytes, and its CRC-32, which a `.npz` has.

    Raises:
        FormatError: The file is not a zip archive or is damaged, or an array is compressed.
    """
    if not shard.files[0].lower().endswith(".npz"):
        return {_FIELD: (0, file.size, None)}
    members: dict[str, tuple[int, int, int | None]] = {}
    for _, entries in directory_of(file).entries():
        starts = data_of(file, entries.header)
        columns = (starts, entries.size, entries.crc32, entries.method, entries.flags)
        for row, (start, size, checksum, method, flags) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            name, at = entries.names[row].removesuffix(".npy"), int(entries.header[row])
            if method != STORED or flags & ENCRYPTED:
                raise FormatError(
                    f"array {name!r} is compressed, so no row of it can be read alone",
                    file.path,
                    at,
                    "write it with numpy.savez, or pack it with bushel.pack",
                )
            if start < 0 or start > file.size - size:
                raise FormatError(f"array {name!r} is not in the file", file.path, at)
            if name in members:
                raise FormatError(f"two arrays are called {name!r}", file.path, at)
            members[name] = start, size, checksum
    return members
