"""The features of `tf.train.Example`s as fields: bytes and lists of numbers as extents, single numbers as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bushel._index.columns import Column
from bushel._runtime.arrays import I64, U8, offsets_of
from bushel.containers.first_bytes import codec_of_first_bytes
from bushel.containers.plain_table import PlainField
from bushel.errors import FormatError, SpecError
from bushel.kernels import TfrecordScanner
from bushel.spec import Field, parse_spec
from bushel.storage import IN_TABLE, Blocks, File

_BYTES, _FLOAT, _INT = 1, 2, 3
_FLOATS, _INTS = "array(float32,-1)", "array(int64,-1)"
_MOST_EMPTY = 1 << 24
_SPARSE = 64
_MOST_FEATURES = 10_000


class Feature(NamedTuple):
    """A feature of Examples, as `TfrecordScanner.features` has it."""

    name: str
    kind: int
    record: I64
    counts: I64
    offset: I64
    length: I64
    first: I64
    value_offset: I64
    value_length: I64


def features_of(scan: TfrecordScanner, file: File) -> dict[str, Feature]:
    """Return the features that a scan has found, by name. Raise FormatError if a name cannot be the name of a field."""
    found = {}
    for each in scan.features:
        try:
            name = each[0].decode()
            parse_spec({name: "bytes"})
        except (UnicodeDecodeError, SpecError) as error:
            raise FormatError(f"a feature cannot be a field: {error}", file=file.path) from error
        found[name] = Feature(name, *each[1:])
    return found


def check_density(features: Mapping[str, Feature], samples: int, file: File) -> None:
    """Refuse a table that would be much larger than the file, as each feature has a row for each record.

    Raises:
        FormatError: Nearly all records lack nearly all features.
    """
    if len(features) > _MOST_FEATURES:
        raise FormatError(
            f"its records have {len(features)} different features, and Bushel reads {_MOST_FEATURES} at most",
            file=file.path,
            hint="bushel.open(…, spec={'data': 'bytes'}) reads records as they are",
        )
    values = sum(len(each.record) for each in features.values())
    if samples * len(features) > _SPARSE * values + _MOST_EMPTY:
        raise FormatError(
            f"{samples} records have {len(features)} features, but only {values} values: too few for a table",
            file=file.path,
            hint="bushel.open(…, spec={'data': 'bytes'}) reads records as they are",
        )


class FeatureTable:
    """The fields of a file, which are added one by one."""

    def __init__(self, file: File, number: int, blocks: list[Blocks]) -> None:
        self.file, self.number, self.blocks = file, number, blocks
        self.fields: dict[str, PlainField] = {}
        self.columns: dict[str, Column] = {}
        self._numbers: list[I64] = []
        self._copied: list[str] = []

    def add(self, feature: Feature, samples: int, declared: Field | None) -> None:
        """Add a feature. Raise SpecError if it cannot be read as the type that the caller declares."""
        most = int(feature.counts.max(initial=0))
        if feature.kind == _BYTES:
            self._add_bytes(feature, samples, declared, most)
        elif most > 1 or (declared is not None and declared.codec not in ("int", "float", "f32")):
            self._add_lists(feature, samples, declared, most)
        else:
            self._add_scalars(feature, samples, declared)

    def _add_bytes(self, feature: Feature, samples: int, declared: Field | None, most: int) -> None:
        many = most > 1 if declared is None else declared.sequence
        if most > 1 and not many:
            raise _unsuitable(feature, declared, f"a record has {most} values of it, so it is a sequence")
        known = declared or codec_of_first_bytes(self.file, feature.value_offset, feature.value_length)
        codec = known if isinstance(known, str) else known.codec
        absent = np.ones(samples, np.bool_)
        absent[feature.record] = False
        if many:
            counts = _dense(feature.record, feature.counts, samples, 0)
            starts = offsets_of(counts)
            place = PlainField(f"{codec}[]", feature.value_offset, feature.value_length, starts, None, self.number)
            self.fields[feature.name] = place._replace(absent=absent)
            return
        record = feature.record[feature.counts == 1]
        offset = _dense(record, feature.value_offset, samples, 0)
        length = _dense(record, feature.value_length, samples, -1)
        self.fields[feature.name] = PlainField(codec, offset, length, file=self.number)

    def _add_lists(self, feature: Feature, samples: int, declared: Field | None, most: int) -> None:
        default, stored = (_FLOATS, None) if feature.kind == _FLOAT else (_INTS, "varints")
        kind = default if declared is None else declared.type
        if not kind.startswith("array(float32") if feature.kind == _FLOAT else kind != _INTS:
            wanted = "array(float32,…)" if feature.kind == _FLOAT else f"{_INTS!r}"
            raise _unsuitable(feature, declared, f"it has up to {most} numbers a record, so it is {wanted}")
        offset = _dense(feature.record, feature.offset, samples, 0)
        length = _dense(feature.record, feature.length, samples, -1)
        if (offset < 0).any():
            self._copied.append(feature.name)
        self.fields[feature.name] = PlainField(kind, offset, length, file=self.number, codec=stored)

    def _add_scalars(self, feature: Feature, samples: int, declared: Field | None) -> None:
        there = feature.counts == 1
        record = feature.record[there]
        missing = np.ones(samples, np.bool_)
        missing[record] = False
        values = _dense(record, feature.first[there], samples, 0)
        none = missing if missing.any() else None
        if declared is not None and (declared.sequence or (declared.codec == "int") != (feature.kind == _INT)):
            raise _unsuitable(feature, declared, f"it is {'an int' if feature.kind == _INT else 'a float'}")
        if feature.kind == _FLOAT:
            offset = _dense(record, feature.offset[there], samples, 0)
            kind = "float" if declared is None else declared.codec
            place = PlainField(kind, offset, np.where(missing, -1, 4), file=self.number, codec="f32")
            if (offset < 0).any():
                self._copied.append(feature.name)
            numbers = values.astype("<u4").view("<f4").astype(np.float64)
            self.columns[feature.name] = Column("float", numbers, none)
        else:
            start = 8 * samples * len(self._numbers)
            self._numbers.append(values)
            offset = start + 8 * np.arange(samples, dtype=np.int64)
            place = PlainField("int", offset, np.where(missing, -1, 8), file=-1, codec="i64")
            self.columns[feature.name] = Column("int", values, none)
        self.fields[feature.name] = place

    def finished(self, scan: TfrecordScanner) -> tuple[Blocks, ...]:
        """Return all block files, also the numbers that the table holds. No field is added afterwards."""
        if self._copied:
            self.blocks.append(_with_held(self.file, self.blocks[0] if self.blocks else None, scan.held))
            for name in self._copied:
                place = self.fields[name]
                offset = np.asarray(place.offset, np.int64)
                moved = np.where(offset < 0, self.file.size - 1 - offset, offset)
                self.fields[name] = place._replace(offset=moved, file=len(self.blocks))
        if self._numbers:
            data = np.concatenate([each.astype("<i8") for each in self._numbers]).view(np.uint8)
            self.blocks.append(Blocks.in_table(data))
            for name, place in self.fields.items():
                if place.file < 0:
                    self.fields[name] = place._replace(file=len(self.blocks))
        return tuple(self.blocks)


def _dense(record: I64, values: I64, samples: int, otherwise: int) -> I64:
    """Return int64[samples], with a value for each record that has one."""
    found = np.full(samples, otherwise, np.int64)
    found[record] = values
    return found


def _unsuitable(feature: Feature, declared: Field | None, what: str) -> SpecError:
    shown = "by default" if declared is None else f"as {declared.type!r}"
    return SpecError(f"feature {feature.name!r} cannot be read {shown}: {what}")


def _with_held(file: File, blocks: Blocks | None, held: U8) -> Blocks:
    """Return a block file of the bytes of a file, followed by bytes that the table holds."""
    if blocks is None:
        one, zero = np.array([file.size], np.int64), np.zeros(1, np.int64)
        blocks = Blocks(np.append(zero, one), np.zeros(1, np.int32), zero, one, np.zeros(1, np.uint8), ("stored",))
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
        np.array(held),
    )
