"""Write a dataset from a source: lock the target, prepare the source, write one dataset or parts, and sum up."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.completeness import overwrite_folder
from bushel._dataset.views.mapped import Mapped
from bushel._index.headers import PartOfRun
from bushel._runtime.messages import count
from bushel._runtime.order import Sequential
from bushel._runtime.progress import OnProgress, Progress, ProgressReporter
from bushel._runtime.public import public
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.publishing import lock_for_writing
from bushel._writer.target import Mode, Target, WriterOptions, choose_container
from bushel.errors import UnsupportedError, error_limit
from bushel.sources.foreign import StoredStream
from bushel.sources.samples import Stream, in_memory
from bushel.storage import AnyPath, Lock, absolute, real_file, remove_tree, workplace

from .encoder import Result, WorkerPool
from .feeds import Batch
from .finish import OnPart, PartTask
from .part import ErrorLimit, Items, Ledger, OrderRange, StreamItems, Work, write_part
from .prepare import prepare_source
from .prepared import PackOptions, Prepared, describe_skipped
from .run_folder import RunFolder, RunPlan, Totals, describe, part_starts
from .scale_out import RunTotals, join_run, run_parts
from .side_files import ErrorList, ErrorLog, RunRecord, error_log_path, record_path

Encode = Callable[[Batch], Sequence[Result]]


def pack_whole(
    target: Target,
    prepared: Prepared,
    options: PackOptions,
    lock: Lock | None,
    progress: OnProgress | None,
) -> RunTotals:
    """Pack everything into one dataset. Raise TooManyErrors if more items failed than are allowed."""
    path, total, mode = target.path, prepared.items, options.writer.mode
    reporter = ProgressReporter(progress)

    def report(done: int, samples: int, errors: int, size: int) -> None:
        reporter.report(Progress(done, total, "samples", samples, size, errors))

    items, plan = _everything(prepared)
    staging = None
    if mode == "overwrite" and isinstance(path, Path):
        staging = overwrite_folder(path)
    log = ErrorLog(error_log_path(path), staging=staging)
    place = record_path(absolute(path), single=target.single)  # it may be the current folder
    record = RunRecord(place, plan, log, items.digest)
    ledger = Ledger(path, mode, _limit(prepared, options), log, record)
    writing = replace(prepared.writing, expected=total)
    with (
        _encoding(prepared, options.processes) as encode,
        DatasetWriter(
            path,
            prepared.spec,
            writing,
            before_publish=ledger.before_publish,
            lock=lock,
            existing=prepared.existing,
        ) as writer,
    ):
        kept = len(writer)
        work = Work(prepared, encode, options.at_once, progress and report)
        totals = write_part(items, writer, ledger, work)
    reporter.finish()
    return RunTotals((str(path),), totals, kept)


def pack_in_parts(
    run: RunFolder,
    prepared: Prepared,
    parts: int,
    options: PackOptions,
    progress: OnProgress | None,
) -> RunTotals:
    """Pack the parts that are missing, or the requested one: see `pack_whole`.

    Raises:
        TooManyErrors: More items failed than are allowed.
        StateError: The target has parts of a call with other arguments.
    """
    new_plan = _plan(prepared, parts, options)
    listing = getattr(prepared.source, "listing", None)
    lock, plan = join_run(run, new_plan, options.writer.mode, options.part, listing)
    job = PackJob(run, plan, prepared, options.at_once, options.processes)
    limit, only = _limit(prepared, options), options.part
    with lock, ExitStack() as stack:
        if options.engine is None:
            job = replace(job, encode=stack.enter_context(_encoding(prepared, job.processes)))
        task = PartTask(run, plan, job.write, limit)
        return run_parts(task, options.engine, progress, only=only)


def _everything(prepared: Prepared) -> tuple[Items, dict[str, object]]:
    """Return all items, and the arguments that decide which sample is written where, for `RunRecord`."""
    source, order = prepared.source, prepared.order
    if isinstance(source, Stream):
        stream = StreamItems(iter(source), again=isinstance(source, StoredStream))
        return stream, {"compared": "all values"}
    plan: dict[str, object] = {
        "samples": order.samples,
        "shuffle": f"{order.version} with seed {order.seed}",
    }
    if isinstance(order, Sequential):
        plan["shuffle"] = None
    items = OrderRange(order, 0, order.samples)
    fingerprint = prepared.fingerprint
    if fingerprint is not None:
        plan["source"] = fingerprint
    # a program may mend samples that are not written yet, and go on; and the fingerprint of a
    # mapped dataset does not say which function it is mapped by
    if isinstance(source, Mapped) or "source" not in plan:
        plan["compared"] = "all values"
        if not in_memory(source):  # see `digest_of_items`
            plan["compared"] = "samples 0, 1, 2, 4, 8, …"
        items = replace(items, source=source)
    return items, plan


def _plan(prepared: Prepared, parts: int, options: PackOptions) -> RunPlan:
    """Return the plan of a run. Its arguments are those that decide which bytes are written."""
    writing, order = prepared.writing, prepared.order
    arguments = {
        "source": prepared.identity,
        "fields": options.fields,
        "rename": options.rename,
        "spec": prepared.spec,
        "transforms": options.transforms,
        "images": sorted(options.images),
        "keys": options.keys,
        "shuffle": order.version,
        "seed": options.seed,
        "shard_samples": writing.shard_samples,
        "shard_bytes": writing.shard_bytes,
        "generation": writing.generation,
        "labels": writing.labels,
        "seek": writing.seek,
        "columns": writing.columns,
    }
    return RunPlan(
        "pack",
        str(writing.container),
        order.samples,
        part_starts(order.samples, parts),
        describe(arguments),
    )


def _limit(prepared: Prepared, options: PackOptions) -> ErrorLimit:
    return ErrorLimit(error_limit(options.max_errors, prepared.items), options.strict)


@contextmanager
def _encoding(prepared: Prepared, processes: int) -> Iterator[Encode]:
    """Yield a function that encodes a batch: in this process, or in worker processes."""
    if processes and not prepared.encoder.in_memory:
        with closing(WorkerPool(prepared.encoder, processes)) as pool:
            yield pool
    else:
        yield prepared.encoder


class PackJob(Struct, frozen=True):
    """The common settings of all parts of a packing run. On an engine, it is pickled."""

    run: RunFolder  # the files of the run
    plan: RunPlan  # the plan that is there
    prepared: Prepared
    threads: int  # number of batches that are encoded at the same time
    processes: int  # number of worker processes that encode them, in the place of threads
    # encodes a batch, in workers that are running; None to start them for each part
    encode: Encode | None = None

    def write(
        self, number: int, lock: Lock, limit: ErrorLimit, log: ErrorList, progress: OnPart | None
    ) -> Totals:
        """Pack a part, in the place of an earlier one. The bytes depend on the number.

        Args:
            number: Number of the part.
            lock: The lock of the part.
            limit: The treatment of errors, with the errors of other parts.
            log: Gets the items that cannot be packed.
            progress: Called after every batch.

        Raises:
            TooManyErrors: More items failed than are allowed.
        """
        target, starts = self.run.part(number), self.plan.starts
        items = OrderRange(self.prepared.order, starts[number], starts[number + 1])
        with ExitStack() as stack:
            encode = self.encode or stack.enter_context(_encoding(self.prepared, self.processes))
            work = Work(self.prepared, encode, self.threads, progress)
            ledger = Ledger(target, "create", limit, log)

            def note() -> PartOfRun:
                return PartOfRun(self.plan.id, ledger.bytes, log.lines, list(writer.limits))

            writing = self._writing(number, target)
            if writing.mode == "create" and isinstance(target, Path):
                stack.push(partial(_remove_failed, target))
            writer = stack.enter_context(
                DatasetWriter(target, self.prepared.spec, writing, lock=lock, part=note)
            )
            return write_part(items, writer, ledger, work)

    def _writing(self, number: int, target: AnyPath) -> WriterOptions:
        """Return how a part is written. The first one gets the empty folders."""
        writing = self.prepared.writing
        # what a killed process left is replaced; in a store it is removed before
        is_left = isinstance(target, Path) and os.path.lexists(target)
        mode: Mode = "overwrite" if is_left or self.run.single else "create"
        return replace(
            writing,
            mode=mode,
            expected=self.plan.items(number),
            folders=writing.folders if number == 0 else writing.folders and (),
            first_number=self.plan.starts[number],
        )


def _remove_failed(part: Path, kind: object, *_: object) -> None:
    """Remove the folder of a new part if it could not be written."""
    if kind is not None:
        remove_tree(part)


@public("bushel.runs")
@dataclass(frozen=True, slots=True)
class PackResult:
    """The result of `pack`, `convert`, `merge` and, for each dataset, `split`.

    Attributes:
        container: Name of the container.
        paths: Paths of the datasets written: one, or one for each part.
        samples: Samples written.
        kept: Samples that the dataset had before: with `mode="resume"` of this source, with
            `mode="append"` others.
        errors: Items that could not be packed.
        error_logs: Paths of the files that list them, with a JSON object in each line: position,
            key, path, error.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field to type, with the codecs that were chosen for images without a type.
        limits: Properties of the samples that the container does not keep, in words.
        skipped: Files of the source that are not samples, by kind: `{".nef": 3}`.

    Examples:
        >>> done = bushel.pack("photos/", "out/", container="tar")
        >>> done.samples, done.errors, done.paths
        (12, 0, ('out',))
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
        counts = count(self.samples, "sample") + (f" after {self.kept:,}" if self.kept else "")
        errors = ""
        if self.errors:
            errors = f", {self.errors:,} errors (see {', '.join(self.error_logs)})"
        if self.skipped:
            errors += f", skipped {describe_skipped(self.skipped)}"
        target = f"{len(self.paths)} parts"
        if len(self.paths) == 1:
            [target] = self.paths
        return (
            f"<PackResult {target}: {counts} as {self.container} ({fields}), "
            f"{self.bytes:,} bytes in {self.seconds:.1f} s{errors}>"
        )


