"""Parquet files, read where they lie: a row is a sample, and a column a field.

Byte arrays are extents of the file, or of blocks where pages are compressed. Lists of numbers are extents of blocks.
Scalars are columns of the table. What has no extents (nested values, rarer encodings) is decoded by pyarrow and kept in
the table. docs/format-parquet.md says what becomes what.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bushel._index.class_names import Labels
from bushel._index.columns import Column
from bushel._index.table import FieldExtents, FileStamp, ShardIndex
from bushel.containers.base import ReadOptions, Shard
from bushel.containers.parquet.by_pyarrow import decoded
from bushel.containers.parquet.features import Feature, codec_of_bytes, features_of
from bushel.containers.parquet.footer import Footer, Node, read_footer
from bushel.containers.parquet.leaves import DTYPES, OtherEncoding, lists_of, places_of, scalars_of
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.spec import Field
from bushel.storage import IN_TABLE, AnyPath, Blocks, File, open_file

__all__ = ["CONTAINER"]

_HINT = "the file is damaged: write or download it again"
_SPLIT = re.compile(r"(?P<split>.+)-[0-9]{5}-of-[0-9]{5}.*\.parquet", re.DOTALL)
_BYTE_ARRAYS = (6, 7)
_STRINGS = (0, 4)
"""Converted types UTF8 and ENUM."""
_STRING_TYPE, _LIST_TYPE, _ENUM_TYPE = 1, 3, 4
_UNSIGNED = (11, 12, 13, 14)
"""Converted types UINT_8 to UINT_64."""


class _Parquet:
    name = "parquet"
    suffixes = (".parquet",)
    file_names = ("data",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file: the one that is named, or those of a folder or of its folder `data`."""
        if path.name.endswith(self.suffixes):
            return [Shard(path.parent, path.name, (path.name,))] if path.is_file() else None
        for folder, before in ((path, ""), (path / "data", "data/")):
            names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
            own = [name for name in names if name.endswith(self.suffixes) and not name.startswith(".")]
            if own:
                _check_one_split(own, str(folder))
                return [Shard(path, before + name, (before + name,)) for name in own]
        return None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file. Pages are read for their lengths and levels."""
        file = open_file(shard.path(0))
        footer = read_footer(file)
        made = _Table(file, footer, features_of(footer, file.path))
        for node in footer.fields:
            try:
                made.add(node)
            except (FilterError, ValueError) as error:
                message = f"column {node.name!r}: {error}"
                raise FormatError(message, file=file.path, offset=_offset_of(node, footer), hint=_HINT) from error
        stamp = FileStamp(shard.files[0], file.size, file.mtime_ns)
        index = ShardIndex(
            footer.rows,
            (stamp,),
            made.fields,
            self.name,
            labels=made.labels,
            columns=made.columns,
            blocks=made.blocks(),
        )
        return index.check(file.path)


CONTAINER = _Parquet()


def _check_one_split(names: list[str], folder: str) -> None:
    splits = sorted({match["split"] for name in names if (match := _SPLIT.fullmatch(name))})
    if len(splits) > 1:
        raise FormatError(
            f"the folder has several splits: {', '.join(splits)}",
            file=folder,
            hint=f"name one of them: bushel.open({folder + '/' + splits[0] + '-*.parquet'!r})",
        )


def _offset_of(node: Node, footer: Footer) -> int | None:
    leaf = next(node.leaves(), None)
    return footer.groups[0].chunks[leaf.leaf].offset if leaf is not None and footer.groups else None


@dataclass(slots=True)
class _Table:
    """The table of a file, which grows field by field.

    Attributes:
        file: The file.
        footer: Its footer.
        features: What Hugging Face's metadata says of columns.
        fields: The extents so far. File 0 is the file itself, 1 the block file of values in the table, others follow.
        columns: The values of scalars.
        labels: Names of classes.
    """

    file: File
    footer: Footer
    features: Mapping[str, Feature]
    fields: dict[str, FieldExtents] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    _blocks: list[Blocks] = field(default_factory=list)
    _held: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, node: Node) -> None:
        """Add a field.

        Raises:
            FilterError, ValueError: Its pages are damaged.
        """
        feature = self.features.get(node.name, Feature())
        if feature.names:
            self.labels = {**self.labels, node.name: feature.names}
        leaf, group = _element_of(node)
        if leaf is None:
            self._add_values(node.name, decoded(self.file, node.name))
            return
        try:
            if leaf.physical in _BYTE_ARRAYS:
                self._add_bytes(node, leaf, group, feature)
            elif group is not None:
                self._add_lists(node, leaf, group)
            else:
                self._add_scalars(node, leaf)
        except OtherEncoding:
            self._add_values(node.name, decoded(self.file, node.name))

    def _add_bytes(self, node: Node, leaf: Node, group: Node | None, feature: Feature) -> None:
        places = places_of(self.file, self.footer, leaf, group)
        number = 0
        if places.blocks is not None:
            self._blocks.append(places.blocks)
            number = 1 + len(self._blocks)
        text = leaf.converted in _STRINGS or leaf.logical in (_STRING_TYPE, _ENUM_TYPE)
        codec = "utf8" if text else feature.codec or codec_of_bytes(self.file, places)
        self._put(node.name, codec, codec, number, places.offset, places.length, places.starts, places.absent)

    def _add_lists(self, node: Node, leaf: Node, group: Node) -> None:
        if leaf.physical not in DTYPES:
            raise OtherEncoding
        lists = lists_of(self.file, self.footer, leaf, group)
        self._blocks.append(lists.blocks)
        dtype = np.dtype(DTYPES[leaf.physical])
        name = f"u{dtype.name}" if leaf.converted in _UNSIGNED else dtype.name
        self._put(node.name, "array", f"array({name},-1)", 1 + len(self._blocks), lists.offset, lists.length)

    def _add_scalars(self, node: Node, leaf: Node) -> None:
        values, null = scalars_of(self.file, self.footer, leaf)
        missing = null if null.any() else None
        kind = values.dtype.kind
        if leaf.converted in _UNSIGNED:
            values = values.view(f"<u{values.dtype.itemsize}").astype("<u8")
            stored, column = ("uint", "u64"), Column("uint", values.astype(np.uint64), missing)
            if not len(values) or int(values.max()) < 1 << 63:
                column = Column("int", values.astype(np.int64), missing)
        elif kind == "f":
            stored = ("float", "f32" if values.dtype.itemsize == 4 else "float")
            column = Column("float", values.astype(np.float64), missing)
        else:
            values = values.astype("<i8")
            stored, column = ("int", "i64"), Column("int", values.astype(np.int64), missing)
        width = values.dtype.itemsize
        offset = self._hold(values.tobytes()) + np.arange(len(values), dtype=np.int64) * width
        self._put(node.name, *stored, 1, offset, np.where(null, -1, width).astype(np.int64))
        self.columns[node.name] = column

    def _add_values(self, name: str, values: list[bytes | None]) -> None:
        """Add values that pyarrow has decoded, as JSON."""
        length = np.array([-1 if value is None else len(value) for value in values], np.int64)
        ends = np.cumsum(np.maximum(length, 0))
        offset = self._hold(b"".join(value or b"" for value in values)) + ends - np.maximum(length, 0)
        self._put(name, "json", "json", 1, offset, length)

    def _hold(self, data: bytes) -> int:
        """Keep bytes in the table, and return their position."""
        start, self._size = self._size, self._size + len(data)
        self._held.append(data)
        return start

    def _put(
        self,
        name: str,
        kind: str,
        stored: str,
        file: int,
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64] | None = None,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        own = Field(name, kind, starts is not None)
        some = absent if absent is not None and absent.any() else None
        if starts is not None:
            length = np.maximum(length, 0)  # a null among the elements is an empty one
        self.fields[name] = FieldExtents(own, stored, file, offset, length, None, starts, some)

    def blocks(self) -> tuple[Blocks, ...]:
        """Return the block files: that of the values in the table, then those of compressed pages."""
        held = np.frombuffer(b"".join(self._held), np.uint8)
        start = np.array([0, len(held)], np.int64)
        one, zero = np.zeros(1, np.int64), np.zeros(1, np.uint8)
        inside = Blocks(start, np.full(1, IN_TABLE, np.int32), one, start[1:], zero, ("stored",), None, held)
        return inside, *self._blocks


def _element_of(node: Node) -> tuple[Node | None, Node | None]:
    """Return the leaf whose values are those of a field, and the list that it is the element of, if it is one.

    The leaf of a struct of bytes and path is that of the bytes. None stands for other nested values.
    """
    if (leaf := _value_of(node)) is not None:
        return leaf, None
    is_list = node.converted == _LIST_TYPE or node.logical == _LIST_TYPE
    if is_list and len(node.children) == 1 and node.children[0].repeats == 1 and node.repeats == 0:
        repeated = node.children[0]
        element = repeated.children[0] if len(repeated.children) == 1 else repeated
        return _value_of(element, repeats=1), node
    return None, None


def _value_of(node: Node, repeats: int = 0) -> Node | None:
    if node.repeats != repeats:
        return None
    if node.physical is not None:
        return node
    names = {child.name: child for child in node.children}
    if names.keys() == {"bytes", "path"} and names["bytes"].physical == 6 and names["bytes"].repeats == repeats:
        return names["bytes"]
    return None
