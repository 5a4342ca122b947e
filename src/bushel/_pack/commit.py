"""Write a part of a run: a dataset like any other, under a lock of its own.

A part is written once its manifest, which names the run, is in its place, as the last of its files.
Before that it is missing, and the next process writes it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bushel._dataset.open.locking import lock_part, lock_run
from bushel._index.sidecar import FOLDER
from bushel._pack.part import ErrorLimit
from bushel._pack.run_folder import RunFolder, Totals
from bushel._pack.run_plan import RunPlan
from bushel._pack.side_files import ErrorList, error_lines, error_log_path
from bushel._runtime.log import log_warning
from bushel._runtime.structs import Struct
from bushel._writer.overwrite import recover_target
from bushel.errors import InUseError, TooManyErrors
from bushel.storage import AnyPath, remove, walk_names, write_whole
from bushel.storage.lock import Lock
from bushel.storage.names import below

_LOOK_SECONDS = 0.2

OnPart = Callable[[int, int, int, int], None]
"""Called with the numbers of items, samples, errors and bytes of a part that is being written."""

WritePart = Callable[[int, Lock, ErrorLimit, ErrorList, OnPart | None], Totals]
"""Writes a part, whose lock it gets: see `PackJob.write`. It can be pickled."""


class PartReport(Struct, frozen=True):
    """The result of a task."""

    totals: Totals
    is_new: bool  # whether this call has written the part


class PartTask(Struct, frozen=True):
    """Writes the part with a number."""

    run: RunFolder  # the files of the run
    plan: RunPlan  # the plan that is there
    write: WritePart
    limit: ErrorLimit  # the treatment of errors, with the number in parts that are written

    def __call__(self, number: int, progress: OnPart | None = None) -> PartReport:
        """Write a part, unless it is written already. Wait for another process that writes it.

        Raises:
            TooManyErrors: More items failed than are allowed in the whole run.
            InUseError: Another writer is open for the target.
        """
        run = self.run
        path = run.part(number)
        with (
            lock_run(run.target, single=run.single, run=self.plan.fingerprint),
            _patient_lock(path) as lock,
        ):
            if isinstance(path, Path):
                recover_target(path)
            manifest = run.load_part(number, self.plan)
            if manifest is not None:
                return PartReport(Totals.of(manifest), is_new=False)
            totals = self._write(number, path, lock, progress)
        return PartReport(totals, is_new=True)

    def after(self, number: int, report: PartReport) -> PartTask:
        """Return the task for the parts that are written after one, whose errors count."""
        errors = self.limit.errors + report.totals.errors
        items = self.limit.items + self.plan.starts[number + 1] - self.plan.starts[number]
        return replace(self, limit=replace(self.limit, errors=errors, items=items))

    def _write(self, number: int, path: AnyPath, lock: Lock, progress: OnPart | None) -> Totals:
        self.run.forget_result()
        if not (isinstance(path, Path) or self.run.single):
            _clear(path)
        log = ErrorList(error_log_path(self.run.target))
        try:
            return self.write(number, lock, self.limit, log, progress)
        except TooManyErrors:
            publish_errors(self.run, self.plan, log.lines)
            raise


def _patient_lock(path: AnyPath) -> Lock:
    """Lock a part, once no other process has it."""
    try:
        return lock_part(path)
    except InUseError as error:
        log_warning("waiting for the process that writes this part: %s", error)
    while True:
        time.sleep(_LOOK_SECONDS)
        with suppress(InUseError):
            return lock_part(path)


def _clear(path: AnyPath) -> None:
    """Remove the objects of a part that is not written whole, its manifest first."""
    for name in sorted(walk_names(path), key=lambda name: name != f"{FOLDER}/manifest.json"):
        remove(below(path, name, any_text=True))


def publish_errors(run: RunFolder, plan: RunPlan, more: Sequence[str] = ()) -> None:
    """Write the error log of a run that has not finished: the errors of the parts so far, and more lines."""
    lines: list[str] = []
    for number in range(plan.parts):
        manifest = run.load_part(number, plan)
        if manifest is not None and manifest.part is not msgspec.UNSET:
            lines += manifest.part.errors
    lines += more
    write_whole(error_log_path(run.target), error_lines(map(json.loads, lines)))


def check_errors(run: RunFolder, plan: RunPlan, errors: int, allowed: int | None) -> None:
    """Raise TooManyErrors, and write the error log, if the parts have more errors than are allowed together."""
    if allowed is None or errors <= allowed:
        return
    publish_errors(run, plan)
    raise TooManyErrors(
        f"{errors} items of {run.target} cannot be packed, but max_errors allows {allowed}. They"
        f" are listed in {error_log_path(run.target)}; finished parts are kept, and the same call"
        " with a larger max_errors continues",
        errors=errors,
    )
