"""Files and streams of Arrow IPC, and what `save_to_disk` of Hugging Face writes, read in place.

A row is a sample, and a column a field. Buffers that are not compressed hold values as they are, so
binaries, texts and lists of numbers are extents of the file. See docs/format-arrow.md for the
types.

The table grows batch by batch. The form of a column follows from the schema: extents of bytes,
numbers that the table holds, lists with an extent for each element, or lists of numbers with one
for each list. What has no such form is decoded by pyarrow. A column of a dictionary has the form of
the dictionary's values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import NO_NUMBERS, Bools, GrowingArrays, ranges
from bushel.containers.base import Container, ReadOptions
from bushel.containers.features import Feature, can_be_field, codec_of_first_bytes, features_in
from bushel.containers.references import with_keys, with_references
from bushel.containers.row_table import RowTable
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.spec import Field, Spec
from bushel.storage import AnyPath, BlockFile, File, Seekable, names_in, read_whole
from bushel.storage.blocks import BlockList

from .messages import MAGIC, Batch, Column, Schema, Type, batches_of, read_schema
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
_Form: TypeAlias = Literal["bytes", "numbers", "lists of bytes", "lists of numbers", "other"]
_ARRAYS = ("offset", "length", "starts", "numbers", "absent")
_NO_BOOLS = np.zeros(0, np.bool_)


def _form_of(column: Column) -> _Form:
    """Return the form of a column; with a dictionary, it is that of the entries."""
    values = column.entries or column
    if _holds_bytes(values):
        return "bytes"
    if values.type == Type.BOOL or dtype_of(values) is not None:
        return "numbers"
    if column.type not in _LISTS or len(column.children) != 1:
        return "other"
    [child] = column.children
    leaf, _ = _leaf(child)
    if leaf.dictionary is not None:
        return "other"
    if _holds_bytes(child):
        return "lists of bytes"
    # NumPy's arrays lack times of 32 bits
    if dtype_of(leaf) is None or (leaf.unit and leaf.width < 64):
        return "other"
    return "lists of numbers"


def _holds_bytes(column: Column) -> bool:
    """Return whether a column has binaries or texts, or is a struct of bytes and path."""
    if column.type == Type.STRUCT:
        inner = {child.name: child for child in column.children}
        return inner.keys() == {"bytes", "path"} and inner["bytes"].type in _BYTES
    return column.type in _BYTES


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
        column: The column, or that of the entries of its dictionary.
        form: Its form.
        number: Its number.
        arrays: The arrays of all columns, which go to a temporary file if they are large: where
            binaries, texts, lists of numbers or elements of lists are; how many elements come
            before each list; numbers or truth values; and which numbers or lists are nulls.
        made: The blocks of its buffers, if they are compressed.
        elements: Number of elements of lists.
        last_entries: The dictionary that was used last, and its values, with one that is missing at the end.
    """

    column: Column
    form: _Form
    number: int
    arrays: GrowingArrays
    made: BlockList | None = None
    elements: int = 0
    last_entries: tuple[tuple[Part, ...], list[np.ndarray]] | None = None

    def append(self, **pieces: np.ndarray) -> None:
        """Add elements to arrays."""
        self.arrays.add(f"{self.number} ", **pieces)

    def begin(self) -> None:
        """Give a column the arrays of its form, so that a file without rows has the types of its schema."""
        if self.form == "numbers":
            self.append(numbers=np.zeros(0, _dtype(self.column)), absent=_NO_BOOLS)
        elif self.form != "other":
            self.append(offset=NO_NUMBERS, length=NO_NUMBERS)
        if self.form == "lists of bytes":
            self.append(starts=np.zeros(1, np.int64), absent=_NO_BOOLS)

    def take(self, part: Part, dictionaries: Mapping[int, tuple[Part, ...]]) -> None:
        """Add the values of a part.

        Raises:
            FilterError, ValueError: They are damaged.
        """
        if self.form in ("bytes", "numbers"):
            number = part.column.dictionary
            if number is None:
                first, second = _values(part, self.made)
            elif number in dictionaries:
                first, second = self._of_dictionary(part, dictionaries[number])
            else:
                raise ValueError(f"its dictionary {number} does not come before it")
            if self.form == "bytes":
                self.append(offset=first, length=second)
            else:
                self.append(numbers=first, absent=second)
        elif self.form == "lists of bytes":
            first, counts, valid = lists_of(part)
            elements = ranges(first, counts)
            offset, length = _values(part.children[0], self.made)
            starts = self.elements + np.cumsum(counts)
            self.append(offset=offset[elements], length=length[elements])
            self.append(starts=starts, absent=~valid)
            self.elements += len(elements)
        elif self.form == "lists of numbers":
            self._take_lists(part)

    def _of_dictionary(self, part: Part, parts: tuple[Part, ...]) -> Sequence[np.ndarray]:
        """Return the values of a part, given the parts of its dictionary."""
        valid, rows = part.valid(), numbers_of(part).astype(np.int64)
        entries = sum(part_of_dictionary.rows for part_of_dictionary in parts)
        if not ((rows >= 0) & (rows < entries) | ~valid).all():
            raise ValueError(f"a value has a number that its dictionary of {entries} values lacks")
        if self.last_entries is None or self.last_entries[0] is not parts:
            column = parts[0].column
            if _form_of(column) != self.form or _dtype(column) != _dtype(self.column):
                raise ValueError("its dictionary has values of another type")
            pairs = [_values(part_of_dictionary, self.made) for part_of_dictionary in parts]
            missing = np.array([-1]) if self.form == "bytes" else np.ones(1, np.bool_)
            pairs.append((np.zeros(1, pairs[0][0].dtype), missing))
            self.last_entries = (
                parts,
                [np.concatenate(arrays) for arrays in zip(*pairs, strict=True)],
            )
        chosen = np.where(valid, rows, entries)
        return [array[chosen] for array in self.last_entries[1]]

    def _take_lists(self, part: Part) -> None:
        """Add lists of numbers, an extent for each. Lists with nulls inside have another form."""
        first, counts, valid = lists_of(part)
        inner, sizes = part.children[0], 1
        while inner.column.type == Type.FIXED_LIST and inner.children and not inner.nulls:
            if inner.column.width < 0 or inner.rows * inner.column.width > inner.children[0].rows:
                raise ValueError("a list of fixed size has fewer elements than its size")
            inner, sizes = inner.children[0], sizes * inner.column.width
            if sizes > 1 << 32:
                raise ValueError(f"a list of fixed size has {sizes} elements")
        if inner.nulls or dtype_of(inner.column) is None:
            self.form = "other"
            return
        base, size = inner.place(1, self.made)
        width = _dtype(inner.column).itemsize
        if inner.rows * width > size:
            raise ValueError(f"{inner.rows} numbers of {width} bytes are announced in {size} bytes")
        offset = base + np.where(counts > 0, first, 0) * width * sizes
        self.append(offset=offset, length=np.where(valid, counts * width * sizes, -1))


