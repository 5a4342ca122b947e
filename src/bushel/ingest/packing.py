"""Pack any source into any container."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bushel.codecs import get_codec
from bushel.containers import container_for, get_container
from bushel.containers.base import Container, WriteOptions
from bushel.core.index.class_names import Labels, can_be_named, check_labels, in_order, numbered
from bushel.core.index.column_names import names_of
from bushel.core.order import Order, Sequential, Shuffle, make_order
from bushel.core.parallel import cpu_count
from bushel.core.progress import OnProgress, Progress, ProgressReporter, ShowProgress, callback_of, shows_progress
from bushel.core.tasks.drive import TaskOptions
from bushel.core.writer.class_names import known_labels
from bushel.core.writer.dataset_writer import Mode
from bushel.core.writer.overwrite import overwrite_folder
from bushel.core.writer.pack_writer import PackWriter
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.ingest.columns import column_reader
from bushel.ingest.fingerprints import source_fingerprint
from bushel.ingest.images import Jpeg, fields_to_tile, image_fields
from bushel.ingest.pack_job import PackJob
from bushel.ingest.part import ErrorLimit, OrderRange, Part, StreamItems, WorkerConfig, write_part
from bushel.ingest.processes import WorkerPool
from bushel.ingest.run_folder import RunFolder, planned_listing
from bushel.ingest.run_plan import RunPlan, check_part, describe, part_starts
from bushel.ingest.sample_encoder import FieldSteps, SampleEncoder
from bushel.ingest.scale_out import RunOptions, RunTotals, join_run, run_parts
from bushel.ingest.side_files import ErrorLog, error_log_path, labels_path, load_labels
from bushel.loader.bad_samples import error_limit
from bushel.sources.base import Fetching, Foldered, Labelled, Listed, Named, Selective, Source
from bushel.sources.opening import open_source
from bushel.sources.samples import Stream
from bushel.spec import Field, Spec, format_spec, parse_spec
from bushel.storage import AnyPath, as_path, parse_bytes, workplace
from bushel.transforms.by_field import Transforms, transforms_by_field

__all__ = ["PackResult", "describe_skipped", "pack"]

_BATCH_BYTES = 1 << 20
_ITEMS_IN_PART = 1000
"""Items of a part, if an engine is given and no number of parts."""
_REMOTE_BATCH_BYTES = 8 << 20  # many objects are requested at once


@dataclass(frozen=True, slots=True)
class PackResult:
    """The result of `pack`.

    Attributes:
        container: Name of the container.
        paths: Paths of the datasets written: one, or one for each part.
        samples: Samples written.
        kept: Samples that the dataset had before: with `mode="resume"` of this source, with `mode="append"` others.
        errors: Items that could not be packed.
        error_logs: Paths of the files that list them, with a JSON object in each line: position, key, path, error.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field to type, with the codecs that were chosen for images without a type.
        limits: Properties of the samples that the container does not keep, in words.
        skipped: Files of the source that are not samples, by kind: `{".avif": 3}`.
    """

    container: str
    paths: tuple[str, ...]
    samples: int
    kept: int
    errors: int
    error_logs: tuple[str, ...]
    bytes: int
    seconds: float
    spec: dict[str, str]
    limits: tuple[str, ...]
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.spec.items())
        counts = f"{self.samples:,} samples" + (f" after {self.kept:,}" if self.kept else "")
        errors = f", {self.errors:,} errors (see {', '.join(self.error_logs)})" if self.errors else ""
        if self.skipped:
            errors += f", skipped {describe_skipped(self.skipped)}"
        target = self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} parts"
        return (
            f"<PackResult {target}: {counts} as {self.container} ({fields}), {self.bytes:,} bytes "
            f"in {self.seconds:.1f} s{errors}>"
        )


@shows_progress("packing")
def pack(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    transforms: Transforms | None = None,
    orient: bool = False,
    check: bool = False,
    jpeg: Jpeg = None,
    keys: bool | Callable[[str], str] = True,
    shuffle: Shuffle = False,
    seed: int = 0,
    parts: int | None = None,
    part: int | None = None,
    plan_only: bool = False,
    max_errors: float | None = 0,
    strict: bool = False,
    strict_files: bool = False,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["B", "C"] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    mode: Mode = "create",
    workers: int | None = None,
    processes: int = 0,
    sync: bool = True,
    seek: bool = False,
    columns: str | Iterable[str] | None = None,
    engine: Any = None,
    retries: int = 3,
    speculate: float = 3.0,
    progress: ShowProgress = None,
) -> PackResult:
    """Pack samples into a dataset.

    Threads (or, with `processes`, worker processes) fetch, transform and encode samples, and one writer stores them in
    order, so the files do not depend on the number of workers. The bytes of an image that nothing changes are stored as
    they are. At most 64 MiB of encoded samples wait for the writer, besides one batch per worker.

    Args:
        source: A folder of images or videos, a `.lst`, `.csv`, `.json`, `.npz` or `.npy` file, a dataset, arrays,
            dicts, or any source: see `bushel.sources`.
        target: See `bushel.Writer`.
        container: See `bushel.Writer`.
        spec: Field to type, to change the types of the source: `{"image": "jpg"}` encodes a folder of PNGs as JPEGs.
        transforms: One transform or a list of transforms for the only image field, or a mapping of field names to
            either. A transform is called as `fn(value)`, or `fn(value, rng=...)` if it has a parameter of that name.
            For a sequence field it is called with each element. If the last one returns bytes, they are stored.
        orient: Rotate and mirror images as their Exif orientation says, before the transforms. An image that is not
            upright is encoded again, without Exif; the others keep their bytes.
        check: Decode every image whose bytes are stored unchanged, so that damaged ones count as errors. By default
            only the first bytes of an image are checked.
        jpeg: `tile` stores JPEGs as tiled JPEGs, whose crops decode faster. It keeps the pixels and drops metadata: see
            `bushel.jpeg.tile`. Damaged JPEGs count as errors; JPEGs that are tiled already keep their bytes.
        keys: Whether samples keep their keys. A function maps every key to the stored key, for containers that cannot
            hold the original one.
        shuffle: Order of the samples: False or None for the order of the source, True or `"exact"` for a random
            permutation, `"blocks"`, or an order object.
        seed: Seed of the order and of the randomness in transforms.
        parts: Write the samples, divided by position, in this many parts of nearly equal size: `part-00000` and so on
            in the folder `target`, which `bushel.open` reads as one dataset, or `train-part-00000.rec` for `train.rec`.
            The same call again, here or on another machine, joins the run and writes only parts that are missing
            (docs/scale-out.md). By default one dataset, or, with `engine`, a part for every 1000 items.
        part: Write only this part, counted from 0. `bushel finish` joins the parts when all are there.
        plan_only: Write only the plan of the run, with `parts`. The parts can then be started at the same time, without
            each of them listing the source.
        max_errors: Number of items that may fail in the whole call: an int, a share of all items between 0 and 1
            (float), or None for any number. A bad item is listed in `TARGET.errors.jsonl` and skipped.
        strict: Raise the first error unchanged, and leave the unfinished dataset for `mode="resume"`.
        strict_files: Raise an error, before anything is written, if the source passes over files of its folder. By
            default they are counted in the result.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        generation: See `bushel.Writer`.
        labels: Names of classes in the order of their numbers, by field: `{"label": ["cat", "dog"]}`. By default those
            that the source has. A folder or table of classes gets these numbers, and others follow.
        mode: `create`; `append` adds all samples of the source to a dataset; `resume` continues an interrupted run with
            the same arguments, and the files are the same as those of an uninterrupted run; `overwrite` replaces a
            dataset once the new one is complete.
        workers: Number of threads; by default the number of CPUs that this process may use. With `engine`, threads of
            each part; by default 1.
        processes: Number of worker processes that replace the threads, for sources and transforms in pure Python.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`.
        columns: See `bushel.Writer`.
        engine: Where parts are written: `"local"` for processes of this machine, `"ray"`, `"dask"`, an address, a
            client, or an engine of your own (docs/scale-out.md). By default this process writes them one by one.
        retries: How often a part is tried again on an engine if its worker died or the system failed.
        speculate: On an engine, when no parts wait, one that takes this many times longer than usual is started a
            second time, and the first result counts. 0 for never.
        progress: True for a bar in a terminal or notebook; or a function that is called with a `bushel.Progress` some
            times per second.

    Returns:
        A summary: samples, errors, bytes, and the spec that was written.

    Raises:
        TooManyErrors: More than `max_errors` items failed. The samples before are a dataset that is marked incomplete.
        SpecError: The container cannot hold these samples; the message says why and which containers can.
        StateError: The run to resume or to join had other arguments, or the labels differ from those of the dataset.
        FileExistsError, FileNotFoundError: See `bushel.Writer`.
    """
    started = time.monotonic()
    path = as_path(target)
    if workplace(path) is None:
        raise UnsupportedError(f"cannot pack to {target}: expected a local path, or the URL of an object store")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers} is too small: give 1 or more, or None for the number of CPUs")
    kind = get_container(container) if container else container_for(path.name)
    listing = planned_listing(path) if parts is not None and mode != "overwrite" else None
    opened = open_source(source, types=spec, listing=listing)
    skipped = dict(opened.skipped) if isinstance(opened, Selective) else {}
    if strict_files:
        _check_none_skipped(opened)
    if engine is not None and parts is None and not isinstance(opened, Stream):
        parts = max(1, -(-len(opened) // _ITEMS_IN_PART))
    order = _order(opened, shuffle, seed, parts, part)
    given = check_labels(labels or {})
    known, noted = _numbers_at(path, kind) if mode in ("append", "resume") and parts is None else ({}, {})
    opened, names = _with_numbers(opened, known, given, noted)
    fields = _target_fields(opened.spec, spec or {})
    if orient and not image_fields(fields):
        raise SpecError(f"orient=True needs an image field, but the fields are {', '.join(fields)}")
    codecs = _stored_codecs(kind, fields, generation)
    encoder = SampleEncoder(
        source=None if isinstance(opened, Stream) else opened,
        fields=fields,
        given={name: field.codec for name, field in parse_spec(opened.spec).items()},
        codecs=codecs,
        steps={
            name: FieldSteps.of(functions)
            for name, functions in transforms_by_field(transforms, format_spec(fields)).items()
        },
        seed=seed,
        orient=orient,
        check=check,
        tiled=fields_to_tile(jpeg, codecs),
        key=keys if callable(keys) else None,
        keyed=bool(keys),
    )
    folders = opened.folders if kind.keeps_folders and keys is True and isinstance(opened, Foldered) else None
    own_labels = {name: each for name, each in names.items() if name in given or can_be_named(fields, name)}
    total = None if isinstance(opened, Stream) else len(opened)
    limit = ErrorLimit(error_limit(max_errors, total), strict)
    batch_bytes = _REMOTE_BATCH_BYTES if isinstance(opened, Fetching) and opened.remote else _BATCH_BYTES
    threads = processes or workers or cpu_count()
    config = WorkerConfig(encoder, encoder.origin, threads, batch_bytes, _ignore, column_reader(encoder))
    options: dict[str, Any] = {
        "shard_samples": shard_samples,
        "shard_bytes": shard_bytes,
        "generation": generation,
        "sync": sync,
        "seek": seek,
        "columns": None if columns is None else names_of(columns),
    }
    with ExitStack() as stack:
        if processes and engine is None:
            config = replace(config, encode=stack.enter_context(WorkerPool(encoder, processes)))
        if parts is None or isinstance(opened, Stream):
            options |= {"labels": own_labels, "folders": folders, "container": kind.name}
            one = _part_of_everything(opened, path, kind.suffix, order)
            totals = _pack_one(one, format_spec(fields), options, mode, limit, config, callback_of(progress))
        else:
            run = RunFolder(path, kind.suffix)
            arguments = {
                "source": source_fingerprint(opened),
                "spec": format_spec(fields),
                "transforms": transforms,
                "orient": orient,
                "check": check,
                "jpeg": jpeg,
                "keys": keys,
                "shuffle": order.version,
                "seed": seed,
                "shard_samples": shard_samples,
                "shard_bytes": None if shard_bytes is None else parse_bytes(shard_bytes),
                "generation": generation,
                "labels": own_labels,
                "seek": seek,
                "columns": options["columns"],
            }
            plan = RunPlan("pack", kind.name, order.samples, part_starts(order.samples, parts), describe(arguments))
            join_run(run, plan, mode, part, opened.listing if isinstance(opened, Listed) else None)
            job = PackJob(
                run=run,
                encoder=encoder,
                order=order,
                starts=tuple(plan.starts),
                spec=format_spec(fields),
                container=kind.name,
                options=options,
                folders=None if folders is None else tuple(folders),
                labels=own_labels,
                workers=workers or (None if engine is None else 1),
                processes=processes,
                batch_bytes=batch_bytes,
                encode=None if engine is not None else config.encode,
            )
            how = RunOptions(engine, part, plan_only, limit.allowed, strict, TaskOptions(retries, speculate=speculate))
            totals = run_parts(run, plan, job, how, callback_of(progress))
    log = error_log_path(path)
    return PackResult(
        container=kind.name,
        paths=totals.paths,
        samples=totals.samples,
        kept=totals.kept,
        errors=totals.errors,
        error_logs=(str(log),) if totals.errors and log.exists() else (),
        bytes=totals.bytes,
        seconds=time.monotonic() - started,
        spec=format_spec(fields),
        limits=totals.limits + _empty_folders_lost(opened, folders),
        skipped=skipped,
    )


def _check_none_skipped(source: Source | Stream) -> None:
    """Check that a source passes over no files.

    Raises:
        FormatError: It does; the message says of which kinds.
    """
    if isinstance(source, Selective) and source.skipped:
        kinds = describe_skipped(source.skipped)
        raise FormatError(
            f"strict_files=True, but the source passes over files: {kinds}. This is the first one",
            file=source.first_skipped,
            hint="move them away, convert them, or leave out strict_files",
        )


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Return the numbers of skipped files by kind: `3 .avif, 1 .mp4`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in skipped.items())


def _pack_one(
    part: Part,
    spec: dict[str, str],
    options: dict[str, Any],
    mode: Mode,
    limit: ErrorLimit,
    config: WorkerConfig,
    progress: OnProgress | None,
) -> RunTotals:
    """Pack everything into one dataset."""
    total = len(part.items) if isinstance(part.items, OrderRange) else None
    reporter = ProgressReporter(progress)

    def report(done: int, samples: int, errors: int, size: int) -> None:
        reporter.report(Progress(done, total, "samples", samples, size, errors))

    local = part.target if isinstance(part.target, Path) else None
    log = ErrorLog(part.log, staging=overwrite_folder(local) if local and mode == "overwrite" else None)
    with PackWriter(
        part.target,
        spec,
        mode=mode,
        expected=total if mode in ("create", "overwrite") else None,
        total=total,
        before_publish=log.publish,
        before_checkpoint=log.sync,
        **options,
    ) as writer:
        result = write_part(part, writer, log, mode, limit, replace(config, progress=report))
    reporter.finish()
    return RunTotals((str(part.target),), result.samples, result.kept, result.bytes, result.errors, result.limits)


def _ignore(done: int, samples: int, errors: int, size: int) -> None:
    """Do nothing with the progress of a part."""


def _target_fields(source: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, Field]:
    """Return the fields of the target: those of the source, with the types in `changed`.

    Raises:
        KeyError: The source has no such field.
        SpecError: A type is malformed, or a field is a sequence in only one of the two.
    """
    for name in changed:
        if name not in source:
            raise KeyError(f"the source has no field {name!r}: the fields are {', '.join(source) or 'none'}")
    before, fields = parse_spec(source), parse_spec({**source, **changed})
    for name, field in fields.items():
        get_codec(field.codec)
        if field.sequence != before[name].sequence:
            raise SpecError(f"field {name!r} of the source is {before[name].type}, and cannot become {field.type}")
    return fields


def _numbers_at(path: AnyPath, container: Container) -> tuple[Labels, Mapping[str, int]]:
    """Return how the dataset at a path numbers its classes.

    Returns:
        The names of classes in the dataset; and, if it has none, the numbers of labels in the file that an older
        version wrote.
    """
    known = known_labels(path, container)
    return known, {} if known else load_labels(labels_path(path, container.name))


def _with_numbers(
    source: Source | Stream, known: Labels, given: Labels, noted: Mapping[str, int]
) -> tuple[Source | Stream, Labels]:
    """Return the source with the numbers of the dataset that it is added to, and its names of classes.

    Args:
        source: The source.
        known: Names in the dataset.
        given: Names that the user gives.
        noted: Numbers of labels in the file of a dataset that an older version wrote.
    """
    names = {**given, **known}
    if not isinstance(source, Labelled):
        return source, given or (check_labels(source.labels) if isinstance(source, Named) else {})
    field = next((name for name in ("label", "idx") if name in names), None)
    numbers = noted if field is None else numbered(names[field])
    new = source.relabelled(numbers) if numbers else source
    if isinstance(new, Named):
        return new, check_labels({**given, **new.labels})
    own = {"label": in_order(new.label2idx)} if isinstance(new, Labelled) else {}
    return new, check_labels({**given, **own})


def _stored_codecs(container: Container, fields: Spec, generation: str | None) -> dict[str, str]:
    """Return the codecs of the bytes that a container stores for these fields.

    Raises:
        SpecError: The container cannot hold them; the message says why, and which containers can.
    """
    layout = container.layout(fields, WriteOptions(keyed=container.needs_keys, generation=generation))
    return {column.field.name: column.codec for column in layout.columns}


def _empty_folders_lost(source: Source | Stream, kept: Sequence[str] | None) -> tuple[str, ...]:
    """Return a note about empty folders of the source, which are in no sample, if the container does not keep them."""
    empty = source.folders if kept is None and isinstance(source, Foldered) else None
    return (f"empty folders left out: {', '.join(empty[:3])}{', …' * (len(empty) > 3)}",) if empty else ()


def _order(source: Source | Stream, shuffle: Shuffle, seed: int, parts: int | None, part: int | None) -> Order:
    """Return the order of all items, of which a stream has none.

    Raises:
        ValueError: The source is a stream and cannot be shuffled or divided, or there is no such part.
    """
    if isinstance(source, Stream):
        if shuffle not in (None, False) or parts is not None:
            raise ValueError("a stream is packed in its own order, in one part: give a list for shuffle= or parts=")
        return Sequential(0, 0)
    check_part(parts, part)
    return make_order(shuffle, len(source), seed)


def _part_of_everything(source: Source | Stream, target: AnyPath, suffix: str, order: Order) -> Part:
    single = bool(suffix) and target.name.endswith(suffix)
    root, name = (target.parent, target.name) if single else (target, "")
    if isinstance(source, Stream):
        return Part(target, root, name, error_log_path(target), StreamItems(iter(source)), {"stream": True})
    shuffled = None if isinstance(order, Sequential) else f"{order.version} with seed {order.seed}"
    plan = {"samples": order.samples, "shuffle": shuffled, "range": [0, order.samples]}
    return Part(target, root, name, error_log_path(target), OrderRange(order, 0, order.samples), plan)
