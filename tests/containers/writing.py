"""Writing and reading one shard without a Writer: what the tests of all containers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from tests.containers.summed import summed_table

from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.shard import FileStamp, Shard
from bushel._index.table import MISSING, ShardIndex, opener
from bushel.containers.base import Container, Layout, Stored, WriteOptions
from bushel.kernels import crc32
from bushel.spec import parse_spec
from bushel.storage import Staging

Sample = tuple[str | None, Mapping[str, Stored]]


class ShardInProgress:
    """Does with one shard what the Writer does with many."""

    def __init__(
        self,
        container: Container,
        root: Path,
        spec: Mapping[str, str],
        *,
        keyed: bool = False,
        generation: str | None = None,
        single: bool = False,
        expected: int | None = None,
        number: int = 0,
        there: Sequence[Shard] = (),
        name: str | None = None,
    ) -> None:
        root.mkdir(exist_ok=True)
        self.container = container
        self.layout = container.layout(
            parse_spec(spec), WriteOptions(keyed=keyed, generation=generation, single=single, expected=expected)
        )
        before = list(there)
        for _ in range(number):
            before.append(container.shard(root, self.layout, before, None))
        self.shard = container.shard(root, self.layout, before, name)
        self._folder = self.shard.name if self.shard.files[0].startswith(f"{self.shard.name}/") else None
        self.builder = new_builder(container, self.layout)
        self._start({})

    def _start(self, positions: Mapping[str, int]) -> None:
        self.staging = Staging(self.shard.root, self.shard.name, folder=self._folder, sync=False)
        self.staging.keep(positions)
        self.writer = self.container.writer(self.layout, self.shard, self.staging, self.builder)

    def append(self, samples: Iterable[Sample]) -> None:
        for key, values in samples:
            self.writer.append(key, values)

    def reopen(self, shard: Shard | None = None) -> None:
        """Go on with a shard that is there: with this one, or one with the files that this one would have."""
        self.shard = shard or self.shard
        for sink in self.staging.sinks.values():
            sink.close(sync=False)
        index = summed_table(self.container, self.shard)
        positions = self.container.reopen(self.layout, self.shard, index, self.staging)
        restore(self.builder, index)
        self._start(positions)

    def kill_and_resume(self) -> None:
        """Lose the process behind the last sample, with bytes after it that no row knows."""
        positions = self.staging.positions
        for sink in self.staging.sinks.values():
            sink.write(b"half a sample")
            sink.close(sync=False)
        self._start(positions)

    def abandon(self, samples: int, positions: Mapping[str, int]) -> None:
        """Take back what a failed append left."""
        self.staging.truncate(positions)
        self.builder.truncate(samples)

    def finish(self) -> ShardIndex:
        """Give the files their final names.

        Returns:
            The index that the Writer would save.
        """
        names = list(self.writer.finish())
        self.staging.seal()
        stats = [path.stat() for path in map(self.staging.path_of, names)]
        stamps = [FileStamp(name, stat.st_size, stat.st_mtime_ns) for name, stat in zip(names, stats, strict=True)]
        index = self.builder.build(stamps)
        self.staging.commit(names)
        return index


def new_builder(container: Container, layout: Layout) -> IndexBuilder:
    columns = [FieldBuilder(column.field, column.codec, column.file) for column in layout.columns]
    return IndexBuilder(container.name, columns, keyed=layout.options.keyed)


def restore(builder: IndexBuilder, index: ShardIndex) -> None:
    """Put the rows of an index into an empty builder."""
    for sample in range(index.samples):
        for name, column in index.fields.items():
            for row in column.rows_of(np.array([sample]))[0].tolist():
                checksum = 0 if column.crc32 is None else int(column.crc32[row])
                builder.columns[name].add(int(column.offset[row]), int(column.length[row]), checksum)
            if column.absent is not None and column.absent[sample]:
                builder.columns[name].mark_absent()
        builder.close_sample(None if index.keys is None else index.keys[sample])


def write_shard(
    container: Container, root: Path, spec: Mapping[str, str], samples: Iterable[Sample], **options: Any
) -> tuple[Shard, ShardIndex]:
    """Write a whole shard."""
    progress = ShardInProgress(container, root, spec, **options)
    progress.append(samples)
    index = progress.finish()
    return progress.shard, index


def stored_samples(shard: Shard, index: ShardIndex) -> list[tuple[str, dict[str, Any]]]:
    """Key and stored bytes of every sample, straight from the extents. Checks CRCs that the index has."""
    file_of = opener(index, shard)
    samples = []
    for sample in range(index.samples):
        fields: dict[str, Any] = {}
        for name, column in index.fields.items():
            values = []
            for row in column.rows_of(np.array([sample]))[0].tolist():
                offset, length = int(column.offset[row]), int(column.length[row])
                if length == MISSING:
                    continue
                value = file_of(column.file).read(offset, length)
                if column.crc32 is not None:
                    assert crc32(value) == column.crc32[row]
                values.append(value)
            if not column.field.sequence and values:
                [fields[name]] = values
            elif column.field.sequence and (column.absent is None or not column.absent[sample]):
                fields[name] = values
        samples.append((str(sample) if index.keys is None else index.keys[sample], fields))
    return samples


def same_table(ours: ShardIndex, theirs: ShardIndex) -> None:
    """Assert that an index made while writing says what one made from the files says, but for names and CRCs."""
    assert ours.samples == theirs.samples
    assert [replace(stamp, mtime_ns=0) for stamp in ours.files] == [replace(s, mtime_ns=0) for s in theirs.files]
    assert set(ours.fields) == set(theirs.fields)
    for name, column in ours.fields.items():
        other = theirs.fields[name]
        assert column.file == other.file
        np.testing.assert_array_equal(column.offset, other.offset)
        np.testing.assert_array_equal(column.length, other.length)
        if column.field.sequence:
            assert column.starts is not None
            np.testing.assert_array_equal(column.starts, other.starts)
