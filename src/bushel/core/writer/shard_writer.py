"""Write, resume, finish and publish one shard: its staged files, its journal and its index."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bushel.containers.base import (
    Column,
    Container,
    Layout,
    Shard,
    ShardWriter,
    Stored,
    StoredColumn,
    WriteOptions,
    WritesColumns,
)
from bushel.core.dataset.shards import OpenShard
from bushel.core.dataset.tables import stamp_of
from bushel.core.index.builders import ColumnBuilder, IndexBuilder
from bushel.core.index.class_names import Labels
from bushel.core.index.column_scan import ValueFiles
from bushel.core.index.contents import Contents
from bushel.core.index.sidecar import FOLDER, load_index, save_index
from bushel.core.index.table import FileStamp, ShardIndex
from bushel.core.writer.journal import Journal, SavedShard, read_journal
from bushel.core.writer.limits import ShardLimits
from bushel.core.writer.pending import PendingSamples
from bushel.core.writer.recorder import Recorder
from bushel.errors import StateError
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, Staging, open_file, workplace
from bushel.storage.staging import Claim, remove_staged

__all__ = ["FinishedShard", "ShardInProgress", "Uploads"]

NOTHING_ELSE = Contents()
"""Tables hold extents only."""


class ShardInProgress:
    """A shard that is being written: a container's shard writer with staged files, a journal and an index builder.

    Attributes:
        shard: The final files.
        layout: How samples are stored.
        labels: Names of classes, which the index gets.
        pending: Samples that are written after those in the builder, or None if samples are written one by one.
    """

    def __init__(
        self,
        shard: Shard,
        container: Container,
        layout: Layout,
        staging: Staging,
        builder: IndexBuilder,
        journal: Journal,
        *,
        labels: Labels | None = None,
        contents: Contents = NOTHING_ELSE,
        before: ShardIndex | None = None,
    ) -> None:
        self.shard, self.layout, self.labels = shard, layout, labels or {}
        self._contents, self._before = contents, before
        self._recorder = None if builder.samples else Recorder(layout, contents.columns)
        self._container, self._staging, self._builder, self._journal = container, staging, builder, journal
        try:
            self._writer: ShardWriter = container.writer(layout, shard, staging, builder)
            self._columns = self._writer if isinstance(self._writer, WritesColumns) else None
            accepted = None if self._columns is None else self._columns.column_limits
            self.pending = (
                None if accepted is None else PendingSamples(accepted, layout, builder, numbered=container.needs_keys)
            )
        except BaseException:
            staging.close()
            raise

    @classmethod
    def create(
        cls,
        shard: Shard,
        container: Container,
        layout: Layout,
        *,
        sync: bool,
        replace: bool = False,
        labels: Labels | None = None,
        contents: Contents = NOTHING_ELSE,
    ) -> ShardInProgress:
        """Start a new shard. `replace` allows an upload to replace existing objects; `contents` are made in the end.

        Raises:
            FileExistsError: A file of the shard exists, or another process is writing it.
        """
        staging = Staging(shard.root, _staging_name(shard), folder=_own_folder(shard), sync=sync, new=not replace)
        if (there := next((path for path in _final_paths(shard) if path.exists()), None)) is not None:
            staging.discard()
            raise FileExistsError(
                f"{there} exists already, but this writer was about to create it: another process is writing here, or "
                "the dataset lacks an earlier shard"
            )
        builder = _builder(container, layout)
        journal = Journal(staging.place, head=_head(shard, container, layout, labels, contents))
        return cls(shard, container, layout, staging, builder, journal, labels=labels, contents=contents)

    @classmethod
    def reopen(
        cls,
        last: OpenShard,
        root: AnyPath,
        container: Container,
        layout: Layout,
        *,
        sync: bool,
        labels: Labels | None = None,
        contents: Contents = NOTHING_ELSE,
    ) -> ShardInProgress:
        """Copy an existing shard to the staging folder, to add samples to it. What it holds beside extents is kept."""
        shard = last.shard
        staging = Staging(root, _staging_name(shard), sync=sync)
        staging.keep(kept := container.reopen(layout, shard, last.index, staging))
        staging.sync_files(kept)  # the checksums in the journal begin after them
        builder = _builder(container, layout)
        builder.load(last.index)
        contents = Contents.to_keep(last.index, usual=contents.columns.usual) | contents
        head = _head(shard, container, layout, labels, contents)
        head["folder"] = None  # the folder exists: its files are replaced one by one
        journal = Journal(staging.place, head=head)
        parts = shard, container, layout, staging, builder, journal
        opened = cls(*parts, labels=labels, contents=contents, before=last.index)
        opened.checkpoint()
        return opened

    @classmethod
    def staged(cls, root: AnyPath, name: str | None) -> list[Path]:
        """Return the staging folders that a killed writer left on this machine, of one file or of all shards."""
        base = workplace(root)
        if base is None:
            return []
        try:
            return sorted(each for each in (base / FOLDER / "staging").iterdir() if name is None or each.name == name)
        except FileNotFoundError:  # another process may remove it at any moment
            return []

    @classmethod
    def resume(
        cls, folder: Path, root: AnyPath, container: Container, *, sync: bool
    ) -> ShardInProgress | OpenShard | None:
        """Continue a staged shard.

        Returns:
            The shard in progress; or the published shard, if the writer died while it published the shard; or None if
            nothing can be used (the folder is then removed).

        Raises:
            StateError: The shard has another container.
            FileExistsError: Another process is writing the shard.
        """
        claim = Claim(folder)
        kept = read_journal(folder)
        if kept is None or (kept.samples == 0 and kept.commit is None):
            remove_staged(folder, claim)
            return None
        if kept.head["container"] != container.name:
            raise StateError(
                f"{folder} contains an unfinished {kept.head['container']} shard, not {container.name}: use the same "
                "container"
            )
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
        labels = {name: tuple(names) for name, names in kept.head.get("labels", {}).items()}
        contents = Contents.restored(kept.head)
        return cls(shard, container, layout, staging, builder, journal, labels=labels, contents=contents)

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return format_spec({column.field.name: column.field for column in self.layout.columns})

    @property
    def samples(self) -> int:
        """Number of samples, pending ones too."""
        return self._builder.samples if self.pending is None else self.pending.end

    @property
    def bytes(self) -> int:
        """Number of bytes written, without pending samples, and without the tables that are written at the end."""
        return sum(self._staging.positions.values())

    def keys(self) -> list[str]:
        """Return the keys of the samples written."""
        text, ends = self._builder.key_text(0, self._builder.samples)
        offsets = [0, *ends[:-1]]
        return [text[first:last].decode("utf-8", "surrogateescape") for first, last in zip(offsets, ends, strict=False)]

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample. If that fails, nothing of it is written."""
        self.write_pending()
        self._append(key, values)

    def collect(self, limits: ShardLimits, seconds: float) -> None:
        """Let `pending` take samples until the shard may be full, or this time has passed."""
        if self.pending is not None:
            self.write_pending()
            self.pending.restart(*limits.room_in(self), seconds)

    def write_pending(self) -> None:
        """Write the pending samples. If that fails, they stay pending."""
        if self.pending is None:
            return
        while (rows := self.pending.rows()) is not None:
            keys, columns = rows
            if not self._extend(keys, columns, None):
                key = None if keys is None else keys[0].decode()
                self._append(key, {name: column[0] for name, column in columns.items()})
        self.pending.restart(0, 0, 0)

    def _append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        positions, samples = self._staging.positions, self._builder.samples
        try:
            self._writer.append(key, values)
        except BaseException:
            self._staging.truncate(positions)
            self._builder.truncate(samples)
            raise
        if self._recorder is not None:
            self._recorder.add(values)

    def extend(self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None) -> int:
        """Write many samples at once, as far as there is room, and return how many: see `WritesColumns`."""
        self.write_pending()
        return self._extend(keys, columns, room)

    def _extend(self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None) -> int:
        if self._columns is None:
            return 0
        positions, samples = self._staging.positions, self._builder.samples
        try:
            rows = self._columns.extend(keys, columns, room)
        except BaseException:
            self._staging.truncate(positions)
            self._builder.truncate(samples)
            raise
        if rows and self._recorder is not None:
            self._recorder.add_rows(columns, rows)
        return rows

    def checkpoint(self) -> None:
        """Save the samples added so far, so that they survive a kill of this process."""
        self.write_pending()
        self._staging.flush()
        if self._journal.has_news(self._builder, self._staging.positions):
            self._journal.checkpoint(self._builder, self._staging.positions, self._staging.checksums())

    def suspend(self) -> None:
        """Stop writing, and leave the staged files for `resume`."""
        try:
            self.checkpoint()
        finally:
            self._staging.close()
            self._staging.claim.release()

    def discard(self) -> None:
        """Stop writing, and remove the staged files."""
        self._staging.discard()

    def finish(self) -> FinishedShard:
        """Complete the staged files and the index. Only `publish` remains to be called."""
        with closing(self._staging):
            self.checkpoint()
            names = list(self._writer.finish())
            stats = self._staging.seal(names)
            staged_files = [self._staging.place / name for name in names]
            stamps = [
                FileStamp(name, *stat, stamp_of(open_file(path)))
                for name, stat, path in zip(names, stats, staged_files, strict=True)
            ]
            index = dataclasses.replace(self._builder.build(stamps), labels=self.labels)
            noted = {} if self._recorder is None else self._recorder.noted(index)
            files = ValueFiles(staged_files.__getitem__, self._container.join, noted)
            # without PyAV, clips are read whole until `bushel index --frames`
            index = self._contents.add_to(index, files, self._before, all_frames=True)
            sidecar = _sidecar_name(self.shard)
            save_index(index, self._staging.place / sidecar, sync=self._staging.sync)
            self._staging.sync_names()
            self._journal.commit([*names, sidecar], sync=self._staging.sync)
        shard = Shard(self.shard.root, self.shard.name, tuple(names), self.shard.sidecars)
        staged = OpenShard.of(self._container.name, shard, index, stored=True)
        return FinishedShard(staged, self._staging)


