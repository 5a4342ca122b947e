"""Convert datasets from one container to another, as one dataset or in parts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from bushel.containers import container_for, get_container
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.open import open_any
from bushel.core.dataset.stream import StreamDataset
from bushel.core.index.column_names import names_of
from bushel.core.progress import ShowProgress, callback_of, shows_progress
from bushel.core.tasks.drive import TaskOptions
from bushel.core.writer.options import Mode, WriterOptions
from bushel.errors import UnsupportedError
from bushel.ingest.convert_job import ConvertJob, ConvertOptions, ConvertResult, convert_one, plan_conversion
from bushel.ingest.field_plan import target_fields
from bushel.ingest.images import Jpeg
from bushel.ingest.part import ErrorLimit
from bushel.ingest.run_folder import RunFolder
from bushel.ingest.run_plan import check_part
from bushel.ingest.scale_out import RunOptions, join_run, run_parts
from bushel.sources.stored import empty_folders_in
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, as_path, parse_bytes

__all__ = ["convert"]


@shows_progress("converting")
def convert(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    container: str | None = None,
    fields: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    jpeg: Jpeg = None,
    keys: bool | Callable[[str], str] | None = None,
    parts: int | None = None,
    part: int | None = None,
    plan_only: bool = False,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["A", "B", "C"] | None = None,
    mode: Mode = "create",
    workers: int | None = None,
    sync: bool = True,
    seek: bool | None = None,
    columns: str | Iterable[str] | None = None,
    engine: Any = None,
    retries: int = 3,
    speculate: float = 3.0,
    progress: ShowProgress = None,
) -> ConvertResult:
    """Write a dataset in another container, or with other fields, types or shards.

    Samples keep their order and their keys. Bytes that both containers store alike are copied unchanged (a JPEG stays
    that JPEG); others are decoded and encoded again (an integer is text in a tar and binary in a bag). The files do not
    depend on the number of workers.

    Names of classes are kept (`Dataset.labels`). A dataset that is appended to keeps its numbers: classes are found by
    their names, new ones follow, and numbers that differ are mapped.

    Memory is bounded by the number of workers times 16 MiB, or times the largest samples where these are larger.

    Args:
        source: A path or anything else that `bushel.open` or `bushel.open_stream` takes, read with `verify=True`; or a
            dataset, a view of one, or a stream.
        target: See `bushel.Writer`. With `mode="overwrite"` it may be the source.
        container: See `bushel.Writer`. Can be left out if the suffix of `target` implies it.
        fields: Names of the fields to keep; all by default.
        rename: Old to new names of fields, for containers that cannot hold the old ones.
        spec: New types of fields, by their names in the source: `{"label": "int"}`. The bytes of a field whose type in
            the source is `bytes` are taken to be of the new type; values of other fields are converted. A sequence with
            one element in each sample can become a plain field.
        jpeg: `tile` stores JPEGs as tiled JPEGs, whose crops decode faster. It keeps the pixels and drops metadata: see
            `bushel.jpeg.tile`. JPEGs that are tiled already keep their bytes.
        keys: Whether samples get keys; by default, if they have keys or the container needs them. With True, samples
            without keys get their position as text. A function maps every key to the stored key, for containers that
            cannot hold the original one. For a dataset it is called once for every sample, in order, including those
            that `resume` skips; with `parts`, in any order.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        generation: See `bushel.Writer`; also `A` for a bag.
        mode: See `bushel.Writer`. `resume` continues an interrupted conversion with the same arguments.
        parts: Write the samples in this many parts, which are one dataset: see `bushel.pack`. By default one dataset,
            or, with `engine`, as many parts as the source has shards.
        part: Write only this part, counted from 0.
        plan_only: Write only the plan of the run, with `parts`.
        workers: Number of threads that read and encode; by default the number of CPUs that this process may use. With
            `engine`, threads of each part; by default 1.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`. By default, seek tables are made if the source has some.
        columns: See `bushel.Writer`. By default those of the source, and the usual ones.
        engine: See `bushel.pack`.
        retries: See `bushel.pack`.
        speculate: See `bushel.pack`.
        progress: True for a bar in a terminal or notebook; or a function that is called with a `bushel.Progress` some
            times per second.

    Returns:
        A summary: samples, bytes, and the spec that was written.

    Raises:
        SpecError: The target cannot hold these samples; the message says why, and which containers can. Or a class
            number must be mapped and has no name.
        CodecError: A value cannot be decoded, or cannot be encoded as the target stores it; with `jpeg`, a JPEG is
            damaged.
        CorruptError: Stored bytes do not match their CRC.
        KeyError: There is no such field.
        FileExistsError, FileNotFoundError, StateError: See `bushel.Writer`.

    Examples:
        >>> done = bushel.convert("train/", "train.rec", container="recordio")
        >>> done.samples, done.spec
        (12, {'image': 'jpg', 'label': 'int'})
    """
    started = time.monotonic()
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers} is too small: give 1 or more, or None for the number of CPUs")
    path = as_path(target)
    kind = get_container(container) if container is not None else container_for(path.name)
    opened = source if isinstance(source, Dataset | StreamDataset) else open_any(source, verify=True)
    writing = WriterOptions(
        container=kind.name,
        mode=mode,
        shard_samples=shard_samples,
        shard_bytes=None if shard_bytes is None else parse_bytes(shard_bytes),
        generation=generation,
        sync=sync,
    )
    options = ConvertOptions(
        writing,
        fields=None if fields is None else tuple(fields),
        rename=dict(rename or {}),
        spec=dict(spec or {}),
        jpeg=jpeg,
        keys=keys,
        seek=seek,
        columns=None if columns is None else names_of(columns),
    )
    if isinstance(opened, StreamDataset):
        if parts is not None or engine is not None:
            raise UnsupportedError("a stream can only be read from front to back, so it cannot be converted in parts")
        return convert_one(opened, path, options, workers=workers, progress=callback_of(progress))
    if engine is not None and parts is None:
        parts = max(1, min(len(opened.shards), len(opened)))
    check_part(parts, part)
    if parts is None:
        return convert_one(opened, path, options, workers=workers, progress=callback_of(progress))
    run = RunFolder(path, kind.suffix)
    targets = target_fields(
        parse_spec(opened.spec), kind.name, fields=options.fields, rename=options.rename, spec=options.spec
    )
    plan = plan_conversion(opened, parts, options)
    join_run(run, plan, mode, part)
    folders = empty_folders_in(opened) if kind.keeps_folders else None
    job = ConvertJob(
        opened,
        tuple(plan.starts),
        replace(options, writer=replace(writing, mode="create")),
        folders=None if folders is None else tuple(folders),
        workers=workers or (None if engine is None else 1),
    )
    how = RunOptions(engine, parts, part, plan_only, TaskOptions(retries, speculate=speculate))
    totals = run_parts(run, plan, job, how, ErrorLimit(), callback_of(progress))
    return ConvertResult(
        container=kind.name,
        samples=totals.samples,
        kept=totals.kept,
        bytes=totals.bytes,
        seconds=time.monotonic() - started,
        spec=format_spec({each.name: each for each in targets.values()}),
        limits=totals.limits,
    )
