"""The order of a saved state, for programs that do not have the loader."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bushel import kernels
from bushel._runtime.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
from bushel._runtime.scheduled import SampleOrder, scheduled_of
from bushel.errors import StateError
from bushel.loader.order.chunked import Chunked
from bushel.loader.order.megatron import Chunks, Megatron, MegatronChunks
from bushel.loader.order.packed import Longer, Packed, pieces_of
from bushel.loader.plan.chunk_plan import ChunkPlan
from bushel.loader.plan.pack_options import lengths_of
from bushel.loader.plan.pack_plan import PackPlan
from bushel.loader.plan.plan import Pad, Plan
from bushel.loader.state import LoaderState

if TYPE_CHECKING:
    from bushel.loader.order.orders import AnyPlan

_VERSION = re.compile(rf"(?P<kind>[a-z]+)(?:\((?P<own>.*)\))?/{ORDER_VERSION}")
_ROWS = re.compile(r"(?P<tokens>\d+),(?P<second>\d+)(?:,(?P<third>cut|split|\d+|one pass))?,(?P<sum>[0-9a-f]{8})")


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
        StateError: The state belongs to another dataset, or names an order that depends on more than its arguments.
        KeyError, ValueError: The lengths are missing, or unusable.
    """
    state.check(version=state.version, fingerprint=dataset.fingerprint)
    found = _VERSION.fullmatch(state.version)
    kind, own = (found["kind"], found["own"] or "") if found else ("", "")
    ends = world_size, drop_last, pad
    if kind != "mixed" and _ROWS.fullmatch(own.partition(";")[0]) is not None:
        if lengths is None:
            raise StateError(
                f"the order {kind!r} needs the column with the lengths of documents, such as tokens.length"
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
        raise StateError(f"the state has the order {version!r}, which is impossible: {error}") from error
    raise StateError(
        f"the state has the order {version!r}, which depends on more than the state contains: make the same "
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
            raise StateError(f"documents have more than {tokens} tokens by {column!r}: give the column that was used")
        pieces = pieces_of(lengths, tokens, cast("Longer", third or "error"))
        checksum = kernels.crc32(pieces.costs.view(np.uint8))
        order: Packed | Chunks = Packed(_of_samples(base, seed, len(pieces)), pieces, tokens, second, checksum)
    else:
        costs = lengths.astype(np.uint32)
        parameters = costs, tokens, second, kernels.crc32(costs.view(np.uint8))
        if kind == "chunked":
            order = Chunked(_of_samples(base, seed, len(costs)), *parameters)
        else:
            order = MegatronChunks(Megatron(None if third == "one pass" else int(third)), *parameters, seed)
    if order.version != state.version:
        raise StateError(
            f"the column {column!r} has other lengths than the state, which has the order {state.version!r}; "
            f"costs of several columns can only be asked of the loader, with who() and when()"
        )
    return order
