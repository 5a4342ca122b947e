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
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count

import numpy as np

from bushel._runtime.arrays import I64, Bools
from bushel._runtime.threads import Result, Threads
from bushel.kernels import RangeValues
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.run.ahead_plan import AheadRequest, Grouping, plan_ahead
from bushel.storage import Extents, File
from bushel.storage.fetch import ranges_to_prefetch
from bushel.storage.objects.ranges import read_span, receive_span
from bushel.storage.objects.remotefile import RemoteFile

I64 = I64

_SHORT = 1 << 19
"""Bytes of a short request, at most."""

_REQUESTS = {True: 64, False: 24}
"""Short and long requests that run at a time; long ones have 8 MiB at most. Neither waits for the other."""

_LONGEST_WAIT, _LOOK_AFTER, _LOOK_EVERY = 1.0, 0.25, 0.02
"""Seconds that the first batch waits for its group, by the rate of its bytes, at most; for how long that rate is
measured; and how often it looks."""

_GROUPS = 2
"""Groups that are planned at a time: the current one and the next one."""

_Asked = list[tuple[list[File], Extents, Bools]]
"""The extents of real files that a batch needs, and which of them have to be read."""

Planned = list[tuple[list[File], Extents]]
"""The extents of a batch, as `Reader.extents` returns them."""


class _Ended(BaseException):
    """Ends the threads of an iteration that wait for bytes. It is not an Exception, which they would handle."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request, and where its values go.

    Attributes:
        file: The file.
        plan: The range.
        starts: Where each extent starts in the range.
        lengths: Bytes of each.
        parts: The part of a batch that each is for.
        rows: The row of each in its part.
        done: Set when the values are where they belong.
        give_up: Set when a failure is not to be tried again.
        number: Its place in the order in which requests are needed.
        values: What has arrived, while it runs.
    """

    file: RemoteFile
    plan: AheadRequest
    starts: list[int]
    lengths: list[int]
    parts: list[_Part]
    rows: list[int]
    done: Result[None] = field(default_factory=Result)
    give_up: threading.Event = field(default_factory=threading.Event)
    number: int = 0
    values: RangeValues | None = None

    @property
    def size(self) -> int:
        """Bytes that are requested."""
        return self.plan.stop - self.plan.start

    @property
    def arrived(self) -> int:
        """Bytes that have arrived."""
        values = self.values
        if self.done.done:
            return self.size
        if values is None:
            return 0
        return values.arrived

    @property
    def short(self) -> bool:
        """Whether it is short."""
        return self.size <= _SHORT

    def fetch(self) -> list[bytes]:
        """Return the bytes of each extent."""
        start, stop = self.plan.start, self.plan.stop
        if self.short and self.lengths == [self.size]:  # the answer is the value
            return [bytes(read_span(self.file, start, stop, self.give_up))]
        values = RangeValues(np.array(self.starts, np.int64), np.array(self.lengths, np.int64))
        self.values = values
        receive_span(self.file, start, stop, values, self.give_up)
        self.values = None
        return values.take()


@dataclass(slots=True)
class _Part:
    """Extents of a batch that are read with one call.

    Attributes:
        files: The files that `extents` counts.
        extents: The extents.
        covered: bool[n], which of them are read ahead.
        requests: The requests that bring them.
        values: The bytes of each that have come; None after the batch was read.
    """

    files: list[File]
    extents: Extents
    covered: Bools
    requests: list[_Request]
    values: list[bytes | None] | None

    def is_of(self, files: Sequence[File], extents: Extents) -> bool:
        """Return whether these are its extents."""
        extents_here = self.extents
        return (
            np.array_equal(extents_here.offset, extents.offset)
            and np.array_equal(extents_here.length, extents.length)
            and np.array_equal(extents_here.file, extents.file)
            and len(self.files) == len(files)
            and all(
                file is other or file.path == other.path
                for file, other in zip(self.files, files, strict=True)
            )
        )


