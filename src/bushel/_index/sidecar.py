"""Sidecar files: the index and the manifest beside the data. `saving` writes them.

A shard's index is a safetensors file (https://github.com/huggingface/safetensors): a small JSON
header and named arrays. The arrays are mapped, not read, so opening takes the same time for ten
samples and for ten million. Nothing in it is ever executed. The header has the CRC-32 of the file.
A manifest lists the shards of a folder, so that the dataset can be opened without touching them.

Arrays of a sidecar: `__key__.text`, `__key__.offsets`, `__key__.hashes`, `__key__.order`, and for a
field `image`: `image.offset`, `image.length`, `image.crc32`, `image.starts`, `image.absent`,
`image.segment_starts`, `image.segment_lengths`, `image.seek_starts`, `image.seek_words`.
`clip_frames` lists the arrays of clips. Columns have `__column__.label.values` and others
(docs/columns.md). `block_arrays` lists the arrays of block files, `line_arrays` arrays of line
files.
"""

# Annotations are evaluated here: msgspec compiles those that are text, which took 0.4 ms of the
# first `bushel.open`.

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
from msgspec import Struct

from bushel.codecs.registry import from_file
from bushel.errors import FormatError, SpecError
from bushel.kernels import crc32, map_array
from bushel.spec import Field, Spec, parse_spec
from bushel.storage import AnyPath

from .headers import (
    CRC32_IS,
    DAMAGES,
    DTYPES,
    SEAL,
    VERSION,
    ZEROS,
    Arrays,
    Count,
    Digest,
    Header,
    HeaderColumn,
    HeaderField,
    LabelNames,
    PartOfRun,
)
from .names import check_labels
from .shard import FileStamp, Keys
from .table import FieldExtents, ShardIndex

if TYPE_CHECKING:
    from bushel.storage import Blocks

    from .columns import Column, Kind
    from .line_arrays import Lines

ALWAYS_CHECKED = 4 << 20
"""Files of up to this size in bytes are compared with their CRC-32 whenever they are mapped. It takes some 0.2 ms."""


_AT, _NO_LINES = "__lines__.at", "the index lacks its blocks of lines"

_WRITTEN_OUT = 1 << 16  # more equal lengths than these are one number in memory, too
_HINT = "delete it: the index will be built again"
_SEAL_BYTES = len(SEAL % 0)
_MEND_MANIFEST = (
    "restore it from a copy, or run `bushel index`, which "
    "lists the shards that are there as a complete dataset"
)


class ManifestShard(msgspec.Struct, frozen=True):
    """The entry of one shard in a manifest."""

    name: str  # the shard's name
    samples: Count
    files: list[tuple[str, int, int]]  # (name, size, mtime_ns) of its files
    checksums: bool  # whether its index has the CRC-32 of every field
    keyed: bool  # whether its samples have keys of their own
    stamps: list[int | None]  # the stamp of each file (`FileStamp.crc32`)
    digest: Digest  # the digest of its table (`bushel._index.identity`)

    @property
    def recorded(self) -> tuple[FileStamp, ...]:
        """The files as they were recorded."""
        return tuple(
            FileStamp(*file, stamp) for file, stamp in zip(self.files, self.stamps, strict=True)
        )


class Manifest(msgspec.Struct, frozen=True):
    """The shards of one dataset."""

    container: str  # name of the container
    spec: dict[str, str]  # field names to types
    codecs: dict[str, str]  # field names to the codecs of the stored bytes
    shards: list[ManifestShard]  # the shards in the dataset's order
    version: int = VERSION  # version of this file's layout
    complete: bool = True  # whether the writer of the dataset has finished
    # number of samples of the complete dataset, if it was known while it was written
    expected: int | None = None
    labels: Mapping[str, LabelNames] = {}  # field to the names of its classes
    # number of samples that the dataset had before those that are being appended to it, until that
    # has ended
    before: Count | msgspec.UnsetType = msgspec.UNSET
    part: PartOfRun | msgspec.UnsetType = msgspec.UNSET  # if the dataset is a part of a run


