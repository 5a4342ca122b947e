"""The samples of a step on a rank, the steps of a sample, and how many there are: functions of the plan, without I/O.

`PlanAnswers` has the methods of a loader. `plan_of_state` makes the plan that a saved state names, for programs that do
not have the loader.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel._runtime.order import ORDER_VERSION
from bushel._runtime.scheduled import scheduled_of
from bushel.errors import StateError
from bushel.loader.base import Item, LoaderBase, Progress
from bushel.loader.options import LoaderOptions
from bushel.loader.order.chunks import Megatron
from bushel.loader.order.mixture import Mixture
from bushel.loader.read.costs import blocks_of_state
from bushel.loader.state import LoaderState

from .plan import POSITIONS_AT_A_TIME, BatchPlan, Pad, Plan, Units
from .planning import plan_of
from .row_units import Buckets, ChunkRows

if TYPE_CHECKING:
    from bushel.loader.read.loadable import Loadable
    from bushel.loader.run.pipeline import Pipeline

_VERSION = re.compile(rf"(?P<kind>[a-z]+)(?:\((?P<own>.*)\))?/{ORDER_VERSION}")
_ROWS = re.compile(
    r"(?P<tokens>\d+),(?P<second>\d+)(?:,(?P<third>cut|split|\d+|one"
    r" pass))?,(?P<sum>[0-9a-f]{8})"
)


def batch_of(plan: Plan, epoch: int, step: int, rank: int) -> BatchPlan:
    """Return the batch of a step on a rank, counted from the start of the epoch.

    Raises:
        IndexError: The step or rank does not exist.
        TypeError: The step is not a whole number.
    """
    if not hasattr(step, "__index__"):
        raise TypeError(f"step={step!r}: expected a whole number from 0")
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
    places = batch.rows.places_of(len(sample_keys)).tolist()
    ends = batch.rows.ends.tolist()
    return [
        [sample_keys[places[piece]] for piece in range(*row)]
        for row in zip([0, *ends], ends, strict=False)
    ]


def steps_with(plan: Plan, epoch: int, sample: int) -> list[tuple[int, int]]:
    """Return the steps of an epoch, and their ranks, whose batches have a sample, in ascending order."""
    places = set[tuple[int, int]]()
    for rank in range(plan.world_size):
        for step, samples, size in _looked_through(replace(plan, rank=rank), epoch):
            turns = np.flatnonzero(samples == sample) // size
            places.update((step + at, rank) for at in turns.tolist())
    return sorted(places)


def _looked_through(plan: Plan, epoch: int, consumed: int = 0) -> Iterator[tuple[int, I64, int]]:
    """Yield the batches of one rank, some together: the first step, their samples, and how many each batch has of them.

    The last batch may have fewer.
    """
    alike = plan.kind is Units
    if alike:  # thousands of small batches are as fast as one large one
        together = max(1, POSITIONS_AT_A_TIME // plan.batch_size)
    else:
        together = 1
    step = 0
    for batch in replace(plan, steps_per_read=together).at(epoch).batches(consumed):
        samples = len(batch.samples)
        size = min(plan.batch_size, samples) if alike else samples
        yield step, batch.samples, max(1, size)
        step += -(-samples // size) if samples else 1


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
            than its arguments, or that the lengths do not give.
        KeyError: The column of lengths does not exist.
    """
    state.check(version=state.version, fingerprint=dataset.fingerprint)
    ends: dict[str, Any] = {"world_size": world_size, "drop_last": drop_last, "pad": pad}
    try:
        order_options = _options_of(state.version, state.seed, dataset, lengths)
        options = {"dataset": dataset, "seed": state.seed, "fields": (), **ends, **order_options}
        plan = plan_of(LoaderOptions(batch_size=batch_size, **options), dataset)
    except (ValueError, TypeError) as error:
        raise StateError(
            f"the state has the order {state.version!r}, which is impossible: {error}"
        ) from error
    order = plan.order
    if options.get("shuffle") == "blocks":
        order = blocks_of_state(state.version, order)
    if order.version != state.version:
        raise StateError(
            f"the column {lengths!r} has other lengths than the state, "
            f"which has the order {state.version!r}; costs of several "
            "columns can only be asked of the loader, with who() and when()"
        )
    return replace(plan, order=order)


def _options_of(version: str, seed: int, dataset: Any, lengths: str | None) -> dict[str, Any]:
    """Return the options of a loader that has the order of this version."""
    match = _VERSION.fullmatch(version)
    kind, parameters = ("", "") if match is None else (match["kind"], match["own"] or "")
    if kind in ("exact", "sequential") and not parameters:
        return {"shuffle": kind == "exact"}
    if kind == "blocks":
        return {"shuffle": kind}
    if (scheduled := scheduled_of(version, seed)) is not None:
        return {"dataset": Mixture(dataset, scheduled)}
    form, _, base = parameters.partition(";")
    if (match := _ROWS.fullmatch(form)) is None:
        reason = "this release does not have: ask the release of bushel that saved the state"
        if kind in ("weighted", "balanced", "bucketed", "packed"):
            reason = (
                "depends on more than the state contains: "
                "make the same loader, and call its who() and when()"
            )
        raise StateError(f"the state has the order {version!r}, which {reason}")
    if lengths is None:
        raise StateError(
            f"the order {kind!r} needs the column with the "
            "lengths of documents, such as tokens.length"
        )
    tokens, third = int(match["tokens"]), match["third"]
    if kind == "packed":
        rows = {"pack_by": lengths, "pack_tokens": tokens, "pack_longer": third or "error"}
    else:
        rows = {"chunk_by": lengths, "chunk_tokens": tokens, "overlap": int(match["second"])}
    if kind in ("packed", "chunked"):
        return {**rows, **_options_of(base, seed, dataset, None)}
    return {**rows, "shuffle": Megatron(None if third == "one pass" else int(third))}


