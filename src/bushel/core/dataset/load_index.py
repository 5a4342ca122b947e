"""Getting the index of every shard of a dataset: from the manifest, from sidecars, or from the data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from bushel.containers import get_container
from bushel.containers.base import ReadOptions, Shard
from bushel.core.dataset.discovery import Found
from bushel.core.dataset.segment_scan import with_segments
from bushel.core.dataset.shards import OpenShard, stamps_of, still_fits
from bushel.core.index.sidecar import Manifest, ManifestShard, load_index, load_manifest, save_index, save_manifest
from bushel.core.index.table import ShardIndex
from bushel.core.parallel import cpu_count, parallel_map
from bushel.errors import FormatError, SpecError
from bushel.spec import Spec, parse_spec
from bushel.storage import AnyPath, is_local

__all__ = [
    "IndexPolicy",
    "each_shard",
    "fresh_index",
    "manifest_path",
    "open_shards",
    "rebuild_index",
    "write_manifest",
]

IndexPolicy = Literal["auto", "memory", "require"]
"""What to do about a missing or stale index: build it and keep it where a scan was needed (`auto`), build it and
keep it in memory only (`memory`), or refuse (`require`)."""

_REMOTE_WORKERS = 8
"""Shards elsewhere that are indexed at once: each may have 64 MiB on its way."""

_STAT_ALL, _ASK_ALL = 1000, 32
"""Datasets of up to this many shards, on disk and elsewhere, are compared with their sidecars when they are opened,
larger ones shard by shard when a shard is first read."""

_ABSENT = (FileNotFoundError, PermissionError)
"""How it shows that there is no sidecar: who may not list a bucket is refused what is not there."""

T = TypeVar("T")

_log = logging.getLogger("bushel")


def manifest_path(shards: Sequence[Shard]) -> AnyPath | None:
    """Where the manifest of these shards is kept: in the sidecar folder of the first; None if they share no folder."""
    if not shards or any(shard.root != shards[0].root for shard in shards):
        return None
    return shards[0].root / shards[0].sidecars / "manifest.json"


def open_shards(
    found: Found,
    options: ReadOptions,
    policy: IndexPolicy = "auto",
) -> list[OpenShard]:
    """Get the index of every shard: listed in the manifest, mapped from a sidecar, or built.

    Args:
        found: The dataset's files.
        options: What the user says about them.
        policy: What to do about a missing or stale index.

    Raises:
        FormatError: A shard is damaged, or has no usable index and `policy` is `require`.
    """
    most = _STAT_ALL if not found.shards or is_local(found.shards[0].root) else _ASK_ALL
    if len(found.shards) > most and options.spec is None and (manifest := _covering(found)) is not None:
        fields = tuple(parse_spec(manifest.spec).values())
        entries = {entry.name: entry for entry in manifest.shards}
        return [OpenShard.listed(found.container, shard, entries[shard.name], fields) for shard in found.shards]

    return each_shard(found.shards, lambda shard: _open_one(found.container, shard, options, policy))


def each_shard(
    shards: Sequence[Shard],
    work: Callable[[Shard], T],
    *,
    workers: int | None = None,
    report: Callable[[int], None] | None = None,
) -> list[T]:
    """Do something with every shard, several at once, and give the results in order.

    Args:
        shards: The shards.
        work: Called with each, in threads.
        workers: How many at once.
        report: Called with 1 whenever a shard is done, from this thread.

    Raises:
        BaseException: The first that `work` raised, in the order of shards; work that had not begun is dropped.
    """
    results: list[T] = []
    if len(shards) == 1:
        results.append(work(shards[0]))
        if report is not None:
            report(1)
        return results
    usual = cpu_count() if not shards or is_local(shards[0].root) else _REMOTE_WORKERS
    done = parallel_map(work, shards, workers=workers or usual, limit=len(shards), name="bushel-index")
    for result in done:
        results.append(result)
        if report is not None:
            report(1)
    return results


def _covering(found: Found) -> Manifest | None:
    """The manifest, if it knows all of these shards."""
    path = manifest_path(found.shards)
    try:
        manifest = None if path is None else load_manifest(path)
    except PermissionError:
        return None
    if manifest is None or manifest.container != found.container:
        return None
    return manifest if {shard.name for shard in found.shards} <= {entry.name for entry in manifest.shards} else None


def _open_one(container: str, shard: Shard, options: ReadOptions, policy: IndexPolicy) -> OpenShard:
    index = None if options.spec is not None else fresh_index(shard)
    if index is not None and not _lacks_checksums(index, options):
        return OpenShard.of(container, shard, index, stored=True)
    if policy == "require":
        raise FormatError(
            "it has no index, or its index is older than the file",
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

    An older index of it may know what the data cannot tell: the names and types that the writer was given. They are
    taken over as long as they fit.

    Raises:
        FormatError: The shard is damaged.
        SpecError: `options.spec` does not fit the data.
    """
    if options.spec is None and (spec := _remembered_spec(shard)) is not None:
        try:
            index = get_container(container).index(shard, replace(options, spec=spec))
        except (FormatError, SpecError) as error:
            _log.info("%s: %s; the fields are named anew", shard.sidecar, error)
        else:
            if index.columns.keys() >= spec.keys():
                return index
    return get_container(container).index(shard, options)


