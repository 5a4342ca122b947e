"""Pack a source of columns without an object per sample, where single samples need no work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._pack.sample_encoder import BadItem, EncodedSample, Item, SampleEncoder, encoded_bytes
from bushel._runtime.structs import Struct
from bushel._writer.column_writer import ColumnWriter
from bushel.codecs import get_codec
from bushel.codecs.registry import NUMBERS
from bushel.errors import CodecError, SpecError
from bushel.sources.base import Columnar

_SCALARS = frozenset({"utf8", *NUMBERS})
"""Codecs of values that take less time to encode than to pass to another thread."""
_CHUNK_BYTES = 8 << 20
_CHUNK_SAMPLES = 1 << 16
_FIRST_SAMPLES = 64


class WrittenSamples(Struct, frozen=True):
    """Samples that are written."""

    samples: int
    size: int  # their stored bytes


class ColumnReader(Struct, frozen=True):
    """Reads columns of a source as `Writer.extend` takes them."""

    source: Columnar
    listed: frozenset[str]
    keyed: bool

    def read(
        self, positions: npt.NDArray[np.int64]
    ) -> tuple[Mapping[str, Any], Sequence[str] | None]:
        """Return the samples at these positions, and their keys or None."""
        columns, keys = self.source.columns(positions)
        plain = {
            name: column.tolist()
            if name in self.listed and isinstance(column, np.ndarray)
            else column
            for name, column in columns.items()
        }
        return plain, keys if self.keyed else None


def column_reader(encoder: SampleEncoder) -> ColumnReader | None:
    """Return a reader of the source's columns; None if samples have to be changed, checked or encoded in parallel."""
    source = encoder.source
    if (
        not isinstance(source, Columnar)
        or encoder.exif_rotate
        or encoder.check
        or encoder.rewriting
    ):
        return None
    if encoder.steps or encoder.given.keys() != encoder.fields.keys():
        return None
    listed = set()
    for name, field in encoder.fields.items():
        of_source, codec = encoder.given[name], encoder.codecs[name]
        if field.sequence or (of_source != codec and "bytes" in (of_source, codec)):
            return None
        if get_codec(codec).encode_column is None:
            if codec not in _SCALARS:
                return None
            listed.add(name)
    return ColumnReader(source, frozenset(listed), encoder.keyed)


def write_columns(
    reader: ColumnReader,
    writer: ColumnWriter,
    encode: Callable[[Sequence[Item]], list[EncodedSample | BadItem]],
    take: Callable[[int, int], npt.NDArray[np.int64]],
    items: range,
) -> Generator[list[WrittenSamples | EncodedSample | BadItem]]:
    """Write samples as columns. Where that fails, yield them to be written one by one, which finds the bad ones."""
    count, at = _FIRST_SAMPLES, items.start
    while at < items.stop:
        positions = take(at, min(at + count, items.stop))
        before = len(writer)
        rest: list[EncodedSample | BadItem] = []
        try:
            _, written, size = writer.write_columns(*reader.read(positions))
        except (SpecError, CodecError, ValueError, TypeError):
            written = len(writer) - before
            rest = encode(positions.tolist())
            size = encoded_bytes(rest[:written])
        yield [WrittenSamples(written, size), *rest[written:]]
        at += len(positions)
        size += encoded_bytes(rest[written:])
        count = min(max(len(positions) * _CHUNK_BYTES // max(size, 1), 1), _CHUNK_SAMPLES)
