"""Open and index datasets: `bushel.open`, `bushel.open_stream` and `bushel.index`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.discovery import (
    expand_paths,
    find,
    find_incomplete,
    folder_state,
    incomplete_finder,
    is_stream,
    load_state,
    marker_path,
    telling_of_interrupted_writes,
    warn_incomplete,
)
from bushel.core.dataset.parts import above_parts
from bushel.core.dataset.shards import (
    IndexPolicy,
    each_shard,
    labels_beside,
    open_shards,
)
from bushel.core.dataset.tables import Indexing
from bushel.core.progress import OnProgress
from bushel.errors import UnsupportedError
from bushel.spec import Spec, parse_spec

if TYPE_CHECKING:
    from bushel.core.dataset.stream import StreamDataset
    from bushel.core.index.value_scan import Scanned

__all__ = ["index", "open", "open_any", "open_stream"]


def open(
    source: Any,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    index: IndexPolicy = "auto",
    verify: bool | None = None,
    pickle: bool = False,
    partial: bool = False,
    damaged: Literal["warn", "raise"] = "warn",
) -> Dataset:
    """Open a dataset for reading.

    If the dataset is incomplete, because its writer was stopped or is still writing, an `IncompleteWarning` says so. If
    the structure of a shard is damaged, a `DamagedWarning` says so; the samples that the damage does not touch can be
    read, and the others raise a `FormatError` (docs/integrity.md).

    Args:
        source: A folder, a file, a glob, a brace pattern (`train-{000..146}.tar`), or a list of these; text,
            `pathlib.Path`, any path-like object with `open()`, or a URL: `s3://bucket/train/`, `gs://…`,
            `az://container/…`, `https://host/…` (docs/cloud.md).
        container: Name of the container, for a folder that holds files of several containers.
        spec: Types of fields that the files do not tell: of records without a sidecar, or of tar members whose
            extension says too little. Names that a tar stores with an extension are found by it.
        index: `auto` keeps a scanned index beside local data if possible, `memory` never writes, and `require` refuses
            a dataset without a fresh index.
        verify: True compares bytes with their CRC-32 on every read, where it is known; False never does. The default
            compares what the container itself promises: the CRC-32 of an ffrecord file's samples, as FFRecord does.
        pickle: Allow pickled gulp metadata. Only the two classes that GulpIO pickles are accepted in it.
        partial: Open an incomplete dataset without a warning.
        damaged: What to do if the structure of a shard is damaged: `warn`, or `raise` a `FormatError`.

    Raises:
        FileNotFoundError: `source` does not exist.
        FormatError: `source` is not a dataset, or a shard is so damaged that no sample in it can be located; the error
            says which file, where, and what to run next.
        SpecError: A type in `spec` is unknown; or two shards give different names to the same class number.
        UnsupportedError: `source` can only be read forward; open it with `open_stream`.
    """
    if is_stream(source):
        shown = f"{source!r}" if spec is None else f"{source!r}, spec={dict(spec)!r}"
        raise UnsupportedError(
            f"{source!r} can only be read from front to back: use bushel.open_stream({shown}), "
            "or unpack it into a file and open that for random access"
        )
    fields = None if spec is None else _checked(spec)
    if damaged not in ("warn", "raise"):
        raise ValueError(f"damaged must be 'warn' or 'raise', not {damaged!r}")
    paths = expand_paths(source)
    state = None if fields is not None else folder_state(paths)
    if state is not None:
        from bushel.core.dataset.listed import keep_table, open_listed

        if (listed := open_listed(paths[0], container, state)) is not None:
            return Dataset(listed, verify=verify)
    with telling_of_interrupted_writes(paths):
        found = find(paths, container)
        look = incomplete_finder(paths, found.shards)
        options = ReadOptions(spec=fields, pickle=pickle, damaged=True)
        shards = open_shards(found.container, found.shards, options, index, recover=damaged == "warn")
        dataset = Dataset(shards, verify=verify)
        dataset.labels  # noqa: B018 - raises if shards differ
    if damages := [shard.damage for shard in shards if shard.damage is not None]:
        from bushel.core.dataset.damaged import warn_damaged

        warn_damaged(damages)
    if (incomplete := look()) is not None:
        dataset._reader.incomplete = incomplete
        if not partial:
            warn_incomplete(incomplete, len(dataset))
    elif state is not None and index == "auto":
        keep_table(paths[0], shards, state)
    return dataset


def open_stream(
    source: Any,
    *,
    spec: Mapping[str, str] | None = None,
    fields: Iterable[str] | None = None,
    decode: bool = True,
    allow_commands: bool = False,
) -> StreamDataset:
    """Open WebDataset archives to read them once, from front to back.

    Args:
        source: A tar file, compressed or not; a glob, a brace pattern or a URL of such files; `pipe:COMMAND`, which
            the shell runs, with `{000..146}` expanded; `-` for standard input; a binary file object; or a list of
            these. Gzip, bzip2 and xz are recognised by the first bytes, whatever the name.
        spec: Types of fields that the extensions do not tell, and names of sequence fields.
        fields: The fields to read; others are skipped. Default: all.
        decode: Whether to decode values, or to give the stored bytes.
        allow_commands: Whether `pipe:` may run commands.

    Raises:
        FileNotFoundError: A file does not exist.
        SpecError: `spec` is malformed, or a type in it is unknown.
        UnsupportedError: `source` is a command, and `allow_commands` is false.
    """
    from bushel.core.dataset.stream import StreamDataset

    _checked(spec)
    return StreamDataset(source, spec=spec, fields=fields, decode=decode, allow_commands=allow_commands)


def open_any(
    source: Any,
    *,
    container: str | None = None,
    verify: bool | None = None,
    pickle: bool = False,
    allow_commands: bool = False,
    damaged: Literal["warn", "raise"] = "raise",
) -> Dataset | StreamDataset:
    """Open a source with `open_stream` if it can only be read forward, else with `open`."""
    if is_stream(source):
        return open_stream(source, allow_commands=allow_commands)
    return open(source, container=container, verify=verify, pickle=pickle, damaged=damaged)


def index(
    source: Any,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    checksums: bool = True,
    segments: bool = False,
    frames: bool = False,
    seek: bool = False,
    force: bool = False,
    workers: int | None = None,
    pickle: bool = False,
    engine: Any = None,
    progress: OnProgress | None = None,
) -> Dataset:
    """Index a dataset and store the index beside it: `.bushel/*.safetensors` and a manifest.

    Shards with a fresh index are skipped, unless checksums are asked for and they have none. Checksums on record are
    compared with the data of a shard that changed; data that differ are refused without `force`.

    Args:
        source: As for `open`.
        container: As for `open`.
        spec: As for `open`. It is stored in the index.
        checksums: Compute the CRC-32 of every field, which reads all data once. Later damage can then be detected.
        segments: Store the segments of tiled JPEGs (`bushel.jpeg.tile` makes these), so that `read_crop` reads only the
            ones that it needs. A segment takes 4 bytes, a photo of 500 x 375 some 700 bytes. Reads all images once.
        frames: Store where the packets of video clips are, so that only those of the requested frames are read
            (docs/video.md). A packet takes 17 bytes. Reads all clips once, without decoding them; needs PyAV. Writers
            do it anyway if PyAV is installed.
        seek: Store seek tables of plain JPEGs, with which crops decode faster (docs/seek-tables.md). They take at
            most 1 % of the images' bytes. Reads and decodes all images once.
        force: Index every shard again, and accept bytes that differ from the checksums on record.
        workers: Number of shards to index at once. Default: the CPUs that this process may use; 8 for object stores.
        pickle: As for `open`.
        engine: Where shards are indexed: see `bushel.pack`. By default in threads of this process.
        progress: Called with the number of finished shards.

    Returns:
        The dataset.

    Raises:
        CorruptError: Bytes differ from the checksums on record; the error names the first samples.
        FormatError: A shard is damaged, or lacks values whose checksums are on record.
        SpecError: `frames` is set, there are clips, and PyAV is not installed.
        OSError: The index cannot be written.
    """
    from bushel.core.dataset.listed import RebuildIndex, write_manifest

    paths = expand_paths(source)
    found = find(paths, container)
    incomplete = find_incomplete(paths, found.shards)
    asked: dict[Scanned, bool] = {"segments": segments, "frames": frames, "seek": seek}
    wanted = Indexing(
        ReadOptions(spec=_checked(spec), pickle=pickle, checksums=checksums),
        scans=[scan for scan, yes in asked.items() if yes],
        labels=labels_beside(found.container, found.shards),
        force=force,
    )
    shards = each_shard(
        found.shards,
        RebuildIndex(found.container, wanted),
        workers=workers,
        progress=progress,
        engine=engine,
    )
    root = above_parts(found.shards) or found.shards[0].root
    state = None if incomplete is None else load_state(root, "")
    if state is None or state.complete:
        write_manifest(shards)
    else:
        write_manifest(shards, marker_path(root, ""), expected=state.expected)
    dataset = Dataset(shards)
    dataset._reader.incomplete = incomplete
    return dataset


def _checked(spec: Mapping[str, str] | None) -> Spec | None:
    if spec is None:
        return None
    fields = parse_spec(spec)
    for field in fields.values():
        get_codec(field.codec)
    return fields
