"""The table of an Arrow file, which grows batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import ranges
from bushel.containers.features import Feature, codec_of_first_bytes
from bushel.containers.growing import GrowingArrays
from bushel.containers.row_table import RowTable
from bushel.spec import Field, Spec
from bushel.storage import BlockFile, File, Seekable
from bushel.storage.blocks import BlockList

from .messages import MAGIC, Batch, Column, Schema, Type
from .parts import (
    Part,
    bytes_of,
    dtype_of,
    holds_json,
    lists_of,
    numbers_of,
    parts_of,
    tensor_of,
    time_codec,
)

_TEXTS = (Type.UTF8, Type.LARGE_UTF8, Type.UTF8_VIEW)
_BYTES = (Type.BINARY, Type.LARGE_BINARY, Type.FIXED_BINARY, Type.BINARY_VIEW, *_TEXTS)
_LISTS = (Type.LIST, Type.LARGE_LIST, Type.FIXED_LIST)
_ARRAYS = ("offset", "length", "starts", "numbers", "absent")


def _holds_bytes(column: Column) -> bool:
    """Return whether a column has binaries or texts, or is a struct of bytes and path."""
    if column.type == Type.STRUCT:
        names = {child.name: child for child in column.children}
        inner = names.get("bytes")
        return (
            names.keys() == {"bytes", "path"}
            and inner is not None
            and inner.type in _BYTES
            and _plain(inner)
        )
    return column.type in _BYTES and _plain(column)


def _plain(column: Column) -> bool:
    return column.dictionary is None


def _leaf(column: Column) -> tuple[Column, tuple[int, ...]]:
    """Return the innermost column of fixed lists, and their sizes."""
    sizes: list[int] = []
    while column.type == Type.FIXED_LIST and len(column.children) == 1:
        sizes.append(column.width)
        column = column.children[0]
    return column, tuple(sizes)


class _Growing(Struct):
    """The values of a column so far.

    Attributes:
        column: The column.
        number: Its number.
        arrays: The arrays of all columns, which go to a temporary file if they are large: where
            binaries, texts, lists of numbers or elements of lists are; how many elements come
            before each list; numbers or truth values; and which numbers or lists are nulls.
        made: The blocks of its buffers, if they are compressed.
        json: Whether pyarrow has to decode it.
        elements: Number of elements of lists.
        known: The dictionary that was used last, and its values.
    """

    column: Column
    number: int
    arrays: GrowingArrays
    made: BlockList | None = None
    json: bool = False
    elements: int = 0
    known: tuple[tuple[Part, ...], tuple[np.ndarray, np.ndarray] | None] | None = None

    def take(self, **pieces: np.ndarray) -> None:
        """Add elements to arrays."""
        for name, piece in pieces.items():
            self.arrays.append(f"{self.number} {name}", piece)


class Table(RowTable):
    """The table of a file."""

    __slots__ = (
        "_arrays",
        "_columns",
        "_compressed",
        "_dictionaries",
        "_features",
        "_schema",
        "rows",
    )

    def __init__(
        self,
        file: File,
        schema: Schema,
        features: Mapping[str, Feature],
        declared: Spec | None,
    ) -> None:
        super().__init__(file, declared)
        self._schema, self._features = schema, features
        self._arrays = GrowingArrays()
        self._columns = [
            _Growing(column, number, self._arrays) for number, column in enumerate(schema.columns)
        ]
        for growing in self._columns:
            _take_no_rows(growing)
        self._dictionaries: dict[int, tuple[Part, ...]] = {}
        self._compressed = False
        self.rows = 0

    def add(self, batch: Batch) -> None:
        """Add a record batch, or the values of a dictionary.

        Raises:
            FilterError, ValueError: It is damaged.
        """
        if batch.dictionary is not None:
            self._add_dictionary(batch)
            return
        if batch.codec is not None and not self._compressed:
            if self.rows:
                raise ValueError("some batches are compressed, and those before are not")
            self._compressed = True
            for growing in self._columns:
                growing.made = BlockList()
        share = max((start + length for start, length in batch.buffers), default=0) / self.file.size
        # while rows are added, the share of the rows before them
        self._arrays.share = self._arrays.share or share
        for growing, part in zip(
            self._columns, parts_of(self.file, self._schema.columns, batch), strict=True
        ):
            if part.rows != batch.rows:
                raise ValueError(
                    f"column {growing.column.name!r} has {part.rows} values in {batch.rows} rows"
                )
            try:
                growing.json = growing.json or not self._take(growing, part)
            except ValueError as error:
                raise ValueError(f"column {growing.column.name!r}: {error}") from error
        self._arrays.share = share
        self.rows += batch.rows

    def _add_dictionary(self, batch: Batch) -> None:
        column = next(
            (
                column
                for column in _all(self._schema.columns)
                if column.dictionary == batch.dictionary
            ),
            None,
        )
        if column is None or batch.dictionary is None:
            raise ValueError(f"no column has the dictionary {batch.dictionary}")
        part = parts_of(self.file, (replace(column, dictionary=None),), batch)[0]
        before = self._dictionaries.get(batch.dictionary, ()) if batch.delta else ()
        self._dictionaries[batch.dictionary] = (*before, part)

    def _take(self, growing: _Growing, part: Part) -> bool:
        """Take the values of a part, and return False if pyarrow has to decode them."""
        column = part.column
        if column.dictionary is not None:
            return self._take_dictionary(growing, part)
        if _holds_bytes(column):
            offset, length = bytes_of(part, growing.made)
            growing.take(offset=offset, length=length)
            return True
        if column.type == Type.BOOL or dtype_of(column) is not None:
            valid = part.valid()
            growing.take(
                numbers=np.where(valid, numbers_of(part), 0).astype(_dtype(column)), absent=~valid
            )
            return True
        if column.type in _LISTS and len(part.children) == 1:
            return _take_list(growing, part)
        return False

    def _take_dictionary(self, growing: _Growing, part: Part) -> bool:
        column, values = part.column, self._dictionaries.get(part.column.dictionary or 0)
        bits, signed = column.index
        if values is None or bits not in (8, 16, 32, 64):
            raise ValueError(f"its dictionary {column.dictionary} does not come before it")
        index_column = replace(column, dictionary=None, type=Type.INT, width=bits, signed=signed)
        valid = part.valid()
        chosen = np.where(valid, numbers_of(replace(part, column=index_column)), 0).astype(np.int64)
        entries = sum(part_of_dictionary.rows for part_of_dictionary in values)
        if (
            len(chosen)
            and valid.any()
            and not (int(chosen.min()) >= 0 and int(chosen.max()) < entries)
        ):
            raise ValueError(f"a value has a number that its dictionary of {entries} values lacks")
        if growing.known is None or growing.known[0] is not values:
            growing.known = (values, _values_of(values, growing.made))
        entries_of_dictionary = growing.known[1]
        if entries_of_dictionary is None:
            return False
        present = valid if entries else np.zeros(len(chosen), np.bool_)
        first, second = (
            array[chosen] if entries else np.zeros(len(chosen), array.dtype)
            for array in entries_of_dictionary
        )
        if _holds_bytes(values[0].column):
            growing.take(offset=first, length=np.where(present, second, -1))
            return True
        present = second.astype(np.bool_) & present
        numbers = np.where(present, first, 0).astype(_dtype(values[0].column))
        growing.take(numbers=numbers, absent=~present)
        return True

    def finish(self) -> None:
        """Make the fields of the columns.

        Raises:
            FormatError: pyarrow is needed, and cannot read a column.
        """
        arrays = self._arrays.finish()
        for growing in self._columns:
            arrays_of_column = {name: arrays.get(f"{growing.number} {name}") for name in _ARRAYS}
            name = growing.column.name
            feature = self._features.get(name, Feature())
            if feature.names:
                self.labels = {**self.labels, name: feature.names}
            if growing.json:
                self.put_values(name, self.decoded(name))
            elif arrays_of_column["numbers"] is not None and arrays_of_column["absent"] is not None:
                kind = {"u": "uint", "f": "float", "b": "bool"}.get(
                    arrays_of_column["numbers"].dtype.kind, "int"
                )
                self.put_numbers(
                    Field(name, time_codec(growing.column) or kind),
                    arrays_of_column["numbers"],
                    arrays_of_column["absent"],
                )
            else:
                self._put_bytes(growing, arrays_of_column, feature)

    def pieces(self, name: str) -> Iterator[Any]:
        """Return the values of a column as arrays of pyarrow."""
        from pyarrow import ipc

        if self.file.read(0, min(6, self.file.size)) == MAGIC:
            opened = ipc.open_file(Seekable(self.file))
            batches = map(opened.get_batch, range(opened.num_record_batches))
        else:
            batches = ipc.open_stream(Seekable(self.file))
        return (batch.column(name) for batch in batches)

    def _put_bytes(
        self, growing: _Growing, arrays: Mapping[str, np.ndarray | None], feature: Feature
    ) -> None:
        none = np.zeros(0, np.int64)
        offset, length = (
            none if array is None else array for array in (arrays["offset"], arrays["length"])
        )
        number, lines = 0, self.file
        if growing.made is not None and growing.made.offsets:
            blocks = growing.made.blocks()
            number = self.add_blocks(blocks)
            lines = BlockFile.over(self.file, blocks)
        column = growing.column
        if column.type in _LISTS and column.children:
            leaf, sizes = _leaf(column.children[0])
        else:
            leaf, sizes = column, ()
        dtype = dtype_of(leaf) if column.type in _LISTS else None
        if dtype is not None:
            shape = ",".join(
                map(str, (column.width if column.type == Type.FIXED_LIST else -1, *sizes))
            )
            codec, stored = "array", f"array({time_codec(leaf) or dtype.name},{shape})"
            if (tensor := tensor_of(column)) is not None:
                codec, stored = tensor.codecs(dtype.name)
            self.put(Field(column.name, codec), stored, number, offset, length)
            return
        starts = absent = None
        if column.type in _LISTS:
            starts, absent = arrays["starts"], arrays["absent"]
        text = leaf.type in _TEXTS
        if text:
            codec = ("utf8", "json")[holds_json(leaf)]
        else:
            codec = feature.codec or codec_of_first_bytes(lines, offset, length, feature.sound)
        self.put(
            Field(column.name, codec, starts is not None),
            codec,
            number,
            offset,
            length,
            starts,
            absent,
        )


def _is_short_time(column: Column) -> bool:
    """Return whether a column has times of 32 bits, which NumPy's arrays lack."""
    return bool(column.unit) and column.width < 64