class HeldBatch:
    """The bytes held for one batch (`bushel.storage.fetch.Held`). It is released at the end of a `with` block."""

    def __init__(self, ahead: ReadAhead, parts: Sequence[_Part], *, hurried: bool = False) -> None:
        self._ahead, self._parts, self._hurried = ahead, parts, hurried

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
        if part is not None and (not self._hurried or self._ahead.come_in_time(part.requests)):
            for request in part.requests:
                self._ahead.wait_for(request)
        if part is None or part.values is None:
            return [None] * len(extents)
        return list(part.values)

    def _part(self, files: Sequence[File], extents: Extents) -> _Part | None:
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
        self._plans, self._extents_of, self._grouping, self._limit = (
            plans,
            extents_of,
            grouping,
            limit,
        )
        self._process = os.getpid()
        # one of them plans
        self._threads = Threads(sum(_REQUESTS.values()) + 1, "bushel-loader-ahead")
        self._changed = threading.Condition()
        self._groups: deque[deque[tuple[BatchPlan, HeldBatch]]] = deque()
        # the batch that ended the last group
        self._left: tuple[BatchPlan, _Asked, int] | None = None
        self._waiting = {short: deque[_Request]() for short in _REQUESTS}
        self._running: dict[bool, set[_Request]] = {short: set() for short in _REQUESTS}
        self._numbers = count()
        self._held = self._takers = 0
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
            request.done.fail(_Ended())

    def close(self, *, wait: bool) -> None:
        """End the threads, and release the bytes."""
        self._threads.close(wait=wait)
        self._groups.clear()

    def has_current(self) -> bool:
        """Return whether the current thread is one of its own."""
        return self._threads.has_current()

    def wait_for(self, request: _Request) -> None:
        """Wait until the values of a request have arrived."""
        if not request.done.done:
            with self._changed:
                self._takers += 1
                self._proceed()
            try:
                request.done.get()
            except Exception:
                if self._stopped:
                    raise _Ended from None  # it was given up
                raise
            finally:
                with self._changed:
                    self._takers -= 1
        request.done.get()

    def come_in_time(self, requests: Sequence[_Request]) -> bool:
        """Wait until requests have ended, and return True.

        If their bytes arrive so slowly that this would take long, return False before.
        """
        total, begun = sum(request.size for request in requests), 0.0
        with self._changed:
            self._takers += 1
            self._proceed()
        try:
            while not all(request.done.done for request in requests):
                now, arrived = time.monotonic(), sum(request.arrived for request in requests)
                begun = begun or (now if arrived else 0.0)
                waited = now - begun if begun else 0.0
                if waited > _LOOK_AFTER and waited * total > _LONGEST_WAIT * arrived:
                    return False
                time.sleep(_LOOK_EVERY)
        finally:
            with self._changed:
                self._takers -= 1
        return True

    def release(self, parts: Sequence[_Part]) -> None:
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

    def _next_request(self) -> _Request | None:
        """Return the request that is needed first of those that may start; None if memory is lacking for it."""
        free = [
            short
            for short in _REQUESTS
            if self._waiting[short] and len(self._running[short]) < _REQUESTS[short]
        ]
        request = min(
            (self._waiting[short][0] for short in free), key=lambda one: one.number, default=None
        )
        if request is None or self._held + request.size <= self._limit:
            return request
        if self._takers and not any(self._running.values()):
            return request
        return None

    def _fetch(self, request: _Request) -> None:
        try:
            values = request.fetch()
        except BaseException as error:  # raised where the values are taken
            self._finish(request, [])
            request.done.fail(error)
        else:
            self._finish(request, values)
            del values
            request.done.set(None)

    def _finish(self, request: _Request, values: Sequence[bytes]) -> None:
        with self._changed:
            self._running[request.short].remove(request)
            self._held += sum(map(len, values)) - request.size
            # none if it failed
            for value, part, row in zip(values, request.parts, request.rows, strict=False):
                if part.values is None:  # its batch has failed
                    self._held -= len(value)
                else:
                    part.values[row] = value
            self._proceed()

    def _plan(self) -> None:
        try:
            batches = self._draw()
            hurried = self._is_first and self._grouping.is_large(sum(size for *_, size in batches))
            parts, requests = _requests(batches)
        except BaseException as error:
            with self._changed:
                self._planning, self._drawn, self._error = False, True, error
                self._changed.notify_all()
            return
        with self._changed:
            self._planning, self._is_first = False, False
            group = deque(
                (plan, HeldBatch(self, parts_of_batch)) for (plan, *_), parts_of_batch in parts
            )
            if group:
                if hurried:
                    group[0] = group[0][0], HeldBatch(self, parts[0][1], hurried=True)
                self._groups.append(group)
            for request in requests if not self._stopped else ():
                request.number = next(self._numbers)
                self._waiting[request.short].append(request)
            self._drawn = not batches
            self._changed.notify_all()
            self._proceed()

    def _draw(self) -> list[tuple[BatchPlan, _Asked, int]]:
        """Draw the batches of a group, with the extents and the number of bytes of each."""
        batches = [] if self._left is None else [self._left]
        samples, nbytes = (
            sum(len(plan.samples) for plan, *_ in batches),
            sum(size for *_, size in batches),
        )
        self._left = None
        seen = set[Hashable]()
        for plan in self._plans:
            ranges = (
                ranges_to_prefetch(files, extents, seen)
                for files, extents in self._extents_of(plan)
            )
            planned = [needed_ranges for needed_ranges in ranges if needed_ranges is not None]
            size = sum(
                int(np.maximum(extents.length[needed], 0).sum()) for _, extents, needed in planned
            )
            samples, nbytes = samples + len(plan.samples), nbytes + size
            if batches and self._grouping.ends(
                int(batches[0][0].positions[0]), int(plan.positions[0]), samples, nbytes
            ):
                self._left = plan, planned, size
                break
            batches.append((plan, planned, size))
        return batches


