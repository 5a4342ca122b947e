"""One shard while it is being written: its staged files, its journal, its table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bushel.containers.base import Column, Container, Layout, Shard, ShardWriter, Stored, WriteOptions
from bushel.core.dataset.shards import OpenShard
from bushel.core.index.builders import ColumnBuilder, IndexBuilder
from bushel.core.index.segment_scan import NO_SEGMENTS, with_segments
from bushel.core.index.sidecar import FOLDER, load_index, save_index
from bushel.core.index.table import FileStamp, Segments
from bushel.core.writer.journal import Journal, Kept, read_journal
from bushel.errors import StateError
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, Staging, workplace
from bushel.storage.staging import Claim

__all__ = ["ShardInProgress", "WholeShard"]


class ShardInProgress:
    """Brings a container's shard writer, staged files, journal and index builder together.

    Attributes:
        shard: The files it will be.
        layout: How its samples are stored.
    """

    def __init__(
        self,
        shard: Shard,
        container: Container,
        layout: Layout,
        staging: Staging,
        builder: IndexBuilder,
        journal: Journal,
        segments: Mapping[str, Segments] | None = None,
    ) -> None:
        self.shard, self.layout = shard, layout
        self._segments = segments or {}
        self._container, self._staging, self._builder, self._journal = container, staging, builder, journal
        try:
            self._writer: ShardWriter = container.writer(layout, shard, staging, builder)
        except BaseException:
            staging.close()
            raise

    @classmethod
    def create(cls, shard: Shard, container: Container, layout: Layout, *, sync: bool) -> ShardInProgress:
        """Start a new shard."""
        staging = Staging(shard.root, _staging_name(shard), folder=_own_folder(shard), sync=sync, new=True)
        builder = _builder(container, layout)
        return cls(
            shard, container, layout, staging, builder, Journal(staging.place, head=_head(shard, container, layout))
        )

    @classmethod
    def reopen(
        cls, last: OpenShard, root: AnyPath, container: Container, layout: Layout, *, sync: bool
    ) -> ShardInProgress:
        """Start a copy of an existing shard, to which samples will be added."""
        shard = last.shard
        staging = Staging(root, _staging_name(shard), sync=sync)
        staging.keep(container.reopen(layout, shard, last.index, staging))
        builder = _builder(container, layout)
        builder.load(last.index)
        segments = {name: column.segments for name, column in last.index.columns.items() if column.segments is not None}
        head = {**_head(shard, container, layout), "segments": list(segments)}
        head["folder"] = None  # it is there: its files are replaced one by one
        opened = cls(shard, container, layout, staging, builder, Journal(staging.place, head=head), segments)
        opened.checkpoint()
        return opened

    @classmethod
    def staged(cls, root: AnyPath, name: str | None) -> list[Path]:
        """Staging folders that a killed writer of this machine left, for one file of a dataset or for all."""
        base = workplace(root)
        if base is None or not (place := base / FOLDER / "staging").is_dir():
            return []
        return sorted(folder for folder in place.iterdir() if name is None or folder.name == name)

    @classmethod
    def resume(
        cls, folder: Path, root: AnyPath, container: Container, *, sync: bool
    ) -> ShardInProgress | OpenShard | None:
        """Go on with a staged shard.

        Returns:
            The shard in progress; or the finished shard, if the writer died while giving whole files their names;
            or None if nothing of it can be used (the folder is then gone).

        Raises:
            StateError: It is of another container.
            FileExistsError: Its writer is alive.
        """
        claim = Claim(folder)
        kept = read_journal(folder)
        if kept is None or (kept.samples == 0 and kept.commit is None):
            shutil.rmtree(folder)
            claim.release()
            return None
        if kept.head["container"] != container.name:
            raise StateError(f"{folder} was being written as {kept.head['container']}, not {container.name}")
        shard = Shard(root, kept.head["name"], tuple(kept.head["files"]), kept.head["sidecars"])
        layout = _layout_of(kept)
        own, positions = kept.head["folder"], kept.positions
        staging = Staging(root, folder.name, folder=own, positions=positions, sync=sync, claim=claim)
        builder = _builder(container, layout)
        kept.restore(builder)
        if kept.commit is not None:
            return _complete(staging, kept, shard, container)
        journal = Journal(staging.place, head=None)
        journal.resume(kept.samples, kept.positions)
        segments = dict.fromkeys(kept.head.get("segments", ()), NO_SEGMENTS)
        return cls(shard, container, layout, staging, builder, journal, segments)

    @property
    def spec(self) -> dict[str, str]:
        """Field names to types."""
        return format_spec({column.field.name: column.field for column in self.layout.columns})

    @property
    def samples(self) -> int:
        """Samples written."""
        return self._builder.samples

    @property
    def bytes(self) -> int:
        """Bytes written, without the tables that come last."""
        return sum(self._staging.positions.values())

    def keys(self) -> list[str]:
        """Keys of the samples written."""
        text, ends = self._builder.key_text(0, self._builder.samples)
        starts = [0, *ends[:-1]]
        return [text[first:last].decode("utf-8", "surrogateescape") for first, last in zip(starts, ends, strict=False)]

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample, or, when that fails, nothing of it."""
        positions, samples = self._staging.positions, self._builder.samples
        try:
            self._writer.append(key, values)
        except BaseException:
            self._staging.truncate(positions)
            self._builder.truncate(samples)
            raise

    def checkpoint(self) -> None:
        """Make what was written so far survive a kill of this process."""
        self._staging.flush()
        self._journal.checkpoint(self._builder, self._staging.positions)

    def suspend(self) -> None:
        """Stop, leaving everything for `resume`."""
        try:
            self.checkpoint()
        finally:
            self._staging.close()
            self._staging.claim.release()

    def discard(self) -> None:
        """Stop, leaving nothing."""
        self._staging.discard()

    def finish(self) -> WholeShard:
        """Complete the shard: what it gives has only to be published."""
        with closing(self._staging):
            self.checkpoint()
            names = list(self._writer.finish())
            stamps = [FileStamp(name, *stat) for name, stat in zip(names, self._staging.seal(names), strict=True)]
            staged_files = [self._staging.place / name for name in names]
            index = with_segments(self._builder.build(stamps), staged_files.__getitem__, self._segments)
            sidecar = _sidecar_name(self.shard)
            save_index(index, self._staging.place / sidecar, sync=self._staging.sync)
            self._journal.commit([*names, sidecar], sync=self._staging.sync)
        shard = Shard(self.shard.root, self.shard.name, tuple(names), self.shard.sidecars)
        staged = OpenShard.of(self._container.name, shard, index, stored=True)
        return WholeShard(staged, self._staging)


