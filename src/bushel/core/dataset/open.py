"""Opening and indexing datasets: the two entrances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.discovery import expand_paths, find
from bushel.core.dataset.load_index import IndexPolicy, each_shard, open_shards, rebuild_index, write_manifest
from bushel.core.dataset.stream import StreamDataset, is_stream
from bushel.spec import Spec, parse_spec

__all__ = ["index", "open"]


def open(
    source: Any,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    index: IndexPolicy = "auto",
    verify: bool = False,
    pickle: bool = False,
    allow_commands: bool = False,
) -> Dataset | StreamDataset:
    """Open a dataset for reading.

    Args:
        source: A folder, a file, a glob, a brace pattern (`train-{000..146}.tar`), or a list of these; text,
            `pathlib.Path`, any path-like object with `open()`, or a URL: `s3://bucket/train/`, `gs://…`,
            `az://container/…`, `https://host/…` (docs/cloud.md). Compressed tars and `pipe:` commands become a
            `StreamDataset`, which is read forward only.
        container: Its name, where a folder holds files of several.
        spec: Types of fields that the files do not tell: of records without a sidecar, or of tar members whose
            extension says too little. Names that a tar stores with an extension are found by it.
        index: `auto` keeps a scanned index beside local data when it can, `memory` never writes, and `require` refuses
            a dataset without a fresh index.
        verify: Compare bytes with their CRC-32 on every read, where it is known.
        pickle: Allow pickled gulp metadata. Only the two classes that GulpIO pickles are accepted in it.
        allow_commands: Allow `pipe:` sources, which run a command.

    Raises:
        FileNotFoundError: Nothing is there.
        FormatError: It is no dataset, or a damaged one; says which file, where, and what to run next.
        SpecError: A type in `spec` is unknown.
    """
    fields = _checked(spec)
    if is_stream(source):
        return StreamDataset(source, spec=spec, allow_commands=allow_commands)
    found = find(expand_paths(source), container)
    options = ReadOptions(spec=fields, pickle=pickle)
    return Dataset(open_shards(found, options, index), verify=verify)


def index(
    source: Any,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    checksums: bool = True,
    segments: bool = False,
    force: bool = False,
    workers: int | None = None,
    pickle: bool = False,
    report: Callable[[int], None] | None = None,
) -> Dataset:
    """Index a dataset and keep the index beside it: `.bushel/*.safetensors` and a manifest.

    Shards whose index is fresh are left alone, unless checksums are wanted and they have none.

    Args:
        source: As for `open`.
        container: As for `open`.
        spec: As for `open`; it is kept in the index.
        checksums: Compute the CRC-32 of every field, which reads all data once. Later damage is found by it.
        segments: Keep where the segments of tiled JPEGs begin (`bushel.jpeg.tile` makes these), so that `read_crop`
            reads no others; 4 bytes for each, some 700 for a photo of 500 x 375. Reads all images once.
        force: Index every shard again. The checksums are then those of the bytes as they are now.
        workers: Shards to index at once.
        pickle: As for `open`.
        report: Called with the number of shards finished.

    Returns:
        The dataset.

    Raises:
        FormatError: A shard is damaged.
        OSError: The index cannot be written.
    """
    options = ReadOptions(spec=_checked(spec), pickle=pickle, checksums=checksums)
    found = find(expand_paths(source), container)

    shards = each_shard(
        found.shards,
        lambda shard: rebuild_index(found.container, shard, options, force=force, segments=segments),
        workers=workers,
        report=report,
    )
    write_manifest(shards)
    return Dataset(shards)


def _checked(spec: Mapping[str, str] | None) -> Spec | None:
    if spec is None:
        return None
    fields = parse_spec(spec)
    for field in fields.values():
        get_codec(field.codec)
    return fields
