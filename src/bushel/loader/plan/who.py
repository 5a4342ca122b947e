"""The samples of a step on a rank, the steps of a sample, and how many there are: functions of the plan, without I/O.

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
from bushel.loader.plan.plan import BatchPlan, Pad, Plan, Units
from bushel.loader.plan.planning import lengths_of
from bushel.loader.plan.row_units import Buckets, ChunkRows, PackedRows
from bushel.loader.state import LoaderState

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import Sources
    from bushel.loader.options import LoaderOptions

_VERSION = re.compile(rf"(?P<kind>[a-z]+)(?:\((?P<own>.*)\))?/{ORDER_VERSION}")
_ROWS = re.compile(
    r"(?P<tokens>\d+),(?P<second>\d+)(?:,(?P<third>cut|split|\d+|one"
    r" pass))?,(?P<sum>[0-9a-f]{8})"
)


def batch_of(plan: Plan, epoch: int, step: int, rank: int) -> BatchPlan:
    """Return the batch of a step on a rank, counted from the start of the epoch.

    Raises:
        IndexError: The step or rank does not exist.
    """
    if not 0 <= rank < plan.world_size:
        raise IndexError(f"rank={rank}: the loader has the ranks 0 to {plan.world_size - 1}")
    plan = replace(plan, rank=rank, steps_per_read=1)
    # units after the step need not be counted
    steps = plan.at(epoch, until=(step + 1) * plan.stride)
    batch = None
    if step >= 0:
        batch = next(steps.batches(steps.consumed(0, step)), None)
    if batch is None:
        raise IndexError(
            f"step={step}: epoch {epoch} has {plan.at(epoch).steps()} steps for rank {rank}"
        )
    return batch


def keys_of(batch: BatchPlan, keys: Sequence[str]) -> list[str] | list[list[str]]:
    """Return the keys of a batch's samples; for packs and chunks, the keys of each row."""
    sample_keys = [keys[sample] for sample in batch.samples.tolist()]
    if batch.rows is None:
        return sample_keys
    if batch.rows.places is None:
        places = range(len(sample_keys))
    else:
        places = batch.rows.places.tolist()
    ends = batch.rows.ends.tolist()
    return [
        [sample_keys[places[piece]] for piece in range(*row)]
        for row in zip([0, *ends], ends, strict=False)
    ]


def shares_of(batch: BatchPlan, sources: Sources | None) -> dict[str, int]:
    """Return how many samples of a batch come from each dataset of a mixture, a part of a document as one."""
    if sources is None:
        return {}
    places = slice(None) if batch.rows is None or batch.rows.places is None else batch.rows.places
    counts = np.bincount(sources.numbers(batch.samples[places]), minlength=len(sources.names))
    return dict(zip(sources.names, counts.tolist(), strict=True))


def steps_with(plan: Plan, epoch: int, sample: int) -> list[tuple[int, int]]:
    """Return the steps of an epoch, and their ranks, whose batches have a sample, in ascending order."""
    if plan.kind is ChunkRows:
        return _steps_of_rows(plan, epoch, sample)
    if plan.kind is Buckets:
        ends = plan.order.epoch(epoch).ends
        positions = np.array(plan.order.positions(epoch, sample), np.int64)
        units, count, size = np.searchsorted(ends, positions, side="right").tolist(), len(ends), 1
    elif plan.kind is PackedRows:
        units, size = _rows_with(plan, epoch, sample), plan.batch_size
        # a row that is at least a global batch before the end is not in the last step, wherever the
        # end is
        last = None if plan.pad == "wrap" else max(units, default=0) + plan.stride
        count = int(plan.order.row_counts(epoch, last)[-1])
    else:
        units, count, size = (
            plan.order.positions(epoch, sample),
            plan.order.samples,
            plan.batch_size,
        )
    return _steps_of(plan, epoch, sample, units, count, size)