def _dtype(column: Column) -> np.dtype[np.generic]:
    return dtype_of(column) or np.dtype(np.bool_)


def _values(part: Part, blocks: BlockList | None) -> tuple[np.ndarray, np.ndarray]:
    """Return offset and length of the binaries or texts of a part; or its numbers, and which are missing and 0."""
    if _holds_bytes(part.column):
        return bytes_of(part, blocks)
    valid: Bools = part.valid()
    return np.where(valid, numbers_of(part), 0).astype(_dtype(part.column)), ~valid


class _Table(RowTable):
    """The table of a file."""

    def __init__(self, file: File, schema: Schema, declared: Spec | None) -> None:
        super().__init__(file, features_in(schema.metadata.get("huggingface"), file.path), declared)
        self._schema, self._arrays = schema, GrowingArrays()
        self._growing = [
            _Growing(column.entries or column, _form_of(column), number, self._arrays)
            for number, column in enumerate(schema.columns)
        ]
        for growing in self._growing:
            growing.begin()
        self._dictionaries: dict[int, tuple[Part, ...]] = {}
        self._compressed = False

    def add(self, batch: Batch) -> None:
        """Add a record batch, or the values of a dictionary.

        Raises:
            FilterError, ValueError: It is damaged.
        """
        if batch.dictionary is not None:
            self._add_dictionary(batch, batch.dictionary)
            return
        if batch.codec is not None and not self._compressed:
            if self.rows:
                raise ValueError("some batches are compressed, and those before are not")
            self._compressed = True
            for growing in self._growing:
                growing.made = BlockList()
        share = max((start + length for start, length in batch.buffers), default=0) / self.file.size
        # while rows are added, the share of the rows before them
        self._arrays.share = self._arrays.share or share
        for growing, part in zip(
            self._growing, parts_of(self.file, self._schema.columns, batch), strict=True
        ):
            if part.rows != batch.rows:
                raise ValueError(
                    f"column {growing.column.name!r} has {part.rows} values in {batch.rows} rows"
                )
            try:
                growing.take(part, self._dictionaries)
            except ValueError as error:
                raise ValueError(f"column {growing.column.name!r}: {error}") from error
        self._arrays.share = share
        self.rows += batch.rows

    def _add_dictionary(self, batch: Batch, number: int) -> None:
        columns = _all(self._schema.columns)
        entries = (column.entries for column in columns if column.dictionary == number)
        if (column := next(entries, None)) is None:
            raise ValueError(f"no column has the dictionary {number}")
        [part] = parts_of(self.file, (column,), batch)
        before = self._dictionaries.get(number, ()) if batch.delta else ()
        self._dictionaries[number] = (*before, part)

    def finish(self) -> None:
        """Make the fields of the columns.

        Raises:
            FormatError: pyarrow is needed, and cannot read a column.
        """
        all_arrays = self._arrays.finish()
        for growing in self._growing:
            name = growing.column.name
            if not can_be_field(name, self.file.path):
                continue
            arrays = {
                array: all_arrays[key]
                for array in _ARRAYS
                if (key := f"{growing.number} {array}") in all_arrays
            }
            if growing.form == "other":
                self.put_values(name, self.decoded(name))
            elif growing.form == "numbers":
                codec = time_codec(growing.column)
                self.put_numbers(name, codec, arrays["numbers"], arrays["absent"])
            else:
                self._put_extents(growing, arrays)

    def pieces(self, name: str) -> Iterator[Any]:
        """Return the values of a column as arrays of pyarrow."""
        from pyarrow import ipc

        if self.file.read(0, min(6, self.file.size)) == MAGIC:
            opened = ipc.open_file(Seekable(self.file))
            batches = map(opened.get_batch, range(opened.num_record_batches))
        else:
            batches = ipc.open_stream(Seekable(self.file))
        return (batch.column(name) for batch in batches)

    def _put_extents(self, growing: _Growing, arrays: Mapping[str, np.ndarray]) -> None:
        column, offset, length = growing.column, arrays["offset"], arrays["length"]
        number, file = 0, self.file
        if growing.made is not None and growing.made.offsets:
            blocks = growing.made.blocks()
            number, file = self.add_blocks(blocks), BlockFile.over(self.file, blocks)
        if growing.form == "lists of numbers":
            leaf, sizes = _leaf(column.children[0])
            dtype = _dtype(leaf)
            count = column.width if column.type == Type.FIXED_LIST else -1
            shape = ",".join(map(str, (count, *sizes)))
            codec, stored = "array", f"array({time_codec(leaf) or dtype.name},{shape})"
            if (tensor := tensor_of(column)) is not None:
                codec, stored = tensor.codecs(dtype.name)
            self.put(Field(column.name, codec), stored, number, offset, length)
            return
        starts, absent = arrays.get("starts"), arrays.get("absent")
        values = column if starts is None else column.children[0]
        if values.type in _TEXTS:
            codec = ("utf8", "json")[holds_json(values)]
        else:
            feature = self.features.get(column.name, Feature())
            codec = feature.codec or codec_of_first_bytes(file, offset, length, feature.sound)
        field = Field(column.name, codec, starts is not None)
        self.put(field, codec, number, offset, length, starts, absent)