class _Arrays(Struct, frozen=True):
    """The arrays of an index."""

    path: str
    named: Arrays

    def get(self, name: str, dtype: type[np.generic], size: int | None = None) -> "np.ndarray":
        """Return the one-dimensional array of this name, dtype and size. None stands for any size.

        Raises:
            FormatError: The array does not exist.
        """
        array = self.named.get(name)
        if array is None:
            raise FormatError(f"array {name!r} is missing", self.path, hint=_HINT)
        if array.dtype != dtype or array.ndim != 1 or size not in (None, len(array)):
            actual = (
                f"{array.dtype}{list(array.shape)}, not "
                f"{np.dtype(dtype)}[{'n' if size is None else size}]"
            )
            raise FormatError(
                f"the arrays do not belong together: {name!r} is {actual}", self.path, hint=_HINT
            )
        return array

    def optional(
        self, name: str, dtype: type[np.generic], size: int | None = None
    ) -> "np.ndarray | None":
        """Return the array as `get` does, or None if no array has this name."""
        if name in self.named:
            return self.get(name, dtype, size)
        return None


# made at import: msgspec 0.22 prepares a Struct when it is first decoded, and crashes if two
# threads do that at once
_MANIFEST = msgspec.json.Decoder(Manifest)
_HEADER = msgspec.json.Decoder(Header)


def load_index(path: AnyPath, *, check: bool = False) -> ShardIndex:
    """Map a shard's index. Only the header is parsed and checked here; extents are checked when they are used.

    With `check`, a large file is compared with its CRC-32, too, which reads all of it.

    Raises:
        FileNotFoundError: The file does not exist.
        FormatError: The file is damaged, or its version is newer than this Bushel.
    """
    return decode_index(bytes_of(path), path, check=check)


def decode_index(data: memoryview, path: AnyPath, *, check: bool = False) -> ShardIndex:
    """Return the index with these bytes: see `load_index`. `path` is for messages."""
    try:
        text, named = parse_all(data)
        header = _HEADER.decode(text)
    except DAMAGES as error:
        raise _damaged(f"not an index: {error}", path) from error
    if header.version != VERSION:
        raise FormatError(
            f"version {header.version} of an index; this Bushel knows {VERSION}", path, hint=_HINT
        )
    if check or len(data) <= ALWAYS_CHECKED:
        _compare(data, header.crc32, path)
    arrays, samples = _Arrays(str(path), named), header.samples
    keys, files = _keys(arrays, samples), _files(header, path)
    if samples and keys is None and not header.fields:
        raise _damaged(f"the index has {samples} samples, but no field and no key", path)
    try:
        fields = _parse_fields(tuple((field.name, field.type) for field in header.fields))
        labels = header.labels and check_labels(header.labels)
    except SpecError as error:
        raise _damaged(f"not an index: {error}", path) from error
    lines: Lines | None = None
    if _AT in arrays.named:
        from .line_arrays import lines_of

        lines = lines_of(arrays.path, samples, arrays.get)
    columns = {
        entry.name: _column(arrays, entry, fields[entry.name], samples, lines)
        for entry in header.fields
    }
    filters = header.filters
    for entry in header.fields:
        if not 0 <= entry.file < len(files) + len(filters):
            message = (
                f"field {entry.name!r} refers to file {entry.file}, "
                f"but the index lists {len(files)} files"
            )
            raise _damaged(message, path)
    values = {entry.name: _values(arrays, entry, samples, lines) for entry in header.columns}
    blocks: tuple[Blocks, ...] = ()
    if filters:
        from .block_arrays import blocks_in

        sizes = [file.size for file in files]
        blocks = tuple(
            blocks_in(arrays, number, filters_of_file, sizes)
            for number, filters_of_file in enumerate(filters)
        )
    return ShardIndex(
        samples, files, columns, header.container, keys, labels, values, blocks, header.digest
    )


def _damaged(message: str, path: AnyPath | str) -> FormatError:
    return FormatError(message, path, 8, _HINT)


def _keys(arrays: _Arrays, samples: int) -> Keys | None:
    if "__key__.offsets" not in arrays.named:
        return None
    return Keys(
        arrays.get("__key__.text", np.uint8),
        arrays.get("__key__.offsets", np.int64, samples + 1),
        arrays.get("__key__.hashes", np.uint64, samples),
        arrays.get("__key__.order", np.uint32, samples),
    )


