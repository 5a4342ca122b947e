"""Pack any source into any container."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bushel.codecs import get_codec
from bushel.containers import container_for, get_container
from bushel.containers.base import Container, WriteOptions
from bushel.core.dataset.discovery import parts_path
from bushel.core.index.class_names import Labels, can_be_named, check_labels, in_order, numbered
from bushel.core.order import Order, Sequential, Shuffle, make_order
from bushel.core.parallel import cpu_count
from bushel.core.progress import OnProgress, Progress, ProgressReporter
from bushel.core.writer.class_names import known_labels
from bushel.core.writer.dataset_writer import Mode
from bushel.core.writer.overwrite import overwrite_folder
from bushel.core.writer.pack_writer import PackWriter
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.ingest.images import Jpeg, fields_to_tile, image_fields
from bushel.ingest.part import ErrorLimit, OrderRange, Part, PartResult, StreamItems, WorkerConfig, write_part
from bushel.ingest.processes import WorkerPool
from bushel.ingest.sample_encoder import FieldSteps, SampleEncoder
from bushel.ingest.side_files import ErrorLog, error_log_path, labels_path, load_labels
from bushel.loader.bad_samples import error_limit
from bushel.sources.base import Fetching, Foldered, Labelled, Named, Selective, Source
from bushel.sources.opening import open_source
from bushel.sources.samples import Stream
from bushel.spec import Field, Spec, format_spec, parse_spec
from bushel.storage import AnyPath, as_path, workplace, write_whole
from bushel.transforms.by_field import Transforms, transforms_by_field

__all__ = ["PackResult", "cut_order", "describe_skipped", "pack", "part_path"]

_BATCH_BYTES = 1 << 20
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
    progress: OnProgress | None = None,
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
        parts: Split the samples, by position, into this many datasets of nearly equal size: `part-00000` and so on in
            the folder `target`, or `train-part-00000.rec` for `train.rec`. `bushel.open(target)` joins those
            in a folder.
        part: Write only this part, counted from 0.
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
        workers: Number of threads; by default the number of CPUs that this process may use.
        processes: Number of worker processes that replace the threads, for sources and transforms in pure Python.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`.
        progress: Called with a `bushel.Progress` some times per second.

    Returns:
        A summary: samples, errors, bytes, and the spec that was written.

    Raises:
        TooManyErrors: More than `max_errors` items failed. The samples before are a dataset that is marked incomplete.
        SpecError: The container cannot hold these samples; the message says why and which containers can.
        StateError: The run to resume had other arguments, or the labels differ from those of the dataset.
        FileExistsError, FileNotFoundError: See `bushel.Writer`.
    """
    started = time.monotonic()
    path = as_path(target)
    if workplace(path) is None:
        raise UnsupportedError(f"cannot pack to {target}: expected a local path, or the URL of an object store")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers} is too small: give 1 or more, or None for the number of CPUs")
    kind = get_container(container) if container else container_for(path.name)
    opened = open_source(source, types=spec)
    skipped = dict(opened.skipped) if isinstance(opened, Selective) else {}
    if strict_files and skipped and isinstance(opened, Selective):
        raise FormatError(
            f"strict_files=True, but the source passes over files: {describe_skipped(skipped)}. This is the first one",
            file=opened.first_skipped,
            hint="move them away, convert them, or leave out strict_files",
        )
    targets = [path] if parts is None else [part_path(path, each, kind.suffix) for each in range(parts)]
    given = check_labels(labels or {})
    goes_on = mode in ("append", "resume")
    known = _known_labels(targets, kind) if goes_on else {}
    noted = load_labels(labels_path(path, kind.name)) if goes_on and not known else {}
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
    plans = _plan_parts(opened, path, kind.suffix, shuffle, seed, parts, part)
    if mode == "overwrite" and parts is not None and (extra := part_path(path, parts, kind.suffix)).exists():
        raise FileExistsError(f"{extra} is a part of an earlier run with more than {parts} parts: delete those parts")
    lengths = [len(plan.items) if isinstance(plan.items, OrderRange) else None for plan in plans]
    total = None if None in lengths else sum(length or 0 for length in lengths)
    folders = opened.folders if kind.keeps_folders and keys is True and isinstance(opened, Foldered) else None
    totals = _Totals(total, progress, ErrorLimit(error_limit(max_errors, total), strict))
    if parts is not None and plans[0].target.parent == path:
        write_whole(parts_path(path), json.dumps({"parts": parts}).encode())
    with ExitStack() as stack:
        config = WorkerConfig(
            encode=stack.enter_context(WorkerPool(encoder, processes)) if processes else encoder,
            origin=encoder.origin,
            workers=processes or workers or cpu_count(),
            batch_bytes=_REMOTE_BATCH_BYTES if isinstance(opened, Fetching) and opened.remote else _BATCH_BYTES,
            progress=totals.report,
        )
        for number, (plan, length) in enumerate(zip(plans, lengths, strict=True), part or 0):
            local = plan.target if isinstance(plan.target, Path) else None
            log = ErrorLog(plan.log, staging=overwrite_folder(local) if local and mode == "overwrite" else None)
            with PackWriter(
                plan.target,
                format_spec(fields),
                container=kind.name,
                mode=mode,
                shard_samples=shard_samples,
                shard_bytes=shard_bytes,
                generation=generation,
                expected=length if mode in ("create", "overwrite") else None,
                total=length,
                folders=folders and (folders if number == 0 else ()),
                sync=sync,
                labels={name: each for name, each in names.items() if name in given or can_be_named(fields, name)},
                seek=seek,
                before_publish=log.publish,
                before_checkpoint=log.sync,
            ) as writer:
                totals.add(write_part(plan, writer, log, mode, totals.limit(), config), length or 0)
    totals.finish()
    return PackResult(
        container=kind.name,
        paths=tuple(str(plan.target) for plan in plans),
        samples=sum(each.samples for each in totals.parts),
        kept=sum(each.kept for each in totals.parts),
        errors=sum(each.errors for each in totals.parts),
        error_logs=tuple(
            str(plan.log) for plan, each in zip(plans, totals.parts, strict=True) if each.errors and plan.log.exists()
        ),
        bytes=sum(each.bytes for each in totals.parts),
        seconds=time.monotonic() - started,
        spec=format_spec(fields),
        limits=totals.parts[0].limits + _empty_folders_lost(opened, folders),
        skipped=skipped,
    )


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Return the numbers of skipped files by kind: `3 .avif, 1 .mp4`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in skipped.items())


