"""What an epoch reads: the size of `shuffle="blocks"`, warnings of expensive orders, and direct reads (`O_DIRECT`).

Direct reads are for epochs of several times the bytes that fit into memory. The page cache would
add pages that are evicted before the next epoch needs them, and evicting takes more time than
reading. An epoch that fits, or nearly does, is read through the page cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.shards import kinds
from bushel._dataset.views.dataset import Dataset
from bushel._index.expansion import COSTLY, KEPT, Expansion, Part
from bushel._runtime.arrays import total_of
from bushel._runtime.draws import Order
from bushel._runtime.messages import warn
from bushel._runtime.order import Blocks, Sequential
from bushel._runtime.system import memory_limit
from bushel.errors import StateError
from bushel.kernels import MappedFile
from bushel.loader.values.bad_samples import DAMAGE

from .batch_reader import BatchReader

if TYPE_CHECKING:
    from bushel._index.table import ShardIndex
    from bushel.loader.plan.plan import AnyOrder

_PARTS = 4
"""Number of places that are examined instead of the whole dataset. The table of the shard at each place is loaded."""
_SAMPLES_PER_PART = 1 << 20
_BLOCKS = re.compile(r"blocks\((?P<size>[0-9]{1,18}),(?P<window>[0-9]{1,18})\)/1")
"""Version of an order of blocks in a state."""
DatasetT = TypeVar("DatasetT")
_TIMES_MEMORY = 3
"""An epoch in random order finds 6 % of its bytes in a page cache that holds a third of them."""
_LOOKED_AT = 256


def names_read(fields: Any, spec: Mapping[str, str]) -> list[str]:
    """Return the names of the fields that `fields=` of a loader reads, in order."""
    if fields is None:
        return list(spec)
    return [name for name in fields if not isinstance(fields, Mapping) or fields[name] is not False]


def expansion(dataset: Any, fields: Any = None, *, fetch: bool = True) -> Expansion | None:
    """Return the blocks that the samples of a dataset need.

    Args:
        dataset: A dataset or a view; others have no blocks.
        fields: `fields=` of a loader.
        fetch: Whether to load the tables of remote shards, too. Then the result depends on the
            dataset only, so that it is the same on all ranks, and whenever training resumes.

    Returns:
        None if nothing has to be expanded, judged by some of the shards.

    Raises:
        FormatError: The table of one of these shards is damaged, or does not belong to the shard.
        OSError: It cannot be read.
    """
    if not isinstance(dataset, Dataset) or not len(dataset.selection.positions):
        return None
    reader, samples = dataset.reader, len(dataset.selection.positions)
    count = min(_PARTS, samples)
    firsts = np.array([samples * part // count for part in range(count + 1)])
    whole = reader.samples(dataset.selection.absolute(firsts[:-1]))
    numbers = (np.searchsorted(reader.starts, whole, side="right") - 1).tolist()
    tables: dict[int, ShardIndex] = {}
    for number in dict.fromkeys(numbers):
        shard = reader.shards[number]
        if fetch or shard.local or shard.loaded:
            tables[number] = shard.index
    compressed = [table.compressed for table in tables.values()]
    if not any(compressed):
        return None
    parts = []
    for first, end, number in zip(firsts, firsts[1:], numbers, strict=False):
        if (table := tables.get(number)) is not None:
            places = np.arange(first, min(end, first + _SAMPLES_PER_PART))
            whole = reader.samples(dataset.selection.absolute(places))
            inside = (whole >= reader.starts[number]) & (whole < reader.starts[number + 1])
            parts.append(Part(table, whole[inside] - reader.starts[number], places[inside]))
    return Expansion.of(parts, samples, names_read(fields, dataset.spec))


def blocks_that_fit(dataset: Any, seed: int, fields: Any) -> Blocks:
    """Return the order for `shuffle="blocks"`.

    Raises:
        FormatError: The table of a shard is damaged, or does not belong to the shard.
        OSError: It cannot be read.
    """
    usual = Blocks(len(dataset), seed)
    if (size := _of_sections(dataset, usual)) is not None:
        return Blocks(len(dataset), seed, *size)
    if (costs := expansion(dataset, fields)) is None:
        return usual
    return Blocks(len(dataset), seed, *costs.best_blocks(usual.size, usual.window))


def _of_sections(dataset: Any, usual: Blocks) -> tuple[int, int] | None:
    """Return size and window for a remote dataset with known sections only; None for any other.

    A block has the samples of one or more sections. A window needs at most half of the bytes that a
    process keeps.
    """
    if not isinstance(dataset, Dataset) or not len(dataset):
        return None
    sections = [shard.section for shard in kinds(dataset.reader.shards)]
    if not sections or None in sections:
        return None
    sizes = [(section.samples, section.size) for section in sections if section is not None]
    samples, section_bytes = (max(1, int(middle)) for middle in np.median(np.array(sizes), axis=0))
    together = max(1, min(-(-usual.size // samples), KEPT // 2 // section_bytes))
    return samples * together, max(1, min(usual.window, KEPT // 2 // (section_bytes * together)))


def bytes_to_find(dataset: Any, fields: Any) -> int:
    """Return how many bytes of a remote dataset are read before these fields of all samples can be read at random."""
    if not isinstance(dataset, Dataset) or dataset.reader.local:
        return 0
    from bushel._dataset.read.shard_fields import unread_bytes

    names = [name for name in names_read(fields, dataset.spec) if name in dataset.spec]
    reader = dataset.reader.narrowed(names)
    return unread_bytes(kinds(reader.shards))


def blocks_of_state(version: str, own: Any) -> Any:
    """Return an order of blocks with the size and window that a state names; any other order as it is."""
    # packs or chunks: their version ends with the base's
    if (base := getattr(own, "base", None)) is not None:
        return replace(
            own, base=blocks_of_state(version.partition(";")[2].rpartition(")/")[0], base)
        )
    named = _BLOCKS.fullmatch(version)
    if named is None or not isinstance(own, Blocks):
        return own
    try:
        return replace(own, size=int(named["size"]), window=int(named["window"]))
    except ValueError as error:
        raise StateError(
            f"the state has the order {version!r}, which is impossible: {error}"
        ) from error


def warn_if_costly(order: AnyOrder, dataset: Any, fields: Any) -> None:
    """Warn of an order that expands more than ten times the bytes that it returns, and name a better one.

    The tables of remote shards are looked at if they are loaded.
    """
    base: Any = getattr(order, "base", order)
    costs = expansion(dataset, fields, fetch=False)
    if costs is None or (times := _cost(costs, base)) <= COSTLY:
        return
    kind = base.version.partition("(")[0].partition("/")[0]
    usual = Blocks(base.samples)
    better = Blocks(base.samples, 0, *costs.best_blocks(usual.size, usual.window))
    alternatives = {
        'shuffle="blocks"': _cost(costs, better),
        "the stored order": costs.in_stored_order,
    }
    cheaper = [
        f"; {name} expands {cost:,.1f} times"
        for name, cost in alternatives.items()
        if times > 2 * cost
    ]
    warn(
        f"the order {kind!r} expands up to {times:,.0f} times the bytes that it returns"
        f"{''.join(cheaper[:1])}. `bushel convert` writes a dataset that needs no expansion"
    )


def _cost(costs: Expansion, order: Order) -> float:
    if isinstance(order, Sequential):
        return costs.in_stored_order
    if isinstance(order, Blocks):
        return costs.in_blocks(order.size, order.window)
    return costs.at_random


def read_directly(dataset: DatasetT, fields: Any, *, decode: bool) -> DatasetT:
    """Return a view that reads local files directly, if an epoch has too many bytes and their file system offers it.

    Args:
        dataset: The dataset of a loader.
        fields: The fields that it reads.
        decode: Whether they are decoded.
    """
    if not isinstance(dataset, Dataset) or not dataset.reader.local:
        return dataset
    from bushel._dataset.read.remaining import file_sizes

    enough = _TIMES_MEMORY * memory_limit()
    stored_bytes = int(file_sizes(dataset.reader.shards).sum())
    if stored_bytes <= enough or not _can_read_more(dataset, enough, fields, decode=decode):
        return dataset
    return type(dataset)((), reader=dataset.reader.direct(), selection=dataset.selection)


def _can_read_more(dataset: Dataset, enough: int, fields: Any, *, decode: bool) -> bool:
    """Return whether all samples have more bytes together, and the file of the first can be read directly.

    Samples at equal distances stand for all.
    """
    samples = len(dataset)
    if not samples:
        return False
    places = np.linspace(0, samples, min(samples, _LOOKED_AT), endpoint=False).astype(np.int64)
    with suppress(*DAMAGE):  # found when a batch is read
        planned = BatchReader(dataset, decode).extents(places, fields)
        nbytes = sum(total_of(extents.length) for _, extents in planned)
        if nbytes * samples // len(places) > enough:
            first = planned[0][0][0]
            return isinstance(first, MappedFile) and first.direct() is not None
    return False
