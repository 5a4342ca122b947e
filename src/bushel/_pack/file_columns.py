"""Pack files that are stored as they are: a kernel reads many of them into one buffer, from which they are written."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from itertools import groupby
from typing import cast

import numpy as np

from bushel import kernels
from bushel._kinds import BEGINNINGS
from bushel._pack.columns import WrittenSamples
from bushel._pack.images import base_codec, image_kind
from bushel._pack.sample_encoder import BadItem, EncodedSample, Item, SampleEncoder, encoded_bytes
from bushel._runtime.parallel import parallel_map
from bushel._runtime.structs import Struct
from bushel._runtime.system import room_for
from bushel._writer.column_writer import ColumnWriter
from bushel.codecs import holds_image
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, SpecError
from bushel.sources.base import FileBacked

FILE_BATCH_BYTES = 3 << 20
"""Bytes of the files of a batch, on average."""
_ROOM = 4 << 20  # files of a batch that need more are read into another buffer


class ReadFiles(Struct, frozen=True):
    """Files that were read, as samples."""

    positions: Sequence[int]  # their positions in the source
    columns: dict[str, object]  # field to column, as `ColumnWriter.write_columns` takes them
    keys: Sequence[str] | None  # their keys, or None
    size: int  # bytes of the files


Results = list[ReadFiles | EncodedSample | BadItem]


class FileEncoder(Struct, frozen=True):
    """Reads files in batches. A file that the kernel cannot read, or that is not stored as it is, is encoded alone."""

    alone: SampleEncoder  # encodes samples one by one
    source: FileBacked
    field: str  # the field of the files
    # the kind of image that each file must be, `image` for any kind; None for any bytes
    kind: str | None

    def __call__(self, batch: Sequence[Item]) -> Results:
        """Read a batch."""
        positions = [item for item in batch if isinstance(item, int)]
        results: Results = []
        while positions:
            values = self._read(positions)
            fits = self._fit(values)
            for whole, rows in groupby(range(len(fits)), fits.__getitem__):
                numbers = list(rows)
                first, last = numbers[0], numbers[-1] + 1
                if whole:
                    results.append(self._samples(positions[first:last], values.rows(first, last)))
                else:
                    results += self.alone(positions[first:last])
            if not fits:
                results += self.alone(positions[:1])
            positions = positions[max(len(fits), 1) :]
        return results

    def _read(self, positions: Sequence[int]) -> StoredColumn:
        """Read the files at the beginning of a batch: as many as can be read, and as fit into the buffer."""
        folder, paths = self.source.paths(positions)
        room = room_for(_ROOM)
        return StoredColumn(room, *kernels.read_files(paths, room, folder=folder))

    def _fit(self, values: StoredColumn) -> list[bool]:
        """Return whether each file is stored as it is."""
        if self.kind is None:
            return [True] * len(values)
        fits = np.zeros(len(values), np.bool_)
        for magic in BEGINNINGS.get(self.kind, ()):
            fits[values.starting_with(magic)] = True
        for row in np.flatnonzero(~fits).tolist():
            kind = image_kind(values.data[values.offsets[row] : values.offsets[row + 1]].data)
            fits[row] = kind is not None and self.kind in ("image", kind)
        return cast("list[bool]", fits.tolist())

    def _samples(self, positions: Sequence[int], values: StoredColumn) -> ReadFiles:
        columns_beside, keys = self.source.without_files(positions)
        columns = {self.field: values, **columns_beside}
        return ReadFiles(
            positions, columns, keys if self.alone.keyed else None, len(values.content)
        )


def file_encoder(encoder: SampleEncoder) -> FileEncoder | None:
    """Return the encoder of the files of a source; None if some are not stored as they are, or are not local."""
    source = encoder.source
    if (
        not isinstance(source, FileBacked)
        or encoder.steps
        or encoder.exif_rotate
        or encoder.check
        or encoder.rewriting
    ):
        return None
    name = source.file_field
    if name is None or encoder.remote or encoder.given.keys() != encoder.fields.keys():
        return None
    of_source, codec = encoder.given[name], encoder.codecs[name]
    if holds_image(codec):
        return FileEncoder(encoder, source, name, base_codec(codec))
    return FileEncoder(encoder, source, name, None) if of_source == codec else None


def write_files(
    encoder: FileEncoder, writer: ColumnWriter, batches: Iterable[Sequence[Item]], threads: int
) -> Generator[Sequence[WrittenSamples | EncodedSample | BadItem]]:
    """Read files in threads, and write them. Other samples are yielded in their places, to be written one by one."""
    with closing(
        parallel_map(
            encoder,
            batches,
            threads=threads,
            limit=2 * threads + 2,
            draw_in_workers=True,
            name="bushel-pack",
        )
    ) as results:
        for batch in results:
            for result in batch:
                yield (
                    _written(encoder, writer, result) if isinstance(result, ReadFiles) else [result]
                )


def _written(
    encoder: FileEncoder, writer: ColumnWriter, files: ReadFiles
) -> Sequence[WrittenSamples | EncodedSample | BadItem]:
    """Write files. Where that fails, return samples to be written one by one, which finds the bad ones."""
    before = len(writer)
    try:
        writer.write_columns(files.columns, files.keys)
    except (SpecError, CodecError, ValueError, TypeError):
        written = len(writer) - before
        rest = encoder.alone(files.positions[written:])
        return [WrittenSamples(written, files.size - encoded_bytes(rest)), *rest]
    return [WrittenSamples(len(files.positions), files.size)]
