"""Running a pipeline in helper processes.

Batch t comes from helper t mod n, so batches keep their order without anyone to sort them.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Generator

from bushel.core.processes import HelperProcess, pickle_for_helper
from bushel.loader.helper import Delivery, Failed, Job
from bushel.loader.outputs import Output, Upload
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import Plan
from bushel.loader.prefetch import PrefetchWindow
from bushel.loader.report import ErrorReport
from bushel.loader.segments import SegmentReader
from bushel.loader.stats import Clock

__all__ = ["run_processes"]

_CREDIT = 2  # batches that wait in shared memory, per helper


def run_processes(
    pipeline: Pipeline,
    plan: Plan,
    epoch: int,
    consumed: int,
    report: ErrorReport,
    clock: Clock,
    output: Output,
    *,
    processes: int,
    workers: int,
    window: PrefetchWindow,
) -> Generator[Finished]:
    """Prefetch batches in helper processes.

    Args:
        pipeline: What to do; it is pickled.
        plan: How the epoch is cut into batches.
        epoch: Which epoch.
        consumed: Positions of it that are behind.
        report: Where bad samples are noted.
        clock: Where times are added up.
        output: What batches become, here in the consumer's process.
        processes: Number of helpers.
        workers: Threads in each.
        window: How many batches each works on at a time.

    Raises:
        TypeError: The pipeline cannot be pickled; says what is in the way.
        RuntimeError: A helper died, or the generator was carried into another process by a fork.
    """
    jobs = [
        pickle_for_helper(
            Job(pipeline, plan, epoch, consumed, number, processes, workers, window, _CREDIT, report.max_errors),
            "the dataset, transforms and collate functions",
        )
        for number in range(processes)
    ]
    process = os.getpid()
    helpers: list[_Helper] = []
    upload = Upload(output)
    try:
        for _ in jobs:
            helpers.append(_Helper())  # noqa: PERF401 - those started before one that fails must be ended
        for helper, job in zip(helpers, jobs, strict=True):
            helper.begin(job)
        for turn in range(plan.reads(consumed)):
            helper = helpers[turn % processes]
            delivery = helper.receive()
            report.merge(delivery.bad)
            clock.add(delivery.totals)
            batch = upload.finish(upload.start(output.to_host(helper.reader.unpack(delivery.batch))))
            finished = Finished(delivery.consumed, batch, delivery.samples, delivery.stored_bytes)
            del delivery, batch
            helper.return_credit()
            yield finished
            del finished  # the consumer's batch is the consumer's: a reference here would keep its segment taken
            if os.getpid() != process:
                raise RuntimeError(
                    "this iteration of a Loader began before a fork, and its helpers serve the parent process: begin a "
                    "new `for` over the loader here"
                )
    finally:
        if os.getpid() == process:
            for helper in helpers:
                helper.close()
            for helper in helpers:
                helper.join()


class _Helper:
    """The consumer's end of one helper process."""

    def __init__(self) -> None:
        self.reader = SegmentReader()
        self._process = HelperProcess("bushel.loader.helper", "main")

    def begin(self, job: bytes) -> None:
        """Say what to do."""
        self._process.tell(job)

    def receive(self) -> Delivery:
        """Wait for the next batch."""
        message, descriptors = self._process.receive()
        for descriptor in descriptors:
            self.reader.add(descriptor)
        delivery: Delivery | Failed = pickle.loads(message)
        if isinstance(delivery, Failed):
            for note in (*delivery.notes, f"in helper process {self._process.pid}:\n{delivery.traceback}"):
                delivery.error.add_note(note)
            raise delivery.error
        return delivery

    def return_credit(self) -> None:
        """Say that a batch was taken, and which segments are free again."""
        freed = [self.reader.freed.popleft() for _ in range(len(self.reader.freed))]
        self._process.tell(pickle.dumps(freed))

    def close(self) -> None:
        """Tell the helper to end."""
        self._process.close()
        self.reader.close()

    def join(self) -> None:
        """Wait for its end."""
        self._process.join()