def _files(header: Header, path: AnyPath) -> tuple[FileStamp, ...]:
    stamps = header.stamps
    if len(stamps) != len(header.files):
        raise _damaged(f"the index has {len(stamps)} stamps for {len(header.files)} files", path)
    return tuple(FileStamp(*file, stamp) for file, stamp in zip(header.files, stamps, strict=True))


def _values(arrays: _Arrays, entry: HeaderColumn, samples: int, lines: "Lines | None") -> "Column":
    """Return a column. Only types and lengths are checked."""
    from .columns import NUMBERS, Column

    name = f"__column__.{entry.name}"
    missing = arrays.optional(f"{name}.missing", np.bool_, samples)
    types = arrays.optional(f"{name}.types", np.uint8, samples)
    if (dtype := NUMBERS.get(entry.kind)) is not None:
        if entry.lines is None or entry.kind not in ("int", "float"):
            values = arrays.get(f"{name}.values", dtype, samples)
        elif lines is None:
            raise _damaged(_NO_LINES, arrays.path)
        else:
            values = lines.numbers(entry.lines, entry.kind)
        return Column(cast("Kind", entry.kind), values, missing, types=types)
    if entry.kind != "text":
        message = (
            f"column {entry.name!r} is of the kind {entry.kind!r}, which this Bushel does not know"
        )
        raise _damaged(message, arrays.path)
    codes = arrays.optional(f"{name}.codes", np.uint32, samples)
    offsets = arrays.get(f"{name}.offsets", np.int64, samples + 1 if codes is None else None)
    if not len(offsets):
        raise _damaged(f"array '{name}.offsets' is empty", arrays.path)
    text = arrays.get(f"{name}.text", np.uint8)
    return Column("text", missing=missing, codes=codes, text=text, offsets=offsets, types=types)


def _column(
    arrays: _Arrays, entry: HeaderField, field: Field, samples: int, lines: "Lines | None"
) -> FieldExtents:
    name, starts, absent = entry.name, None, None
    rows = samples
    field = without_code(field)
    if entry.lines is not None:
        if lines is None:
            raise _damaged(_NO_LINES, arrays.path)
        extents = lines.extents(entry.lines, quotes=entry.quotes)
        crc32 = arrays.optional(f"{name}.crc32", np.uint32, rows)
        return FieldExtents(field, from_file(entry.codec), entry.file, *extents, crc32)
    if field.sequence:
        starts = arrays.get(f"{name}.starts", np.int64, samples + 1)
        rows = len(arrays.get(f"{name}.offset", np.int64))
        absent = arrays.optional(f"{name}.absent", np.bool_, samples)
    scans = {}
    if any(f"{name}.{scan}_starts" in arrays.named for scan in ("segment", "seek", "frame")):
        from .clip_frames import scans_in

        scans = scans_in(name, rows, arrays.named, arrays.get)
    return FieldExtents(
        field,
        from_file(entry.codec),
        entry.file,
        arrays.get(f"{name}.offset", np.int64, rows),
        _lengths(arrays, f"{name}.length", rows),
        arrays.optional(f"{name}.crc32", np.uint32, rows),
        starts,
        absent,
        **scans,
    )


def _lengths(arrays: _Arrays, name: str, rows: int) -> "np.ndarray":
    """Return the lengths of values. One number stands for lengths that are all equal."""
    lengths = arrays.get(name, np.int64)
    if len(lengths) != 1:
        return arrays.get(name, np.int64, rows)
    if rows <= _WRITTEN_OUT:
        return lengths.repeat(rows)
    return np.broadcast_to(lengths, rows)


