"""The table of a Parquet file or of some of its row groups, which grows column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bushel._index.class_names import Labels
from bushel._index.columns import Column
from bushel._index.table import FieldExtents
from bushel.containers.parquet.by_pyarrow import decoded
from bushel.containers.parquet.features import Feature
from bushel.containers.parquet.footer import Footer, Node
from bushel.containers.parquet.leaves import DTYPES, OtherEncoding, lists_of, places_of, scalars_of
from bushel.containers.parquet.types import BYTE_ARRAYS, UNSIGNED, element_of
from bushel.spec import Field
from bushel.storage import IN_TABLE, Blocks, File

__all__ = ["Table"]


@dataclass(slots=True)
class Table:
    """The table of a file, or of some of its row groups.

    Attributes:
        file: The file.
        footer: Its footer, with those row groups.
        features: What Hugging Face's metadata says of columns.
        first: Number of the first row group in the file.
        fields: The extents so far. File 0 is the file itself, 1 the block file of values in the table, others follow.
        columns: The values of scalars.
        labels: Names of classes.
    """

    file: File
    footer: Footer
    features: Mapping[str, Feature]
    first: int = 0
    fields: dict[str, FieldExtents] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    _blocks: list[Blocks] = field(default_factory=list)
    _held: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, node: Node, own: Field) -> None:
        """Add a field, whose type is known.

        Raises:
            FilterError, ValueError: Its pages are damaged.
        """
        feature = self.features.get(node.name, Feature())
        if feature.names:
            self.labels = {**self.labels, node.name: feature.names}
        leaf, group = element_of(node)
        if leaf is None or own.codec == "json":
            self._add_values(node.name)
            return
        try:
            if leaf.physical in BYTE_ARRAYS:
                self._add_bytes(own, leaf, group)
            elif group is not None:
                self._add_lists(own, leaf, group)
            else:
                self._add_scalars(own, leaf)
        except OtherEncoding:
            self._add_values(node.name)

    def _add_bytes(self, own: Field, leaf: Node, group: Node | None) -> None:
        places = places_of(self.file, self.footer, leaf, group)
        number = 0
        if places.blocks is not None:
            self._blocks.append(places.blocks)
            number = 1 + len(self._blocks)
        self._put(own, own.codec, number, places.offset, places.length, places.starts, places.absent)

    def _add_lists(self, own: Field, leaf: Node, group: Node) -> None:
        lists = lists_of(self.file, self.footer, leaf, group)
        self._blocks.append(lists.blocks)
        dtype = np.dtype(DTYPES[leaf.physical or 0])
        name = f"u{dtype.name}" if leaf.converted in UNSIGNED else dtype.name
        self._put(own, f"array({name},-1)", 1 + len(self._blocks), lists.offset, lists.length)

    def _add_scalars(self, own: Field, leaf: Node) -> None:
        values, null = scalars_of(self.file, self.footer, leaf)
        missing = null if null.any() else None
        kind = values.dtype.kind
        if leaf.converted in UNSIGNED:
            values = values.view(f"<u{values.dtype.itemsize}").astype("<u8")
            stored, column = "u64", Column("uint", values.astype(np.uint64), missing)
            if not len(values) or int(values.max()) < 1 << 63:
                column = Column("int", values.astype(np.int64), missing)
        elif kind == "f":
            stored = "f32" if values.dtype.itemsize == 4 else "float"
            column = Column("float", values.astype(np.float64), missing)
        else:
            values = values.astype("<i8")
            stored, column = "i64", Column("int", values.astype(np.int64), missing)
        width = values.dtype.itemsize
        offset = self._hold(values.tobytes()) + np.arange(len(values), dtype=np.int64) * width
        self._put(own, stored, 1, offset, np.where(null, -1, width).astype(np.int64))
        self.columns[own.name] = column

    def _add_values(self, name: str) -> None:
        """Add values that pyarrow decodes, as JSON."""
        values = decoded(self.file, name, range(self.first, self.first + len(self.footer.groups)))
        length = np.array([-1 if value is None else len(value) for value in values], np.int64)
        ends = np.cumsum(np.maximum(length, 0))
        offset = self._hold(b"".join(value or b"" for value in values)) + ends - np.maximum(length, 0)
        self._put(Field(name, "json"), "json", 1, offset, length)

    def _hold(self, data: bytes) -> int:
        """Keep bytes in the table, and return their position."""
        start, self._size = self._size, self._size + len(data)
        self._held.append(data)
        return start

    def _put(
        self,
        own: Field,
        stored: str,
        file: int,
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64] | None = None,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        some = absent if absent is not None and absent.any() else None
        if starts is not None:
            length = np.maximum(length, 0)  # a null among the elements is an empty one
        self.fields[own.name] = FieldExtents(own, stored, file, offset, length, None, starts, some)

    def blocks(self) -> tuple[Blocks, ...]:
        """Return the block files: that of the values in the table, then those of compressed pages."""
        held = np.frombuffer(b"".join(self._held), np.uint8)
        start = np.array([0, len(held)], np.int64)
        one, zero = np.zeros(1, np.int64), np.zeros(1, np.uint8)
        inside = Blocks(start, np.full(1, IN_TABLE, np.int32), one, start[1:], zero, ("stored",), None, held)
        return inside, *self._blocks
