"""The index: where the bytes of every field of every sample lie.

All containers come to the same table, so everything above (dataset, loader, verify, convert) works on all of them.
Nothing here does I/O: the containers build a `ShardIndex` per shard, `sidecar` stores it, `Dataset` reads through it.

The table is kept in columns, as NumPy arrays that may be views of a mapped file. A field costs 20 bytes a sample
(offset, length, CRC-32); keys cost 16 bytes a sample beside their text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.errors import FormatError
from bushel.spec import Field

__all__ = [
    "INLINE",
    "MISSING",
    "Column",
    "ColumnBuilder",
    "FileStamp",
    "Fragments",
    "IndexBuilder",
    "Keys",
    "Segments",
    "ShardIndex",
]

INLINE = -1
"""File number of extents that lie in the index itself (`ShardIndex.inline`), not in a file of the shard."""

MISSING = -1
"""Length of a field that a sample does not have."""

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file of a shard as it was when the index was made: another size or time means that the index is stale.

    Attributes:
        name: Path relative to the folder of the shard, with `/`.
        size: Bytes.
        mtime_ns: Modification time in nanoseconds, 0 when the storage has none.
    """

    name: str
    size: int
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Fragments:
    """The few extents whose bytes are not contiguous in the file (RecordIO records that contain its magic word).

    Their extent in the column covers the raw bytes of the whole record. The container's `join` turns these into the
    record's payload, of which the field is a slice.

    Attributes:
        rows: int64[k], ascending: the rows of the column concerned.
        start: int64[k], where the field begins in the joined payload.
        length: int64[k], bytes of the field.
    """

    rows: I64
    start: I64
    length: I64


