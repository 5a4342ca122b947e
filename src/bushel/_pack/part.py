"""Pack one part: threads encode samples, one writer stores them, and errors are counted in the order of the items."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._dataset.views.dataset import Dataset
from bushel._index.identity import digest_of_value
from bushel._runtime.arrays import I64, batches_of
from bushel._runtime.draws import Order
from bushel._runtime.parallel import parallel_map
from bushel._writer.dataset_plan import RepeatedKeyError
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.target import Mode
from bushel.errors import CodecError, MissingPackageError, SpecError, StateError, TooManyErrors
from bushel.storage import AnyPath

from .encoder import BadItem, EncodedColumns, EncodedSample, Result, encoded_bytes
from .feeds import Batch
from .prepared import BatchLimits, Prepared, digest_of_items
from .run_folder import Totals
from .side_files import ErrorList, ErrorLog, RunRecord, error_text

_KEYS = "give each sample a key of its own (keys= takes a function), or leave the keys out by keys=False"
_QUEUED_BYTES = 64 << 20
_BATCH_OVERHEAD = 1024  # bytes of an encoded batch apart from its samples
_MAX_LISTED_ITEMS = 1024  # items of a batch whose bytes are known before
_POSITIONS_AT_ONCE = 1 << 16


class OrderRange(Struct, frozen=True):
    """The items of one part: a range of an order over all positions of a source."""

    order: Order
    first: int
    last: int
    source: Any = None  # if its items are compared

    def digest(self, first: int, last: int, before: int) -> int:
        """Return a digest of items: see `DigestOfItems`. Of items that are computed, it is of few."""
        if self.source is None:
            return 0
        return digest_of_items(self.source, self.order, first, last, before)

    def __len__(self) -> int:
        return self.last - self.first

    def take(self, first: int, last: int) -> I64:
        """Return the positions of the part's items from index `first` up to `last`."""
        return self.order.take(0, np.arange(self.first + first, self.first + last))