def _steps_of(
    plan: Plan, epoch: int, sample: int, units: Sequence[int], count: int, size: int
) -> list[tuple[int, int]]:
    """Return the steps and ranks that have some units; an epoch has `count` units, and a batch `size`."""
    stride = size * plan.world_size
    whole = count // stride
    places = {(unit // stride, unit % stride // size) for unit in units if unit < whole * stride}
    if (
        count % stride
        and not plan.drop_last
        and (plan.pad == "wrap" or any(unit >= whole * stride for unit in units))
    ):
        for rank in range(plan.world_size):  # the last step is divided in another way
            steps = replace(plan, rank=rank).at(epoch)
            batch = next(steps.batches(steps.consumed(0, whole)), None)
            if batch is not None and sample in batch.samples:
                places.add((whole, rank))
    return sorted(places)


def _rows_with(plan: Plan, epoch: int, sample: int) -> list[int]:
    """Return the rows of an epoch that have a piece of a document."""
    order, rows = plan.order, set[int]()
    for piece in order.pieces.pieces(sample):
        for number in {position // order.window for position in order.base.positions(epoch, piece)}:
            window, before = order.at(epoch, number), order.rows_before(epoch, number)
            places = window.start + np.flatnonzero(window.pieces == piece)  # several in a mixture
            rows |= set((before + np.searchsorted(window.ends, places, side="right")).tolist())
    return sorted(rows)


def _steps_of_rows(plan: Plan, epoch: int, sample: int) -> list[tuple[int, int]]:
    """Return the steps and ranks whose rows have tokens of a document."""
    order = plan.order
    step, ranges, until = order.tokens - order.overlap, list[tuple[int, int]](), None
    if isinstance(order, MegatronChunks):
        draws = []
    else:
        draws = order.base.positions(epoch, sample)
    for first, last in order.places(epoch, sample, draws):
        # from the first row that ends after the document begins, to the last one that begins before
        # it ends
        low = max(0, (first - order.tokens) // step + 1)
        ranges.append((low, -(-last // step) if last > first else low))
    if isinstance(order, Chunked) and plan.pad is None:
        # a row that is at least a global batch before the end is not in the last step, wherever the
        # end is
        until = max((high for _, high in ranges), default=0) + plan.stride
    count = plan.at(epoch, until).units.positions
    rows = [row for low, high in ranges for row in range(low, min(count, high))]
    # divides the rows as the plan does, without their documents
    plan = replace(plan, order=Sequential(count, order.seed), kind=Units)
    places: set[tuple[int, int]] = set()
    for position in order.positions(epoch, rows):
        places |= set(_steps_of(plan, epoch, position, [position], count, plan.batch_size))
    return sorted(places)


def plan_of_state(
    state: LoaderState,
    dataset: Any,
    batch_size: int,
    world_size: int = 1,
    *,
    lengths: str | None = None,
    drop_last: bool = False,
    pad: Pad = None,
) -> Plan:
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
    match = _VERSION.fullmatch(state.version)
    kind, parameters = (match["kind"], match["own"] or "") if match else ("", "")
    ends = world_size, drop_last, pad
    if kind != "mixed" and _ROWS.fullmatch(parameters.partition(";")[0]) is not None:
        if lengths is None:
            raise StateError(
                f"the order {kind!r} needs the column with the lengths of documents, such as"
                " tokens.length"
            )
        order = _of_rows(state, dataset, kind, parameters, lengths)
        rows = PackedRows if isinstance(order, Packed) else ChunkRows
        return Plan(order, batch_size, 0, *ends, kind=rows)
    return Plan(_of_samples(state.version, state.seed, len(dataset)), batch_size, 0, *ends)


def _of_samples(version: str, seed: int, samples: int) -> SampleOrder:
    match = _VERSION.fullmatch(version)
    kind, parameters = (match["kind"], match["own"] or "") if match else ("", "")
    try:
        if kind in ("exact", "sequential") and not parameters:
            if kind == "exact":
                return Exact(samples, seed)
            return Sequential(samples, seed)
        if kind == "blocks":
            return Blocks(samples, seed, *map(int, parameters.split(",")))
        if kind == "mixed":
            sizes, shares, block_sizes = (
                tuple(map(int, part.split(","))) for part in parameters.split(";")
            )
            return Mixed(sizes, shares, block_sizes[0], seed)
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
    if (match := _ROWS.fullmatch(shape)) is None:
        raise StateError(f"the state has the order {state.version!r}, which is impossible")
    tokens, second, third = int(match["tokens"]), int(match["second"]), match["third"]
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


def steps_after(plan: Plan, epoch: int, consumed: int, excluded: frozenset[int]) -> int:
    """Return the number of batches on a rank after `consumed` positions, without batches of excluded samples only."""
    steps = plan.at(epoch)
    if not excluded:
        return steps.steps(consumed)
    if plan.kind is Units:
        return steps.steps(consumed) - _empty_steps(plan, epoch, consumed, excluded)
    return sum(not excluded.issuperset(batch.samples.tolist()) for batch in steps.batches(consumed))


def _empty_steps(plan: Plan, epoch: int, consumed: int, excluded: frozenset[int]) -> int:
    """Count the steps of excluded samples only. One rank has all samples: with several, none are left out."""
    places = [
        place
        for sample in excluded
        for place in plan.order.positions(epoch, sample)
        if place >= consumed
    ]
    steps, counts = np.unique(
        (np.array(places, np.int64) - consumed) // plan.batch_size, return_counts=True
    )
    sizes = np.minimum(plan.batch_size, plan.order.samples - consumed - steps * plan.batch_size)
    return int(np.count_nonzero(counts == sizes))


def unequal_steps(plan: Plan, consumed: int) -> str | None:
    """Return why ranks may have unequal steps after `consumed` positions, and what to do; None if they are equal."""
    if plan.drop_last or plan.pad is not None or plan.kind is Buckets:
        return None
    ways = 'drop_last=True leaves the last ones out, pad="wrap" fills them up'
    if plan.kind is not Units:
        return f"the {plan.world_size} ranks may have unequal steps at the end of an epoch: {ways}"
    left = max(0, plan.order.samples - consumed) % plan.stride
    if not 0 < left < plan.world_size:
        return None
    return (
        f"the last {left} samples of an epoch do not suffice for all of the {plan.world_size}"
        " ranks, which have "
        f"unequal steps, and may wait for each other forever: {ways}"
    )


def without_batches(options: LoaderOptions) -> str | None:
    """Return why an epoch has no batch although there are samples, and what to do; None if it should have some."""
    if options.chunk_by is not None:
        return (
            f"all documents together have fewer than the chunk_tokens={options.chunk_tokens}"
            " tokens of one row for "
            "each rank. Give a smaller chunk_tokens"
        )
    if not options.drop_last:
        return None
    return (
        "drop_last=True leaves out all samples, because they do not fill one batch on every rank."
        " Give a smaller "
        "batch_size, or leave drop_last out"
    )
