"""Packing: any source into any container."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from bushel.containers import container_for, get_container
from bushel.core.parallel import cpu_count
from bushel.core.writer.writer import Mode, Writer
from bushel.errors import SpecError, UnsupportedError
from bushel.ingest.errorlog import ErrorLog, beside
from bushel.ingest.labels import labels_path, load_labels, save_labels
from bushel.ingest.packplan import (
    Transforms,
    allowed_errors,
    cut,
    pack_fields,
    part_path,
    plan_steps,
    stored_codecs,
)
from bushel.ingest.part import Crew, Limits, Part, PartDone, Places, StreamItems, write_part
from bushel.ingest.prepare import Preparer, image_fields
from bushel.ingest.processes import WorkerPool
from bushel.ingest.tiling import Jpeg, fields_to_tile
from bushel.sources.base import Fetching, Foldered, Labelled, Source
from bushel.sources.opening import open_source
from bushel.sources.samples import Stream
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, as_path, workplace

__all__ = ["Packed", "Progress", "pack"]

_ERRORS = "errors.jsonl"
_BATCH = 1 << 20
_REMOTE_BATCH = 8 << 20  # so that many objects are on their way at once


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing came to.

    Attributes:
        container: Name of the container.
        paths: What was written: one dataset, or one for each part.
        samples: Samples written.
        kept: Samples that were there before: with `mode="resume"` of this source, with `mode="append"` others.
        errors: Items that could not be packed.
        error_logs: The files that tell of these, a JSON object in each line: position, key, path, error.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field names to types.
        limits: What of the samples the container does not keep, in words.
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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far packing is.

    Attributes:
        done: Items dealt with, good and bad, with those of a run that is resumed.
        total: All items; None for a stream.
        errors: Items that could not be packed.
        bytes: Stored bytes of the fields written in this run.
        seconds: Time taken.
    """

    done: int
    total: int | None
    errors: int
    bytes: int
    seconds: float


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
    shuffle: int | None = None,
    seed: int = 0,
    parts: int | None = None,
    part: int | None = None,
    max_errors: int | float = 0,
    strict: bool = False,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["B", "C"] | None = None,
    mode: Mode = "create",
    workers: int | None = None,
    processes: int = 0,
    sync: bool = True,
    report: Callable[[Progress], None] | None = None,
) -> Packed:
    """Pack samples into a dataset.

    Threads (or, with `processes`, worker processes) fetch, transform and encode samples, and one writer stores them in
    order, so the files are the same for any number of workers. Where nothing changes an image, its bytes are stored as
    they are. At most 64 MiB of samples wait for the writer, beside the batch that each worker is at.

    Args:
        source: A folder of images or videos, a `.lst`, `.csv`, `.json`, `.npz` or `.npy` file, a dataset, arrays,
            dicts, or any source: see `bushel.sources`.
        target: As for `bushel.Writer`.
        container: As for `bushel.Writer`.
        spec: Other types for fields of the source, by name: `{"image": "jpg"}` makes a folder of PNGs JPEGs.
        transforms: Applied in turn to every image; or a dict of field names to these. One is called as `fn(value)`, or
            `fn(value, rng=...)` if it has a parameter of that name. What returns bytes decides the encoding itself.
        orient: Turn and mirror images as their Exif orientation says, before everything else. One that is not
            upright is encoded anew, without Exif; the others keep their bytes.
        check: Whether to decode every image whose bytes are stored as they are, so that damaged ones count as errors.
            Without, an image only has to begin like one.
        jpeg: `tile` stores JPEGs as tiled ones, so that crops of them decode faster. Pixels stay, metadata goes: see
            `bushel.jpeg.tile`. Damaged ones count as errors. What is tiled already keeps its bytes.
        keys: Whether samples keep their keys. A function gives every key a new form, for containers that cannot
            hold the old one.
        shuffle: Seed of a random order of the samples; None for the order of the source.
        seed: Seed of the randomness in transforms.
        parts: Cut the samples, by position, into this many datasets of nearly the same size: `part-00000` and so on in
            the folder `target`, or `train-part-00000.rec` for `train.rec`. `bushel.open("target/part-*")` joins them.
        part: Make this part only, counted from 0.
        max_errors: Items of each part that may fail: a number, or a share between 0 and 1. A bad item is noted in
            `TARGET.errors.jsonl` and passed over.
        strict: Raise the first error as it is, and leave the unfinished dataset for `mode="resume"`.
        shard_samples: As for `bushel.Writer`.
        shard_bytes: As for `bushel.Writer`.
        generation: As for `bushel.Writer`.
        mode: `create`; `append`, to add all samples of the source to a dataset; or `resume`, to go on with what was
            interrupted, with the same arguments: the files are then those of an undisturbed run.
        workers: Threads; by default as many as there are processors, and two at least.
        processes: Worker processes to do the work of the threads in, for sources and transforms in pure Python.
        sync: As for `bushel.Writer`.
        report: Called after every batch.

    Returns:
        What was done.

    Raises:
        TooManyErrors: More than `max_errors` items failed. The samples before are a whole dataset.
        SpecError: The container cannot hold these samples; says why and which can.
        StateError: What is to be resumed was begun with other arguments, or labels differ from those that are there.
        FileExistsError, FileNotFoundError: As `bushel.Writer`.
    """
    started = time.monotonic()
    path = as_path(target)
    if workplace(path) is None:
        raise UnsupportedError(f"{target}: packing writes to a local folder or to an object store")
    if workers is not None and workers < 1:
        raise ValueError(f"workers is at least 1, not {workers}")
    kind = get_container(container) if container else container_for(path.name)
    opened = open_source(source)
    labels = labels_path(path, kind.name)
    known = load_labels(labels) if mode != "create" else {}
    if known and isinstance(opened, Labelled):
        opened = opened.relabelled(known)
    fields = pack_fields(opened.spec, spec or {})
    if orient and not image_fields(fields):
        raise SpecError(f"orient=True is for images, and there are none among {', '.join(fields)}")
    codecs = stored_codecs(kind, fields, generation)
    prepare = Preparer(
        source=None if isinstance(opened, Stream) else opened,
        fields=fields,
        given={name: field.codec for name, field in parse_spec(opened.spec).items()},
        codecs=codecs,
        steps=plan_steps(transforms, fields),
        seed=seed,
        orient=orient,
        check=check,
        tiled=fields_to_tile(jpeg, codecs),
        key=keys if callable(keys) else None,
        keyed=bool(keys),
    )
    threads = processes or workers or _threads()
    batch = _REMOTE_BATCH if isinstance(opened, Fetching) and opened.remote else _BATCH
    jobs = _parts(opened, path, kind.suffix, shuffle, parts, part)
    lengths = [len(job.items) if isinstance(job.items, Places) else None for job in jobs]
    allowed = [allowed_errors(max_errors, length) for length in lengths]
    folders = opened.folders if kind.keeps_folders and keys is True and isinstance(opened, Foldered) else None
    tally = _Tally(started, None if None in lengths else sum(length or 0 for length in lengths), report)
    with ExitStack() as stack:
        work = stack.enter_context(WorkerPool(prepare, processes)) if processes else prepare
        for number, (job, length, may_fail) in enumerate(zip(jobs, lengths, allowed, strict=True), part or 0):
            log = ErrorLog(job.log)
            with Writer(
                job.target,
                format_spec(fields),
                container=kind.name,
                mode=mode,
                shard_samples=shard_samples,
                shard_bytes=shard_bytes,
                generation=generation,
                expected=length if mode == "create" else None,
                folders=folders and (folders if number == 0 else ()),
                sync=sync,
                before_shard=log.publish,
            ) as writer:
                crew = Crew(work, prepare.origin, threads, batch, tally.tell)
                tally.finish(write_part(job, writer, log, mode, Limits(may_fail, strict), crew), length or 0)
    if isinstance(opened, Labelled) and opened.label2idx:
        save_labels(labels, opened.label2idx)
    return Packed(
        container=kind.name,
        paths=tuple(str(job.target) for job in jobs),
        samples=sum(one.samples for one in tally.parts),
        kept=sum(one.kept for one in tally.parts),
        errors=sum(one.errors for one in tally.parts),
        error_logs=tuple(str(job.log) for job in jobs if job.log.exists()),
        bytes=sum(one.bytes for one in tally.parts),
        seconds=time.monotonic() - started,
        spec=format_spec(fields),
        limits=tally.parts[0].limits + _left_out(opened, folders),
    )


