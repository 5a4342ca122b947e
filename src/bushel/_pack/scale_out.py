"""Run all parts of a plan, or one of them: join the plan, write the missing parts, finish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import replace

from bushel._dataset.open.completeness import marker_path
from bushel._dataset.open.folders import is_part
from bushel._dataset.open.locking import lock_run
from bushel._index.saving import create_manifest
from bushel._index.sidecar import Manifest
from bushel._pack.commit import PartReport, PartTask, WritePart, publish_errors
from bushel._pack.finish import finish_run
from bushel._pack.lost_parts import missing_parts
from bushel._pack.part import ErrorLimit
from bushel._pack.run_folder import RunFolder
from bushel._pack.run_meter import RunMeter
from bushel._pack.run_plan import RunPlan, refuse_difference
from bushel._pack.side_files import error_log_path
from bushel._runtime.progress import OnProgress
from bushel._runtime.structs import Struct
from bushel._runtime.tasks.drive import TaskOptions, drive
from bushel._writer.options import Mode
from bushel._writer.target import check_alone, holds_dataset
from bushel.containers import writable_containers
from bushel.engines import connect
from bushel.errors import TooManyErrors, UnsupportedError
from bushel.storage import is_object, remove, walk_names
from bushel.storage.lock import Lock
from bushel.storage.names import below, remove_tree


class RunOptions(Struct, frozen=True):
    """The execution of a run. None of it changes the bytes that are written."""

    # where parts run: see `bushel.engines`; None for this process, one part after another
    engine: Any = None
    # number of parts; None for one dataset, or, with an engine, for a number that follows from the
    # source
    parts: int | None = None
    part: int | None = None  # the only part to write, or None for all that are missing
    plan_only: bool = False  # whether to write no part
    tasks: TaskOptions = field(default_factory=TaskOptions)  # how parts are tried again


class RunTotals(Struct, frozen=True):
    """The totals of a call."""

    paths: tuple[str, ...]  # paths of the parts
    samples: int  # samples written by this call
    kept: int  # samples of parts that were there before, or that another call has written
    bytes: int  # stored bytes of the fields written by this call
    errors: int  # items that could not be packed, in all of these parts
    limits: tuple[str, ...]  # properties of the samples that the container does not keep, in words


def join_run(
    run: RunFolder,
    plan: RunPlan,
    mode: Mode,
    part: int | None,
    listing: Sequence[str] | None = None,
) -> Lock:
    """Write the plan of a run, or check that it equals the plan of the existing run.

    Args:
        run: The files of the run.
        plan: The plan of this call.
        mode: `create` and `resume` join the run; `overwrite` starts again, unless the same run has
            not finished.
        part: The only part of this call, or None.
        listing: The listing of the source, which a new plan keeps.

    Returns:
        The lock of this process, which other processes of the run have too. The caller releases it.

    Raises:
        InUseError: Another writer is open for the target, or another run.
        StateError: The target has the plan of another run.
        FileExistsError: There is a dataset, but no plan.
        UnsupportedError: The mode is not possible for parts.
    """
    if mode == "append":
        raise UnsupportedError(
            "mode='append' cannot write parts: pack to another path, and join both with"
            " bushel.merge"
        )

    def join() -> None:
        _write_plan(run, plan, mode, part, listing)

    return lock_run(run.target, single=run.single, run=plan.fingerprint, join=join)


def _write_plan(
    run: RunFolder, plan: RunPlan, mode: Mode, part: int | None, listing: Sequence[str] | None
) -> None:
    known = run.load_plan()
    if mode == "overwrite":
        known = _remove_records(run, plan, known, part)
    elif known is not None and not _same(known, plan) and run.has_failed() and not run.committed():
        # this process has the lock of the target, so no other process works on that run
        _remove(run)
        known = None
    if known is None and mode != "overwrite":
        try:
            _refuse_existing(run)
        except FileExistsError:
            known = run.load_plan()  # another driver may have created it since, and its first parts
            if known is None:
                raise
    if known is None:
        known = run.create_plan(
            plan if listing is None else replace(plan, listing=run.save_listing(listing))
        )
    refuse_difference(known, plan, str(run.target))
    if not run.single and run.load_result() is None:
        incomplete = Manifest(plan.container, {}, {}, [], complete=False, expected=plan.samples)
        create_manifest(incomplete, marker_path(run.root, ""))


def _remove_records(
    run: RunFolder, plan: RunPlan, known: RunPlan | None, part: int | None
) -> RunPlan | None:
    """Remove the records of a replaced run, but not its files. Return the plan that is left."""
    extra = run.part(plan.parts)
    if extra.exists():
        raise FileExistsError(
            f"{extra} is a part of an earlier run with more than {plan.parts} parts: delete"
            " those"
            " parts"
        )
    # parts that cannot be joined are written again
    refused = part is None and run.has_failed() and not run.missing(plan)
    if (
        _same(known, plan)
        and run.load_result() is None
        and not refused
        and part not in run.committed()
    ):
        return known
    if _same(known, plan) and part is not None:
        remove(run.folder / "result.json")
        run.forget(part)
        return known
    if not run.single and is_object(run.target):
        raise UnsupportedError(
            f"mode='overwrite' cannot replace a folder in an object store ({run.target}): write"
            " to another path, "
            "or delete the old dataset first"
        )
    _remove(run)
    return None


def _remove(run: RunFolder) -> None:
    """Remove the plan and the records of a run."""
    if isinstance(run.folder, Path):
        remove_tree(run.folder)
    else:
        for name in sorted(walk_names(run.folder), key=lambda name: name != "plan.json"):
            remove(below(run.folder, name, any_text=True))
    if not run.single:
        remove(marker_path(run.root, ""))


def _same(known: RunPlan | None, plan: RunPlan) -> bool:
    return known is not None and replace(known, listing=None) == plan


def _refuse_existing(run: RunFolder) -> None:
    """Raise `FileExistsError` if there is a dataset, or files of others, where a run is to be written."""
    there = None
    if run.single:
        there = run.part(0) if run.part(0).exists() else None
    elif run.target.is_dir():
        there = next((entry for entry in run.target.iterdir() if is_part(entry.name)), None)
        if there is None and any(
            holds_dataset(container, run.target) for container in writable_containers()
        ):
            there = run.target
    elif run.target.exists():
        there = run.target
    if there is not None:
        raise FileExistsError(
            f"{there} is a dataset already, but not of this run: use mode='overwrite' to"
            " replace"
            " it, or another path"
        )
    if not run.single:
        check_alone(run.target)


def run_parts(
    run: RunFolder,
    plan: RunPlan,
    write: WritePart,
    options: RunOptions,
    limit: ErrorLimit,
    progress: OnProgress | None,
) -> RunTotals:
    """Write the missing parts of a run and finish it; or write one part.

    Raises:
        TooManyErrors: More items failed than are allowed. Parts that were finished are kept.
    """
    if options.plan_only:
        return RunTotals(
            tuple(str(run.part(number)) for number in range(plan.parts)), 0, 0, 0, 0, ()
        )
    task = PartTask(run, write, tuple(plan.starts), limit, plan.fingerprint)
    if options.part is not None:
        meter = RunMeter(run, plan, range(options.part, options.part + 1), progress)
        report = task(options.part, meter.within(options.part))
        meter.add(options.part, report)
        if report.errors:
            publish_errors(run)
        return _totals_of_part(run, options.part, report)
    missing = missing_parts(run, plan)
    meter = RunMeter(run, plan, missing, progress)
    try:
        _write_parts(task, missing, options, meter)
    except Exception:
        if not run.committed():
            run.note_failure()
        raise
    if meter.errors and not meter.samples and not _has_samples(run, plan):
        publish_errors(run)
        raise TooManyErrors(
            f"none of the {meter.errors} items can be packed: see {error_log_path(run.target)}."
            f" {run.target} is not "
            "finished: correct the call, or the items, and delete it or pack to another path",
            errors=meter.errors,
        )
    result = finish_run(run, plan, allowed=limit.allowed, engine=options.engine)
    meter.finish()
    return RunTotals(
        tuple(str(run.part(number)) for number in range(plan.parts)),
        meter.samples,
        result.samples - meter.samples,
        meter.bytes,
        result.errors,
        tuple(result.limits),
    )


def _has_samples(run: RunFolder, plan: RunPlan) -> bool:
    """Return whether some part, which another driver may have written, has a sample."""
    records = (run.load_record(number) for number in range(plan.parts))
    return any(record is None or record.samples for record in records)


def _write_parts(
    task: PartTask, numbers: Sequence[int], options: RunOptions, meter: RunMeter
) -> None:
    if options.engine is None:
        for number in numbers:
            meter.add(number, task(number, meter.within(number)))
    elif numbers:
        with meter.status():
            drive(
                task,
                numbers,
                connect(options.engine),
                options.tasks,
                finished=meter.add,
                looking=meter.look,
            )


def _totals_of_part(run: RunFolder, number: int, report: PartReport) -> RunTotals:
    new = report.won
    record = run.load_record(number)
    return RunTotals(
        (str(run.part(number)),),
        report.samples if new else 0,
        0 if new else report.samples,
        report.bytes if new else 0,
        report.errors,
        () if record is None else tuple(record.limits),
    )