@dataclass(frozen=True, slots=True)
class FinishedShard:
    """A complete shard whose files are still staged.

    Attributes:
        staged: The final shard, except for the stamps of remote files, which the storage assigns.
        staging: The staged files.
    """

    staged: OpenShard
    staging: Staging

    def publish(self) -> OpenShard:
        """Rename or upload the files to their final names.

        Raises:
            OSError: That failed. The files are still staged.
        """
        opened, staging = self.staged, self.staging
        sidecar = _sidecar_name(opened.shard)
        ordered = _order_to_publish(opened.shard, opened.shard.files)
        if staging.local:
            staging.commit(ordered, index=sidecar)
            return opened
        uploaded = dict(zip(ordered, staging.upload(ordered), strict=True))
        stamps = tuple(FileStamp(entry.name, *uploaded[entry.name], entry.crc32) for entry in opened.index.files)
        index = dataclasses.replace(opened.index, files=stamps)
        save_index(index, staging.place / sidecar, sync=False)
        staging.upload([sidecar], replace=True)
        staging.discard()
        return OpenShard.of(opened.container, opened.shard, index, stored=True)

    def stop(self) -> None:
        """Abort an upload by `publish` in another thread."""
        self.staging.stop.set()


class Uploads:
    """Uploads finished shards in another thread, one at a time, while the next shard is written.

    The caller holds the lock of the writer.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._going: tuple[FinishedShard, Future[OpenShard]] | None = None

    @property
    def failed(self) -> bool:
        """Whether the current upload has failed. `settle` raises its error."""
        return self._going is not None and self._going[1].done() and self._going[1].exception() is not None

    def begin(self, shard: FinishedShard) -> None:
        """Start an upload. The previous one must be settled."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "bushel-upload")
        self._going = shard, self._pool.submit(shard.publish)

    def settle(self) -> OpenShard | None:
        """Wait for the current upload. Ctrl-C aborts it.

        Returns:
            The uploaded shard, or None if there is no upload.

        Raises:
            OSError: The upload failed. The shard is still staged.
        """
        if self._going is None:
            return None
        (shard, future), self._going = self._going, None
        try:
            return future.result()
        except BaseException:
            shard.stop()
            wait([future])
            raise

    def stop(self) -> None:
        """Abort the current upload. The shard stays staged unless it was uploaded completely."""
        if self._going is not None:
            (shard, future), self._going = self._going, None
            shard.stop()
            wait([future])

    def end(self) -> OpenShard | None:
        """Wait for the current upload as `settle` does, and end the thread in any case."""
        try:
            return self.settle()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _complete(staging: Staging, kept: SavedShard, shard: Shard, container: Container) -> OpenShard | None:
    """Complete the renames or uploads that a killed writer had begun."""
    *names, sidecar = kept.commit or [_sidecar_name(shard)]
    if not staging.local:
        index = load_index(staging.place / sidecar)
        whole = Shard(shard.root, shard.name, tuple(names), shard.sidecars)
        return FinishedShard(OpenShard.of(container.name, whole, index, stored=True), staging).publish()
    staging.commit(_order_to_publish(shard, names), index=sidecar)
    return OpenShard.of(container.name, shard, load_index(shard.sidecar), stored=True)


