"""One shard while it is being written: its staged files, its journal, its table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bushel.containers.base import Column, Container, Layout, Shard, ShardWriter, Stored, WriteOptions
from bushel.errors import StateError
from bushel.journal import Journal, Kept, read_journal
from bushel.shardindex import ColumnBuilder, FileStamp, IndexBuilder
from bushel.shards import OpenShard
from bushel.sidecar import FOLDER, load_index, save_index
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, Staging

__all__ = ["ShardInProgress"]


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
    ) -> None:
        self.shard, self.layout = shard, layout
        self._container, self._staging, self._builder, self._journal = container, staging, builder, journal
        self._writer: ShardWriter = container.writer(layout, shard, staging, builder)

    @classmethod
    def create(cls, shard: Shard, container: Container, layout: Layout, *, sync: bool) -> ShardInProgress:
        """Start a new shard."""
        staging = Staging(shard.root, _staging_name(shard), folder=_own_folder(shard), sync=sync)
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
        positions = container.reopen(layout, shard, last.index, staging)
        staging = Staging(root, _staging_name(shard), positions=positions, sync=sync)
        builder = _builder(container, layout)
        builder.load(last.index)
        opened = cls(
            shard, container, layout, staging, builder, Journal(staging.place, head=_head(shard, container, layout))
        )
        opened.checkpoint()
        return opened

    @classmethod
    def staged(cls, root: Path, name: str | None) -> list[Path]:
        """Staging folders that a killed writer left under a dataset's folder, for one file of it or for all."""
        place = root / FOLDER / "staging"
        if not place.is_dir():
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
        """
        kept = read_journal(folder)
        if kept is None or (kept.samples == 0 and kept.commit is None):
            shutil.rmtree(folder)
            return None
        if kept.head["container"] != container.name:
            raise StateError(f"{folder} was being written as {kept.head['container']}, not {container.name}")
        shard = Shard(root, kept.head["name"], tuple(kept.head["files"]), kept.head["sidecars"])
        layout = _layout_of(kept)
        staging = Staging(root, folder.name, folder=kept.head["folder"], positions=kept.positions, sync=sync)
        builder = _builder(container, layout)
        kept.restore(builder)
        if kept.commit is not None:
            return _complete(staging, kept, shard, container)
        journal = Journal(staging.place, head=None)
        journal.resume(kept.samples, kept.positions)
        return cls(shard, container, layout, staging, builder, journal)

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

    def finish(self) -> OpenShard:
        """Complete the shard and give its files their final names."""
        with closing(self._staging):
            self.checkpoint()
            names = list(self._writer.finish())
            stamps = [FileStamp(name, *stat) for name, stat in zip(names, self._staging.seal(names), strict=True)]
            index = self._builder.build(stamps)
            sidecar = _sidecar_name(self.shard)
            save_index(index, self._staging.place / sidecar, sync=self._staging.sync)
            self._journal.commit([*names, sidecar], sync=self._staging.sync)
            self._staging.commit([*names, sidecar])
        shard = Shard(self.shard.root, self.shard.name, tuple(names), self.shard.sidecars)
        return OpenShard.of(self._container.name, shard, index, stored=True)


def _complete(staging: Staging, kept: Kept, shard: Shard, container: Container) -> OpenShard | None:
    """Finish the renames that a killed writer had begun."""
    names = [name for name in kept.commit or () if (staging.place / name).exists()]
    if kept.head["folder"] is None or (staging.place / kept.head["folder"]).exists():
        staging.commit(names)
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
