"""Progress of a run: for the callback, and in `status.json` for other processes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bushel._pack.commit import PartReport
from bushel._pack.run_folder import RunFolder
from bushel._pack.run_plan import RunPlan
from bushel._runtime.progress import OnProgress, Progress, ProgressReporter

_STATUS_SECONDS = 5.0


class RunMeter:
    """The totals of one call.

    Attributes:
        samples: Samples of the parts that this call has committed.
        bytes: Their stored bytes.
        errors: Items that could not be packed, in all parts that have finished during this call.
        parts: Number of parts that have finished during this call.
    """

    def __init__(
        self, run: RunFolder, plan: RunPlan, numbers: Sequence[int], progress: OnProgress | None
    ) -> None:
        self._run, self._plan = run, plan
        self._reporter = ProgressReporter(progress)
        self._total = sum(self._items(number) for number in numbers)
        self._before = plan.parts - len(numbers)
        self._done = self.parts = 0
        self._retries = 0
        self._started = time.monotonic()
        self._next_status = 0.0
        self.samples = self.bytes = self.errors = 0

    def _items(self, number: int) -> int:
        return self._plan.starts[number + 1] - self._plan.starts[number]

    def add(self, number: int, report: PartReport) -> None:
        """Add a part that has finished."""
        self._done += self._items(number)
        self.parts += 1
        self.errors += report.totals.errors
        if report.is_new:
            self.samples += report.totals.samples
            self.bytes += report.totals.bytes
        self.report(0, 0, 0, 0)

    def look(self, retries: int) -> None:
        """Take the number of retries of the driver, and write `status.json` from time to time."""
        self._retries = retries
        self.report(0, 0, 0, 0)
        if time.monotonic() >= self._next_status:
            self._save("running")

    def finish(self) -> None:
        """Report the end of the run."""
        self._reporter.finish()

    @contextmanager
    def status(self) -> Iterator[None]:
        """Keep `status.json` while a run is driven."""
        self._save("running")
        try:
            yield
        except BaseException as error:
            self._save("stopped", f"{type(error).__name__}: {error}")
            raise
        self._save("written")

    def report(self, done: int, samples: int, errors: int, size: int) -> None:
        """Report the numbers of items, samples, errors and bytes of a part that this process writes."""
        self._reporter.report(
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

    def _save(self, state: str, error: str | None = None) -> None:
        seconds = time.monotonic() - self._started
        self._next_status = time.monotonic() + _STATUS_SECONDS
        self._run.save_status(
            {
                "state": state,
                "error": error,
                "driver": f"{socket.gethostname()}:{os.getpid()}",
                "updated": time.time(),
                "seconds": round(seconds, 1),
                "parts": self._plan.parts,
                "done": self._before + self.parts,
                "samples": self.samples,
                "bytes": self.bytes,
                "samples_per_second": round(self.samples / max(seconds, 1e-9), 1),
                "bytes_per_second": round(self.bytes / max(seconds, 1e-9), 1),
                "errors": self.errors,
                "retries": self._retries,
            }
        )