def _order_to_publish(shard: Shard, names: Sequence[str]) -> list[str]:
    """Return the files of a complete shard in the order in which they get their final names.

    A shard with the name of one of its files is found by it, so a new one gets that file last: a recordio would be
    read without its keys if it had its `.rec` before its `.idx`. Where samples were appended, that file comes first:
    the old table of keys fits a longer file.
    """
    if shard.name not in names or len(names) == 1 or (shard.root / shard.name).exists():
        return list(names)
    return sorted(names, key=lambda name: name == shard.name)


def _final_paths(shard: Shard) -> list[Path]:
    """Return the paths of the files of a local shard. The claim of a writer keeps them as they are."""
    root = shard.root
    return [root / name for name in shard.files] if isinstance(root, Path) else []


def _sidecar_name(shard: Shard) -> str:
    return f"{shard.sidecars}/{shard.sidecar.name}"


def _staging_name(shard: Shard) -> str:
    return shard.name or "dataset"


def _own_folder(shard: Shard) -> str | None:
    """Return the folder that contains all of the shard's files and nothing else, or None."""
    return shard.sidecars.removesuffix(f"/{FOLDER}") if shard.sidecars != FOLDER else None


def _builder(container: Container, layout: Layout) -> IndexBuilder:
    columns = [ColumnBuilder(column.field, column.codec, column.file) for column in layout.columns]
    return IndexBuilder(container.name, columns, keyed=layout.options.keyed)


def _head(
    shard: Shard, container: Container, layout: Layout, labels: Labels | None, contents: Contents
) -> dict[str, Any]:
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
        "labels": {name: list(names) for name, names in (labels or {}).items()},
        **contents.saved(),
    }


def _layout_of(kept: SavedShard) -> Layout:
    head = kept.head
    fields = parse_spec({name: kind for name, kind, _, _ in head["columns"]})
    columns = tuple(Column(fields[name], codec, file) for name, _, codec, file in head["columns"])
    return Layout(columns, WriteOptions(*head["options"]), head["sparse"], tuple(head["limits"]))