class _Totals:
    """The results of the finished parts, and the progress of the whole call."""

    def __init__(self, total: int | None, progress: OnProgress | None, limit: ErrorLimit) -> None:
        self.parts: list[PartResult] = []
        self._total, self._limit = total, limit
        self._reporter = ProgressReporter(progress)
        self._items = 0

    def limit(self) -> ErrorLimit:
        """Return the treatment of errors in the next part."""
        errors = sum(each.errors for each in self.parts)
        return ErrorLimit(self._limit.allowed, self._limit.strict, errors, self._items)

    def report(self, done: int, samples: int, errors: int, size: int) -> None:
        """Report the progress of the part that is being written."""
        samples += sum(each.samples + each.kept for each in self.parts)
        errors += sum(each.errors for each in self.parts)
        size += sum(each.bytes for each in self.parts)
        self._reporter.report(Progress(self._items + done, self._total, "samples", samples, size, errors))

    def add(self, result: PartResult, items: int) -> None:
        """Add a finished part."""
        self.parts.append(result)
        self._items += items

    def finish(self) -> None:
        """Report the end of the run."""
        self._reporter.finish()


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


def _known_labels(targets: Sequence[AnyPath], container: Container) -> Labels:
    """Return the names of classes in the first of these datasets that exists."""
    return next((names for each in targets if (names := known_labels(each, container))), {})


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


def _plan_parts(
    source: Source | Stream,
    target: AnyPath,
    suffix: str,
    shuffle: Shuffle,
    seed: int,
    parts: int | None,
    part: int | None,
) -> list[Part]:
    single = bool(suffix) and target.name.endswith(suffix)
    if isinstance(source, Stream):
        if shuffle not in (None, False) or parts is not None:
            raise ValueError("a stream is packed in its own order, in one part: give a list for shuffle= or parts=")
        root, name = (target.parent, target.name) if single else (target, "")
        return [Part(target, root, name, error_log_path(target), StreamItems(iter(source)), {"stream": True})]
    plans = []
    order = make_order(shuffle, len(source), seed)
    shuffled = None if isinstance(order, Sequential) else f"{order.version} with seed {order.seed}"
    for number, items in enumerate(cut_order(order, parts, part), part or 0):
        path = target if parts is None else part_path(target, number, suffix)
        root, name = (path.parent, path.name) if single else (path, "")
        # A part's log is beside the folder of all parts: inside it, `part-*` would match the log.
        log = error_log_path(target, path.name) if path.parent == target else error_log_path(path)
        plan = {"samples": len(source), "shuffle": shuffled, "range": [items.first, items.last]}
        plans.append(Part(path, root, name, log, items, plan))
    return plans


def part_path(target: AnyPath, number: int, suffix: str) -> AnyPath:
    """Return the path of a part.

    Args:
        target: The `target` of `pack`.
        number: Number of the part, from 0.
        suffix: Suffix of the container's files; empty if a dataset is always a folder.
    """
    if suffix and target.name.endswith(suffix):
        return target.parent / f"{target.name.removesuffix(suffix)}-part-{number:05d}{suffix}"
    return target / f"part-{number:05d}"


def cut_order(order: Order, parts: int | None, part: int | None) -> list[OrderRange]:
    """Cut an order into the ranges of the parts.

    Args:
        order: The order of all samples.
        parts: Number of parts; None for one dataset.
        part: The only part to return, or None for all.

    Raises:
        ValueError: There is no such part.
    """
    if parts is None and part is not None:
        raise ValueError(f"part={part} needs parts=, the number of all parts")
    if parts is not None and parts < 1:
        raise ValueError(f"parts={parts} is too small: give 1 or more")
    count = parts or 1
    if part is not None and not 0 <= part < count:
        raise ValueError(f"part={part} does not exist: the parts are 0 to {count - 1}")
    samples = order.samples
    wanted = range(count) if part is None else [part]
    return [OrderRange(order, samples * each // count, samples * (each + 1) // count) for each in wanted]
