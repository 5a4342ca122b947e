"""Packing one part: threads that prepare, one writer, errors counted in the order of the items."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.core.order import Exact, Sequential
from bushel.core.parallel import parallel_map
from bushel.core.writer.writer import Mode, Writer
from bushel.errors import CodecError, SpecError, StateError, TooManyErrors
from bushel.ingest.errorlog import ErrorLog, PackState, reason
from bushel.ingest.prepare import Bad, Item, Ready, prepared_size
from bushel.storage import AnyPath

__all__ = ["Crew", "Limits", "Part", "PartDone", "Places", "StreamItems", "write_part"]

_WAITING = 64 << 20
_OVERHEAD = 1024
"""Bytes of a prepared batch besides its samples."""
_MOST = 256
_LOOK = 1 << 14


@dataclass(frozen=True, slots=True)
class Places:
    """The items of one part: a stretch of an order over all positions of a source.

    Attributes:
        order: Place to position.
        first: First place of the part.
        last: Behind its last place.
    """

    order: Sequential | Exact
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def take(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """The positions at some places of the part, counted from its first."""
        return self.order.take(0, np.arange(self.first + first, self.first + last, dtype=np.int64))

    def behind(self, samples: int, bad: Sequence[int]) -> int:
        """The place behind so many samples, when the items at the positions `bad` were passed over.

        Raises:
            StateError: The part has fewer samples.
        """
        found, skipped = 0, np.array(sorted(bad), np.int64)
        for start in range(0, len(self), 1 << 20):
            if found == samples:
                return start
            positions = self.take(start, min(start + (1 << 20), len(self)))
            counts = found + np.cumsum(~np.isin(positions, skipped))
            if counts[-1] >= samples:
                return start + int(np.searchsorted(counts, samples)) + 1
            found = int(counts[-1])
        if found < samples:
            raise StateError(f"the target has {samples} samples of a source that has only {found}")
        return len(self)


@dataclass(frozen=True, slots=True)
class StreamItems:
    """The samples of a stream."""

    samples: Iterator[Any]


@dataclass(frozen=True, slots=True)
class Part:
    """What one part is to be.

    Attributes:
        target: Where it is written.
        root: The folder that is or holds the target.
        name: Name of the target where it is one file, else empty.
        log: Where its errors are noted.
        items: What is packed.
        plan: What decides which sample comes where, for `PackState`.
    """

    target: AnyPath
    root: AnyPath
    name: str
    log: AnyPath
    items: Places | StreamItems
    plan: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Crew:
    """Who does the work, and who hears of it.

    Attributes:
        prepare: Makes a batch ready, in any thread.
        origin: Where the item at a position comes from, where that is known.
        workers: Threads that prepare.
        batch: Bytes of samples that are prepared together.
        report: Called with items done, errors and bytes after every batch.
    """

    prepare: Callable[[Sequence[Item]], list[Ready | Bad]]
    origin: Callable[[int], str | None]
    workers: int
    batch: int
    report: Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is done about errors.

    Attributes:
        allowed: Errors of a part to put up with.
        strict: Raise the first one as it is.
    """

    allowed: int
    strict: bool


@dataclass(frozen=True, slots=True)
class PartDone:
    """What packing a part came to.

    Attributes:
        samples: Samples written.
        kept: Samples that were there before.
        errors: Items passed over, with those of the run that was resumed.
        bytes: Stored bytes of the fields written.
        limits: What of the samples the container does not keep, in words.
    """

    samples: int
    kept: int
    errors: int
    bytes: int
    limits: tuple[str, ...]


