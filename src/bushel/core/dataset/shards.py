"""Shards of a dataset: how the index of each is found, checked against its files, and kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from bushel.containers import get_container
from bushel.containers.base import ReadOptions, Shard
from bushel.core.dataset.tables import bind, index_again, same_files, stamp_of, stamps_of, table_to_read
from bushel.core.index.sidecar import (
    Manifest,
    ManifestShard,
    load_index,
    load_manifest,
    save_manifest,
)
from bushel.core.index.table import FileStamp, ShardIndex
from bushel.core.parallel import cpu_count, parallel_map
from bushel.core.progress import OnProgress, Progress
from bushel.errors import FormatError
from bushel.spec import Field, parse_spec
from bushel.storage import AnyPath, File, is_local, is_object, open_known
from bushel.storage.base import FROM_TAG

__all__ = [
    "IndexPolicy",
    "OpenShard",
    "each_shard",
    "manifest_path",
    "open_shards",
    "rebuild_index",
    "union_of_fields",
    "write_manifest",
]

IndexPolicy = Literal["auto", "memory", "require"]
"""What to do about a missing or stale index: build it, and store it if building took a scan (`auto`); build it and
keep it in memory only (`memory`); or refuse (`require`)."""

_REMOTE_WORKERS = 8
"""Number of remote shards that are indexed at once. Each may have 64 MiB of requests in flight."""

_STAT_ALL, _ASK_ALL = 1000, 32
"""Datasets of up to this many local or remote shards are compared with their sidecars when they are opened. Larger ones
are compared shard by shard, when a shard is first read."""

T = TypeVar("T")

_log = logging.getLogger("bushel")


@dataclass(slots=True)
class OpenShard:
    """One shard of an open dataset. Its table is loaded on first use.

    Attributes:
        container: Name of its container.
        shard: Its files.
        samples: Number of samples.
        stamps: Its files as the index recorded them.
        keyed: Whether samples have keys of their own.
        checksums: Whether the CRC-32 of every field is known.
        fields: Its fields.
        stored: Whether the index is in a sidecar, so that a copy in another process can map it again.
    """

    container: str
    shard: Shard
    samples: int
    stamps: tuple[FileStamp, ...]
    keyed: bool
    checksums: bool
    fields: tuple[Field, ...]
    stored: bool
    _index: ShardIndex | None = field(default=None, repr=False)

    @classmethod
    def of(cls, container: str, shard: Shard, index: ShardIndex, *, stored: bool) -> OpenShard:
        """Return a shard whose table is loaded."""
        entry = ManifestShard.of(shard.name, index)
        fields = tuple(column.field for column in index.columns.values())
        return cls(container, shard, index.samples, index.files, entry.keyed, entry.checksums, fields, stored, index)

    @classmethod
    def listed(cls, container: str, shard: Shard, entry: ManifestShard, fields: tuple[Field, ...]) -> OpenShard:
        """Return a shard whose table is not loaded yet, as the manifest lists it."""
        return cls(container, shard, entry.samples, entry.stamps, entry.keyed, entry.checksums, fields, True)

    def __getstate__(self) -> tuple[Any, ...]:
        index = None if self.stored else self._index
        known = (self.samples, self.stamps, self.keyed, self.checksums, self.fields)
        return self.container, self.shard, *known, self.stored, index

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.container, self.shard, self.samples, self.stamps, self.keyed, self.checksums = state[:6]
        self.fields, self.stored, self._index = state[6:]

    @property
    def index(self) -> ShardIndex:
        """The shard's table. It is mapped on first use.

        Raises:
            FormatError: The shard has changed since the manifest was written.
        """
        if self._index is None:
            self._index = self._map()
        return self._index

    def _map(self) -> ShardIndex:
        now = self.stamps
        # times made of ETags need no look: each response of the store is compared with them
        if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):
            now = stamps_of(self.shard)
        try:
            index = load_index(self.shard.sidecar)
        except FileNotFoundError as error:
            raise FormatError(
                "the index of the shard is missing",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            ) from error
        if index.samples != self.samples or not same_files(index.files, self.stamps):
            raise FormatError(
                f"this index does not belong to {self.path(0)} as the manifest lists it",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            )
        files = bind(index.files, now, self.shard)
        if files is None:
            raise FormatError(
                "the shard has changed since it was indexed",
                file=str(self.path(0)),
                hint="run `bushel index` on the dataset, then open it again",
            )
        index = replace(index, files=files)
        self.stamps = files
        return index.select([field.name for field in self.fields])

    @property
    def promises_checksums(self) -> bool:
        """Whether the container stores checksums that its own reader always compares."""
        return bool(getattr(get_container(self.container), "promises_checksums", False))

    @property
    def local(self) -> bool:
        """Whether its files are in the file system of this machine."""
        return isinstance(self.shard.root, Path)

    @property
    def loaded(self) -> bool:
        """Whether its table is loaded."""
        return self._index is not None

    def path(self, number: int) -> AnyPath:
        """Return the path of one of its files."""
        return self.shard.path(number)

    def open(self, number: int) -> File:
        """Open one of its files for reading.

        Raises:
            FormatError: The file has changed since it was indexed.
            OSError: The file cannot be read.
        """
        path, stamp = self.path(number), self.stamps[number]
        file = open_known(path, stamp.size, stamp.mtime_ns)
        changed = stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns
        if changed and stamp.crc32 is not None and file.size == stamp.size and not is_object(path):
            changed = stamp_of(file) != stamp.crc32
        if file.size != stamp.size or changed:
            raise FormatError(
                f"the file has changed since the dataset was opened: {file.size} bytes, then {stamp.size}",
                file=str(path),
                hint="open the dataset again",
            )
        return file

    def only(self, names: Collection[str]) -> OpenShard:
        """Return the shard with only these fields."""
        fields = tuple(field for field in self.fields if field.name in names)
        if fields == self.fields:
            return self
        index = None if self._index is None else self._index.select([field.name for field in fields])
        return replace(self, fields=fields, _index=index)

    def join(self, raw: bytes) -> bytes:
        """Return the payload of a record that is stored in pieces."""
        return get_container(self.container).join(raw)


def union_of_fields(shards: Sequence[OpenShard]) -> dict[str, Field]:
    """Return the fields of all shards, in order of first appearance."""
    fields: dict[str, Field] = {}
    for shard in {shard.fields: shard for shard in shards}.values():
        for one in shard.fields:
            if fields.setdefault(one.name, one).sequence != one.sequence:
                raise FormatError(
                    f"field {one.name!r} is a sequence in some shards and plain in others",
                    file=str(shard.path(0)),
                    hint="declare its type with spec=",
                )
    return fields


def manifest_path(shards: Sequence[Shard]) -> AnyPath | None:
    """Return the path of the manifest, in the sidecar folder of the first shard; None if the shards share no folder."""
    if not shards or any(shard.root != shards[0].root for shard in shards):
        return None
    return shards[0].root / shards[0].sidecars / "manifest.json"


def open_shards(
    container: str, shards: Sequence[Shard], options: ReadOptions, policy: IndexPolicy = "auto"
) -> list[OpenShard]:
    """Open every shard: listed in the manifest, with the index of its sidecar, or with an index that is built now.

    Args:
        container: Name of the container.
        shards: The shards of the dataset.
        options: What the user declares about them.
        policy: What to do about a missing or stale index.

    Raises:
        FormatError: A shard is damaged, or has no usable index and `policy` is `require`.
    """
    many = len(shards) > _STAT_ALL or (len(shards) > _ASK_ALL and not is_local(shards[0].root))
    if many and options.spec is None and (manifest := _covering(container, shards)) is not None:
        fields = tuple(parse_spec(manifest.spec).values())
        entries = {entry.name: entry for entry in manifest.shards}
        return [OpenShard.listed(container, shard, entries[shard.name], fields) for shard in shards]

    return each_shard(shards, lambda shard: _open_one(container, shard, options, policy))


def each_shard(
    shards: Sequence[Shard],
    work: Callable[[Shard], T],
    *,
    workers: int | None = None,
    progress: OnProgress | None = None,
) -> list[T]:
    """Call a function with every shard in threads, and return the results in order.

    Args:
        shards: The shards.
        work: The function.
        workers: Number of threads.
        progress: Called with the number of finished shards, from this thread.

    Raises:
        BaseException: The first error of `work` in the order of shards. Work that has not started is dropped.
    """
    finished: Iterable[T]
    if len(shards) == 1:
        finished = [work(shards[0])]
    else:
        usual = cpu_count() if not shards or is_local(shards[0].root) else _REMOTE_WORKERS
        finished = parallel_map(work, shards, workers=workers or usual, limit=len(shards), name="bushel-index")
    results: list[T] = []
    for result in finished:
        results.append(result)
        if progress is not None:
            progress(Progress(len(results), len(shards), "shards"))
    return results


def _covering(container: str, shards: Sequence[Shard]) -> Manifest | None:
    """Return the manifest if it lists all of these shards."""
    path = manifest_path(shards)
    try:
        manifest = None if path is None else load_manifest(path)
    except PermissionError:
        return None
    if manifest is None or manifest.container != container:
        return None
    return manifest if {shard.name for shard in shards} <= {entry.name for entry in manifest.shards} else None


def _open_one(container: str, shard: Shard, options: ReadOptions, policy: IndexPolicy) -> OpenShard:
    index, stored = table_to_read(
        container, shard, options, require=policy == "require", keep=policy == "auto" and is_local(shard.root)
    )
    return OpenShard.of(container, shard, index, stored=stored)


def rebuild_index(container: str, shard: Shard, options: ReadOptions, *, force: bool, segments: bool) -> OpenShard:
    """Write the sidecar of a shard as `index_again` does, and return the shard with this table."""
    index = index_again(container, shard, options, force=force, segments=segments)
    return OpenShard.of(container, shard, index, stored=True)


def write_manifest(
    shards: Sequence[OpenShard], path: AnyPath | None = None, *, expected: int | None = None, sync: bool = True
) -> AnyPath | None:
    """Write the manifest of a dataset and return its path; None if the shards share no folder.

    Args:
        shards: The shards.
        path: Path for the manifest of an incomplete dataset. By default the dataset is complete.
        expected: Number of samples that an incomplete dataset should have, if known.
        sync: Whether to wait until it is on disk.
    """
    complete = path is None
    path = path or manifest_path([opened.shard for opened in shards])
    if path is None:
        return None
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for opened in shards:
        for name, column in opened.index.columns.items():
            spec.setdefault(name, column.field.type)
            codecs.setdefault(name, column.codec)
    entries = [ManifestShard.of(opened.shard.name, opened.index) for opened in shards]
    manifest = Manifest(shards[0].container, spec, codecs, entries, complete=complete, expected=expected)
    save_manifest(manifest, path, sync=sync)
    return path