def steps_without(plan: Plan, epoch: int, consumed: int, excluded: frozenset[int]) -> int:
    """Return the number of batches on a rank after `consumed` positions, without batches of excluded samples only."""
    left_out = np.array([*excluded], np.int64)
    steps = 0
    for _, samples, size in _looked_through(plan, epoch, consumed):
        stay = ~np.isin(samples, left_out)
        steps += int(np.logical_or.reduceat(stay, np.arange(0, len(stay), size)).sum())
    return steps


class PlanAnswers(LoaderBase[Item]):
    """The questions that a loader answers from its plan alone, without reading data."""

    dataset: Loadable
    rank: int
    _plan: Plan
    _pipeline: Pipeline

    @abstractmethod
    def _of(self, epoch: int) -> PlanAnswers[Any]:
        """Return the loader of the samples of an epoch."""

    def who(
        self, step: int, rank: int | None = None, epoch: int | None = None
    ) -> list[str] | list[list[str]]:
        """Return the keys of the samples of a step, without reading data.

        A sample that was replaced because it was bad is named, not the one that took its place.

        Args:
            step: Number of the step, counted from the start of the epoch, with this batch size and
                number of ranks.
            rank: The rank; None for the rank of this loader.
            epoch: The epoch; None for the epoch of the next `for`, or of the running one.

        Returns:
            The keys of the batch, in its order; for packs and chunks, the keys of each row.

        Raises:
            IndexError: The step or rank does not exist.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> loader.who(step=2) == list(loader)[2]["__key__"]
            True
        """
        batch = self._batch_of(step, rank, epoch)
        return keys_of(batch, self._of(batch.epoch).dataset.keys)

    def shares(
        self, step: int, rank: int | None = None, epoch: int | None = None
    ) -> dict[str, int]:
        """Return how many samples of a step come from each dataset of a mixture, without reading data.

        The arguments are as in `who`. In packs and chunks, documents are counted, and a part of one
        counts as one.

        Returns:
            A number for each name; empty for a dataset that is not a mixture.

        Raises:
            IndexError: The step or rank does not exist.

        Examples:
            >>> mixture = bushel.mix({"cats": ds[:6], "dogs": ds[6:]}, weights={"cats": 1, "dogs": 3})
            >>> bushel.Loader(mixture, batch_size=8).shares(step=0)
            {'cats': 2, 'dogs': 6}
        """
        batch, sources = self._batch_of(step, rank, epoch), self._pipeline.sources
        if sources is None:
            return {}
        samples = batch.samples
        if batch.rows is not None:
            samples = samples[batch.rows.places_of(len(samples))]
        counts = np.bincount(sources.numbers(samples), minlength=len(sources.names))
        return dict(zip(sources.names, counts.tolist(), strict=True))

    def when(self, key: str, epoch: int | None = None) -> list[tuple[int, int, int]]:
        """Return when a sample comes, without reading data: the epoch, step and rank of each batch that has it.

        Args:
            key: The key of the sample.
            epoch: The epoch; None for the epoch of the next `for`, or of the running one.

        Returns:
            In ascending order; empty if the epoch leaves the sample out. Steps are counted as for
            `who`.

        Raises:
            KeyError: The sample does not exist.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> [(epoch, step, rank)] = loader.when("dog/2")
            >>> "dog/2" in loader.who(step, rank)
            True
        """
        self._follow_rank()
        if epoch is None:
            epoch = self.epoch
        loader, position = self._of(epoch), self.dataset.position(key)
        if loader is not self:
            if key not in loader.dataset.keys:
                return []
            position = loader.dataset.position(key)
        return [(epoch, *place) for place in steps_with(loader._plan, epoch, position)]

    def _unequal_steps(self, progress: Progress) -> str | None:
        plan = self._of(progress.epoch)._plan
        if plan.drop_last or plan.pad is not None or plan.kind is Buckets:
            return None
        ways = 'drop_last=True leaves the last ones out, pad="wrap" fills them up'
        ranks = f"the {plan.world_size} ranks"
        if plan.kind is not Units:
            return f"{ranks} may have unequal steps at the end of an epoch: {ways}"
        left = max(0, plan.order.samples - progress.samples) % plan.stride
        if not 0 < left < plan.world_size:
            return None
        return (
            f"the last {left} samples of an epoch do not suffice for all of {ranks}, "
            f"which have unequal steps, and may wait for each other forever: {ways}"
        )

    def _without_batches(self) -> str | None:
        if not len(self.dataset):
            return None
        if self._plan.kind is ChunkRows:
            return (
                f"all documents together have fewer than the chunk_tokens={self._plan.order.tokens} "
                "tokens of one row for each rank. Give a smaller chunk_tokens"
            )
        if not self._plan.drop_last:
            return None
        return (
            "drop_last=True leaves out all samples, because they do not fill one "
            "batch on every rank. Give a smaller batch_size, or leave drop_last out"
        )

    def _batch_of(self, step: int, rank: int | None, epoch: int | None) -> BatchPlan:
        self._follow_rank()
        if epoch is None:
            epoch = self.epoch
        return batch_of(self._of(epoch)._plan, epoch, step, self.rank if rank is None else rank)
