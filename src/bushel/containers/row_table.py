"""The table of a file of rows and columns, which grows column by column, for Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bushel._index.class_names import Labels
from bushel._index.columns import Column
from bushel._index.table import MISSING, FieldExtents
from bushel._runtime.arrays import joined
from bushel.spec import Field
from bushel.storage import Blocks


class RowTable:
    """The table of a file.

    Attributes:
        fields: The extents so far. File 0 is the file itself, 1 the block file of values in the table, others follow.
        columns: The values of scalars.
        labels: Names of classes.
    """

    __slots__ = ("_blocks", "_held", "_size", "columns", "fields", "labels")

    def __init__(self) -> None:
        self.fields: dict[str, FieldExtents] = {}
        self.columns: dict[str, Column] = {}
        self.labels: Labels = {}
        self._blocks: list[Blocks] = []
        self._held: list[bytes] = []
        self._size = 0

    def add_blocks(self, blocks: Blocks) -> int:
        """Add a block file, and return its number among the files."""
        self._blocks.append(blocks)
        return 1 + len(self._blocks)

    def put_numbers(self, own: Field, values: npt.NDArray[np.generic], null: npt.NDArray[np.bool_]) -> None:
        """Add a field of numbers or truth values, which the table holds, and its column.

        Args:
            own: The field.
            values: The numbers.
            null: bool[rows], those that are missing and 0.
        """
        missing = null if null.any() else None
        kind = values.dtype.kind
        if kind == "u":
            values = values.astype("<u8")
            stored, column = "u64", Column("uint", values.astype(np.uint64), missing)
            if not len(values) or int(values.max()) < 1 << 63:
                column = Column("int", values.astype(np.int64), missing)
        elif kind == "f":
            values = values.astype("<f4") if values.dtype.itemsize < 4 else values
            stored = "f32" if values.dtype.itemsize == 4 else "float"
            column = Column("float", values.astype(np.float64), missing)
        else:
            values = values.astype("<i8")
            stored, column = "i64", Column("int", values.astype(np.int64), missing)
        width = values.dtype.itemsize
        offset = self.hold(values.tobytes()) + np.arange(len(values), dtype=np.int64) * width
        self.put(own, stored, 1, offset, np.where(null, -1, width).astype(np.int64))
        self.columns[own.name] = column

    def put_values(self, name: str, values: Sequence[bytes | None]) -> None:
        """Add a field of JSON, which the table holds; None is a missing value."""
        data, ends = joined([value or b"" for value in values])
        length = np.where([value is None for value in values], MISSING, np.diff(ends))
        self.put(Field(name, "json"), "json", 1, self.hold(data.tobytes()) + ends[:-1], length)

    def hold(self, data: bytes) -> int:
        """Keep bytes in the table, and return their position."""
        start, self._size = self._size, self._size + len(data)
        self._held.append(data)
        return start

    def put(
        self,
        own: Field,
        stored: str,
        file: int,
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64] | None = None,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add a field, with the arguments of `FieldExtents`."""
        some = absent if absent is not None and absent.any() else None
        if starts is not None:
            length = np.maximum(length, 0)  # a null among the elements is an empty one
        self.fields[own.name] = FieldExtents(own, stored, file, offset, length, None, starts, some)

    def blocks(self) -> tuple[Blocks, ...]:
        """Return the block files: first the values in the table, then the compressed pages."""
        return Blocks.in_table(np.frombuffer(b"".join(self._held), np.uint8)), *self._blocks
