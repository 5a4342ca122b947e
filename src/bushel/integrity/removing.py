"""Remove samples from a dataset: name them in a list beside the manifest, which every reader skips."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from bushel._dataset.open.caller_fields import POLICIES
from bushel._dataset.open.discovery import with_links
from bushel._dataset.open.locking import locked_sources
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.removal_lists import PlacedList, list_to_write
from bushel._dataset.open.shards import open_shards
from bushel._dataset.open.sources import expand_paths
from bushel._dataset.open.tables import index_place
from bushel._dataset.read.key_file import positions_of_keys, shards_with
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.remaining import (
    lists_of,
    matches_in,
    names_of,
    recorded_digests,
    removed_in,
)
from bushel._dataset.read.shards import kinds
from bushel._dataset.views.dataset import Dataset
from bushel._index.removal_list import (
    EMPTY,
    NO_DIGESTS,
    Digests,
    Names,
    RemovalCall,
    RemovalList,
    encode_removal_list,
    load_removal_list,
    parse_removal_list,
)
from bushel._index.shard import LISTS_OF_FILES, may_lack_samples
from bushel._runtime.arrays import I64, NO_NUMBERS
from bushel._runtime.messages import log_warning
from bushel._runtime.progress import user_call
from bushel._runtime.public import public
from bushel.containers import ReadOptions, get_container
from bushel.errors import UnsupportedError
from bushel.storage import AnyLocation, AnyPath, AnySource, remove_empty, update


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class Removal:
    """A call that removed samples from a dataset.

    Attributes:
        call: Its id, for `restore` and `erase`.
        reason: Why.
        time: When, in seconds since 1970.
        samples: Number of stored samples that it removes.
        missing: Number of samples that it named and that are not stored any more: they were erased,
            or deleted.

    Examples:
        >>> done = bushel.remove("train/", keys=["dog/2"], reason="opt-out")
        >>> done.samples, done.missing, done.reason
        (1, 0, 'opt-out')
    """

    call: str
    reason: str
    time: float
    samples: int
    missing: int = 0


@public()
@user_call()
def remove(
    source: AnySource,
    *,
    keys: Iterable[str] | None = None,
    where: str | None = None,
    positions: Iterable[int] | np.ndarray | None = None,
    reason: str,
    ignore_missing: bool = False,
    index: AnyLocation = "auto",
) -> Removal:
    """Remove samples from a dataset: from now on, everything that reads it through Bushel skips them.

    No data file is changed, so the tools that wrote the files still see the samples
    (docs/removal.md). `restore` undoes it. The fingerprint of the dataset changes. A sample is
    named by its key and the checksums of its values; values without a recorded checksum are read.

    Args:
        source: Anything that `bushel.open` takes, in one folder that can be written to.
        keys: The keys of the samples. All samples with one of these keys are removed.
        where: A condition on columns, as `Dataset.where` takes it.
        positions: Positions in the dataset as it is now. Negative ones count from the end.
        reason: Why they are removed, for `removals` and for errors.
        ignore_missing: Whether keys that no sample has are left out, instead of raising a
            `KeyError`.
        index: As for `bushel.open`: the folder of the index, if that is not the folder of the data.
            The list of removed samples then is there.

    Returns:
        The removal. A call with the reason and the samples of an earlier one changes nothing, and
        that one is returned.

    Raises:
        ValueError: Not exactly one of `keys`, `where` and `positions` is given, or the reason is
            missing.
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
        raise ValueError(
            "say which samples to remove by exactly one of keys=, where= and positions="
        )
    if isinstance(keys, str):
        raise TypeError(f"give keys as a list, such as [{keys!r}]")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError('a removal needs a reason, such as reason="opt-out"')
    with locked_sources(_claimed(source, index)), open_dataset(source, index=index) as dataset:
        reader = dataset.reader
        if keys is not None:
            chosen, missing = positions_of_keys(reader, list(keys))
            if missing and not ignore_missing:
                more = f" and {len(missing) - 1:,} others" * (len(missing) > 1)
                raise KeyError(
                    f"no sample has the key {missing[0]!r}{more}; "
                    "to leave them out, ignore_missing=True"
                )
        else:
            if where is not None:
                view = dataset.where(where)
            else:
                view = dataset[_numbers(positions)]
            chosen = view.selection.every
        call = RemovalCall(f"{secrets.randbelow(10**8):08}", reason, time.time_ns())
        if not len(chosen):
            return _removal(call, 0)
        named = _named(dataset, np.unique(chosen), source)
        known = [
            _same_call(load_removal_list(place) or EMPTY, names, reason) for place, names in named
        ]
        if known[0] is not None and None not in known:
            call = known[0]
        lists = [PlacedList(place, EMPTY.with_call(call, names), None) for place, names in named]
        among = shards_with(reader, Names.join([names for _, names in named]), chosen)
        matched = removed_in(reader.shards, lists, among)
        clean = _clean_digests(reader, matched)
        for place, names in named:
            of_file = place.parent.name == LISTS_OF_FILES.rpartition("/")[2]
            searched = NO_DIGESTS if of_file else clean
            _update(place, partial(RemovalList.with_call, call=call, names=names, clean=searched))
        alike = np.setdiff1d(matched, chosen)
        if len(alike):
            log_warning(
                "%s: %s other samples are removed with them: they "
                "have the same values, and the same key or none",
                source,
                f"{len(alike):,}",
            )
    return _removal(call, len(matched))


