"""Shards of a dataset: how the index of each is found, checked against its files, and kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from bushel.containers import get_container
from bushel.containers.base import ReadOptions, Shard
from bushel.core.index.sidecar import (
    FOLDER,
    Manifest,
    ManifestShard,
    load_index,
    load_manifest,
    save_index,
    save_manifest,
)
from bushel.core.index.table import FileStamp, ShardIndex
from bushel.core.parallel import cpu_count, parallel_map
from bushel.core.progress import OnProgress, Progress
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec, parse_spec
from bushel.storage import AnyPath, File, is_local, is_object, open_known
from bushel.storage.base import FROM_TAG

__all__ = [
    "IndexPolicy",
    "OpenShard",
    "each_shard",
    "fresh_index",
    "manifest_path",
    "open_shards",
    "rebuild_index",
    "stamps_of",
    "still_fits",
    "unchanged",
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

_NO_SIDECAR = (FileNotFoundError, PermissionError)
"""Errors that mean that a sidecar does not exist. A store that forbids listing refuses access to missing objects."""

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
        # stamps made of ETags need no look: each response of the store is compared with them
        if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):
            now = stamps_of(self.shard)
        if not still_fits(self.stamps, now, self.shard):
            raise FormatError(
                "the shard has changed since it was indexed",
                file=str(self.path(0)),
                hint="run `bushel index` on the dataset, then open it again",
            )
        try:
            index = load_index(self.shard.sidecar)
        except FileNotFoundError as error:
            raise FormatError(
                "the index of the shard is missing",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            ) from error
        if index.samples != self.samples or not still_fits(index.files, now, self.shard):
            raise FormatError(
                f"this index does not belong to {self.path(0)} as the manifest lists it",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            )
        self.stamps = now
        return index.select([field.name for field in self.fields])

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
        if file.size != stamp.size or (stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns):
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


def stamps_of(shard: Shard) -> tuple[FileStamp, ...]:
    """Return size and time of a shard's files as they are now.

    Raises:
        FormatError: A file is missing.
    """
    stamps = []
    for number, name in enumerate(shard.files):
        try:
            stat = shard.path(number).stat()
        except FileNotFoundError as error:
            raise FormatError(
                "a file of the dataset is missing",
                file=str(shard.path(number)),
                hint="put it back; or remove the other files of this shard, and `bushel index` the dataset",
            ) from error
        stamps.append(FileStamp(name, int(stat.st_size), int(getattr(stat, "st_mtime_ns", 0) or 0)))
    return tuple(stamps)


def unchanged(known: Sequence[FileStamp], now: Sequence[FileStamp]) -> bool:
    """Return whether files are as an index recorded them. The folders in their names do not matter."""
    return [_without_folder(stamp) for stamp in known] == [_without_folder(stamp) for stamp in now]


def still_fits(known: Sequence[FileStamp], now: Sequence[FileStamp], shard: Shard) -> bool:
    """Return whether a sidecar or manifest still describes a shard's files.

    Copying a dataset to an object store changes the times of its files. There, a sidecar is valid if the sizes agree
    and it was stored after the data.

    Args:
        known: The files as the sidecar or manifest recorded them.
        now: The files as they are now.
        shard: The shard.

    Raises:
        OSError: An object store refuses, or cannot be reached.
    """
    if unchanged(known, now):
        return True
    sidecar = shard.sidecar
    if not is_object(sidecar) or any(stamp.mtime_ns >= FROM_TAG for stamp in known):
        return False
    if [_without_folder(stamp)[:2] for stamp in known] != [_without_folder(stamp)[:2] for stamp in now]:
        return False
    data = [path.stat().modified for path in map(shard.path, range(len(now))) if is_object(path)]
    return sidecar.stat().modified >= max(data)


def _without_folder(stamp: FileStamp) -> tuple[str, int, int]:
    return stamp.name.rsplit("/", 1)[-1], stamp.size, stamp.mtime_ns


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
    index = None if options.spec is not None else fresh_index(shard)
    if index is not None and not _lacks_checksums(index, options):
        return OpenShard.of(container, shard, index, stored=True)
    if policy == "require":
        raise FormatError(
            "the shard has no index, or its index is stale",
            file=str(shard.path(0)),
            hint="run `bushel index` on the dataset",
        )
    index = build_index(container, shard, options)
    stored = (
        policy == "auto" and options.spec is None and get_container(container).scanned and _keep_index(index, shard)
    )
    return OpenShard.of(container, shard, index, stored=stored)


def build_index(container: str, shard: Shard, options: ReadOptions) -> ShardIndex:
    """Index a shard from its data.

    A stale index may hold what the data do not: the names and types that were given to the writer. They are used again
    if they fit the data.

    Raises:
        FormatError: The shard is damaged.
        SpecError: `options.spec` does not fit the data.
    """
    if options.spec is None and (spec := _remembered_spec(shard)) is not None:
        try:
            index = get_container(container).index(shard, replace(options, spec=spec))
        except (FormatError, SpecError) as error:
            _log.info("%s: %s; the names and types of the stale index are not used", shard.sidecar, error)
        else:
            if index.columns.keys() >= spec.keys():
                return index
    return get_container(container).index(shard, options)


def _remembered_spec(shard: Shard) -> Spec | None:
    try:
        return {name: column.field for name, column in load_index(shard.sidecar).columns.items()}
    except (*_NO_SIDECAR, FormatError):
        return None


def fresh_index(shard: Shard) -> ShardIndex | None:
    """Return the index in the shard's sidecar, or None if it is missing, damaged or stale."""
    index = _fitting_index(shard, shard.sidecar)
    if index is None and is_local(shard.root) and shard.sidecars == FOLDER and shard.name:
        # A writer with mode="overwrite" that was killed after it replaced the file has left the new index there.
        staged = shard.root / FOLDER / "overwrite" / shard.name / FOLDER / shard.sidecar.name
        index = _fitting_index(shard, staged) if staged.exists() else None
    return index


def _fitting_index(shard: Shard, sidecar: AnyPath) -> ShardIndex | None:
    try:
        index = load_index(sidecar)
    except _NO_SIDECAR:
        return None
    except FormatError as error:
        _log.warning("%s; the shard is indexed again", error)
        return None
    stamps = stamps_of(shard)
    if not still_fits(index.files, stamps, shard):
        _log.info("%s: the index is stale; the shard is indexed again", sidecar)
        return None
    return replace(index, files=stamps)


def _lacks_checksums(index: ShardIndex, options: ReadOptions) -> bool:
    return options.checksums and any(column.crc32 is None for column in index.columns.values())


def _keep_index(index: ShardIndex, shard: Shard) -> bool:
    """Store an index beside the data if possible. Datasets are often in folders that are read-only."""
    if not is_local(shard.sidecar):  # writing may cost money there, so only `bushel.index` does it
        return False
    try:
        save_index(index, shard.sidecar)
    except OSError as error:
        _log.info("%s: the index is not stored: %s", shard.sidecar, error)
        return False
    return True


def rebuild_index(container: str, shard: Shard, options: ReadOptions, *, force: bool, segments: bool) -> OpenShard:
    """Write the sidecar of a shard, unless it is fresh and has the checksums and segments that are asked for.

    Raises:
        FormatError: The shard is damaged.
        OSError: The sidecar cannot be written.
    """
    fresh = None if force or options.spec is not None else fresh_index(shard)
    index = build_index(container, shard, options) if fresh is None or _lacks_checksums(fresh, options) else fresh
    if segments:
        from bushel.core.index.segment_scan import with_segments

        index = with_segments(index, shard.path)
    if index is not fresh:
        save_index(index, shard.sidecar)
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
