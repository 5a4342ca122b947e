"""Reading ahead from object stores: the bytes of later batches, in long requests, bounded by memory.

A `ReadAhead` belongs to one iteration. It draws the batch plans, group by group (`ahead_plan`),
requests what the batches of a group have in common, and holds each value until its batch takes it.
Other values are read by the batch itself. If reading ahead fails, each sample of the batch is read
again, so that errors name samples.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from operator import attrgetter

from bushel._runtime.arrays import Bools, total_of
from bushel._runtime.threads import Threads
from bushel.kernels import RangeValues
from bushel.loader.plan.plan import BatchPlan
from bushel.storage import Extents, File
from bushel.storage.fetch import ranges_to_prefetch
from bushel.storage.objects.ranges import read_span, receive_span

from .ahead_plan import BatchPart, Grouping, Planned, PlannedBatch, Request, requests_of

_AT_ONCE = {True: 64, False: 24}
"""Short and long requests that run at a time; long ones have 8 MiB at most. Neither waits for the other."""

_LONGEST_WAIT, _LOOK_AFTER, _LOOK_EVERY = 1.0, 0.25, 0.02
"""Seconds that the first batch waits for its group, by the rate of its bytes, at most; for how long that rate is
measured; and how often it looks."""

_GROUPS = 2
"""Groups that are planned at a time: the current one and the next one."""


class _Ended(BaseException):
    """Ends the threads of an iteration that wait for bytes. It is not an Exception, which they would handle."""


class HeldBatch:
    """The bytes held for one batch (`bushel.storage.fetch.Held`). It is released at the end of a `with` block.

    Attributes:
        hurried: Whether it does not wait for long requests on a slow link.
    """

    def __init__(self, ahead: ReadAhead, parts: Sequence[BatchPart]) -> None:
        self._ahead, self._parts = ahead, parts
        self.hurried = False

    def __enter__(self) -> HeldBatch:
        return self

    def __exit__(self, *error: object) -> None:
        self._ahead.release(self._parts)

    def covers(self, files: Sequence[File], extents: Extents) -> Bools | None:
        """Return bool[n], which of these extents it has, or None if it has none."""
        part = self._part(files, extents)
        return None if part is None or not part.requests else part.covered

    def take(self, files: Sequence[File], extents: Extents) -> list[bytes | None]:
        """Wait for the extents that it has, and hand them over: bytes or None for each of the n extents.

        A hurried batch does not wait for long requests on a slow link: what has not arrived is
        None.

        Raises:
            Exception: A request failed, or an object was replaced.
        """
        part = self._part(files, extents)
        if part is None:
            return [None] * len(extents)
        if not self.hurried or self._ahead.come_in_time(part.requests):
            for request in part.requests:
                self._ahead.wait_for(request)
        return list(part.values or [None] * len(extents))

    def _part(self, files: Sequence[File], extents: Extents) -> BatchPart | None:
        return next((part for part in self._parts if part.is_of(files, extents)), None)


class ReadAhead(Iterator[tuple[BatchPlan, HeldBatch]]):
    """Draws the plans of batches, reads ahead of them, and yields each with the bytes that are held for it.

    Its threads are ended by `stop` and `close`. The bytes that it holds, running requests included,
    are at most `limit`, or what one batch needs if that is more.

    Args:
        plans: The batches.
        extents_of: Return the extents that a batch will read; called in a thread. It does not
            raise.
        grouping: How they are grouped.
        limit: Bytes to hold.
    """

    def __init__(
        self,
        plans: Iterator[BatchPlan],
        extents_of: Callable[[BatchPlan], Planned],
        grouping: Grouping,
        limit: int,
    ) -> None:
        self._plans, self._extents_of = plans, extents_of
        self._grouping, self._limit = grouping, limit
        self._process = os.getpid()
        # one of them plans
        self._threads = Threads(sum(_AT_ONCE.values()) + 1, "bushel-loader-ahead")
        self._changed = threading.Condition()
        self._groups: deque[deque[tuple[BatchPlan, HeldBatch]]] = deque()
        # the batch that ended the last group
        self._left: list[PlannedBatch] = []
        self._waiting = {short: deque[Request]() for short in _AT_ONCE}
        self._running: dict[bool, set[Request]] = {short: set() for short in _AT_ONCE}
        self._numbers = count()
        self._held = 0
        self._awaited: list[Request] = []  # that threads wait for
        self._planning = self._drawn = self._stopped = False
        self._is_first = True
        self._error: BaseException | None = None

    def __next__(self) -> tuple[BatchPlan, HeldBatch]:
        with self._changed:
            self._proceed()
            while not self._groups:
                if self._error is not None:
                    raise self._error
                if self._drawn:
                    raise StopIteration
                self._changed.wait()
            group = self._groups[0]
            planned = group.popleft()
            if not group:
                self._groups.popleft()
                self._proceed()
            return planned

    def stop(self) -> None:
        """Make no more requests, and end the threads that wait for one. In a fork this does nothing."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._stopped = True
            waiting = [request for requests in self._waiting.values() for request in requests]
            for requests in self._waiting.values():
                requests.clear()
            for request in chain(*self._running.values()):
                request.give_up.set()
        for request in waiting:
            request.outcome.fail(_Ended())

    def close(self, *, wait: bool) -> None:
        """End the threads, and release the bytes."""
        self._threads.close(wait=wait)
        self._groups.clear()

    def has_current(self) -> bool:
        """Return whether the current thread is one of its own."""
        return self._threads.has_current()

    @contextmanager
    def _taking(self, requests: Sequence[Request]) -> Iterator[None]:
        """Wait in the body for requests, which are made beyond the limit if need be."""
        with self._changed:
            self._awaited += requests
            self._proceed()
        try:
            yield
        finally:
            with self._changed:
                for request in requests:
                    self._awaited.remove(request)

    def wait_for(self, request: Request) -> None:
        """Wait until the values of a request have arrived."""
        if request.outcome.done:
            return request.outcome.get()
        with self._taking([request]):
            try:
                request.outcome.get()
            except Exception:
                if self._stopped:
                    raise _Ended from None  # it was given up
                raise

    def come_in_time(self, requests: Sequence[Request]) -> bool:
        """Wait until requests have ended, and return True.

        If their bytes arrive so slowly that this would take long, return False before.
        """
        total, begun = sum(request.size for request in requests), 0.0
        with self._taking(requests):
            while not all(request.outcome.done for request in requests):
                now, arrived = time.monotonic(), sum(request.arrived for request in requests)
                begun = begun or (now if arrived else 0.0)
                waited = now - begun if begun else 0.0
                if waited > _LOOK_AFTER and waited * total > _LONGEST_WAIT * arrived:
                    return False
                time.sleep(_LOOK_EVERY)
        return True

    def release(self, parts: Sequence[BatchPart]) -> None:
        """Forget the values of a batch."""
        with self._changed:
            for part in parts:
                self._held -= sum(map(len, filter(None, part.values or ())))
                part.values, part.requests = None, []
            self._proceed()

    def _proceed(self) -> None:
        """Start the requests for which memory is left. The caller holds the lock."""
        if self._stopped:
            return
        while (request := self._next_request()) is not None:
            self._waiting[request.short].popleft()
            self._running[request.short].add(request)
            self._held += request.size
            self._threads.submit(partial(self._fetch, request))
        if (
            not (any(self._waiting.values()) or self._planning or self._drawn)
            and len(self._groups) < _GROUPS
        ):
            self._planning = True
            self._threads.submit(self._plan)

    def _next_request(self) -> Request | None:
        """Return the request that is needed first of those that may start; None if memory is lacking for it."""
        free = [
            requests[0]
            for short, requests in self._waiting.items()
            if requests and len(self._running[short]) < _AT_ONCE[short]
        ]
        request = min(free, key=attrgetter("number"), default=None)
        if request is None or self._held + request.size <= self._limit:
            return request
        is_awaited = not all(awaited.outcome.done for awaited in self._awaited)
        if is_awaited and not any(self._running.values()):
            return request
        return None

    def _fetch(self, request: Request) -> None:
        try:
            values = _values_of(request)
        except BaseException as error:  # raised where the values are taken
            self._finish(request, [], partial(request.outcome.fail, error))
        else:
            self._finish(request, values, partial(request.outcome.set, None))

    def _finish(self, request: Request, values: Sequence[bytes], end: Callable[[], None]) -> None:
        with self._changed:
            self._running[request.short].remove(request)
            self._held += sum(map(len, values)) - request.size
            # none if it failed
            for value, part, row in zip(values, request.parts, request.rows, strict=False):
                if part.values is None:  # its batch has failed
                    self._held -= len(value)
                else:
                    part.values[row] = value
            end()  # first, so that no more is read for a thread that has what it waited for
            self._proceed()

    def _plan(self) -> None:
        try:
            batches = self._draw()
            parts, requests = requests_of(batches)
        except BaseException as error:
            with self._changed:
                self._planning, self._drawn, self._error = False, True, error
                self._changed.notify_all()
            return
        with self._changed:
            if batches:
                nbytes = sum(batch.size for batch in batches)
                group = deque(
                    (batch.plan, HeldBatch(self, parts_of_batch))
                    for batch, parts_of_batch in zip(batches, parts, strict=True)
                )
                group[0][1].hurried = self._is_first and self._grouping.is_large(nbytes)
                self._groups.append(group)
            self._planning = self._is_first = False
            for request in requests if not self._stopped else ():
                request.number = next(self._numbers)
                self._waiting[request.short].append(request)
            self._drawn = not batches
            self._changed.notify_all()
            self._proceed()

    def _draw(self) -> list[PlannedBatch]:
        """Draw the batches of a group."""
        batches: list[PlannedBatch] = []
        drawn, self._left = chain(self._left, self._planned()), []
        samples = nbytes = 0
        for batch in drawn:
            samples, nbytes = samples + len(batch.plan.samples), nbytes + batch.size
            position = int(batch.plan.positions[0])
            if batches and self._grouping.ends(
                int(batches[0].plan.positions[0]), position, samples, nbytes
            ):
                self._left = [batch]
                break
            batches.append(batch)
        return batches

    def _planned(self) -> Iterator[PlannedBatch]:
        """Yield the next batches, each with what it needs that those before it do not."""
        seen = set[Hashable]()
        for plan in self._plans:
            ranges = [
                ranges_to_prefetch(files, extents, seen)
                for files, extents in self._extents_of(plan)
            ]
            needed = [needed_ranges for needed_ranges in ranges if needed_ranges is not None]
            lengths = [extents.length[rows] for _, extents, rows in needed]
            size = sum(map(total_of, lengths))
            yield PlannedBatch(plan, needed, size)


def _values_of(request: Request) -> list[bytes]:
    """Request a range, and return the bytes of each extent."""
    file, start, stop = request.file, request.plan.start, request.plan.stop
    if request.short and request.lengths.tolist() == [request.size]:  # the answer is the value
        return [bytes(read_span(file, start, stop, request.give_up))]
    values = RangeValues(request.starts, request.lengths)
    request.values = values
    receive_span(file, start, stop, values, request.give_up)
    request.values = None
    return values.take()