@dataclass(frozen=True, slots=True)
class Segments:
    """Where the segments of tiled JPEGs begin (docs/tiled-jpeg.md), so that a crop is read from a part of the bytes.

    Attributes:
        starts: int64[rows + 1]: row `i` owns the lengths `starts[i]` to `starts[i + 1]`; none where it is not tiled.
        lengths: uint32[total], bytes of what stands before the first segment, then of each with its marker.
    """

    starts: I64
    lengths: U32

    def of(self, row: int) -> I64:
        """Where the segments of a row begin, from its first byte, and where another one would; empty if not tiled."""
        return np.cumsum(self.lengths[self.starts[row] : self.starts[row + 1]], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """Where the values of one field lie in one shard.

    A plain field has one row per sample. A sequence field has one row per element, and sample `i` owns the rows
    `starts[i]` to `starts[i + 1]`.

    Attributes:
        field: The field as the spec has it.
        codec: Name of the codec of the *stored* bytes. It differs from `field.codec` where a container stores a
            logical type in its own way (`int` as decimal text in a tar).
        file: Number of the file in `ShardIndex.files`, or `INLINE`.
        offset: int64[rows], bytes from the start of the file.
        length: int64[rows], bytes; `MISSING` where the sample lacks the field.
        crc32: uint32[rows] of the field's bytes (CRC-32 as in zlib), or None when not known.
        starts: int64[samples + 1] for a sequence field, else None.
        absent: bool[samples] for a sequence field that some samples lack altogether, else None.
        fragments: The rows that are stored in pieces, or None.
        segments: Of tiled JPEGs, or None when not known.
    """

    field: Field
    codec: str
    file: int
    offset: I64
    length: I64
    crc32: U32 | None = None
    starts: I64 | None = None
    absent: npt.NDArray[np.bool_] | None = None
    fragments: Fragments | None = None
    segments: Segments | None = None

    @property
    def rows(self) -> int:
        """Number of extents."""
        return len(self.offset)

    @property
    def nbytes(self) -> int:
        """Stored bytes of all values."""
        return int(np.maximum(self.length, 0).sum())

    def rows_of(self, samples: I64) -> tuple[I64, I64]:
        """The rows that hold the elements of these samples, one after another.

        Returns:
            rows: int64[total].
            counts: int64[len(samples)], number of elements of each sample.
        """
        if self.starts is None:
            return samples, np.ones(len(samples), np.int64)
        first = self.starts[samples]
        counts = self.starts[samples + 1] - first
        ends = np.cumsum(counts)
        rows = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        return rows + np.repeat(first - (ends - counts), counts), counts


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one shard, and a table to find them without a dict.

    Attributes:
        text: uint8[total], the keys' UTF-8 one after another.
        offsets: int64[samples + 1] into `text`.
        hashes: uint64[samples], ascending hashes of the keys (`kernels.hash_keys`).
        order: int64[samples], the sample that each hash belongs to; equal hashes in ascending order of samples.
    """

    text: U8
    offsets: I64
    hashes: U64
    order: I64

    @classmethod
    def build(cls, text: U8, offsets: I64) -> Keys:
        """Make the lookup table for keys given as text and offsets."""
        hashes = kernels.hash_keys(text, offsets)
        order = np.argsort(hashes, kind="stable").astype(np.int64)
        return cls(text, offsets, hashes[order], order)

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """Make the table of a few keys given as strings."""
        encoded = [key.encode("utf-8", "surrogateescape") for key in keys]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(key) for key in encoded], out=offsets[1:])
        return cls.build(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sample: int) -> str:
        return bytes(self.text[self.offsets[sample] : self.offsets[sample + 1]]).decode("utf-8", "surrogateescape")

    def take(self, samples: I64) -> list[str]:
        """The keys of these samples."""
        return kernels.decode_keys(self.text, self.offsets, samples)

    def duplicates(self) -> list[str]:
        """The keys that more than one sample has, each once."""
        same = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        if not len(same):
            return []
        seen: set[str] = set()
        found = []
        for key in self.take(np.unique(np.concatenate([self.order[same], self.order[same + 1]]))):
            if key in seen:
                found.append(key)
            seen.add(key)
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The table of one shard.

    Attributes:
        samples: Number of samples.
        files: The files that the shard consists of; columns refer to them by number.
        columns: One per field, in the spec's order.
        keys: The keys, or None when a sample's key is its position in the dataset.
        inline: uint8[total], bytes of extents in no file (the meta of a pickled gulp), or None.
        container: Name of the container, which knows how to join fragments.
    """

    samples: int
    files: tuple[FileStamp, ...]
    columns: Mapping[str, Column]
    container: str
    keys: Keys | None = None
    inline: U8 | None = None

    def check(self, path: str) -> ShardIndex:
        """Refuse a table whose extents cannot lie in its files, so that nothing above needs to ask again.

        Args:
            path: Name for error messages.

        Raises:
            FormatError: An array has the wrong length, or an extent lies outside its file.
        """
        if self.keys is not None and len(self.keys) != self.samples:
            raise FormatError(f"{len(self.keys)} keys for {self.samples} samples", file=path)
        for name, column in self.columns.items():
            if column.starts is None:
                if column.rows != self.samples:
                    raise FormatError(f"field {name!r}: {column.rows} extents for {self.samples} samples", file=path)
            elif (
                len(column.starts) != self.samples + 1
                or column.starts[0] != 0
                or int(column.starts[-1]) != column.rows
                or np.any(column.starts[1:] < column.starts[:-1])
            ):
                raise FormatError(f"field {name!r}: the borders of its sequences are not in order", file=path)
            limit = len(self.inline) if column.file == INLINE and self.inline is not None else 0
            if column.file != INLINE:
                limit = self.files[column.file].size
            length = np.maximum(column.length, 0)
            bad = (column.length < MISSING) | (column.offset < 0) | (length > limit) | (column.offset > limit - length)
            bad &= column.length != MISSING
            if bad.any():
                row = int(bad.argmax())
                where = path if column.file == INLINE else self.files[column.file].name
                raise FormatError(
                    f"field {name!r}, row {row}: {int(column.length[row])} bytes do not fit into {limit} bytes",
                    file=where,
                    offset=int(column.offset[row]),
                    hint="the file was cut or its table is damaged: run `bushel verify` on it",
                )
        return self

    def select(self, names: Sequence[str]) -> ShardIndex:
        """The same shard with only these fields."""
        return replace(self, columns={name: self.columns[name] for name in names if name in self.columns})


class ColumnBuilder:
    """A column under construction: one row at a time, compact, and able to forget its last rows."""

    __slots__ = ("absent", "codec", "crc32", "field", "file", "length", "offset", "starts")

    def __init__(self, field: Field, codec: str, file: int) -> None:
        self.field, self.codec, self.file = field, codec, file
        self.offset, self.length, self.crc32 = array("q"), array("q"), array("I")
        self.starts = array("q", [0]) if field.sequence else None
        self.absent = array("b") if field.sequence else None

    def add(self, offset: int, length: int, crc32: int) -> None:
        """Add one extent: the field's value, or the next element of its list."""
        self.offset.append(offset)
        self.length.append(length)
        self.crc32.append(crc32)

    def close_sample(self, samples: int) -> None:
        """Complete sample number `samples`: what it has not got is missing, what was added is its list."""
        if self.starts is not None and self.absent is not None:
            if len(self.absent) <= samples:
                self.absent.append(0)
            self.starts.append(len(self.offset))
        elif len(self.offset) <= samples:
            self.add(0, MISSING, 0)

    def mark_absent(self) -> None:
        """Say that the sample being added lacks this sequence field (which an empty list does not)."""
        if self.absent is not None:
            self.absent.append(1)

    def truncate(self, samples: int) -> None:
        """Forget everything behind the first `samples` samples."""
        rows = samples if self.starts is None else self.starts[samples]
        for values in (self.offset, self.length, self.crc32):
            del values[rows:]
        if self.starts is not None and self.absent is not None:
            del self.starts[samples + 1 :], self.absent[samples:]

    def load(self, column: Column) -> None:
        """Take over the rows of a finished column."""
        self.offset.frombytes(column.offset.tobytes())
        self.length.frombytes(column.length.tobytes())
        self.crc32.frombytes((np.zeros(column.rows, np.uint32) if column.crc32 is None else column.crc32).tobytes())
        if self.starts is not None and self.absent is not None and column.starts is not None:
            self.starts.frombytes(column.starts[1:].tobytes())
            samples = len(column.starts) - 1
            absent = np.zeros(samples, np.bool_) if column.absent is None else column.absent
            self.absent.frombytes(absent.astype(np.int8).tobytes())

    def miss(self, samples: int) -> None:
        """Add samples that lack this field."""
        for sample in range(samples):
            self.mark_absent()
            self.close_sample(sample)

    def since(self, samples: int) -> dict[str, bytes]:
        """What was added behind the first `samples` samples, for `extend`."""
        rows = samples if self.starts is None else self.starts[samples]
        parts = {"offset": self.offset[rows:], "length": self.length[rows:], "crc32": self.crc32[rows:]}
        if self.starts is not None and self.absent is not None:
            parts |= {"starts": self.starts[samples + 1 :], "absent": self.absent[samples:]}
        return {name: part.tobytes() for name, part in parts.items()}

    def extend(self, parts: Mapping[str, bytes]) -> None:
        """Add what `since` gave."""
        for name, part in parts.items():
            getattr(self, name).frombytes(part)

    def build(self) -> Column:
        """The finished column."""
        absent = None if self.absent is None else np.array(self.absent, np.bool_)
        return Column(
            self.field,
            self.codec,
            self.file,
            np.array(self.offset, np.int64),
            np.array(self.length, np.int64),
            np.array(self.crc32, np.uint32),
            None if self.starts is None else np.array(self.starts, np.int64),
            absent if absent is not None and absent.any() else None,
        )


class IndexBuilder:
    """Collects the table of a shard while the shard is being written.

    Attributes:
        container: Name of the container.
        columns: One builder per field.
        samples: Complete samples so far.
        fragments: Rows stored in pieces, per field: (row, start, length).
    """

    def __init__(self, container: str, columns: Iterable[ColumnBuilder], *, keyed: bool) -> None:
        self.container = container
        self.columns = {column.field.name: column for column in columns}
        self.samples = 0
        self.fragments: dict[str, list[tuple[int, int, int]]] = {}
        self._text = bytearray()
        self._ends = array("q", [0]) if keyed else None

    @property
    def keyed(self) -> bool:
        """Whether samples carry keys of their own."""
        return self._ends is not None

    def key_text(self, first: int, last: int) -> tuple[bytes, array[int]]:
        """The UTF-8 of the keys of samples `first` to `last`, and their end offsets relative to `first`."""
        if self._ends is None:
            return b"", array("q")
        start = self._ends[first]
        ends = array("q", [end - start for end in self._ends[first + 1 : last + 1]])
        return bytes(self._text[start : self._ends[last]]), ends

    def close_sample(self, key: str | None) -> None:
        """Complete a sample whose extents have been added to the columns."""
        for column in self.columns.values():
            column.close_sample(self.samples)
        if self._ends is not None:
            self._text += (key or "").encode("utf-8", "surrogateescape")
            self._ends.append(len(self._text))
        self.samples += 1

    def truncate(self, samples: int) -> None:
        """Forget everything behind the first `samples` samples, half-added extents too."""
        for name, column in self.columns.items():
            column.truncate(samples)
            self.fragments[name] = [row for row in self.fragments.get(name, ()) if row[0] < len(column.offset)]
        if self._ends is not None:
            del self._ends[samples + 1 :]
            del self._text[self._ends[samples] :]
        self.samples = samples

    def load(self, index: ShardIndex) -> None:
        """Take over the rows of a finished table, whose columns must have checksums."""
        for name, builder in self.columns.items():
            if (column := index.columns.get(name)) is None:
                builder.miss(index.samples)
            else:
                builder.load(column)
                if (pieces := column.fragments) is not None:
                    rows = zip(pieces.rows.tolist(), pieces.start.tolist(), pieces.length.tolist(), strict=True)
                    self.fragments[name] = list(rows)
        if self._ends is not None and index.keys is not None:
            self._text += index.keys.text.tobytes()
            self._ends.frombytes(index.keys.offsets[1:].tobytes())
        self.samples = index.samples

    def since(self, samples: int) -> dict[str, Any]:
        """What was added behind the first `samples` samples, as values that msgpack can hold."""
        text, ends = self.key_text(samples, self.samples)
        return {
            "samples": self.samples,
            "columns": {name: column.since(samples) for name, column in self.columns.items()},
            "fragments": self.fragments,
            "text": text,
            "ends": ends.tobytes(),
        }

    def extend(self, part: Mapping[str, Any]) -> None:
        """Add what `since` gave."""
        for name, column in part["columns"].items():
            self.columns[name].extend(column)
        self.fragments = {name: [(a, b, c) for a, b, c in rows] for name, rows in part["fragments"].items()}
        if self._ends is not None:
            start = len(self._text)
            self._ends.extend(start + end for end in array("q", part["ends"]))
            self._text += part["text"]
        self.samples = part["samples"]

    def build(self, files: Sequence[FileStamp], inline: bytes | None = None) -> ShardIndex:
        """The finished table of the shard, whose files are now these."""
        columns = {}
        for name, builder in self.columns.items():
            column = builder.build()
            if rows := self.fragments.get(name):
                column = replace(
                    column, fragments=Fragments(*(np.array(part, np.int64) for part in zip(*rows, strict=True)))
                )
            columns[name] = column
        keys = None
        if self._ends is not None:
            keys = Keys.build(np.frombuffer(bytes(self._text), np.uint8), np.array(self._ends, np.int64))
        data = None if inline is None else np.frombuffer(inline, np.uint8)
        return ShardIndex(self.samples, tuple(files), columns, self.container, keys, data)
