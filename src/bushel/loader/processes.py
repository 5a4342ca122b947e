"""Running a pipeline in helper processes.

Helpers are started as fresh interpreters, not by a fork, so neither locks nor threads nor open files of the trainer get
into them, and the trainer's main script is not run again, so it needs no `if __name__ == "__main__"`. Batch t comes
from helper t mod n, so batches keep their order without anyone to sort them.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from types import FunctionType
from typing import Any

from bushel.errors import BushelError
from bushel.loader.ahead import Ahead
from bushel.loader.channel import Channel
from bushel.loader.helper import Delivery, Failed, Job
from bushel.loader.outputs import Output, Upload
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import Plan
from bushel.loader.report import ErrorReport
from bushel.loader.segments import SegmentReader
from bushel.loader.stats import Clock

__all__ = ["run_processes"]

_CREDIT = 2  # batches that wait in shared memory, per helper
_PATIENCE_SECONDS = 10


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
    ahead: Ahead,
) -> Generator[Finished]:
    """Work ahead in helper processes.

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
        ahead: How many batches each works on at a time.

    Raises:
        TypeError: The pipeline cannot be pickled; says what is in the way.
        RuntimeError: A helper died, or the generator was carried into another process by a fork.
    """
    jobs = [
        _pickle(Job(pipeline, plan, epoch, consumed, number, processes, workers, ahead, _CREDIT, report.max_errors))
        for number in range(processes)
    ]
    process = os.getpid()
    helpers: list[_Helper] = []
    upload = Upload(output)
    try:
        for job in jobs:
            helpers.append(_Helper(job))  # noqa: PERF401 - those started before one that fails must be ended
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

    def __init__(self, job: bytes) -> None:
        own, its = socket.socketpair()
        with its:
            code = f"import sys; sys.path[:] = {sys.path}; from bushel.loader.helper import main; main({its.fileno()})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                process_group=0,  # Ctrl-C is for the trainer, which ends its helpers itself
            )
        self._channel, self.reader = Channel(own), SegmentReader()
        with suppress(ConnectionError):  # a helper that died says so when a batch is asked of it
            self._channel.send(job)

    def receive(self) -> Delivery:
        """Wait for the next batch."""
        try:
            message, descriptors = self._channel.receive()
        except (EOFError, ConnectionError):
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise RuntimeError(
                f"helper process {self._process.pid} of the loader {how}; if the system was out of memory, use fewer "
                f"processes or a smaller prefetch"
            ) from None
        for descriptor in descriptors:
            self.reader.add(descriptor)
        delivery: Delivery | Failed = pickle.loads(message)  # noqa: S301 - from our own child
        if isinstance(delivery, Failed):
            for note in (*delivery.notes, f"in helper process {self._process.pid}:\n{delivery.traceback}"):
                delivery.error.add_note(note)
            raise delivery.error
        return delivery

    def return_credit(self) -> None:
        """Say that a batch was taken, and which segments are free again."""
        freed = [self.reader.freed.popleft() for _ in range(len(self.reader.freed))]
        with suppress(ConnectionError):  # a helper that died says so when a batch is asked of it
            self._channel.send(pickle.dumps(freed))

    def close(self) -> None:
        """Tell the helper to end."""
        self._channel.close()
        self.reader.close()

    def join(self) -> None:
        """Wait for its end; it comes at once, unless a library in it will not let go."""
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Pickler(pickle.Pickler):
    """Refuses by name what a fresh interpreter could not find."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise TypeError(
                f"{obj.__qualname__} is defined in the main script, which helper processes do not run: move it to a "
                f"module of its own and import it, or leave processes= out to use threads"
            )
        return NotImplemented


def _pickle(job: Job) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(job)
    except BushelError:
        raise
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"processes= pickles the dataset, transforms and collate functions, and one cannot be: {error}"
        ) from error
    return buffer.getvalue()