@public()
def removals(source: AnySource, *, index: AnyLocation = "auto") -> list[Removal]:
    """Return the calls in force that removed samples from a dataset, in order of time.

    Args:
        source: Anything that `bushel.open` takes.
        index: As for `remove`.

    Examples:
        >>> done = bushel.remove("train/", where="label == 'dog'", reason="no dogs")
        >>> [(each.reason, each.samples) for each in bushel.removals("train/")]
        [('no dogs', 6)]
    """
    with open_dataset(source, index=index) as dataset:
        reader, found = dataset.reader, dict[str, tuple[RemovalCall, int, int]]()
        for placed in _lists(reader):
            for call in placed.removed.calls:
                rows, missing = matches_in(reader.shards, placed, placed.removed.names_of(call.id))
                _, samples, others = found.get(call.id, (call, 0, 0))
                found[call.id] = call, samples + rows, others + missing
    return sorted((_removal(*facts) for facts in found.values()), key=attrgetter("time"))


@public()
def restore(source: AnySource, call: str | None = None, *, index: AnyLocation = "auto") -> Removal:
    """Undo a call that removed samples. Samples that another call names, too, stay removed.

    Undoing it again changes nothing.

    Args:
        source: Anything that `bushel.open` takes.
        call: Its id, as `remove` and `removals` give it; None for the last call of this dataset.
        index: As for `remove`.

    Returns:
        The call, with the number of samples that are back.

    Raises:
        InUseError: A writer is open for the dataset.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> bushel.restore("train/", done.call).samples, len(bushel.open("train/"))
        (1, 12)
    """
    with locked_sources(_claimed(source, index)), open_dataset(source, index=index) as dataset:
        reader = dataset.reader
        calls = [
            (placed, known)
            for placed in _lists(reader)
            for known in placed.removed.calls
            if call in (None, known.id)
        ]
        if not calls:
            log_warning("%s: no such call is in force; `removals` lists those that are", source)
            return Removal(call or "", "", 0.0, 0)
        undone = max((known for _, known in calls), key=attrgetter("time"))
        missing, before = 0, len(dataset)
        for placed, known in calls:
            if known.id == undone.id:
                names = placed.removed.names_of(known.id)
                missing += matches_in(reader.shards, placed, names)[1]
                _update(placed.path, partial(RemovalList.without_call, call=known.id))
        back = int(reader.starts[-1]) - len(removed_in(reader.shards)) - before
    return _removal(undone, back, missing)


@public("bushel.integrity")
def removed_positions(path: AnyPath, *, container: str) -> I64:
    """Return the positions of removed samples among all that are stored, ascending: int64[n].

    It is for programs that read the files of a dataset without `bushel.open`, in the order in which
    that has them.

    Args:
        path: A file or folder. Its table is read only if a list of removed samples is beside it.
        container: Name of its container.

    Raises:
        FormatError: The list, or the structure of the file, is damaged.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/1"], reason="opt-out")
        >>> bushel.integrity.removed_positions(Path("train/"), container="tar").tolist()
        [1]
    """
    shards = with_links(path, container, get_container(container).shards(path) or [])
    if not may_lack_samples(shards):
        return NO_NUMBERS
    return removed_in(open_shards(container, shards, ReadOptions()))


def _removal(call: RemovalCall, samples: int, missing: int = 0) -> Removal:
    return Removal(call.id, call.reason, call.time / 1e9, samples, missing)


def _numbers(positions: Any) -> Any:
    if hasattr(positions, "__array__"):
        return positions
    return list(positions)


def _claimed(source: Any, index: Any) -> Sequence[AnyPath]:
    if index in POLICIES:
        return expand_paths(source)
    return [index_place(index)]


def _lists(reader: Reader) -> list[PlacedList]:
    """Return the lists that may name samples of a dataset."""
    return [
        placed
        for placed in lists_of(reader.shards)
        if any(placed.names(one.shard) for one in reader.shards)
    ]


def _named(dataset: Dataset, positions: I64, source: Any) -> list[tuple[AnyPath, Names]]:
    """Return the names of samples at positions in the whole dataset, with the list that gets them."""
    reader = dataset.reader
    if any(shard.section is not None for shard in kinds(reader.shards)):
        raise UnsupportedError(
            "a remote dataset needs an index before samples are removed: run `bushel index` on it"
        )
    shards = [one.shard for one in kinds(reader.shards)]
    names = dict[str, tuple[AnyPath, list[Names]]]()
    for group in reader.groups(positions):
        opened = reader.shards[group.number]
        place = list_to_write(opened.shard, shards, source)
        names.setdefault(str(place), (place, []))[1].append(names_of(opened, group.rows))
    return [(place, Names.join(several).distinct()) for place, several in names.values()]


def _same_call(removed: RemovalList, names: Names, reason: str) -> RemovalCall | None:
    """Return the call in force that has this reason and names these samples and no others."""
    for call in removed.calls:
        own = removed.names_of(call.id)
        if call.reason == reason and len(own) == len(names) == len(
            Names.join([own, names]).distinct()
        ):
            return call
    return None


def _update(place: AnyPath, change: Callable[[RemovalList], RemovalList]) -> None:
    """Change a list. A list in a local folder is removed if no call is left in it."""
    update(place, lambda data: encode_removal_list(change(parse_removal_list(data, place))))
    left = load_removal_list(place) or EMPTY
    if not left.calls and isinstance(place, Path):  # the lock of the dataset is held
        place.unlink()
        remove_empty(place.parent)


def _clean_digests(reader: Reader, removed: I64) -> Digests:
    """Return the digests of the tables that have checksums, but no removed sample, these or earlier ones."""
    if reader.remaining is not None:
        removed = np.concatenate([removed, reader.remaining.removed])
    clean = np.array([shard.checksums for shard in reader.shards], np.bool_)
    clean[np.searchsorted(reader.starts, removed, side="right") - 1] = False
    digests = recorded_digests(reader.shards)
    return np.compress(clean & (digests != b""), digests)
