"""The life of a helper process: run the pipeline in threads, and send its batches through shared memory."""

from __future__ import annotations

import os
import pickle
import select
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bushel.core.processes import Channel, portable
from bushel.loader.outputs import Output
from bushel.loader.pipeline import Pipeline
from bushel.loader.plan import Plan
from bushel.loader.prefetch import PrefetchWindow
from bushel.loader.report import BadSample, ErrorReport
from bushel.loader.run import run_threads
from bushel.loader.segments import Packed, SegmentPool
from bushel.loader.stats import Clock

__all__ = ["Delivery", "Failed", "Job", "main"]

_LOOK_AROUND_SECONDS = 2  # how soon a helper notices that its parent is gone though its socket lives on in a fork


@dataclass(frozen=True, slots=True)
class Job:
    """What a helper does: every `count`-th batch of an epoch, beginning with batch `number`.

    Attributes:
        pipeline: What to do.
        plan: How the epoch is cut; it is pure, so every helper makes its own batch plans.
        epoch: The epoch.
        consumed: Positions of the epoch that are behind.
        number: Which of the helpers this is.
        count: How many there are.
        workers: Threads.
        window: How many batches to work on at a time.
        credit: Batches that may be sent before one is taken.
        max_errors: Bad samples to put up with.
    """

    pipeline: Pipeline
    plan: Plan
    epoch: int
    consumed: int
    number: int
    count: int
    workers: int
    window: PrefetchWindow
    credit: int
    max_errors: int | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch from a helper: a `Finished` as it travels, with what else there is to tell.

    Attributes:
        consumed: See `Finished`.
        batch: The batch.
        samples: See `Finished`.
        stored_bytes: See `Finished`.
        bad: Bad samples that were not told of yet.
        totals: What the helper's clock has added up since the last delivery.
    """

    consumed: int
    batch: Packed
    samples: int
    stored_bytes: int
    bad: tuple[BadSample, ...]
    totals: dict[str, float]


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception from a helper, with the traceback that cannot travel as text."""

    error: BaseException
    notes: tuple[str, ...]
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failed:
        """Describe an exception; one that does not survive pickling is replaced by a RuntimeError that quotes it."""
        text = "".join(traceback.format_exception(error))
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(portable(error), notes, text)


def main(descriptor: int) -> None:
    """Serve the loader at the other end of this socket until it closes it.

    Whatever happens, the process ends with it: nobody else would.
    """
    channel = Channel.of_descriptor(descriptor)
    parent = os.getppid()
    try:
        _serve(channel, parent)
    except (EOFError, ConnectionError):  # the loader was closed
        os._exit(0)
    except BaseException as error:
        with suppress(OSError):
            channel.send(pickle.dumps(Failed.of(error)))
            select.select([channel], [], [])  # until the loader, which has read it, closes its end
        os._exit(0)


def _serve(channel: Channel, parent: int) -> None:
    message, _ = channel.receive()
    job: Job = pickle.loads(message)
    pool, credit = SegmentPool(), threading.Semaphore(job.credit)
    threading.Thread(target=_listen, args=(channel, parent, pool.release, credit), daemon=True).start()
    clock, report, told = Clock(), ErrorReport(job.max_errors), set[int]()
    plans = islice(job.plan.batches(job.epoch, job.consumed), job.number, None, job.count)
    batches = run_threads(job.pipeline, plans, report, clock, Output(), workers=job.workers, window=job.window)
    for finished in batches:
        bad = tuple(one for one in report.bad_samples() if one.sample not in told)
        told.update(one.sample for one in bad)
        credit.acquire()
        packed, created = pool.pack(finished.batch)
        counts = finished.samples, finished.stored_bytes
        channel.send(pickle.dumps(Delivery(finished.consumed, packed, *counts, bad, clock.drain())), created)
        del finished  # so that its memory is free again
    threading.Event().wait()  # until the listener ends the process: the last segments are still being read


def _listen(channel: Channel, parent: int, release: Callable[[Any], None], credit: threading.Semaphore) -> None:
    """Take what the consumer gives back, and end the process when it is gone."""
    try:
        while os.getppid() == parent:
            if select.select([channel], [], [], _LOOK_AROUND_SECONDS)[0]:
                message, _ = channel.receive()
                release(pickle.loads(message))
                credit.release()
    finally:
        os._exit(0)
