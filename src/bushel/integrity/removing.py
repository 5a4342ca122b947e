"""Remove samples from a dataset: note them in a list beside the manifest, which every reader passes over."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.open.discovery import expand_paths, find
from bushel._dataset.open.folders import above_parts
from bushel._dataset.open.index_place import index_place, indexed_in
from bushel._dataset.open.locking import locked_sources
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.read.find_keys import positions_of_keys
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.shards import Listing
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_of, whole_positions
from bushel._index.removed_rows import NONE, RemovedRows, load_removed, save_removed
from bushel._index.sidecar import FOLDER
from bushel._index.table import REMOVED, Shard
from bushel._runtime.arrays import I64, offsets_of
from bushel._runtime.public import public
from bushel.errors import UnsupportedError
from bushel.storage import AnyPath, is_object, sync_whole


@public()
@dataclass(frozen=True, slots=True)
class Removal:
    """A call that removed samples from a dataset.

    Attributes:
        call: Its number, from 0.
        reason: Why.
        time: When, in seconds since 1970.
        samples: Number of samples that it removed.
        erased: Number of these whose bytes are overwritten, completely or in part.

    Examples:
        >>> done = bushel.remove("train/", keys=["dog/2"], reason="opt-out")
        >>> done.samples, done.reason
        (1, 'opt-out')
    """

    call: int
    reason: str
    time: float
    samples: int
    erased: int = 0


@public()
def remove(
    source: Any,
    *,
    keys: Iterable[str] | None = None,
    where: str | None = None,
    positions: Iterable[int] | npt.NDArray[Any] | None = None,
    reason: str,
    ignore_missing: bool = False,
    index: Any = "auto",
) -> Removal:
    """Remove samples from a dataset: from now on, everything that reads it through Bushel passes over them.

    No data file is changed, so the tools that wrote the files still see the samples (docs/removal.md). `restore` takes
    it back. The fingerprint of the dataset changes.

    Args:
        source: Anything that `bushel.open` takes, in one folder that can be written to.
        keys: The keys of the samples. All samples with one of these keys are removed.
        where: A condition on columns, as `Dataset.where` takes it.
        positions: Positions in the dataset as it is now. Negative ones count from the end.
        reason: Why they are removed, for `removals` and for errors.
        ignore_missing: Whether keys that no sample has are left out, instead of raising a `KeyError`.
        index: As for `bushel.open`: the folder of the index, if that is not the folder of the data. The list of removed
            samples then lies there.

    Returns:
        The removal. Samples that had been removed before are not counted again.

    Raises:
        ValueError: Not exactly one of `keys`, `where` and `positions` is given, or the reason is missing.
        KeyError: No sample has one of the keys, or the condition names an unknown column.
        UnsupportedError: The dataset is not in one folder, or cannot be written to.
        InUseError: A writer is open for the dataset.

    Examples:
        >>> bushel.remove("train/", keys=["cat/0", "dog/5"], reason="opt-out").samples
        2
        >>> ds = bushel.open("train/")
        >>> len(ds), "cat/0" in ds
        (10, False)
    """
    if sum(given is not None for given in (keys, where, positions)) != 1:
        raise ValueError("say which samples to remove by exactly one of keys=, where= and positions=")
    if isinstance(keys, str):
        raise TypeError(f"give keys as a list, such as [{keys!r}]")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError('a removal needs a reason, such as reason="opt-out"')
    with locked_sources(_claimed(source, index)), open_dataset(source, index=index) as dataset:
        place = _place(dataset)
        reader = reader_of(dataset)
        if keys is not None:
            whole, missing = positions_of_keys(reader, list(keys))
            if missing and not ignore_missing:
                more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
                raise KeyError(f"no sample has the key {missing[0]!r}{more}; to leave them out, ignore_missing=True")
        else:
            chosen = dataset.where(where) if where is not None else dataset[_chosen(positions)]
            whole = whole_positions(chosen, np.arange(len(chosen), dtype=np.int64))
        known = load_removed(place) or NONE
        added = _with_rows(known, place, reader, np.unique(whole), reason)
        if len(added) > len(known):
            save_removed(place, added)
        elif known is not NONE:  # a killed process may have renamed the list, whose name is not on disk then
            sync_whole(place)
    return _calls(added)[-1] if len(added) > len(known) else Removal(len(known.reasons), reason, time.time(), 0)


@public()
def removals(source: Any, *, index: Any = "auto") -> list[Removal]:
    """Return the calls that removed samples from a dataset, in order. No data file is touched.

    Args:
        source: Anything that `bushel.open` takes.
        index: As for `remove`.

    Examples:
        >>> done = bushel.remove("train/", where="label == 'dog'", reason="no dogs")
        >>> [(each.call, each.reason, each.samples) for each in bushel.removals("train/")]
        [(0, 'no dogs', 6)]
    """
    return _calls(load_removed(_place_of(source, index)) or NONE)


@public()
def restore(source: Any, *, call: int | None = None, index: Any = "auto") -> Removal:
    """Take back a call that removed samples.

    Args:
        source: Anything that `bushel.open` takes.
        call: Its number, as `removals` gives it; None for the last one. Later calls get the number before theirs.
        index: As for `remove`.

    Raises:
        IndexError: The call does not exist.
        UnsupportedError: The bytes of its samples are overwritten.
        InUseError: A writer is open for the dataset.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> bushel.restore("train/").samples, len(bushel.open("train/"))
        (1, 12)
    """
    with locked_sources(_claimed(source, index)):
        place = _place_of(source, index)
        known = load_removed(place) or NONE
        number = len(known.reasons) - 1 if call is None else call
        if not 0 <= number < len(known.reasons):
            raise IndexError(f"unknown call {number}: {len(known.reasons)} calls removed samples of this dataset")
        taken = _calls(known)[number]
        if taken.erased:
            raise UnsupportedError(
                f"call {number} cannot be taken back: the bytes of {taken.erased:,} of its samples are overwritten"
            )
        save_removed(place, _without_call(known, number))
    return taken


def _chosen(positions: Any) -> Any:
    return positions if hasattr(positions, "__array__") else list(positions)


def _claimed(source: Any, index: Any) -> Sequence[AnyPath]:
    return _paths(source) if index in ("auto", "memory", "require") else [index_place(index)]


def _paths(source: Any) -> Sequence[AnyPath]:
    return expand_paths(source)


def _place_of(source: Any, index: Any) -> AnyPath:
    shards = find(_paths(source)).shards
    return list_of(shards if index in ("auto", "memory", "require") else indexed_in(shards, index_place(index)))


def _place(dataset: Dataset) -> AnyPath:
    """Return the path of the list of a dataset.

    Raises:
        UnsupportedError: It is not in one folder, cannot be written to, or has no index.
    """
    shards = dataset.shards
    if not isinstance(shards, Listing) and any(shard.section is not None for shard in shards):
        raise UnsupportedError("a remote dataset needs an index before samples are removed: run `bushel index` on it")
    return list_of([shards[0].shard] if isinstance(shards, Listing) else [shard.shard for shard in shards])


def list_of(shards: Sequence[Shard]) -> AnyPath:
    """Return the path of the list of removed samples of shards.

    Raises:
        UnsupportedError: They lie in several folders, or cannot be written to.
    """
    first, above = shards[0], above_parts(shards)
    if above is None and any(shard.beside != first.beside for shard in shards):
        raise UnsupportedError("the dataset lies in several folders: remove samples from each of them")
    place, _ = first.removal_lists[0 if above is None and first.index is None else 1]
    if above is None and first.shared != FOLDER and load_removed(older := first.beside / REMOVED) is not None:
        place = older
    if not isinstance(place, Path) and not (is_object(place) and place.writable):
        raise UnsupportedError(
            f"{first.root} cannot be written to: name another folder for the index and the list of removed samples, "
            f"with index= (--index)"
        )
    return place


def _with_rows(known: RemovedRows, place: AnyPath, reader: Reader, positions: I64, reason: str) -> RemovedRows:
    """Return the list with an entry for each of these positions of the whole dataset that has none yet."""
    numbers = np.searchsorted(reader.starts, positions, side="right") - 1
    names, samples = list(known.shards), known.samples.tolist()
    number_of = {name: number for number, name in enumerate(names)}
    present = np.unique(numbers)
    named = np.zeros(len(reader.shards), np.int64)
    for number in present.tolist():
        shard = reader.shards[number]
        name = next(name for path, name in shard.shard.removal_lists if path == place)
        if name not in number_of:
            number_of[name] = len(names)
            names.append(name)
            samples.append(shard.samples)
        named[number] = number_of[name]
    own = np.concatenate([known.numbers, named[numbers]])
    rows = np.concatenate([known.rows.astype(np.int64), positions - reader.starts[numbers]])
    order = np.lexsort((rows, own))  # stable: an entry that is there already comes first
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(own[order]) != 0) | (np.diff(rows[order]) != 0)
    kept = order[first]
    starts = offsets_of(np.bincount(own[kept], minlength=len(names)))
    calls = np.concatenate([known.calls, np.full(len(positions), len(known.reasons), np.uint32)])
    erased = np.concatenate([known.erased, np.zeros(len(positions), np.uint8)])
    return RemovedRows(
        tuple(names),
        np.array(samples, np.int64),
        starts,
        rows[kept].astype(np.uint32),
        calls[kept],
        erased[kept],
        (*known.reasons, reason),
        np.append(known.times, np.int64(time.time_ns())),
    )


def _without_call(known: RemovedRows, number: int) -> RemovedRows:
    kept = known.calls != number
    counts = np.bincount(known.numbers[kept], minlength=len(known.shards))
    there = counts > 0
    starts = offsets_of(counts[there])
    calls = known.calls[kept]
    return replace(
        known,
        shards=tuple(name for name, some in zip(known.shards, there.tolist(), strict=True) if some),
        samples=known.samples[there],
        starts=starts,
        rows=known.rows[kept],
        calls=(calls - (calls > number)).astype(np.uint32),
        erased=known.erased[kept],
        reasons=(*known.reasons[:number], *known.reasons[number + 1 :]),
        times=np.delete(known.times, number),
    )


def _calls(known: RemovedRows) -> list[Removal]:
    counts = np.bincount(known.calls, minlength=len(known.reasons)).tolist()
    erased = np.bincount(known.calls, weights=known.erased > 0, minlength=len(known.reasons)).tolist()
    each = zip(known.reasons, (known.times / 1e9).tolist(), counts, map(int, erased), strict=True)
    return [Removal(number, *facts) for number, facts in enumerate(each)]