def _requests(
    batches: Sequence[tuple[BatchPlan, _Asked, int]],
) -> tuple[list[tuple[tuple[BatchPlan, _Asked, int], list[_Part]]], list[_Request]]:
    """Return the parts of each batch of a group, and the requests of the group."""
    numbers: dict[Hashable, int] = {}
    files: list[RemoteFile] = []
    parts: list[_Part] = []
    of_batches = []
    columns: list[tuple[I64, ...]] = []
    for turn, batch in enumerate(batches):
        parts_of_batch = []
        for files_of_batch, extents, needed in batch[1]:
            part = _Part(
                files_of_batch, extents, np.zeros(len(extents), np.bool_), [], [None] * len(extents)
            )
            parts_of_batch.append(part)
            number, rows = _remote_rows(files_of_batch, extents, needed, numbers, files)
            places = np.array([[turn], [len(parts)]]).repeat(len(rows), 1)
            columns.append((number, extents.offset[rows], extents.length[rows], rows, *places))
            parts.append(part)
        of_batches.append((batch, parts_of_batch))
    if not columns:
        return of_batches, []
    number, offset, length, row, turn_of, part_of = map(np.concatenate, zip(*columns, strict=True))
    requests: list[_Request] = []
    request_of = np.full(len(row), -1, np.int64)
    for plan in plan_ahead(number, offset, length, turn_of):
        request_of[plan.rows] = len(requests)
        starts = offset[plan.rows] - plan.start
        lengths = length[plan.rows].tolist()
        goals = [parts[place] for place in part_of[plan.rows].tolist()]
        rows = row[plan.rows].tolist()
        requests.append(_Request(files[plan.file], plan, starts.tolist(), lengths, goals, rows))
    last = 0
    for part, (own_numbers, *_) in zip(parts, columns, strict=True):
        first, last = last, last + len(own_numbers)
        part.covered[row[first:last]] = request_of[first:last] >= 0
        part.requests += [
            requests[request]
            for request in sorted(set(request_of[first:last].tolist()))
            if request >= 0
        ]
    return of_batches, requests


def _remote_rows(
    known: Sequence[File],
    extents: Extents,
    needed: Bools,
    numbers: dict[Hashable, int],
    files: list[RemoteFile],
) -> tuple[I64, I64]:
    """Return the extents that are within remote files: the number of the file in the group, and the row of each."""
    places = np.array([_number(file, numbers, files) for file in known], np.int64)
    at = (
        np.full(len(extents), extents.file, np.int64)
        if isinstance(extents.file, int)
        else extents.file
    )
    number = places[at] if len(places) else np.full(len(extents), -1, np.int64)
    sizes = np.array([file.size for file in files], np.int64)
    offset, length = extents.offset, extents.length
    fits = needed & (number >= 0) & (offset >= 0) & (length > 0)
    fits[fits] = length[fits] <= sizes[number[fits]] - offset[fits]
    rows = np.flatnonzero(fits)
    return number[rows], rows


def _number(file: File, numbers: dict[Hashable, int], files: list[RemoteFile]) -> int:
    """Return the number of a remote file in the group, -1 for any other file."""
    if not isinstance(file, RemoteFile):
        return -1
    if (number := numbers.get(file.identity)) is None:
        number = numbers[file.identity] = len(files)
        files.append(file)
    return number