def _remembered_spec(shard: Shard) -> Spec | None:
    try:
        return {name: column.field for name, column in load_index(shard.sidecar).columns.items()}
    except (*_ABSENT, FormatError):
        return None


def fresh_index(shard: Shard) -> ShardIndex | None:
    """The index in the shard's sidecar, if there is one and the shard's files have not changed since."""
    try:
        index = load_index(shard.sidecar)
    except _ABSENT:
        return None
    except FormatError as error:
        _log.warning("%s; the shard is indexed again", error)
        return None
    stamps = stamps_of(shard)
    if not still_fits(index.files, stamps, shard):
        _log.info("%s: the index is older than the data; the shard is indexed again", shard.sidecar)
        return None
    return replace(index, files=stamps)


def _lacks_checksums(index: ShardIndex, options: ReadOptions) -> bool:
    return options.checksums and any(column.crc32 is None for column in index.columns.values())


def _keep_index(index: ShardIndex, shard: Shard) -> bool:
    """Save an index beside the data if that is possible; datasets often lie where one may only read."""
    if not is_local(shard.sidecar):  # where writing may cost money, it is done when it is asked for
        return False
    try:
        save_index(index, shard.sidecar)
    except OSError as error:
        _log.info("%s: the index is not kept: %s", shard.sidecar, error)
        return False
    return True


def rebuild_index(container: str, shard: Shard, options: ReadOptions, *, force: bool, segments: bool) -> OpenShard:
    """Bring the sidecar of a shard up to date, unless it is fresh and has the checksums and segments that are wanted.

    Raises:
        FormatError: The shard is damaged.
        OSError: The sidecar cannot be written.
    """
    fresh = None if force or options.spec is not None else fresh_index(shard)
    index = build_index(container, shard, options) if fresh is None or _lacks_checksums(fresh, options) else fresh
    if segments:
        index = with_segments(index, shard)
    if index is not fresh:
        save_index(index, shard.sidecar)
    return OpenShard.of(container, shard, index, stored=True)


def write_manifest(shards: Sequence[OpenShard], *, sync: bool = True) -> AnyPath | None:
    """Write the manifest of a dataset; None where it has no place."""
    path = manifest_path([opened.shard for opened in shards])
    if path is None:
        return None
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for opened in shards:
        for name, column in opened.index.columns.items():
            spec.setdefault(name, column.field.type)
            codecs.setdefault(name, column.codec)
    entries = [ManifestShard.of(opened.shard.name, opened.index) for opened in shards]
    save_manifest(Manifest(shards[0].container, spec, codecs, entries), path, sync=sync)
    return path
