"""The samples of a step of a rank, and the steps of a sample: functions of the plan, which read no data.

`plan_of_state` makes the plan that a saved state names, for programs that do not have the loader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bushel import kernels
from bushel._runtime.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
from bushel._runtime.scheduled import SampleOrder, scheduled_of
from bushel.errors import StateError
from bushel.loader.order.chunks import Chunked, Chunks, Megatron, MegatronChunks
from bushel.loader.order.packed import Longer, Packed, pieces_of
from bushel.loader.plan.bucket_plan import BucketPlan
from bushel.loader.plan.chunk_plan import ChunkPlan
from bushel.loader.plan.pack_plan import PackPlan
from bushel.loader.plan.plan import BatchPlan, Pad, Plan
from bushel.loader.plan.planning import lengths_of
from bushel.loader.state import LoaderState

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import Sources
    from bushel.loader.order.orders import AnyPlan

_VERSION = re.compile(rf"(?P<kind>[a-z]+)(?:\((?P<own>.*)\))?/{ORDER_VERSION}")
_ROWS = re.compile(
    r"(?P<tokens>\d+),(?P<second>\d+)(?:,(?P<third>cut|split|\d+|one"
    r" pass))?,(?P<sum>[0-9a-f]{8})"
)


def batch_of(plan: AnyPlan, epoch: int, step: int, rank: int) -> BatchPlan:
    """Return the batch of a step of a rank, counted from the start of the epoch.

    Raises:
        IndexError: The step or rank does not exist.
    """
    if not 0 <= rank < plan.world_size:
        raise IndexError(f"rank={rank}: the loader has the ranks 0 to {plan.world_size - 1}")
    own = replace(plan, rank=rank)
    if isinstance(own, Plan):
        own = replace(own, steps_per_read=1)
    batch = None
    if step >= 0 and isinstance(own, ChunkPlan):  # rows after the step need not be counted
        until = (step + 1) * own.stride
        batch = next(own.batches(epoch, own.at(epoch, until).consumed(0, step), until), None)
    elif step >= 0:
        batch = next(own.batches(epoch, own.at(epoch).consumed(0, step)), None)
    if batch is None:
        raise IndexError(
            f"step={step}: epoch {epoch} has {own.at(epoch).steps()} steps for rank {rank}"
        )
    return batch


def keys_of(batch: BatchPlan, keys: Sequence[str]) -> list[str] | list[list[str]]:
    """Return the keys of a batch's samples; for packs and chunks, the keys of each row."""
    own = [keys[sample] for sample in batch.samples.tolist()]
    if batch.rows is None:
        return own
    places = range(len(own)) if batch.rows.places is None else batch.rows.places.tolist()
    ends = batch.rows.ends.tolist()
    return [
        [own[places[piece]] for piece in range(*row)] for row in zip([0, *ends], ends, strict=False)
    ]


def shares_of(batch: BatchPlan, sources: Sources | None) -> dict[str, int]:
    """Return how many samples of a batch come from each dataset of a mixture, a part of a document as one."""
    if sources is None:
        return {}
    places = slice(None) if batch.rows is None or batch.rows.places is None else batch.rows.places
    counts = np.bincount(sources.numbers(batch.samples[places]), minlength=len(sources.names))
    return dict(zip(sources.names, counts.tolist(), strict=True))


def steps_with(plan: AnyPlan, epoch: int, sample: int) -> list[tuple[int, int]]:
    """Return the steps of an epoch, and their ranks, whose batches have a sample, in ascending order."""
    if isinstance(plan, ChunkPlan):
        return _steps_of_rows(plan, epoch, sample)
    if isinstance(plan, BucketPlan):
        ends = plan.order.epoch(epoch).ends
        positions = np.array(plan.order.positions(epoch, sample), np.int64)
        units, count, size = np.searchsorted(ends, positions, side="right").tolist(), len(ends), 1
    elif isinstance(plan, PackPlan):
        units, size = _rows_with(plan, epoch, sample), plan.batch_size
        # a row that is at least a global batch before the end is not in the last step, wherever the
        # end is
        last = None if plan.pad == "wrap" else max(units, default=0) + plan.stride
        count = int(plan.order.row_counts(epoch, last)[-1])
    else:
        units, count, size = (
            positions_of(plan.order, epoch, sample),
            plan.order.samples,
            plan.batch_size,
        )
    return _steps_of(plan, epoch, sample, units, count, size)