def load_manifest(path: AnyPath) -> Manifest | None:
    """Return the manifest at a path, or None if the file does not exist.

    Raises:
        FormatError: The manifest is damaged, or its version is newer than this Bushel.
    """
    try:
        data = bytes_of(path)
    except FileNotFoundError:
        return None
    if data[-_SEAL_BYTES:] != SEAL % crc32(data[:-_SEAL_BYTES]):
        message = "the manifest is damaged: its bytes do not have the CRC-32 at its end"
        raise FormatError(message, path, hint=_MEND_MANIFEST)
    try:
        manifest = _MANIFEST.decode(data)
        if manifest.labels:
            check_labels(manifest.labels)
    except (ValueError, RecursionError, SpecError) as error:
        message = f"not a manifest: {error}"
        raise FormatError(message, path, hint=_MEND_MANIFEST) from error
    for entry in manifest.shards:
        stamps, files = len(entry.stamps), len(entry.files)
        if stamps != files:
            message = f"not a manifest: shard {entry.name!r} has {stamps} stamps for {files} files"
            raise FormatError(message, path, hint=_MEND_MANIFEST)
    if manifest.version != VERSION:
        raise FormatError(
            f"version {manifest.version} of a manifest; this Bushel knows {VERSION}", path
        )
    return manifest


def readable_manifest(path: AnyPath) -> Manifest | None:
    """Return the manifest at a path; None if it is missing or unreadable.

    Raises:
        FormatError: It is damaged: nobody knows whether its dataset is complete.
        OSError: An object store cannot be reached.
    """
    try:
        return load_manifest(path)
    except PermissionError:  # some buckets refuse what does not exist
        return None
    except OSError:
        if isinstance(path, Path):
            return None
        raise


def find_manifest(path: AnyPath) -> Manifest | None:
    """Return the manifest at a path; None if it is missing, unreadable or damaged.

    Raises:
        OSError: An object store cannot be reached.
    """
    try:
        return readable_manifest(path)
    except FormatError:
        return None


def without_code(field: Field) -> Field:
    """Return a field as a file may declare it: with `from_file` of its codec."""
    codec = from_file(field.codec)
    if codec == field.codec:
        return field
    return Field(field.name, codec, field.sequence)


def spec_from_file(spec: Mapping[str, str]) -> Spec:
    """Parse a spec from a file.

    Raises:
        SpecError: It is malformed.

    Examples:
        >>> from bushel._index.sidecar import spec_from_file
        >>> spec_from_file({"notes": "pickle[]"})["notes"].type
        'stored(pickle)[]'
    """
    fields = _parse_fields(tuple(spec.items()))
    return {name: without_code(field) for name, field in fields.items()}


@lru_cache(maxsize=64)
def _parse_fields(types: tuple[tuple[str, str], ...]) -> Spec:
    """Parse the fields in a file. Cached, since all shards of a dataset have the same."""
    return parse_spec(dict(types))


def bytes_of(path: AnyPath) -> memoryview:
    if not isinstance(path, Path):
        from bushel.storage import read_whole

        return memoryview(read_whole(path))
    return map_array(str(path)).data


def parse_all(data: memoryview) -> "tuple[str, Arrays]":
    """Return the text that describes a file, and all of its arrays, of any types and shapes.

    Raises:
        Exception: It is damaged: one of `DAMAGES`.
    """
    length = int.from_bytes(data[:8], "little")
    if not 8 <= length + 8 <= len(data):
        raise ValueError("the header is truncated")
    entries = msgspec.json.decode(data[8 : 8 + length])
    text: str = entries.pop("__metadata__")["bushel"]
    body = data[8 + length :]
    arrays: Arrays = {}
    for name, entry in entries.items():
        first, last = entry["data_offsets"]
        shape = [int(size) for size in entry["shape"]]
        if not 0 <= first <= last <= len(body) or min(shape, default=0) < 0:
            raise ValueError(f"array {name!r} has the bytes {first} to {last} of {len(body)}")
        arrays[name] = np.frombuffer(body[first:last], DTYPES[entry["dtype"]]).reshape(shape)
    return text, arrays


def _compare(data: memoryview, expected: str, path: AnyPath) -> None:
    """Compare a sidecar with the CRC-32 in its header."""
    header = bytes(data[: 8 + int.from_bytes(data[:8], "little")])
    digits = header.find(CRC32_IS) + len(CRC32_IS)
    actual = f"{crc32(data[digits + 8 :], crc32(header[:digits] + ZEROS.encode())):08x}"
    if actual != expected:
        message = f"the index is damaged: its CRC-32 is {actual}, where its header has {expected!r}"
        raise FormatError(message, path, digits, _HINT)