def write_dataset(
    source: Any, target: AnyPath, options: PackOptions, progress: OnProgress | None
) -> PackResult:
    """Write a source as one dataset, or as the parts of one: the work of `pack` and `convert`, which see."""
    if workplace(target) is None:
        raise UnsupportedError(
            f"cannot pack to {target}: expected a local path, or the URL of an object store"
        )
    target = real_file(target)
    log = error_log_path(target)
    container = choose_container(target, options.writer)
    started = time.monotonic()
    with ExitStack() as stack:
        lock = None
        if not options.in_parts:  # parts are locked with the other processes of the run
            lock = stack.enter_context(lock_for_writing(target, options.writer))
        prepared = prepare_source(source, target, container, options)
        if prepared.parts is None:
            place = Target.of(target, container)
            totals = pack_whole(place, prepared, options, lock, progress)
        else:
            run = RunFolder(target, container.suffix)
            totals = pack_in_parts(run, prepared, prepared.parts, options, progress)
    written = totals.written
    return PackResult(
        container=container.name,
        paths=totals.paths,
        samples=written.samples,
        kept=totals.kept,
        errors=written.errors,
        error_logs=(str(log),) if written.errors and log.exists() else (),
        bytes=written.bytes,
        seconds=time.monotonic() - started,
        spec=prepared.spec,
        limits=(*written.limits, *prepared.limits),
        skipped=dict(getattr(prepared.source, "skipped", {})),
    )
