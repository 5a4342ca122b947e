"""The scan of a TFRecord file from front to back, and the features of `tf.train.Example`s as fields.

Bytes and numbers are extents, single numbers are columns, too. Arrays that are made here go to a
temporary file if they are large, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from msgspec.structs import replace

from bushel._index.columns import Column
from bushel._index.table import FieldExtents
from bushel._kinds import IMAGES
from bushel._runtime.arrays import I64, NO_NUMBERS, U8, Bools, GrowingArrays
from bushel._runtime.system import keep_freed_memory
from bushel.codecs import get_codec
from bushel.containers.base import Report
from bushel.containers.features import codec_of_first_bytes
from bushel.containers.plain_table import PlainField
from bushel.errors import CodecError, FormatError, SpecError
from bushel.kernels import TfrecordScanner
from bushel.spec import KEY, Field, parse_spec
from bushel.storage import IN_TABLE, Blocks, File

BYTES, FLOATS, INTEGERS = 1, 2, 3
"""The kinds of features."""

SCALARS: Mapping[int, tuple[Literal["int", "float"], str]] = {
    INTEGERS: ("int", "varint"),
    FLOATS: ("float", "f32"),
}
"""The kind of a column of single numbers, and the codec of the stored bytes."""

LISTS = {FLOATS: "array(float32,-1)", INTEGERS: "array(int64,-1)"}
"""The types of lists of numbers."""

AS_THEY_ARE = "bushel.open(…, spec={'data': 'bytes'}) reads records as they are"
"""The hint of errors about features."""

OF_ANY_LENGTH = ("int", "uint")
"""The codecs that read bytes of any length as a number."""

_SHOWN = 20  # bytes of a value that an error shows
_LOOKED_AT = 100  # values that are compared with a declared type when a file is opened
_MEDIA = {*IMAGES, "image", "jpeg", "audio", "wav", "flac", "mp3", "mp4", "frames", "pil", "pickle"}
_MOST_EMPTY = 1 << 24
_SPARSE = 64
_MOST_FEATURES = 10_000


STEP = 1 << 16
"""Rows that are processed together, so that a large file takes little memory."""

_WINDOW = 4 << 20
_ROWS = 1 << 17  # of the scanner, which are then given to the arrays
_DAMAGED = (
    "the file is damaged, or its writer was stopped: "
    "`bushel verify` names the records, or write it again"
)
_PLACES = ("record", "counts", "offset", "length", "first", "value_offset", "value_length")


class Feature(NamedTuple):
    """A feature of Examples.

    An offset of `-1 - n` stands for position `n` of the copied bytes.
    """

    name: bytes
    kind: int  # 1 bytes, 2 floats, 3 integers
    most: int  # values of the record that has most of them
    copied: bool  # whether values of a record were copied
    rows: int  # number of records that have the feature
    record: I64 | None  # int64[rows], which records these are; None if all have it
    # of bytes: int64[rows], values of each of these records; None if each has one
    counts: I64 | None
    offset: I64  # of numbers: int64[rows], where the packed values are
    length: I64  # of numbers: int64[rows], bytes of the packed values
    first: I64  # of numbers: int64[rows], the first value (the bits of a float)
    value_offset: I64  # of bytes: int64[values], where each value is
    value_length: I64  # of bytes: int64[values], bytes of each value


class Records(NamedTuple):
    """The records of a file, whose arrays are in a temporary file if they are large."""

    offset: I64  # int64[records], where the data of each record are
    length: I64  # int64[records], bytes of data
    copied: U8  # lists of numbers that are not in one piece in the file
    features: tuple[Feature, ...]  # in order of appearance; none if a record is not an Example


def scanned(file: File, scanner: TfrecordScanner, report: Report) -> Records:
    """Scan a whole file.

    Raises:
        FormatError: A record is truncated, or its length does not have its checksum.
        OSError: The temporary file cannot be written.
    """
    keep_freed_memory()
    rows = GrowingArrays()

    def take(share: float) -> None:
        offset, length, _, copied, features = scanner.take()
        pieces: dict[str, np.ndarray] = {"offset": offset, "length": length, "copied": copied}
        for number, *places in features:
            for name, piece in zip(_PLACES, places, strict=True):
                pieces[f"{number} {name}"] = piece
        rows.extend(pieces, share)

    for at in ends_of_windows(file, scanner, report):
        if scanner.rows >= _ROWS:
            take(at / file.size)
    take(1)
    arrays, features = rows.finish(), []
    samples = len(arrays["offset"])
    for number, description in enumerate(scanner.features if scanner.other < 0 else ()):
        record, counts, *places = (arrays[f"{number} {name}"] for name in _PLACES)
        features.append(
            Feature(
                *description,
                len(record),
                record if len(record) < samples else None,
                counts if (counts != 1).any() else None,
                *places,
            )
        )
    return Records(arrays["offset"], arrays["length"], arrays["copied"], tuple(features))


def ends_of_windows(file: File, scanner: TfrecordScanner, report: Report) -> Iterator[int]:
    """Feed a whole file, and yield the end of the last record that was read, again and again.

    Raises:
        FormatError: A record is truncated, or its length does not have its checksum.
    """
    at, window = 0, _WINDOW
    while at < file.size:
        used = scanner.feed(file.read(at, min(window, file.size - at)))
        report(used)
        at += used
        if used:
            yield at
        number = f"record after byte {at}" if at else "first record"
        if scanner.problem is not None:
            raise FormatError(f"{scanner.problem} ({number})", file.path, at, _DAMAGED)
        if used:
            window = _WINDOW
            continue
        if at + scanner.need > file.size:
            raise FormatError(
                f"the {number} needs {scanner.need} bytes, but {file.size - at} are left",
                file.path,
                at,
                _DAMAGED,
            )
        window = max(_WINDOW, scanner.need)


def field_name(name: bytes, file: File) -> str:
    """Return the name of a feature as the name of a field. Raise FormatError if it cannot be one."""
    try:
        text = name.decode()
        if text != KEY:
            parse_spec({text: "bytes"})
    except (UnicodeDecodeError, SpecError) as error:
        raise FormatError(
            f"the feature {name!r} cannot be a field: {error}", file.path, hint=AS_THEY_ARE
        ) from error
    return text


def declared_type(name: str, kind: int, spec: Mapping[str, Field]) -> Field | None:
    """Return the type that the caller declares for a feature, or that of keys; None for the usual type."""
    if name == KEY and kind == BYTES:
        return Field(KEY, "utf8")
    return spec.get(name)


def type_of_numbers(kind: int, declared: Field | None, *, several: bool) -> tuple[str, str]:
    """Return the codec of the numbers of a feature, and that of their stored bytes.

    Other types that the caller declares are converted from these when values are read.

    Args:
        kind: `FLOATS` or `INTEGERS`.
        declared: The type that the caller declares, or None.
        several: Whether a record has several numbers.
    """
    declared_type = "" if declared is None else declared.type
    if several or declared_type.startswith("array"):
        if kind == INTEGERS:
            return LISTS[kind], "varints"
        codec = declared_type if declared_type.startswith("array(float32") else LISTS[kind]
        return codec, codec
    codec, stored = SCALARS[kind]
    return ("f32" if (declared_type, kind) == ("f32", FLOATS) else codec), stored


def check_first_values(file: File, declared: Field, column: FieldExtents) -> None:
    """Refuse a type that the first values do not have; the others are compared when they are read.

    Raises:
        SpecError: A value is of another type.
    """
    if declared.base_codec in _MEDIA:  # decoding these takes long
        return

    decode = get_codec(declared.codec).decode
    for row in np.flatnonzero(column.length[:_LOOKED_AT] >= 0).tolist():
        value = bytes(file.read(int(column.offset[row]), int(column.length[row])))
        try:
            decode(value)
        except CodecError as error:
            raise SpecError(
                f"{file.path}: feature {declared.name!r} cannot be read "
                f"as {declared.type!r}: value {row} is {value[:_SHOWN]!r}"
            ) from error


def is_sparse(features: int, samples: int, values: int) -> bool:
    """Return whether nearly all records lack nearly all features, so that a table would be far larger than the file."""
    return samples * features > _SPARSE * values + _MOST_EMPTY


def check_density(features: Mapping[str, Feature], samples: int, file: File) -> None:
    """Refuse a table that would be much larger than the file, as each feature has a row for each record.

    Raises:
        FormatError: Nearly all records lack nearly all features.
    """
    values = sum(feature.rows for feature in features.values())
    if len(features) > _MOST_FEATURES:
        what = (
            f"its records have {len(features)} different "
            f"features, and Bushel reads {_MOST_FEATURES} at most"
        )
    elif is_sparse(len(features), samples, values):
        what = (
            f"{samples} records have {len(features)} features, "
            f"but only {values} values: too few for a table"
        )
    else:
        return
    raise FormatError(what, file.path, hint=AS_THEY_ARE)


def _chosen(record: I64 | None, chosen: Bools) -> I64 | None:
    """Return some of the records that have a feature; None if these are all records."""
    if chosen.all():
        return record
    return np.flatnonzero(chosen) if record is None else record[chosen]


class FeatureTable:
    """The fields of a file, which are added one by one.

    Args:
        file: The file of the records.
        blocks: Its blocks, if it is compressed.
        samples: Number of samples.
    """

    def __init__(self, file: File, blocks: list[Blocks], samples: int) -> None:
        self.file, self.number, self.blocks, self.samples = file, len(blocks), blocks, samples
        self.fields: dict[str, PlainField] = {}
        self.columns: dict[str, Column] = {}
        self._arrays = GrowingArrays()
        self._copied: list[str] = []

    def add(self, name: str, feature: Feature, declared: Field | None) -> None:
        """Add a feature with the declared type, or with its own one if numbers have to be converted afterwards.

        Raises:
            SpecError: A record has several values of a feature that is declared to have one.
        """
        if feature.kind == BYTES:
            self._add_bytes(name, feature, declared)
            return
        codec, stored = type_of_numbers(feature.kind, declared, several=feature.most > 1)
        if not codec.startswith("array"):
            self._add_scalars(name, feature)
        elif feature.record is not None or feature.copied:
            self._spread_places(name, feature.record, feature.offset, feature.length)
        if feature.copied:
            self._copied.append(name)
        places = feature.offset, feature.length
        self.fields[name] = PlainField(codec, *places, file=self.number, codec=stored)

    def _add_bytes(self, name: str, feature: Feature, declared: Field | None) -> None:
        many = feature.most > 1 if declared is None else declared.sequence
        if declared is not None and feature.most > 1 and not many:
            raise SpecError(
                f"{self.file.path}: feature {name!r} cannot be read as {declared.type!r}: a record "
                f"has {feature.most} values of it. Declare the sequence {declared.type + '[]'!r}"
            )
        if declared is not None and declared.codec in OF_ANY_LENGTH:
            self._refuse_integers(name, feature, declared)
        places = feature.value_offset, feature.value_length
        if declared is None:
            codec = codec_of_first_bytes(self.file, *places)
        else:
            codec = declared.codec
        place = PlainField(codec, *places, file=self.number)
        if many:
            self._add_starts(name, feature)
            place = place._replace(type=f"{codec}[]", starts=NO_NUMBERS)
        elif feature.record is not None or feature.counts is not None:
            record = feature.record
            if feature.counts is not None:
                record = _chosen(record, feature.counts == 1)
            self._spread_places(name, record, *places)
        self.fields[name] = place

    def _refuse_integers(self, name: str, feature: Feature, declared: Field) -> NoReturn:
        """Refuse bytes as integers of any length: decimal text would be read as the bits of a number."""
        first = b""
        if len(feature.value_offset):
            length = min(int(feature.value_length[0]), _SHOWN)
            first = self.file.read(int(feature.value_offset[0]), length)
        raise SpecError(
            f"{self.file.path}: feature {name!r} has bytes, the first ones "
            f"{first!r}, which {declared.type!r} may mean in two ways: 'cls' reads "
            "decimal text, and 'i64', 'i32' or 'u8' the bits of numbers of that size"
        )

    def _add_starts(self, name: str, feature: Feature) -> None:
        """Add how many values are before each sample, and which samples have no sequence."""
        before = np.zeros(1, np.int64)
        self._append("starts", name, [before])
        counts: I64 | int = 1 if feature.counts is None else feature.counts
        for counts_of_step in self._steps(feature.record, counts, 0):
            ends = before[-1] + np.cumsum(counts_of_step)
            self._append("starts", name, [ends])
            before = ends
        if feature.record is not None:
            self._append("absent", name, self._steps(feature.record, False, True))

    def _add_scalars(self, name: str, feature: Feature) -> None:
        """Add single numbers, which are a column, too."""
        chosen = feature.length > 0
        record = _chosen(feature.record, chosen)
        offset, length, first = feature.offset, feature.length, feature.first
        if not chosen.all():
            offset, length, first = offset[chosen], length[chosen], first[chosen]
        if record is not None:
            self._append("missing", name, self._steps(record, False, True))
        self._spread_places(name, record, offset, length)
        numbers: Iterable[np.ndarray] = self._steps(record, first, 0)
        if feature.kind == FLOATS:
            numbers = (bits.astype("<u4").view("<f4").astype(np.float64) for bits in numbers)
        self._append("values", name, numbers)
        self.columns[name] = Column(SCALARS[feature.kind][0], NO_NUMBERS)

    def _steps(self, record: I64 | None, values: I64 | int, otherwise: int) -> Iterator[np.ndarray]:
        """Yield, some samples at a time, the values of those that have a feature, and another one for the rest."""
        for first in range(0, self.samples, STEP):
            stop = min(first + STEP, self.samples)
            rows: slice = slice(first, stop)
            at: slice | I64 = slice(None)
            if record is not None:
                rows = slice(*record.searchsorted((first, stop)).tolist())
                at = record[rows] - first
            numbers = np.full(stop - first, otherwise)
            numbers[at] = values if isinstance(values, int) else values[rows]
            yield numbers

    def _spread_places(self, name: str, record: I64 | None, offset: I64, length: I64) -> None:
        """Add the offset and the length of a value for each sample."""
        self._append("offset", name, self._steps(record, offset, 0))
        self._append("length", name, self._steps(record, length, -1))

    def _append(self, what: str, name: str, pieces: Iterable[np.ndarray]) -> None:
        """Add elements to an array of a field, which replaces the array that the field has so far."""
        for piece in pieces:
            self._arrays.append(f"{what} {name}", piece)

    def finished(self, copied: U8) -> tuple[Blocks, ...]:
        """Return all block files, also the copied numbers. No field is added afterwards."""
        arrays = self._arrays.finish()
        if self._copied:
            whole = Blocks.of(np.zeros(1, np.int64), np.array([self.file.size], np.int64))
            self.blocks.append(_with_held([*self.blocks, whole][0], copied))
        for name in self._copied:  # the copied bytes come after the file
            offset = arrays[f"offset {name}"]
            np.subtract(self.file.size - 1, offset, out=offset, where=offset < 0)
        for name, place in self.fields.items():
            self.fields[name] = place._replace(
                offset=arrays.get(f"offset {name}", place.offset),
                length=arrays.get(f"length {name}", place.length),
                starts=arrays.get(f"starts {name}", place.starts),
                absent=arrays.get(f"absent {name}"),
                file=len(self.blocks) if name in self._copied else place.file,
            )
        for name, column in self.columns.items():
            missing = arrays.get(f"missing {name}")
            self.columns[name] = replace(column, values=arrays[f"values {name}"], missing=missing)
        return tuple(self.blocks)


def _with_held(blocks: Blocks, held: U8) -> Blocks:
    """Return a block file of some blocks, followed by bytes that the table holds."""
    side = blocks.side
    if side is not None:
        side = type(side)(np.append(side.offsets, side.offsets[-1]), side.data)
    return Blocks(
        np.append(blocks.start, blocks.size + len(held)),
        np.append(blocks.file, np.int32(IN_TABLE)),
        np.append(blocks.offset, 0),
        np.append(blocks.length, len(held)),
        np.append(blocks.filter, np.uint8(len(blocks.filters))),
        (*blocks.filters, "stored"),
        side,
        held,
    )
