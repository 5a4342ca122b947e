"""The table of a Parquet file or of some of its row groups, which grows column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.containers.by_pyarrow import as_json
from bushel.containers.features import Feature
from bushel.containers.growing import GrowingArrays
from bushel.containers.parquet.footer import Footer
from bushel.containers.parquet.pages import OtherEncoding
from bushel.containers.parquet.schema import BYTE_ARRAYS, UNSIGNED, Node, dtype_of, element_of
from bushel.containers.parquet.types import is_decoded
from bushel.containers.parquet.values import scalars_of, scan_lists, scan_places
from bushel.containers.row_table import RowTable
from bushel.errors import FormatError, needed_by
from bushel.spec import Field, Spec
from bushel.storage import File, Seekable


class Table(RowTable):
    """The table of a file, or of some of its row groups. Its columns are complete after `finish`."""

    __slots__ = ("_arrays", "_scanned", "features", "first", "footer")

    def __init__(
        self,
        file: File,
        footer: Footer,
        features: Mapping[str, Feature],
        declared: Spec | None,
        first: int = 0,
    ) -> None:
        super().__init__(file, declared)
        self.footer, self.features, self.first = footer, features, first
        self._arrays = GrowingArrays()
        self._scanned: list[Callable[[Mapping[str, npt.NDArray[Any]]], None]] = []

    def add(self, node: Node, own: Field) -> None:
        """Add a field, whose type is known.

        Raises:
            FilterError, ValueError: Its pages are damaged.
        """
        feature = self.features.get(node.name, Feature())
        if feature.names:
            self.labels = {**self.labels, node.name: feature.names}
        leaf, group = element_of(node)
        if leaf is None or is_decoded(node, own):
            self.put_values(node.name, self.decoded(node.name))
            return
        try:
            if leaf.physical in BYTE_ARRAYS and dtype_of(leaf) is None:
                self._add_bytes(own, leaf, group)
            elif group is not None:
                self._add_lists(own, leaf, group)
            else:
                self._add_scalars(own, leaf)
        except OtherEncoding:
            self.put_values(node.name, self.decoded(node.name))

    def finish(self) -> None:
        """Put the fields that were added in place, in the order of the schema."""
        arrays = self._arrays.finish()
        for put in self._scanned:
            put(arrays)
        self.fields = {node.name: self.fields[node.name] for node in self.footer.fields}

    def _add_bytes(self, field: Field, leaf: Node, group: Node | None) -> None:
        scanned = scan_places(self.file, self.footer, leaf, group, self._arrays, field.name)
        number = 0 if scanned.blocks is None else self.add_blocks(scanned.blocks)

        def put(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
            places = scanned.within(arrays)
            self.put(
                field,
                field.codec,
                number,
                places.offset,
                places.length,
                places.starts,
                places.absent,
            )

        self._scanned.append(put)

    def _add_lists(self, field: Field, leaf: Node, group: Node) -> None:
        scanned = scan_lists(self.file, self.footer, leaf, group, self._arrays, field.name)
        dtype = np.dtype(dtype_of(leaf))
        name = leaf.time or (f"u{dtype.name}" if leaf.converted in UNSIGNED else dtype.name)
        tensor = self.features.get(field.name, Feature()).tensor
        stored = f"array({name},-1)" if tensor is None else tensor.codecs(name)[1]
        number = self.add_blocks(scanned.blocks)
        self._scanned.append(
            lambda arrays: self.put(field, stored, number, *scanned.within(arrays))
        )

    def _add_scalars(self, field: Field, leaf: Node) -> None:
        values, null = scalars_of(self.file, self.footer, leaf)
        if leaf.converted in UNSIGNED:
            values = values.view(f"<u{values.dtype.itemsize}")
        self.put_numbers(field, values, null)

    def decoded(self, name: str) -> list[bytes | None]:
        """Return the values of a column as JSON: see `decoded`. For a run of rows, its row group is read whole."""
        groups = self.footer.groups
        values = decoded(self.file, name, range(self.first, self.first + len(groups)))
        first = groups[0].first if groups else 0
        return values[first : first + self.footer.rows]


def check_pyarrow(file: File, name: str) -> None:
    """Check that pyarrow, which decodes a column, is installed. Raise MissingPackageError if it is not."""
    with needed_by(
        f"{file.path}: column {name!r}, which is nested or has an unusual encoding,",
        "bushel[arrow]",
    ):
        import pyarrow.parquet  # noqa: F401 - to be there


def decoded(file: File, name: str, groups: Sequence[int]) -> list[bytes | None]:
    """Return the values of a column in some row groups as JSON (`as_json`); None for a null.

    Raises:
        MissingPackageError: pyarrow is not installed.
        FormatError: pyarrow cannot read the column, or its values take more than 256 MiB.
    """
    check_pyarrow(file, name)
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(Seekable(file)) as opened:
            batches = opened.iter_batches(batch_size=1024, row_groups=list(groups), columns=[name])
            return as_json((batch.column(0) for batch in batches), name, file.path)
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"column {name!r}: {error}", file=file.path) from error