class StreamItems:
    """The samples of a stream and, if it can be read again, the digests of those that are not published yet.

    Args:
        samples: The samples.
        again: Whether another process can read the same samples again, so that a run can be
            resumed.
    """

    def __init__(self, samples: Iterator[Any], *, again: bool) -> None:
        self.again, self._samples = again, samples
        self._digests: deque[int] = deque()

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples that have not been taken yet."""
        for sample in self._samples:
            if self.again:
                self._digests.append(digest_of_value(sample))
            yield sample

    def digest(self, first: int, last: int, before: int) -> int:
        """Return a digest of items: see `DigestOfItems`. Those that have not been taken yet are."""
        if not self.again:  # no later run has these samples
            return 0
        for _ in range(first, last):
            if not self._digests and next(iter(self), None) is None:
                return -1  # the stream is shorter
            before = digest_of_value(self._digests.popleft(), before)
        return before


Items = OrderRange | StreamItems
"""The items to pack into one dataset."""


class Work(Struct, frozen=True):
    """A prepared source, and who encodes its samples."""

    prepared: Prepared
    # encodes a batch, in any thread
    encode: Callable[[Batch], Sequence[Result]]
    threads: int  # number of batches that are encoded at the same time
    # called with the numbers of items, samples, errors and bytes after every batch; None if nobody
    # asked, and in a worker process, whose driver counts parts
    progress: Callable[[int, int, int, int], None] | None


Outcome = tuple[int, int] | BadItem
"""The number of samples that are written together, and of their stored bytes; or an item that is not."""


class ErrorLimit(Struct, frozen=True):
    """The treatment of errors."""

    # number of errors that the whole call tolerates; None for any number
    allowed: int | None = None
    strict: bool = False  # raise the first error unchanged
    errors: int = 0  # number of errors in the other parts
    items: int = 0  # number of items in the other parts that are finished, for the message


class Ledger:
    """The notes on one dataset that is packed: its errors, and before each shard its end.

    Args:
        target: The path of the dataset.
        mode: The mode of its writer.
        limit: The treatment of errors.
        log: The error log.
        record: The record of the run; None for a part of a run, which is packed from its beginning,
            and which the run keeps if other parts fail.

    Attributes:
        errors: Number of items that could not be packed.
        bytes: Stored bytes of the fields, once all samples are written.
    """

    def __init__(
        self,
        target: AnyPath,
        mode: Mode,
        limit: ErrorLimit,
        log: ErrorLog | ErrorList,
        record: RunRecord | None = None,
    ) -> None:
        self.target, self.mode, self.limit = target, mode, limit
        self.log, self.record, self.errors, self.bytes = log, record, 0, 0

    def publish(self) -> None:
        """Put the error log on disk. The record of a part gets its errors."""
        if self.record is not None:
            self.record.log.publish()

    def before_publish(self, samples: int) -> None:
        """Put on disk what must not be older than a shard.

        Args:
            samples: Number of samples of the dataset with that shard.
        """
        self.publish()
        if self.record is not None and self.mode != "overwrite":
            self.record.note(samples, self.errors)

    def add(self, bad: BadItem) -> None:
        """Add a bad item. Raise its error if every item would fail in this way, or if the first error ends the call."""
        if isinstance(bad.error, MissingPackageError):
            raise bad.error
        self.errors += 1
        self.log.add(bad)
        if self.limit.strict:
            self.publish()
            bad.error.add_note(f"at {_item_name(bad)}")
            raise bad.error

    def give_up(self, writer: DatasetWriter, before: int) -> int:
        """End a run with too many errors: its shards stay for `mode="resume"`, or the existing dataset does.

        Returns:
            The number of samples that stay of this run; the dataset had `before` ones before it.
        """
        self.publish()
        writer.suspend()
        if self.mode == "overwrite":
            return 0
        left = writer.published - before
        if not left and self.record is not None:
            self.record.remove()
        return left

    def too_many(self, bad: BadItem, packed: int, left: int) -> TooManyErrors:
        """Return the error for the bad item after which there are too many, of `packed` items.

        `left` is the result of `give_up`.
        """
        count, limit = self.limit.errors + self.errors, self.limit
        if self.record is None:
            after = (
                "The parts that are finished are kept: the "
                "same call with a larger max_errors continues"
            )
        elif self.mode == "overwrite":
            after = f"{self.target} is unchanged"
        elif not left:
            after = "Nothing was written: correct the call, or the items, and call again"
        else:
            after = (
                f"{self.target} is incomplete: it contains the {left:,} "
                "samples of complete shards. mode='resume' with a larger "
                "max_errors continues, mode='overwrite' starts again"
            )
        return TooManyErrors(
            f"{count} of the first {limit.items + packed} items cannot be packed, but "
            f"max_errors allows {limit.allowed}. The last one is {_item_name(bad)}: "
            f"{error_text(bad.error)}. All are listed in {self.log.path}. {after}",
            errors=count,
        )


def write_part(items: Items, writer: DatasetWriter, ledger: Ledger, work: Work) -> Totals:
    """Pack items into a writer, and close the writer.

    Raises:
        TooManyErrors: More items failed than are allowed. The shards before are an incomplete
            dataset.
        StateError: `resume` found something else than the beginning of these items.
    """
    existing, prepared = len(writer), work.prepared
    before = 0 if ledger.mode == "resume" else existing
    start = _start(items, writer, ledger)
    sizes = _BatchSize(prepared.batches)
    source = prepared.source
    if prepared.key is not None and isinstance(source, Dataset) and isinstance(items, OrderRange):
        for position in items.take(0, start).tolist():
            prepared.key(source.keys[position])  # which may count its calls
    results = _results(items, start, sizes, work)
    packed, written, size = start, 0, 0
    bad: BadItem | None = None
    try:
        for batch in results:
            for outcome in _written(writer, batch, work):
                if not isinstance(outcome, BadItem):
                    packed += outcome[0]
                    written += outcome[0]
                    size += outcome[1]
                    continue
                packed += 1
                bad = outcome
                ledger.add(bad)
                allowed = ledger.limit.allowed
                if allowed is not None and ledger.limit.errors + ledger.errors > allowed:
                    left = ledger.give_up(writer, before)
                    raise ledger.too_many(bad, packed, left) from bad.error
            sizes.observe(size, written)
            if work.progress is not None:
                work.progress(packed, existing + written, ledger.errors, size)
    finally:
        results.close()
    # success would hide the mistake
    if bad is not None and len(writer) == before and ledger.record is not None:
        ledger.give_up(writer, before)
        raise TooManyErrors(
            f"none of the {ledger.errors} items can be packed, so nothing was written. The last one"
            f" is {_item_name(bad)}: {error_text(bad.error)}. All are listed in {ledger.log.path}",
            errors=ledger.errors,
        ) from bad.error
    ledger.bytes = size
    writer.close()
    if ledger.record is not None:
        ledger.record.finish(len(writer), ledger.errors)
    return Totals(written, size, ledger.errors, list(writer.limits))


def _results(
    items: Items, start: int, sizes: _BatchSize, work: Work
) -> Generator[Sequence[Result]]:
    """Return the encoded samples of items from number `start` on, in order."""
    batches = _batches(items, start, sizes, work.prepared)
    if work.prepared.encoder.in_memory:
        return (work.encode(batch) for batch in batches)
    by_number = sizes.limits.by_number
    return parallel_map(
        work.encode,
        batches,
        threads=work.threads,
        limit=2 * work.threads + 2 if by_number else _QUEUED_BYTES,
        size=None if by_number else lambda batch: _BATCH_OVERHEAD + encoded_bytes(batch),
        draw_in_workers=True,
        name="bushel-pack",
    )


def _start(items: Items, writer: DatasetWriter, ledger: Ledger) -> int:
    """Return the index of the first item to pack. `ledger` gets the errors before it."""
    existing, record, mode = len(writer), ledger.record, ledger.mode
    if record is None:
        return 0
    if mode != "resume":
        record.log.begin(mode)
        if mode != "overwrite":  # which cannot be resumed
            record.begin(existing)
        return 0
    if isinstance(items, StreamItems) and not items.again:
        raise StateError("a stream cannot be resumed, because it yields its samples only once")
    state_of_run = record.load(existing)
    if state_of_run is None and existing:
        state = "unfinished" if writer.was_unfinished else "complete"
        raise StateError(
            f"cannot resume: {ledger.target} is {state} with {existing} samples, and no run "
            f"of this source wrote these ({record.path} does not say so). If a program with "
            "a bushel.Writer began it, continue it there with mode='resume'. mode='append' "
            "adds all samples of this source, mode='overwrite' replaces the dataset"
        )
    if state_of_run is None:
        record.log.begin(mode)
        record.begin(0)
        return 0
    noted, end = state_of_run
    ledger.errors = end.errors
    record.log.resume(noted.run, end.log)
    record.begin(noted.first, end)
    return existing - noted.first + end.errors


def _written(writer: DatasetWriter, results: Iterable[Result], work: Work) -> Iterator[Outcome]:
    """Write samples. Columns that cannot be written are written one by one, which finds the bad ones."""
    for result in results:
        if isinstance(result, EncodedSample):
            yield _append(writer, result, work.prepared)
        elif isinstance(result, BadItem):
            yield result
        else:
            yield from _written_columns(writer, result, work)


def _written_columns(
    writer: DatasetWriter, columns: EncodedColumns, work: Work
) -> Iterator[Outcome]:
    before = len(writer)
    try:
        _, count, size = writer.write_columns(columns.columns, columns.keys)
    except (SpecError, CodecError, ValueError, TypeError):
        count = len(writer) - before
        alone = work.prepared.encoder.one_by_one(columns.positions)
        yield count, encoded_bytes(alone[:count])
        yield from _written(writer, alone[count:], work)
        return
    yield count, size


def _append(writer: DatasetWriter, sample: EncodedSample, prepared: Prepared) -> Outcome:
    """Write a sample."""
    key, problem = sample.key, None
    try:
        if key is not None and prepared.key is not None:
            key = prepared.key(key)
    except Exception as error:  # of any kind: the function is the user's
        problem = error
    else:
        try:
            writer.append(sample.values, key=key)
        except (SpecError, CodecError, ValueError, TypeError) as error:
            problem = error
            if isinstance(error, RepeatedKeyError):
                problem = ValueError(f"{error}: {_KEYS}")
    if problem is None:
        return 1, sample.size
    origin = prepared.encoder.feed.origin(sample.position)
    return BadItem(sample.position, key, origin, problem)


def _item_name(bad: BadItem) -> str:
    return bad.path or (
        f"sample {bad.key!r}" if bad.key is not None else f"position {bad.position}"
    )


class _BatchSize:
    """The number of items in a batch, such that it has about as many bytes as it may.

    The mean of all samples so far decides, or that of the last batch if it is larger.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self.limits, self.items = limits, limits.first
        self._size = self._samples = 0

    def observe(self, size: int, samples: int) -> None:
        """Update the number of items from the totals so far."""
        if samples == self._samples:
            return
        last = (size - self._size) / (samples - self._samples)
        self._size, self._samples = size, samples
        fitting = int(self.limits.bytes / max(last, size / samples, 1))
        self.items = min(max(fitting, 1), self.limits.items)


def _batches(items: Items, start: int, sizes: _BatchSize, prepared: Prepared) -> Iterator[Batch]:
    if isinstance(items, StreamItems):
        numbered = enumerate(items, start)  # those before were taken to be compared
        while batch := list(itertools.islice(numbered, sizes.items)):
            yield batch
        return
    for first in range(start, len(items), _POSITIONS_AT_ONCE):
        positions = items.take(first, min(first + _POSITIONS_AT_ONCE, len(items)))
        lengths = prepared.lengths(positions)
        if lengths is not None:
            for rows in batch_slices(lengths, sizes.limits.bytes):
                yield positions[rows]
            continue
        while len(positions):
            count = sizes.items
            yield positions[:count]
            positions = positions[count:]


def batch_slices(lengths: I64, size: int) -> Iterator[slice]:
    """Yield the rows of batches of consecutive samples: less than `size` bytes after the first one, and at most 1024.

    `lengths` is int64[n], bytes of each sample.
    """
    return batches_of(np.maximum(lengths, size // _MAX_LISTED_ITEMS), size)