class _Tally:
    """Adds up the parts that are done, for the report."""

    def __init__(self, started: float, total: int | None, report: Callable[[Progress], None] | None) -> None:
        self.parts: list[PartDone] = []
        self._started, self._total, self._report = started, total, report
        self._items = 0

    def tell(self, done: int, errors: int, size: int) -> None:
        """Report how far the part is that is being made."""
        if self._report is not None:
            errors += sum(one.errors for one in self.parts)
            size += sum(one.bytes for one in self.parts)
            self._report(Progress(self._items + done, self._total, errors, size, time.monotonic() - self._started))

    def finish(self, done: PartDone, items: int) -> None:
        """Take note of a part that is finished."""
        self.parts.append(done)
        self._items += items


def _left_out(source: Source | Stream, kept: Sequence[str] | None) -> tuple[str, ...]:
    """What of the source is in no sample, and so is lost where the container does not keep it."""
    empty = source.folders if kept is None and isinstance(source, Foldered) else None
    return (f"empty folders left out: {', '.join(empty[:3])}{', …' * (len(empty) > 3)}",) if empty else ()


def _threads() -> int:
    return max(cpu_count(), 2)


def _parts(
    source: Source | Stream, target: AnyPath, suffix: str, shuffle: int | None, parts: int | None, part: int | None
) -> list[Part]:
    single = bool(suffix) and target.name.endswith(suffix)
    if isinstance(source, Stream):
        if shuffle is not None or parts is not None:
            raise ValueError("a stream is packed in its own order, in one part: give a list for shuffle= or parts=")
        root, name = (target.parent, target.name) if single else (target, "")
        return [Part(target, root, name, beside(target, _ERRORS), StreamItems(iter(source)), {"stream": True})]
    made = []
    for number, items in enumerate(cut(len(source), shuffle, parts, part), part or 0):
        path = target if parts is None else part_path(target, number, suffix)
        root, name = (path.parent, path.name) if single else (path, "")
        # A part's log lies beside the folder of all parts: in it, `part-*` would take it for one of them.
        log = beside(target, f"{path.name}.{_ERRORS}") if path.parent == target else beside(path, _ERRORS)
        plan = {"samples": len(source), "shuffle": shuffle, "places": [items.first, items.last]}
        made.append(Part(path, root, name, log, items, plan))
    return made