def _steps_of(
    plan: AnyPlan, epoch: int, sample: int, units: Sequence[int], count: int, size: int
) -> list[tuple[int, int]]:
    """Return the steps and ranks that have some units; an epoch has `count` units, and a batch `size`."""
    stride = size * plan.world_size
    whole = count // stride
    found = {(unit // stride, unit % stride // size) for unit in units if unit < whole * stride}
    if (
        count % stride
        and not plan.drop_last
        and (plan.pad == "wrap" or any(unit >= whole * stride for unit in units))
    ):
        for rank in range(plan.world_size):  # the last step is divided in another way
            own = replace(plan, rank=rank)
            batch = next(own.batches(epoch, own.at(epoch).consumed(0, whole)), None)
            if batch is not None and sample in batch.samples:
                found.add((whole, rank))
    return sorted(found)


def _rows_with(plan: PackPlan, epoch: int, sample: int) -> list[int]:
    """Return the rows of an epoch that have a piece of a document."""
    order, found = plan.order, set[int]()
    for piece in order.pieces.pieces(sample):
        for number in {
            position // order.window for position in positions_of(order.base, epoch, piece)
        }:
            own, before = order.at(epoch, number), order.rows_before(epoch, number)
            places = own.start + np.flatnonzero(own.pieces == piece)  # several in a mixture
            found |= set((before + np.searchsorted(own.ends, places, side="right")).tolist())
    return sorted(found)


def _steps_of_rows(plan: ChunkPlan, epoch: int, sample: int) -> list[tuple[int, int]]:
    """Return the steps and ranks whose rows have tokens of a document."""
    order = plan.order
    step, ranges, until = order.tokens - order.overlap, list[tuple[int, int]](), None
    draws = [] if isinstance(order, MegatronChunks) else positions_of(order.base, epoch, sample)
    for first, last in order.places(epoch, sample, draws):
        # from the first row that ends after the document begins, to the last one that begins before
        # it ends
        low = max(0, (first - order.tokens) // step + 1)
        ranges.append((low, -(-last // step) if last > first else low))
    if isinstance(order, Chunked) and plan.pad is None:
        # a row that is at least a global batch before the end is not in the last step, wherever the
        # end is
        until = max((high for _, high in ranges), default=0) + plan.stride
    counts = plan.at(epoch, until)
    rows = [row for low, high in ranges for row in range(low, min(counts.order.samples, high))]
    found: set[tuple[int, int]] = set()
    for position in order.positions(epoch, rows):
        found |= set(
            _steps_of(counts, epoch, position, [position], counts.order.samples, plan.batch_size)
        )
    return sorted(found)


def positions_of(order: SampleOrder, epoch: int, sample: int) -> list[int]:
    """Return the positions of an epoch that have a sample, in ascending order."""
    if isinstance(order, Sequential | Exact | Blocks):
        return [order.position(epoch, sample)]
    return order.positions(epoch, sample)


def plan_of_state(
    state: LoaderState,
    dataset: Any,
    batch_size: int,
    world_size: int = 1,
    *,
    lengths: str | None = None,
    drop_last: bool = False,
    pad: Pad = None,
) -> AnyPlan:
    """Return the plan of the order that a state names.

    Args:
        state: The state.
        dataset: The dataset that it was saved with; of a mixture, all of its datasets together.
        batch_size: The batch size of the loader.
        world_size: Its number of ranks.
        lengths: For packs and chunks: the column with the lengths of documents.
        drop_last: The argument of the loader.
        pad: The argument of the loader.

    Raises:
        StateError: The state belongs to another dataset, or names an order that depends on more
            than its arguments.
        KeyError, ValueError: The lengths are missing, or unusable.
    """
    state.check(version=state.version, fingerprint=dataset.fingerprint)
    found = _VERSION.fullmatch(state.version)
    kind, own = (found["kind"], found["own"] or "") if found else ("", "")
    ends = world_size, drop_last, pad
    if kind != "mixed" and _ROWS.fullmatch(own.partition(";")[0]) is not None:
        if lengths is None:
            raise StateError(
                f"the order {kind!r} needs the column with the lengths of documents, such as"
                " tokens.length"
            )
        order = _of_rows(state, dataset, kind, own, lengths)
        if isinstance(order, Packed):
            return PackPlan(order, batch_size, 0, *ends)
        return ChunkPlan(order, batch_size, 0, *ends)
    return Plan(_of_samples(state.version, state.seed, len(dataset)), batch_size, 0, *ends)


def _of_samples(version: str, seed: int, samples: int) -> SampleOrder:
    found = _VERSION.fullmatch(version)
    kind, own = (found["kind"], found["own"] or "") if found else ("", "")
    try:
        if kind in ("exact", "sequential") and not own:
            return Exact(samples, seed) if kind == "exact" else Sequential(samples, seed)
        if kind == "blocks":
            return Blocks(samples, seed, *map(int, own.split(",")))
        if kind == "mixed":
            sizes, shares, each = (tuple(map(int, part.split(","))) for part in own.split(";"))
            return Mixed(sizes, shares, each[0], seed)
        if (scheduled := scheduled_of(version, seed)) is not None:
            return scheduled
    except (ValueError, TypeError) as error:
        raise StateError(
            f"the state has the order {version!r}, which is impossible: {error}"
        ) from error
    raise StateError(
        f"the state has the order {version!r}, which depends on more than the state contains:"
        " make the same "
        f"loader, and call its who() and when()"
    )


def _of_rows(state: LoaderState, dataset: Any, kind: str, own: str, column: str) -> Packed | Chunks:
    shape, _, base = own.partition(";")
    if (found := _ROWS.fullmatch(shape)) is None:
        raise StateError(f"the state has the order {state.version!r}, which is impossible")
    tokens, second, third = int(found["tokens"]), int(found["second"]), found["third"]
    lengths, seed = lengths_of(dataset, column, "lengths"), state.seed
    if kind == "packed":
        if third is None and len(lengths) and int(lengths.max()) > tokens:
            raise StateError(
                f"documents have more than {tokens} tokens by {column!r}: give the"
                " column that was used"
            )
        pieces = pieces_of(lengths, tokens, cast("Longer", third or "error"))
        checksum = kernels.crc32(pieces.costs.view(np.uint8))
        order: Packed | Chunks = Packed(
            _of_samples(base, seed, len(pieces)), pieces, tokens, second, checksum
        )
    else:
        costs = lengths.astype(np.uint32)
        parameters = costs, tokens, second, kernels.crc32(costs.view(np.uint8))
        if kind == "chunked":
            order = Chunked(_of_samples(base, seed, len(costs)), *parameters)
        else:
            order = MegatronChunks(
                Megatron(None if third == "one pass" else int(third)), *parameters, seed
            )
    if order.version != state.version:
        raise StateError(
            f"the column {column!r} has other lengths than the state, which has the order"
            f" {state.version!r}; "
            f"costs of several columns can only be asked of the loader, with who() and when()"
        )
    return order