def _take_no_rows(growing: _Growing) -> None:
    """Give a column the arrays of its type, so that a file without rows has the types of its schema."""
    column, none = growing.column, np.zeros(0, np.int64)
    if column.type in _LISTS and column.children:
        leaf, _ = _leaf(column.children[0])
    else:
        leaf, _ = column, ()
    if column.type in _LISTS:
        growing.json = _is_short_time(leaf) or not (
            _holds_bytes(leaf) or dtype_of(leaf) is not None
        )
        growing.take(
            starts=np.zeros(1, np.int64), offset=none, length=none, absent=np.zeros(0, np.bool_)
        )
    elif _holds_bytes(replace(column, dictionary=None)):
        growing.take(offset=none, length=none)
    elif column.type == Type.BOOL or dtype_of(column) is not None:
        growing.take(numbers=np.zeros(0, _dtype(column)), absent=np.zeros(0, np.bool_))
    else:
        growing.json = True


def _dtype(column: Column) -> np.dtype[np.generic]:
    return dtype_of(column) or np.dtype(np.bool_)


def _values_of(
    parts: tuple[Part, ...], blocks: BlockList | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return offset and length of the values of a dictionary, or the numbers, and which are there; None for others."""
    column = parts[0].column
    if _holds_bytes(column):
        pairs = [bytes_of(part, blocks) for part in parts]
        return np.concatenate([offset for offset, _ in pairs]), np.concatenate(
            [length for _, length in pairs]
        )
    if column.type == Type.BOOL or dtype_of(column) is not None:
        return np.concatenate([numbers_of(part) for part in parts]), np.concatenate(
            [part.valid() for part in parts]
        )
    return None


def _all(columns: tuple[Column, ...]) -> list[Column]:
    return [inner for column in columns for inner in (column, *_all(column.children))]


def _take_list(growing: _Growing, part: Part) -> bool:
    """Take lists of binaries or texts (an extent per element), or of numbers (an extent per list)."""
    child = part.children[0]
    first, counts, valid = lists_of(part)
    if _holds_bytes(child.column):
        chosen = ranges(first, counts)
        offset, length = (array[chosen] for array in bytes_of(child, growing.made))
        growing.take(offset=offset, length=length)
        growing.take(starts=growing.elements + np.cumsum(counts), absent=~valid)
        growing.elements += len(chosen)
        return True
    inner, sizes = child, 1
    while inner.column.type == Type.FIXED_LIST and len(inner.children) == 1 and not inner.nulls:
        if inner.column.width < 0 or inner.rows * inner.column.width > inner.children[0].rows:
            raise ValueError("a list of fixed size has fewer elements than its size")
        inner, sizes = inner.children[0], sizes * inner.column.width
        if sizes > 1 << 32:
            raise ValueError(f"a list of fixed size has {sizes} elements")
    dtype = dtype_of(inner.column)
    if dtype is None or inner.nulls or not _plain(inner.column) or _is_short_time(inner.column):
        return False
    base, size = inner.place(1, growing.made)
    width = dtype.itemsize * sizes
    if inner.rows * dtype.itemsize > size:
        raise ValueError(
            f"{inner.rows} numbers of {dtype.itemsize} bytes are announced in {size} bytes"
        )
    growing.take(
        offset=base + np.where(counts > 0, first, 0) * width,
        length=np.where(valid, counts * width, -1),
    )
    return True
