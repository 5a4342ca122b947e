"""Run the parts of a dataset here or on an engine, and report their progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.completeness import is_part, marker_path
from bushel._dataset.open.locking import lock_run
from bushel._index.saving import create_manifest
from bushel._index.sidecar import Manifest
from bushel._runtime.progress import OnProgress, Progress, ProgressReporter
from bushel._runtime.tasks import drive
from bushel._writer.target import Mode, check_alone, folder_in_store, holds_dataset
from bushel.containers import writable_containers
from bushel.errors import TooManyErrors, UnsupportedError
from bushel.storage import Lock, is_object, remove, remove_tree

from .finish import (
    PartReport,
    PartTask,
    check_errors,
    finish_run,
    publish_errors,
    remove_all,
)
from .prepared import Part
from .run_folder import RunFolder, RunPlan, Totals, refuse_difference
from .side_files import error_log_path


class RunTotals(Struct, frozen=True):
    """The totals of a call."""

    paths: tuple[str, ...]  # paths of the parts
    written: Totals  # what this call has written, and the errors of all of these parts
    kept: int = 0  # samples of parts that were there before, or that another call has written


def join_run(
    run: RunFolder, plan: RunPlan, mode: Mode, only: Part, listing: Sequence[str] | None = None
) -> tuple[Lock, RunPlan]:
    """Write the plan of a run, or check that it equals the plan of the existing run.

    Args:
        run: The files of the run.
        plan: The plan of this call.
        mode: `create` and `resume` join the run; `overwrite` starts again, unless the same run has
            not finished.
        only: The only part of this call, `plan` for none of them, or None for all.
        listing: The listing of the source, which a new plan keeps.

    Returns:
        The lock of this process, which other processes of the run have too, and the plan of the
        run. The caller releases the lock.

    Raises:
        InUseError: Another writer is open for the target, or another run.
        StateError: The target has the plan of another run.
        FileExistsError: There is a dataset, but no plan.
        UnsupportedError: The mode is not possible for parts.
    """
    if mode == "append":
        raise UnsupportedError(
            "mode='append' cannot write parts: pack to "
            "another path, and join both with bushel.merge"
        )
    plans: list[RunPlan] = []

    def join() -> None:
        earlier = run.load_plan()
        if mode == "overwrite":
            earlier = _replaced(run, plan, earlier, None if only == "plan" else only)
        elif (
            earlier is not None
            and earlier.of_call() != plan
            and run.has_failed()
            and not run.written(earlier)
        ):
            # this process has the lock of the target, so no other process works on that run
            _remove(run)
            earlier = None
        if earlier is None and mode != "overwrite":
            try:
                _refuse_existing(run, mode)
            except FileExistsError:
                # another driver may have created it since, and a first part
                earlier = run.load_plan()
                if earlier is None:
                    raise
        if earlier is None:
            listed = None if listing is None else run.save_listing(listing)
            earlier = run.create_plan(replace(plan, listing=listed))
        refuse_difference(earlier, plan, str(run.target))
        if not run.single and run.load_result() is None:
            incomplete = Manifest(plan.container, {}, {}, [], complete=False, expected=plan.samples)
            create_manifest(incomplete, marker_path(run.root, ""))
        plans.append(earlier)

    lock = lock_run(run.target, single=run.single, run=plan.fingerprint, join=join)
    return lock, plans[0]


def _replaced(
    run: RunFolder, plan: RunPlan, earlier: RunPlan | None, part: int | None
) -> RunPlan | None:
    """Prepare to write again what an earlier run has written, whose parts stay until then.

    Returns:
        The plan that is left; None if the run starts again.
    """
    extra = run.part(plan.parts)
    if extra.exists():
        raise FileExistsError(
            f"{extra} is a part of an earlier run with more "
            f"than {plan.parts} parts: delete those parts"
        )
    if earlier is not None and earlier.of_call() == plan:
        written = run.written(earlier)
        # parts that cannot be joined are written again
        is_refused = part is None and run.has_failed() and len(written) == earlier.parts
        if run.load_result() is None and not is_refused and part not in written:
            return earlier
        if part is not None:
            run.forget_result()
            run.forget(part)
            return earlier
    if not run.single and is_object(run.target):
        raise folder_in_store(run.target)
    _refuse_existing(run, "overwrite")
    _remove(run)
    return None


def _remove(run: RunFolder) -> None:
    """Remove the plan and the result of a run."""
    if isinstance(run.folder, Path):
        remove_tree(run.folder)
    else:
        remove_all(run.folder, first="plan.json")
    if not run.single:
        remove(marker_path(run.root, ""))


def _refuse_existing(run: RunFolder, mode: Mode) -> None:
    """Raise `FileExistsError` if there is a dataset, or files of others, where a run is to be written.

    Parts and files of others may be there if the mode is `overwrite`.
    """
    target, part = run.target, None
    if run.single:
        part = run.part(0) if run.part(0).exists() else None
    elif target.is_dir():
        part = next((entry for entry in target.iterdir() if is_part(entry.name)), None)
        if any(holds_dataset(container, target) for container in writable_containers()):
            # its shards would be beside the parts
            raise FileExistsError(
                f"{target} is a dataset already, but not of this run, which replaces parts one by "
                "one: use another path, or replace it with mode='overwrite' and without parts"
            )
        if part is None and mode != "overwrite":
            check_alone(target)
    elif target.exists():
        raise FileExistsError(f"{target} is a file, and parts need a folder: use another path")
    if part is not None and mode != "overwrite":
        raise FileExistsError(
            f"{part} is a dataset already, but not of this run: "
            "use mode='overwrite' to replace it, or another path"
        )


def run_parts(
    task: PartTask, engine: Any, progress: OnProgress | None, *, only: Part = None
) -> RunTotals:
    """Write the missing parts of a run and finish it; or write one part, or none.

    Args:
        task: Writes a part of the run.
        engine: Where parts run: see `bushel.engines`; None for this process, one after another.
        progress: Called some times per second.
        only: The only part to write, `plan` for none of them, or None for all that are missing.

    Raises:
        TooManyErrors: More items failed than are allowed. Parts that were finished are kept.
    """
    run, plan, limit = task.run, task.plan, task.limit
    paths = tuple(str(run.part(number)) for number in range(plan.parts))
    if only == "plan":
        return RunTotals(paths, Totals(0, 0, 0, []))
    before: dict[int, Totals] = {}
    if only is None or limit.allowed:
        before = run.written(plan)
    numbers = [number for number in range(plan.parts) if number not in before]
    if only is not None:
        before.pop(only, None)
        numbers = [only]
    errors = sum(totals.errors for totals in before.values())
    items = sum(map(plan.items, before))
    task = replace(task, limit=replace(limit, errors=errors, items=items))
    meter = RunMeter(plan, numbers, progress)
    if only is not None:
        return _run_part(task, only, meter)

    def add(number: int, report: PartReport) -> None:
        meter.add(number, report)
        check_errors(run, plan, errors + meter.errors, limit.allowed)

    try:
        if engine is None:
            for number in numbers:
                report = task(number, meter.report)
                add(number, report)
                task = task.after(number, report)
        elif numbers:
            drive(task, numbers, engine, finished=add, looking=meter.look)
    except Exception:
        if not before and not meter.parts:
            run.note_failure()
        raise
    has_samples = meter.has_samples or any(totals.samples for totals in before.values())
    if meter.errors and not has_samples:
        publish_errors(run, plan)
        raise TooManyErrors(
            f"none of the {meter.errors} items can be packed: see "
            f"{error_log_path(run.target)}. {run.target} is not finished: correct "
            "the call, or the items, and delete it or pack to another path",
            errors=meter.errors,
        )
    result = finish_run(run, plan, allowed=limit.allowed)
    meter.reporter.finish()
    written = replace(result, samples=meter.samples, bytes=meter.bytes)
    return RunTotals(paths, written, result.samples - meter.samples)


def _run_part(task: PartTask, number: int, meter: RunMeter) -> RunTotals:
    """Write one part, and leave the others and the end to other calls."""
    run, plan = task.run, task.plan
    report = task(number, meter.report)
    meter.add(number, report)
    if report.totals.errors:
        publish_errors(run, plan)
    written = replace(report.totals, samples=meter.samples, bytes=meter.bytes)
    return RunTotals((str(run.part(number)),), written, report.totals.samples - meter.samples)


class RunMeter:
    """The totals of one call.

    Attributes:
        samples: Samples of the parts that this call has committed.
        bytes: Their stored bytes.
        errors: Items that could not be packed, in all parts that have finished during this call.
        parts: Number of parts that have finished during this call.
        has_samples: Whether these parts have samples, also those that another driver has written.
        reporter: Reports the progress.
    """

    def __init__(self, plan: RunPlan, numbers: Sequence[int], progress: OnProgress | None) -> None:
        self._plan = plan
        self.reporter = ProgressReporter(progress)
        self._total = sum(map(plan.items, numbers))
        self._before = plan.parts - len(numbers)
        self._done = self.parts = 0
        self._retries, self.has_samples = 0, False
        self.samples = self.bytes = self.errors = 0

    def add(self, number: int, report: PartReport) -> None:
        """Add a part that has finished."""
        self._done += self._plan.items(number)
        self.parts += 1
        self.errors += report.totals.errors
        self.has_samples |= report.totals.samples > 0
        if report.is_new:
            self.samples += report.totals.samples
            self.bytes += report.totals.bytes
        self.report()

    def look(self, retries: int) -> None:
        """Take the number of retries of the driver."""
        self._retries = retries
        self.report()

    def report(self, done: int = 0, samples: int = 0, errors: int = 0, size: int = 0) -> None:
        """Report the numbers of items, samples, errors and bytes of a part that this process writes."""
        self.reporter.report(
            Progress(
                self._done + done,
                self._total,
                "samples",
                self.samples + samples,
                self.bytes + size,
                self.errors + errors,
                parts=(self._before + self.parts, self._plan.parts),
                retries=self._retries,
            )
        )