def write_part(part: Part, writer: Writer, log: ErrorLog, mode: Mode, limits: Limits, crew: Crew) -> PartDone:
    """Pack a part into a writer, and close it.

    Args:
        part: What is packed.
        writer: Opened on the part's target in this mode.
        log: Where errors are noted.
        mode: As for `Writer`.
        limits: What is done about errors.
        crew: Who does it.

    Raises:
        TooManyErrors: More items failed than are allowed; what was packed before is whole and can be opened.
        StateError: `resume` found something else than the beginning of this part.
    """
    state = PackState(part.root, part.name, part.plan)
    kept = len(writer)
    start, errors = _begin(part, writer, mode, state, log)
    pace = _Pace(crew.batch)
    batches = _batches(part.items, start, pace)
    results = parallel_map(
        crew.prepare,
        batches,
        workers=crew.workers,
        limit=_WAITING,
        size=_size,
        draw_in_workers=True,
        name="bushel-pack",
    )
    done, written, size = start, 0, 0
    try:
        for batch in results:
            for result in batch:
                bad = result if isinstance(result, Bad) else _append(writer, result, crew.origin)
                done += 1
                if bad is None:
                    written += 1
                    size += result.size if isinstance(result, Ready) else 0
                    continue
                errors += 1
                log.add(bad)
                if limits.strict:
                    log.publish()
                    bad.error.add_note(f"at {_named(bad)}; mode='resume' goes on from here")
                    raise bad.error
                if errors > limits.allowed:
                    writer.close()
                    log.publish()
                    raise _too_many(part.target, bad, errors, limits.allowed, done, log) from bad.error
            pace.observe(size, written)
            crew.report(done, errors, size)
    finally:
        results.close()
    writer.close()
    log.finish()
    state.finish()
    return PartDone(written, kept, errors, size, writer.limits)


def _size(prepared: list[Ready | Bad]) -> int:
    return _OVERHEAD + prepared_size(prepared)


def _begin(part: Part, writer: Writer, mode: Mode, state: PackState, log: ErrorLog) -> tuple[int, int]:
    """The place to begin at, and the errors before it."""
    kept = len(writer)
    if mode != "resume":
        log.clear()
        state.begin(kept)
        return 0, 0
    if isinstance(part.items, StreamItems):
        raise StateError("a stream cannot be resumed: it gives its samples only once")
    first, noted = state.first(), log.positions()
    writer.fill_last(since=first)
    start = part.items.behind(kept - first, noted)
    passed = set(part.items.take(0, start).tolist()) if noted else set()
    errors = sum(position in passed for position in noted)
    log.keep(errors)
    state.begin(first)
    return start, errors


def _append(writer: Writer, ready: Ready, origin: Callable[[int], str | None]) -> Bad | None:
    try:
        writer.append(ready.values, key=ready.key)
    except (SpecError, CodecError, ValueError, TypeError) as error:
        return Bad(ready.position, ready.key, origin(ready.position), error)
    return None


def _named(bad: Bad) -> str:
    return bad.path or (f"sample {bad.key!r}" if bad.key is not None else f"position {bad.position}")


def _too_many(target: AnyPath, bad: Bad, errors: int, allowed: int, done: int, log: ErrorLog) -> TooManyErrors:
    return TooManyErrors(
        f"{errors} of the first {done} items cannot be packed, and {allowed} may be; the last: {_named(bad)}: "
        f"{reason(bad.error)}. All are in {log.path}; {target} holds the samples before",
        errors=errors,
    )


class _Pace:
    """How many items make a batch: so many that they have `size` bytes, by the mean of those packed so far."""

    def __init__(self, size: int) -> None:
        self.items = 1
        self._size = size

    def observe(self, size: int, samples: int) -> None:
        """Take note of what was packed."""
        if samples:
            self.items = min(max(self._size * samples // max(size, 1), 1), _MOST)


def _batches(items: Places | StreamItems, start: int, pace: _Pace) -> Iterator[list[Item]]:
    if isinstance(items, StreamItems):
        numbered: Iterator[Item] = enumerate(items.samples)
        while batch := list(itertools.islice(numbered, pace.items)):
            yield batch
        return
    for first in range(start, len(items), _LOOK):
        positions: Iterator[Item] = iter(items.take(first, min(first + _LOOK, len(items))).tolist())
        while batch := list(itertools.islice(positions, pace.items)):
            yield batch
