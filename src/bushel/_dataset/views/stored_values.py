"""Stored values of samples: locations, lengths, bytes and parts; columns, class names and conditions; equality."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bushel._dataset.read.selection import Given, Mask, Sample
from bushel._dataset.read.shards import kinds, labels_of
from bushel._index.elements import Elements, Group, element_rows
from bushel._index.names import Labels
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64, U8, Bools, offsets_of, python_numbers
from bushel.codecs.registry import holds_array, holds_elements
from bushel.containers.base import Report, unreported

from .samples import Samples

if TYPE_CHECKING:
    import pyarrow


class StoredValues(Samples):
    """Samples whose stored values can be found, measured, read in part and decoded later, and which have columns."""

    def location(self, position: int, field: str) -> tuple[str, int]:
        r"""Return the path of the file with a field of a sample, and the offset of its stored bytes.

        Examples:
            >>> file, offset = ds.location(0, "image")
            >>> Path(file).read_bytes()[offset : offset + 2]  # the first bytes of a JPEG
            b'\xff\xd8'
        """
        [name] = self.selection.wanted([field])
        return self.reader.location(self.selection.at(position), name)

    def shard_of(self, position: int) -> int:
        """Return the number in `shards` of the shard that holds a sample."""
        return self.row_of(position)[0]

    def row_of(self, position: int) -> tuple[int, int]:
        """Return the number in `shards` of the shard that holds a sample, and the number of the sample there.

        Samples of the shard that were removed count, as do those that a view leaves out.

        Examples:
            >>> ds[8:].row_of(0)
            (0, 8)
        """
        return self.reader.row_of(self.selection.at(position))

    def available(self, item: int | str) -> dict[str, bool | range]:
        """Return the fields that a sample has: True, or the range of a sequence's elements or of a clip's frames.

        Nothing is decoded, and only clips are read whose frames are not in the index.

        Raises:
            SpecError: The sample has a clip, and PyAV, which counts its frames, is not installed.
            CodecError: A clip is damaged.

        Examples:
            >>> ds.available("dog/2")
            {'image': True, 'label': True}
        """
        if isinstance(item, str):
            position = self.position(item)
        else:
            position = operator.index(item)
        absolute = self.selection.at(position)
        available: dict[str, bool | range] = {}
        windows = self.reader.windows
        for name in self.selection.fields:
            if windows is not None and (window_range := windows.shape.available(name)) is not None:
                available[name] = window_range
                continue
            if (group := self.reader.group_of(absolute, name)) is None:
                continue
            column, row = group.index.fields[name], int(group.rows[0])
            if column.starts is not None:
                if column.absent is None or not column.absent[row]:
                    available[name] = range(int(column.starts[row + 1]) - int(column.starts[row]))
            elif column.length[row] >= 0:
                if holds_elements(column.codec) and not holds_array(column.codec):
                    available[name] = range(self.reader.count_elements(absolute, name))
                else:
                    available[name] = True
        return available

    def lengths(self, positions: Given, field: str) -> I64:
        """Return the number of stored bytes of one field in many samples. No data are read.

        Returns:
            int64[n]: for a sequence field, the bytes of all elements; -1 if a sample lacks the
            field.

        Examples:
            >>> bool(ds.lengths([0], "image")[0] == Path("photos/cat/0.jpg").stat().st_size)
            True
        """
        [name], samples = self.selection.wanted([field]), self.selection.all_of(positions)
        windows = self.reader.windows
        if windows is not None and name in windows.shape.pads:  # a byte for each element
            sizes = self.reader.sizes(samples, windows.shape.pads[name])
            assert sizes is not None
            return sizes
        elements = self.reader.asked(samples, {name: None})[name]
        return _stored_lengths(self.reader.groups(samples, [name]), len(samples), name, elements)

    def gather(self, positions: Given, field: str) -> tuple[U8, I64]:
        """Read the stored bytes of one plain field of many samples into one buffer: the fastest way to read.

        Returns:
            buffer: uint8[total].
            offsets: int64[n + 1]; sample `i` is `buffer[offsets[i]:offsets[i + 1]]`, empty if it
            lacks the field.

        Raises:
            TypeError: The field is a sequence.
            IndexError, CorruptError, FormatError: As `read`.

        Examples:
            >>> data, offsets = ds.gather([3, 0], "image")
            >>> photo = data[offsets[0] : offsets[1]].tobytes()
            >>> photo == Path("photos/cat/3.jpg").read_bytes()
            True
        """
        name = self.selection.plain(field, "gather() reads plain fields, read() reads both")
        buffer, offsets, _ = self.reader.gather(self.selection.all_of(positions), name)
        return buffer, offsets

    def read_crop(self, position: int, field: str, box: tuple[int, int, int, int]) -> np.ndarray:
        """Read and decode a part of an image.

        If the index has the segments or the seek table of a JPEG, only the header and the bytes of
        that part are read. Other images are read whole, and so are all images of a dataset with
        checksums opened with `verify=True`.

        Args:
            position: The position of the sample.
            field: A plain image field.
            box: Left, top, right and bottom in pixels, the last two exclusive.

        Returns:
            HxWx3, or HxW of a grey image, as in `ds[position][field]`.

        Raises:
            KeyError: The field does not exist, or the sample lacks it.
            TypeError: The field is a sequence, or does not hold images, or the box is not four whole
                numbers.
            ValueError: The box is not inside the image.
            IndexError, CorruptError, FormatError, CodecError: As `read`.

        Examples:
            >>> ds.read_crop(0, "image", (8, 4, 32, 24)).shape
            (20, 24, 3)
        """
        name = self.selection.plain(field, "read_crop() reads plain fields")
        from bushel._dataset.read.crops import read_crop_of

        return read_crop_of(self.reader, self.selection.at(position), name, box)

    def prefetch(self, positions: Given, fields: Mask = None, *, decode: bool = True) -> None:
        """Ask the operating system to load what a later `read` of these positions will need. Returns at once."""
        self.reader.prefetch(
            self.selection.all_of(positions), self.selection.wanted(fields), decode=decode
        )

    def decode_sample(self, stored: Sample, position: int) -> Sample:
        """Decode a sample that `read(..., decode=False)` returned for this position.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        return self.decode_samples([stored], [position])[0]

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Given,
        encoded: Collection[str] = (),
        fields: Mask = None,
    ) -> list[Sample]:
        """Decode samples that `read(..., decode=False)` returned for these positions.

        Args:
            stored: The samples.
            positions: Their positions.
            encoded: Image fields whose stored bytes are kept, as `Seekable` where the index has
                their seek tables.
            fields: The mask that was given to `read`.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        numbers, wanted = self.selection.all_of(positions), self.selection.wanted(fields)
        return self.reader.decode_samples(stored, numbers, encoded, wanted)

    @property
    def labels(self) -> Labels:
        """Names of classes, in the order of their numbers, by field: `ds.labels["label"][3]`; empty without them.

        Raises:
            SpecError: Two shards give different names to the same number; `bushel.open` and
                `concat` refuse them.

        Examples:
            >>> ds.labels["label"]
            ('cat', 'dog')
        """
        if not any(map(attrgetter("labels"), kinds(self.reader.shards))):
            return {}
        return labels_of(kinds(self.reader.shards), self.selection.fields)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the index (docs/columns.md), also of fields that this view leaves out.

        `column` also knows the number of stored bytes of every field, `image.bytes`, and the
        lengths of sequences.

        Examples:
            >>> ds.columns
            ('image.width', 'image.height', 'label')
        """
        from bushel._dataset.read.columns import column_names

        return column_names(self.reader)

    def column(self, name: str) -> np.ndarray:
        """Return the value of each sample in a column of the index. No data file is touched.

        Args:
            name: `label` for the value of a field; `image.width`, `tokens.length`,
                `meta.camera.iso` and others for properties and members of a value
                (docs/columns.md).

        Returns:
            bool[n], int64[n], uint64[n] or float64[n], or an object array of str, or of int and
            float if no dtype holds all numbers exactly; mapped and read-only if the dataset has one
            shard. It is a `numpy.ma.MaskedArray` if samples lack the value; as a mask, such an
            array does not choose them.

        Raises:
            KeyError: The column does not exist; the message says what may be meant, or which
                command makes it.
            TypeError: The name is not a text.
            FormatError: The index is damaged.

        Examples:
            >>> ds.column("label")
            array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        """
        from bushel._dataset.read.columns import masked, part_of

        values: np.ndarray = masked(part_of(self.reader, self.selection.positions, name))
        return values

    def where(self, condition: str = "", **columns: object) -> Self:
        """Return a view of the samples for which a condition on columns is true.

        Args:
            condition: A condition in Python's syntax, such as `label == 3 and image.width > 256`:
                comparisons, `in`, `is None`, arithmetic, `and`, `or`, `not`. Names are names of
                columns; `column("seg-map.width")` names one that is not a Python name. Classes may
                have their names instead of their numbers: `label in ("cat", "dog")`. Numbers are
                computed as Python does. Comparisons with missing values, or with the result of a
                division by zero, are not true.
            **columns: Arguments of other names, which are refused.

        Raises:
            TypeError: A column is given as an argument.
            ValueError: The condition is malformed, something in it is not allowed, it names a class
                that does not exist, or it computes a number that is too large.
            KeyError: The column does not exist, as for `column`.

        Examples:
            >>> len(ds.where("label == 'dog' and image.width >= 48"))
            6
        """
        if columns:
            text = " and ".join(f"{name} == {value!r}" for name, value in columns.items())
            raise TypeError(f"a condition is a text: write ds.where({text!r})")
        return self._view(
            self.selection.absolute(self.positions_where(condition)),
            made=f"where {condition.strip()}",
        )

    def positions_where(self, condition: str) -> I64:
        """Return int64[n], the positions of the samples of `where`, ascending.

        Examples:
            >>> ds.positions_where("label == 1")
            array([ 6,  7,  8,  9, 10, 11])
        """
        from bushel._dataset.read.columns import part_of
        from bushel._dataset.read.where import choose

        column = partial(part_of, self.reader, self.selection.positions)
        shards, fields = kinds(self.reader.shards), self.reader.fields
        chosen = choose(condition, len(self), column, partial(labels_of, shards, fields))
        return np.flatnonzero(chosen).astype(np.int64)

    def to_arrow(self) -> pyarrow.Table:
        """Return the index as a `pyarrow.Table`, for DuckDB, polars and others: `SELECT avg(image.length) FROM table`.

        The table has a row per sample, in order. `__key__` is the key, or the position of a sample
        without one. Every field is a struct of `file` (path), `offset` and `length` in bytes, and
        `crc32` (null if unknown); it is null if the sample lacks the field. A sequence field is a
        list of such structs. Then there are the columns of these fields in the index
        (docs/columns.md), null where they are missing: `SELECT label, count(*)`. The struct of a
        field with a column of the same name is called `label.extent`. No data are read, and arrays
        are not copied.

        Raises:
            MissingPackageError: pyarrow is not installed (`pip install 'bushel[arrow]'`).
            UnsupportedError: The samples are windows.

        Examples:
            >>> table = ds.to_arrow()
            >>> table.num_rows, table.column_names
            (12, ['__key__', 'image', 'label.extent', 'image.width', 'image.height', 'label'])
        """
        from bushel._dataset.read.columns import part_of
        from bushel._index.arrow import index_table

        self.reader.refuse_windows("export the table of the original dataset")
        prefixes = tuple(f"{name}." for name in self.selection.fields)
        names = [name for name in self.columns if f"{name}.".startswith(prefixes)]
        values = {name: part_of(self.reader, self.selection.positions, name) for name in names}
        rows: dict[str, Any] = {}
        if self.reader.sides:
            positions = self.selection.every
            rows = {name: self.reader.rows_of(name, positions) for name in self.selection.fields}
        return index_table(
            self.reader.shards,
            self.selection.fields,
            self.selection.positions,
            values,
            rows,
        )


