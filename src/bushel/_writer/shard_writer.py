"""Write one shard: its staged files and its index, until it is complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs

from bushel._dataset.open.binding import stamp_of
from bushel._dataset.read.shards import OpenShard
from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.column_scan import ValueFiles
from bushel._index.contents import Contents, Recorder, has_pyav
from bushel._index.saving import save_index
from bushel._index.shard import FileStamp, Shard
from bushel._index.table import ShardIndex, opener
from bushel._runtime.messages import log_warning
from bushel.codecs.extensions import storing_codec
from bushel.containers.base import Container, Layout, ShardWriter, Stored
from bushel.containers.stored_column import ColumnLimits, StoredColumn
from bushel.kernels import KeySet, SampleBuffer
from bushel.spec import KEY
from bushel.storage import File, Staging, open_file

from .publishing import FinishedShard
from .target import ShardLimits

_FOREVER = 1e6  # seconds
_UNLIMITED = 1 << 62  # samples, or bytes
_LARGE = 1 << 15  # bytes of a sample above which `SampleBuffer` does not take it


class PendingSamples:
    """Samples of a shard that follow those in its index builder.

    A sample is checked and encoded when it is added, so that writing it later can fail only as
    writing to a file can.

    Args:
        limits: The samples that the shard writer's `extend` takes.
        layout: How samples are stored.
        builder: The index of the samples that are written.
        numbered: Whether a sample without a key gets its position as its key.

    Attributes:
        add: `SampleBuffer.add`, which threads may call at once. It takes no sample before
            `restart`. It returns the position of the sample; -1 for one that has to be written in
            another way, or that is invalid; and -2 minus the position if it has taken the last one
            before all have to be written.
        pause: Take no more samples until `restart`, and return the number of samples in the
            dataset, these included.
    """

    def __init__(
        self, limits: ColumnLimits, layout: Layout, builder: IndexBuilder, *, numbered: bool
    ) -> None:
        fields = [
            (column.field.name, storing_codec(column.field.codec, column.codec).encode)
            for column in layout.columns
        ]
        keyed = layout.options.keyed
        self._buffer = SampleBuffer(
            fields, KEY, keyed, numbered, limits.longest_key, limits.refused_start
        )
        self._builder = builder
        self._first = 0
        self.add, self.pause = self._buffer.add, self._buffer.pause

    @property
    def end(self) -> int:
        """Number of samples in the shard when these are written."""
        return max(self._first + self._buffer.count, self._builder.samples)

    @property
    def next(self) -> int:
        """Position in the dataset of the sample that is added next."""
        return self._buffer.next

    def ends_with(self, position: int) -> bool:
        """Return whether the sample at a position is the last one, and not written yet."""
        return self._buffer.next == position + 1 and self.end > self._builder.samples

    def clear(self) -> None:
        """Forget the samples, which are written, and take no others."""
        self._first = self._builder.samples
        self._buffer.clear()

    def restart(
        self, room: tuple[int, int], position: int, number: int, known: KeySet | None
    ) -> None:
        """Take samples. All earlier ones are written.

        Args:
            room: How many, and how many bytes the shard may have more with them.
            position: Position in the dataset of the next one.
            number: A sample without a key gets its position and this number, added up, as its key.
            known: All keys of the dataset, to which the keys of the samples are added. None if they
                are numbers of this kind: then samples with a key of their own are not taken.
        """
        self._first = self._builder.samples
        self._buffer.restart(*room, _FOREVER, position, number, known)

    def rows(self) -> tuple[StoredColumn | None, dict[str, StoredColumn]] | None:
        """Return keys and columns of the samples that are not written; None if all are.

        They are counted by the builder's samples, so a sample is not written twice if Ctrl-C comes
        in between.
        """
        if (written := self._builder.samples - self._first) >= self._buffer.count:
            return None
        keys, columns = self._buffer.rows(written)
        return (
            None if keys is None else StoredColumn(*keys),
            {name: StoredColumn(*column) for name, column in columns.items()},
        )

    def drop_last(self) -> str | None:
        """Forget the last sample if it is not written, and return its key."""
        if self.end > self._builder.samples:
            return self._buffer.drop_last()
        return None


class ShardPlan(Struct, frozen=True):
    """The parts of a shard."""

    shard: Shard  # the final files
    container: Container
    layout: Layout  # how samples are stored
    contents: Contents  # the contents of the index beside extents
    limits: ShardLimits = ShardLimits(None, None)  # the size at which it is full

    @property
    def staging_name(self) -> str:
        """Name of the shard's staging folder."""
        return self.shard.name or "dataset"


