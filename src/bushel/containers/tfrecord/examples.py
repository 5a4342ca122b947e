"""Usual Examples: each feature has at most one value of bytes, or its numbers in one piece.

Their extents and numbers are kept in blocks of lines (docs/index.md).
A file with other records, or with types that the caller declares and the values do not have, is
left to `scan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bushel._index.columns import Column
from bushel._index.line_arrays import Lines
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import U8
from bushel._runtime.system import keep_freed_memory
from bushel.containers.base import Report
from bushel.containers.first_bytes import codec_of_first_bytes
from bushel.containers.growing import GrowingArrays
from bushel.containers.line_values import Kind, missing_values
from bushel.containers.read_forward import forward_reader
from bushel.containers.tfrecord.features import (
    BYTES,
    FLOATS,
    INTEGERS,
    LISTS,
    OF_ANY_LENGTH,
    declared_type,
    field_name,
    is_sparse,
)
from bushel.kernels import ExampleScanner
from bushel.spec import Field
from bushel.storage import File

_MANY = 1 << Kind.NESTED
_EMPTY = 1 << Kind.BARE


@dataclass(frozen=True, slots=True)
class Examples:
    """The table of a file of usual Examples."""

    samples: int
    fields: dict[str, FieldExtents]
    columns: dict[str, Column]


def usual_examples(
    file: File, real: File, spec: Mapping[str, Field], report: Report | None
) -> Examples | None:
    """Scan a whole file. Return None if it has other records, or fields that these types do not suit.

    Args:
        file: The file of the records.
        real: The same, or the compressed file.
        spec: The types that the caller declares.
        report: Called with the number of bytes read, and with their negative sum before None is
            returned.

    Raises:
        FormatError: A name cannot be the name of a field, or the compressed data are damaged.
        OSError: The temporary file cannot be written.
    """
    scan = _Scan(file, real, report)
    try:
        lines = scan.lines()
        if lines is None:
            examples = None
        else:
            examples = _table(file, scan.scanner, lines, spec, int(file is not real))
    except BaseException:
        scan.arrays.close()
        raise
    if examples is None:
        scan.arrays.close()
        if report is not None and scan.reported:
            report(-scan.reported)
    return examples


class _Scan:
    """A scan whose blocks go to a temporary file."""

    def __init__(self, file: File, real: File, report: Report | None) -> None:
        self.scanner, self.arrays, self.reported = ExampleScanner(), GrowingArrays(), 0
        self._file, self._real, self._report = file, real, report
        self._samples, self._bytes = 0, 0

    def lines(self) -> Lines | None:
        """Return the blocks of all records, or None for unusual ones."""
        keep_freed_memory()
        scanner, size, at = self.scanner, self._file.size, 0
        read, chunk = forward_reader(self._file, self._real)
        window = chunk
        while at < size:
            data = memoryview(read(at, min(window, size - at)))
            used = scanner.feed(data, at)
            while scanner.full and not scanner.unusual:
                self._take(at + used)
                used += scanner.feed(data[used:], at + used)
            sparse = is_sparse(len(scanner.features), self._samples + scanner.rows, scanner.values)
            if scanner.unusual or sparse or (not used and at + scanner.need > size):
                return None
            at, window = at + used, chunk if used else max(chunk, scanner.need)
            if self._report is not None:
                self._report(used)
                self.reported += used
        self._take(size)
        self._end()
        arrays = self.arrays.finish()
        if scanner.features:
            return Lines(arrays["data"], arrays["at"], arrays["first"], str(self._file.path))
        return None

    def _take(self, at: int) -> None:
        """Store the block of the samples that end at a byte."""
        if rows := self.scanner.rows:
            share = at / self._file.size
            # while a block is added, the share of the blocks before it
            self.arrays.share = self.arrays.share or share
            self._end()
            block: U8 = self.scanner.take()
            self.arrays.append("data", block)
            self.arrays.share = share
            self._samples, self._bytes = self._samples + rows, self._bytes + len(block)

    def _end(self) -> None:
        """Store where the next block begins."""
        for name, value in (("at", self._bytes), ("first", self._samples)):
            self.arrays.append(name, np.array([value], np.int64))


def _table(
    file: File, scanner: ExampleScanner, lines: Lines, spec: Mapping[str, Field], number: int
) -> Examples | None:
    examples = Examples(lines.blocks.samples, {}, {})
    for place, (encoded, kind, kinds) in enumerate(scanner.features):
        name = field_name(encoded, file)
        declared, extents = declared_type(name, kind, spec), lines.extents(place, quotes=False)
        if kind == BYTES:
            if declared is None:
                codec = codec_of_first_bytes(file, *extents)
            else:
                codec = declared.codec
            stored = codec
            suits = declared is None or not (declared.sequence or codec in OF_ANY_LENGTH)
        elif kinds & _MANY or (
            declared is not None and declared.codec not in ("int", "float", "f32")
        ):
            codec = LISTS[kind] if declared is None else declared.type
            if kind == FLOATS:
                suits = codec.startswith("array(float32")
            else:
                suits = codec == LISTS[INTEGERS]
            stored = codec if kind == FLOATS else "varints"
        else:
            if kind == INTEGERS:
                codec, stored = "int", "varint"
            else:
                codec, stored = "float", "f32"
            suits = not kinds & _EMPTY
            if declared is not None:
                codec = declared.codec
                suits = suits and not declared.sequence and (codec == "int") == (kind == INTEGERS)
            missing = missing_values(lines, place, kinds)
            of: Literal["int", "float"] = "int" if kind == INTEGERS else "float"
            examples.columns[name] = Column(of, lines.numbers(place, of), missing)
        if not suits:
            return None
        examples.fields[name] = FieldExtents(
            declared or Field(name, codec), stored, number, *extents
        )
    return Examples(
        examples.samples,
        dict(sorted(examples.fields.items())),
        dict(sorted(examples.columns.items())),
    )