def _stored_lengths(groups: Sequence[Group], total: int, name: str, elements: Elements) -> I64:
    """Return the stored bytes of one field in each sample of a batch: int64[total], `MISSING` if a sample lacks it.

    Raises:
        FormatError: The table of a sequence field is damaged.
    """
    lengths = np.full(total, MISSING, np.int64)
    for group in groups:
        column = group.index.fields.get(name)
        if column is None:
            continue
        if column.starts is None:
            lengths_of_samples = column.length[group.rows]
        else:
            rows, counts = element_rows(column, group, elements)
            ends, sums = np.cumsum(counts), offsets_of(column.length[rows])
            lengths_of_samples = sums[ends] - sums[ends - counts]
            if column.absent is not None:
                lengths_of_samples[column.absent[group.rows]] = MISSING
        lengths[group.places_in(total)] = lengths_of_samples
    return lengths


_AT_ONCE = 64  # pairs of values that are decoded together


def are_same(
    left: StoredValues,
    right: StoredValues,
    pairs: tuple[I64, I64],
    name: str,
    report: Report = unreported,
) -> Bools:
    """Return whether a field of pairs of samples has the same values: where both have names of classes, by these.

    `report` is called with the number of pairs that were compared.

    Raises:
        BushelError, OSError: A value cannot be read or decoded.
    """
    same = np.zeros(len(pairs[0]), np.bool_)
    classes = [dataset.labels.get(name, ()) for dataset in (left, right)]
    for start in range(0, len(same), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        values = [
            [
                _named(sample.get(name, ...), names)
                for sample in dataset.read(positions[part].tolist(), [name])
            ]
            for dataset, positions, names in zip((left, right), pairs, classes, strict=True)
        ]
        same[part] = list(map(same_value, *values))
        report(len(same[part]))
    return same


def _named(value: Any, classes: Sequence[str]) -> Any:
    """Return the name of a class, or the value itself where it has none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return (classes[value] if is_number and 0 <= value < len(classes) else "") or value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal: arrays also in shape and dtype, NaN to NaN, not -0.0 to 0.0."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        floats = one.dtype.kind in "fc"
        if one.dtype != other.dtype or not np.array_equal(one, other, equal_nan=floats):
            return False
        zeros = [np.where(array == 0, array, 1).tobytes() for array in (one, other) if floats]
        return zeros[:1] == zeros[1:]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_value(one[name], other[name]) for name in one
        )
    one, other = python_numbers(one), python_numbers(other)
    if isinstance(one, float):
        one, other = repr(one), repr(other)
    return type(one) is type(other) and (bool(one == other) or (one != one and other != other))