class ShardInProgress:
    """A shard that is being written: a container's shard writer with staged files and an index builder.

    Args:
        plan: The layout and contents of the shard.
        staging: The staged files.
        before: The index of the samples in them, if the shard was reopened.

    Attributes:
        plan: The final files, and how samples are stored.
        pending: Samples that are written after those in the builder, or None before any are
            collected.
    """

    def __init__(
        self,
        plan: ShardPlan,
        staging: Staging,
        before: ShardIndex | None = None,
    ) -> None:
        self.plan, self._staging, self._before = plan, staging, before
        layout = plan.layout
        columns = [
            FieldBuilder(column.field, column.codec, column.file) for column in layout.columns
        ]
        self._recorder = Recorder(columns, plan.contents)
        self._builder = builder = IndexBuilder(
            plan.container.name, columns, keyed=layout.options.keyed
        )
        if before is not None:
            builder.load(before)
        # the sizes of the staged files, and the number of samples in them
        self._written: tuple[dict[str, int], int] = {}, 0
        self._limits = plan.limits.samples or _UNLIMITED, plan.limits.bytes or _UNLIMITED
        self.pending: PendingSamples | None = None
        try:
            self._writer: ShardWriter = plan.container.writer(layout, plan.shard, staging, builder)
            self._collected = self._writer.column_limits
            self._written = staging.positions, builder.samples
        except BaseException:
            staging.close()
            raise

    @classmethod
    def create(cls, plan: ShardPlan, *, sync: bool, replace: bool = False) -> ShardInProgress:
        """Start a new shard.

        With `sync`, it waits for the disk; with `replace`, an upload may replace existing objects.

        Raises:
            FileExistsError: A file of the shard exists.
        """
        _check_new(plan)
        staging = Staging(
            plan.shard.root,
            plan.staging_name,
            folder=plan.shard.own_folder,
            sync=sync,
            new=not replace,
        )
        return cls(plan, staging)

    @classmethod
    def reopen(cls, last: OpenShard, plan: ShardPlan, *, sync: bool) -> ShardInProgress:
        """Copy an existing shard to the staging folder, to add samples to it.

        Its index keeps all contents beside extents. With `sync`, the shard waits for the disk.
        """
        staging = Staging(plan.shard.root, plan.staging_name, sync=sync)
        staging.keep(plan.container.reopen(plan.layout, plan.shard, last.index, staging))
        contents = Contents.to_keep(last.index) | plan.contents
        return cls(structs.replace(plan, contents=contents), staging, last.index)

    @property
    def room(self) -> tuple[int, int]:
        """Number of samples and of bytes until the shard is full: 0 if it is. No sample is pending.

        The tables that are written at the end do not count.
        """
        sizes, samples = self._written
        most_samples, most_bytes = self._limits
        return max(most_samples - samples, 0), max(most_bytes - sum(sizes.values()), 0)

    def takes(self, values: Mapping[str, Stored]) -> bool:
        """Return whether samples such as this one are collected. Larger ones are written alone."""
        if self._collected is None:
            return False
        return sum(len(cast("bytes", value)) for value in values.values()) <= _LARGE

    def collect(
        self, room: tuple[int, int], position: int, number: int, known: KeySet | None
    ) -> Callable[[Mapping[str, Any], str | None], int]:
        """Collect the samples that follow, as `PendingSamples.restart` describes it, and return its `add`."""
        if self.pending is None:
            limits = self._collected or ColumnLimits()
            numbered = known is None
            self.pending = PendingSamples(
                limits, self.plan.layout, self._builder, numbered=numbered
            )
        self.pending.restart(room, position, number, known)
        return self.pending.add

    def write_pending(self) -> None:
        """Write the pending samples, and take no more until `restart`. If that fails, they stay pending."""
        if self.pending is None:
            return
        self.pending.pause()
        while (rows := self.pending.rows()) is not None:
            self._write_rows(*rows)
        self.pending.clear()

    def _write_rows(self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn]) -> None:
        """Write pending samples. Nothing refers to their arrays after that, so that `clear` keeps the memory."""
        if not self.extend(keys, columns, None):
            key = None if keys is None else keys[0].decode()
            self.append(key, {name: column[0] for name, column in columns.items()})

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample; none is pending. If that fails, nothing of it is written."""
        try:
            self._writer.append(key, values)
            self._written = self._staging.positions, self._builder.samples
        except BaseException:
            self._undo()
            raise
        self._recorder.add(values)

    def extend(
        self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None
    ) -> int:
        """Write many samples at once, as far as there is room, and return how many: see `ShardWriter`.

        None is pending.
        """
        try:
            rows = self._writer.extend(keys, columns, room)
            self._written = self._staging.positions, self._builder.samples
        except BaseException:
            self._undo()
            raise
        if rows:
            self._recorder.add_rows(columns, rows)
        return rows

    def _undo(self) -> None:
        """Remove the written part of samples that could not be written whole."""
        positions, samples = self._written
        self._staging.truncate(positions)
        self._builder.truncate(samples)

    def flush(self) -> None:
        """Pass the samples added so far to the operating system."""
        self.write_pending()
        self._staging.flush()

    def discard(self) -> None:
        """Stop writing, and remove the staged files."""
        self._staging.discard()

    def finish(self, plan: ShardPlan | None = None) -> FinishedShard:
        """Complete the staged files and the index. Only `publish` remains to be called.

        With a plan, the shard becomes the one of that plan, whose files only have other names.

        Raises:
            FileExistsError: A file of that shard exists.
        """
        with closing(self._staging):
            self.flush()
            self.pending = None  # it refers to all keys
            names, shard = list(self._writer.finish()), self.plan.shard
            self._staging.seal()
            if plan is not None:
                _check_new(plan)
                renamed = dict(zip(shard.files, plan.shard.files, strict=True))
                renamed = {name: renamed[name] for name in names}
                self._staging.rename(plan.staging_name, plan.shard.own_folder, renamed)
                shard, names = plan.shard, list(renamed.values())
            shard = structs.replace(shard, files=tuple(names))
            opened = [open_file(self._staging.path_of(name)) for name in names]
            stamps = [
                FileStamp(name, file.size, file.mtime_ns, stamp_of(file))
                for name, file in zip(names, opened, strict=True)
            ]
            labels = self.plan.layout.options.labels
            index = structs.replace(self._builder.build(stamps), labels=labels)
            file_of: Callable[[int], File] = opened.__getitem__
            if index.blocks:
                file_of = opener(index, Shard(self._staging.place, "", tuple(names)))
            files = ValueFiles(file_of, self._recorder.recorded(index))
            # without PyAV, clips are read whole until `bushel index --frames`
            index = self.plan.contents.add_to(index, files, self._before, frames=has_pyav())
            for name, classes in labels.items():
                column = index.columns.get(name)
                if column is None or column.values is None or not len(column):
                    continue
                largest = column.values.max()
                if largest >= len(classes):
                    what = "%s: field %r has the number %s, but labels= names %d classes"
                    log_warning(what, shard.root, name, largest, len(classes))
            sidecar = self._staging.path_of(shard.sidecar_name)
            digest = save_index(index, sidecar, sync=self._staging.sync)
            index = structs.replace(index, digest=digest)
        # values are only encoded, by codecs that the caller has named
        staged = OpenShard.of(index.container, shard, index, stored=True, checked=True)
        return FinishedShard(staged, self._staging)


def _check_new(plan: ShardPlan) -> None:
    """Raise `FileExistsError` if a file of a local shard that is new exists."""
    for path in plan.shard.paths:
        if isinstance(path, Path) and path.exists():
            raise FileExistsError(
                f"{path} exists already, but this writer was about to create it: the "
                "dataset lacks an earlier shard, or another program has put it here"
            )