def _all(columns: tuple[Column, ...]) -> list[Column]:
    """Return columns with all columns inside them, and inside the entries of dictionaries."""
    parts = [(column, *_all((column.entries or column).children)) for column in columns]
    return [inner for part in parts for inner in part]


_STATE = "state.json"
_LARGEST_STATE = 16 << 20


class _Arrow(Container):
    name = "arrow"

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file, or the shards of a folder of `save_to_disk` or of such files, sorted by name.

        Raises:
            FormatError: `state.json` of the folder is damaged.
        """
        shards = super().shards(path)
        if shards is None or not path.is_dir() or not (path / _STATE).exists():
            return shards
        return [Shard(path, name, (name,)) for name in _listed(path)]

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether these are the first bytes of a file of Arrow. Streams are recognised by their suffix only."""
        return head.startswith(b"ARROW1\0\0")

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file. Offsets and numbers are read, and the values of other buffers are not.

        Raises:
            FormatError: It is damaged.
        """
        file = shard.open()
        schema = read_schema(file)
        names = [column.name for column in schema.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FormatError(
                f"two columns are called {twice!r}", file.path, hint="rename one of them"
            )
        rows = _Table(file, schema, options.spec)
        for batch in batches_of(file, schema):
            try:
                rows.add(batch)
            except (FilterError, ValueError) as error:
                raise FormatError(
                    str(error), file.path, batch.offset, "write or download the file again"
                ) from error
            options.report(sum(length for _, length in batch.buffers))
        try:
            rows.finish()
        except (ValueError, RecursionError) as error:
            raise FormatError(str(error), file.path, hint="write the file again") from error
        table = with_keys(rows.index(self.name, shard), shard)
        return with_references(table, shard, options.spec)


CONTAINER = _Arrow()


def _listed(path: AnyPath) -> list[str]:
    """Return the files that `state.json` lists, in order.

    Raises:
        FormatError: It is damaged, lists a file that is not there, or another file selects its
            rows.
    """
    place = path / _STATE
    try:
        state = json.loads(bytes(read_whole(place))[:_LARGEST_STATE])
        names = [str(entry["filename"]) for entry in state["_data_files"]]
        selected = state.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"not the state of a dataset: {error!r}", place) from error
    if selected:
        raise FormatError(
            "its rows are those that another file selects",
            place,
            hint="call flatten_indices() of the dataset, and save_to_disk() again",
        )
    files = set(names_in(path))
    for name in names:
        if name not in files:
            raise FormatError(
                f"it lists {name[:200]!r}, which is not in the folder",
                place,
                hint="put the file back, or save the dataset again",
            )
    return names