@dataclass(frozen=True, slots=True)
class WholeShard:
    """A shard that is whole, with all of its files staged.

    Attributes:
        staged: The shard as it will be, but for the stamps of its files, which a remote storage makes itself.
        staging: The files.
    """

    staged: OpenShard
    staging: Staging

    def publish(self) -> OpenShard:
        """Give the files their final names.

        Raises:
            OSError: That is not possible. They are still staged.
        """
        opened, staging = self.staged, self.staging
        names, sidecar = opened.shard.files, _sidecar_name(opened.shard)
        if staging.local:
            staging.commit([*names, sidecar])
            return opened
        stamps = tuple(FileStamp(name, *stat) for name, stat in zip(names, staging.upload(names), strict=True))
        index = replace(opened.index, files=stamps)
        save_index(index, staging.place / sidecar, sync=False)
        staging.upload([sidecar], replace=True)
        staging.discard()
        return OpenShard.of(opened.container, opened.shard, index, stored=True)

    def stop(self) -> None:
        """Make `publish`, which another thread is at, end with an error soon if it uploads."""
        self.staging.stop.set()


def _complete(staging: Staging, kept: Kept, shard: Shard, container: Container) -> OpenShard | None:
    """Finish the renames or uploads that a killed writer had begun."""
    *names, sidecar = kept.commit or [_sidecar_name(shard)]
    if not staging.local:
        index = load_index(staging.place / sidecar)
        whole = Shard(shard.root, shard.name, tuple(names), shard.sidecars)
        return WholeShard(OpenShard.of(container.name, whole, index, stored=True), staging).publish()
    if kept.head["folder"] is None or (staging.place / kept.head["folder"]).exists():
        staging.commit([name for name in [*names, sidecar] if (staging.place / name).exists()])
    else:
        staging.discard()
    return OpenShard.of(container.name, shard, load_index(shard.sidecar), stored=True)


def _sidecar_name(shard: Shard) -> str:
    return f"{shard.sidecars}/{shard.sidecar.name}"


def _staging_name(shard: Shard) -> str:
    return shard.name or "dataset"


def _own_folder(shard: Shard) -> str | None:
    """The folder that holds all of the shard's files and nothing else."""
    return shard.sidecars.removesuffix(f"/{FOLDER}") if shard.sidecars != FOLDER else None


def _builder(container: Container, layout: Layout) -> IndexBuilder:
    columns = [ColumnBuilder(column.field, column.codec, column.file) for column in layout.columns]
    return IndexBuilder(container.name, columns, keyed=layout.options.keyed)


def _head(shard: Shard, container: Container, layout: Layout) -> dict[str, Any]:
    options = layout.options
    return {
        "container": container.name,
        "name": shard.name,
        "files": list(shard.files),
        "sidecars": shard.sidecars,
        "folder": _own_folder(shard),
        "columns": [(column.field.name, column.field.type, column.codec, column.file) for column in layout.columns],
        "options": [options.keyed, options.generation, options.single, options.expected],
        "sparse": layout.sparse,
        "limits": list(layout.limits),
    }


def _layout_of(kept: Kept) -> Layout:
    head = kept.head
    fields = parse_spec({name: kind for name, kind, _, _ in head["columns"]})
    columns = tuple(Column(fields[name], codec, file) for name, _, codec, file in head["columns"])
    return Layout(columns, WriteOptions(*head["options"]), head["sparse"], tuple(head["limits"]))
