"""ArrayRecord: chunks of Riegeli, each with a group of records, and a footer.

Records are extents of the file where chunks are not compressed, and of blocks otherwise: one block
for each chunk. docs/format-arrayrecord.md has the rules. The layout is defined by
https://github.com/google/array_record (`cpp/array_record_writer.cc`) and
https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bushel._index.table import Shard, ShardIndex
from bushel.containers.arrayrecord.chunks import HINT, Reader, chunks_of
from bushel.containers.arrayrecord.records import Records
from bushel.containers.base import Container, ReadOptions, Report
from bushel.containers.first_bytes import codec_of_first_bytes
from bushel.containers.plain_table import PlainField, table_of
from bushel.containers.shard_names import file_shards
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import AnyPath, BlockFile, ExtentError, File, open_file

_NAME = re.compile(r".*\.array_?record(-[0-9]+-of-[0-9]+)?", re.DOTALL)
_FIELD = "data"
_BATCH = 1024


class _ArrayRecord(Container):
    name = "arrayrecord"
    suffixes = (
        ".array_record",
        ".array_record-#-of-#",
        ".arrayrecord",
        ".arrayrecord-#-of-#",
    )

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a file, or the shards of a folder."""
        return file_shards(path, _NAME.fullmatch)

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the records of one file lie. The headers of all chunks are read."""
        stored = open_file(shard.path(0))
        reader = Reader(stored)
        records = Records(reader)
        for chunks in chunks_of(reader):
            records.add(chunks)
        if options.report is not None:
            options.report(stored.size)
        blocks, offset, length = records.finish()
        blocks.check(stored.path, [stored.size])
        file = BlockFile.over(stored, blocks)
        try:
            field = _declared(options, stored) or Field(
                _FIELD, codec_of_first_bytes(file, offset, length)
            )
        except ExtentError as error:
            raise FormatError(str(error), file=stored.path, hint=HINT) from error
        place = PlainField(field.type, offset, length, file=len(shard.files))
        return table_of(self.name, shard, len(length), {field.name: place}, blocks=(blocks,))

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare the hashes of all chunks, by reading every record with the package array_record."""
        path = shard.path(0)
        try:
            module: Any = import_module("array_record.python.array_record_module")
        except ImportError:
            module = None
        if module is None or not isinstance(path, Path):
            what = (
                "only local files are compared" if module else "pip install 'bushel[arrayrecord]'"
            )
            warnings.warn(
                f"{path}: the hashes of its chunks were not compared: {what}",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        try:
            reader = module.ArrayRecordReader(str(path))
            try:
                for first in range(0, reader.num_records(), _BATCH):
                    rows = list(range(first, min(first + _BATCH, reader.num_records())))
                    report(sum(map(len, reader.read(rows))))
            finally:
                reader.close()
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            yield FormatError(f"array_record cannot read it: {error}", file=str(path), hint=HINT)


CONTAINER = _ArrayRecord()


def _declared(options: ReadOptions, file: File) -> Field | None:
    if options.spec is None:
        return None
    field = next(iter(options.spec.values()), None)
    if field is None or len(options.spec) > 1 or field.sequence:
        raise SpecError(
            f"{file.path} has one plain field: spec= names another number or a sequence"
        )
    return field
