"""Values of samples that the index holds as columns, the names of classes, and conditions on them."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bushel._dataset.read.shards import kinds
from bushel._dataset.views.stored_values import StoredValues
from bushel._index.class_names import Labels
from bushel.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt


class ColumnValues(StoredValues):
    """Samples with columns. Reading and comparing them touches no data file."""

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
        if not any(map(attrgetter("labels"), kinds(self._reader.shards))):
            return {}
        from bushel._dataset.read.shard_fields import labels_of

        return labels_of(kinds(self._reader.shards), self._selection.fields)

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

        return column_names(self._reader)

    def column(self, name: str) -> npt.NDArray[Any]:
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
            FormatError: The index is damaged.

        Examples:
            >>> ds.column("label")
            array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        """
        from bushel._dataset.read.columns import masked, part_of

        values: npt.NDArray[Any] = masked(part_of(self._reader, self._selection.positions, name))
        return values

    def where(self, condition: str) -> Self:
        """Return a view of the samples for which a condition on columns is true.

        Args:
            condition: A condition in Python's syntax, such as `label == 3 and image.width > 256`:
                comparisons, `in`, `is None`, arithmetic, `and`, `or`, `not`. Names are names of
                columns; `column("seg-map.width")` names one that is not a Python name. Classes may
                have their names instead of their numbers: `label in ("cat", "dog")`. Numbers are
                computed as Python does. Comparisons with missing values, or with the result of a
                division by zero, are not true.

        Raises:
            ValueError: The condition is malformed, something in it is not allowed, it names a class
                that does not exist, or it computes a number that is too large.
            KeyError: The column does not exist, as for `column`.

        Examples:
            >>> len(ds.where("label == 'dog' and image.width >= 48"))
            6
        """
        return self._view(
            self._selection.absolute(self.positions_where(condition)),
            made=f"where {condition.strip()}",
        )

    def positions_where(self, condition: str) -> npt.NDArray[np.int64]:
        """Return int64[n], the positions of the samples of `where`, ascending.

        Examples:
            >>> ds.positions_where("label == 1")
            array([ 6,  7,  8,  9, 10, 11])
        """
        from bushel._dataset.read.columns import part_of
        from bushel._dataset.read.shard_fields import labels_of
        from bushel._dataset.read.where import choose

        column = partial(part_of, self._reader, self._selection.positions)
        shards, fields = kinds(self._reader.shards), self._reader.fields
        chosen = choose(condition, len(self), column, partial(labels_of, shards, fields))
        return np.flatnonzero(chosen).astype(np.int64)

    def to_arrow(self) -> Any:
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

        if self._reader.windows is not None:
            raise UnsupportedError(
                "windows have no extents of their own: export the table of the original dataset"
            )

        prefixes = tuple(f"{name}." for name in self._selection.fields)
        names = [name for name in self.columns if f"{name}.".startswith(prefixes)]
        values = {name: part_of(self._reader, self._selection.positions, name) for name in names}
        rows: dict[str, Any] = {}
        if self._reader.sides:
            positions = np.asarray(self._selection.positions, np.int64)
            rows = {name: self._reader.rows_of(name, positions) for name in self._selection.fields}
        return index_table(
            self._reader.shards,
            list(self._selection.fields),
            self._selection.positions,
            values,
            rows,
        )
