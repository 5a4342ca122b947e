"""`bushel.join`: datasets whose samples belong together, as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from bushel._dataset.read.join_match import Names, lists_of_values, match
from bushel._dataset.read.joined import joined_readers
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.sides import Joined
from bushel._index.names import known_column_of
from bushel._runtime.arrays import I64, offsets_of
from bushel._runtime.messages import log_info, log_warning
from bushel._runtime.public import did_you_mean, public
from bushel.codecs.base import INTEGERS
from bushel.spec import KEY

from .dataset import Dataset

On = str | tuple[str, str]

_SHOWN = 3
_NAMES = frozenset((*INTEGERS, "utf8", "csv-text", "json"))
"""Codecs of values that name samples."""
_PLACE = "__position__"
"""Stands for the places of samples where others have the name of a field."""


@public()
def join(
    first: Dataset | Iterable[Dataset],
    *others: Dataset,
    on: On = "key",
    how: Literal["inner", "left"] = "inner",
    names: Mapping[str, str] | Sequence[Mapping[str, str]] = (),
) -> Dataset:
    r"""Return a view whose samples have the fields of several datasets: a photo of one, its captions of another.

    Each sample of the first dataset gets the fields of its match in every other one. The view has
    the keys and the order of the first dataset, and does what every dataset does. Containers may
    differ. No data are read, except names in fields of `on` that no index has, and what stays in
    memory is up to 16 bytes for each sample and dataset.

    Args:
        first: The first dataset, or all of them.
        others: The datasets that are joined to it.
        on: The property that matches share. `key`: the keys are equal. (The samples of JSON lines,
            CSV and Parquet have none; where such a dataset has a field `key`, that is meant, and
            otherwise the position.) Another name names a field or column of texts or whole numbers:
            if both datasets have it, the values are equal; if one has it, its values name keys of
            the other one. Such a value may also be a path: what equals no key is compared without a
            leading `./` and without the last suffix, if it is one of files. So `./cat/0.jpg` names
            the sample `cat/0` of a tar, zip or folder, and `cat/0` the sample `cat/0.jpg` of packed
            records. A pair, such as `("photo", "id")`, names the field in the first dataset and in
            the others. `position`, where no dataset has such a field: the samples are in the same
            order, as the rows of `embeddings.npy` may be. If the field of the first dataset holds
            lists of names, its samples get lists: of each field of the other dataset, the values of
            the named samples.
        how: `inner`: samples of the first dataset without a match are left out; `left`: they lack
            its fields.
        names: New names for fields of the other datasets: a mapping, or one for each of them.

    Raises:
        ValueError: Two samples of a dataset that is joined have the same name, or both of the first
            one have the same key; datasets that are joined by position differ in length, or the
            first one is a view that has samples several times; two datasets have a field of the
            same name (if it is the field `on`, the other dataset's is kept where it is not of texts
            or numbers, else the first one's); or only a dataset that is joined to the first one
            holds lists of names.
        SpecError: Lists of names are joined with a field that is a sequence itself.
        KeyError: No dataset has such a field.
        UnsupportedError: The samples of an argument are windows.
        TypeError: An argument is not a dataset, or values of the field are not texts or whole
            numbers.

    Examples:
        >>> lines = ['{"image": "photos/cat/0.jpg", "caption": "a cat"}', '{"image": "cat/1", "caption": "another"}']
        >>> _ = Path("captions.jsonl").write_text("\n".join(lines))
        >>> captions, photos = bushel.open("captions.jsonl"), ds.select_fields(["image"])
        >>> both = bushel.join(captions, photos, on="image", how="left")
        >>> both[1]["caption"], both[1]["image"].shape
        ('another', (48, 64, 3))
        >>> both.info.joins[0].misses
        "joined by image: no match for 1 of the first dataset ('photos/cat/0.jpg') and 11 of the
        second dataset ..."
    """
    datasets = [first, *others] if isinstance(first, Dataset) else [*first, *others]
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"join takes datasets, not {type(dataset).__name__}: open paths with bushel.open"
            )
        dataset.reader.refuse_windows("join the datasets first, and make windows of the result")
    if not datasets:
        raise ValueError("join needs at least one dataset")
    if how not in ("inner", "left"):
        raise ValueError(f'how={how!r}: expected "inner" or "left"')
    named, *rest = datasets
    whole = named
    if isinstance(names, Mapping):
        new = [names] * len(rest)
    else:
        new = [*names, *[{}] * (len(rest) - len(names))]
    if len(new) != len(rest):
        raise ValueError(
            f"names= has {len(new)} mappings for {len(rest)} "
            "datasets that are joined to the first one"
        )
    if unknown := [
        old for mapping in new for old in mapping if all(old not in other.spec for other in rest)
    ]:
        raise KeyError(
            f"names= has {unknown[0]!r}: the datasets that "
            "are joined to the first one have no such field"
        )
    for other, mapping in zip(rest, new, strict=True):
        whole = _joined(
            whole,
            named._view(whole.selection.positions),
            other,
            _resolved(named, other, on),
            how,
            mapping,
        )
    return whole


def _resolved(first: Dataset, other: Dataset, on: On) -> tuple[str, str]:
    """Return the name in each of two datasets: of a field or column, or `__key__`.

    Raises:
        KeyError: The field does not exist.
        TypeError: `on` is neither a text nor a pair of texts.
    """
    if isinstance(on, str) and on not in ("key", KEY):
        owners = [dataset for dataset in (first, other) if _can_name(dataset, on)]
        if owners:
            return on if first in owners else KEY, on if other in owners else KEY
        on = (_PLACE, _PLACE) if on == "position" else (on, on)
    if isinstance(on, str):
        on = on, on
    pair = tuple(on) if isinstance(on, Iterable) else ()
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise TypeError(f"on={on!r}: expected the name of a field, or a pair of names")
    return _meant(first, pair[0]), _meant(other, pair[1])


def _can_name(dataset: Dataset, name: str) -> bool:
    """Return whether a field or column may hold texts or whole numbers that name samples, or lists."""
    field = dataset.selection.fields.get(name)
    if field is not None:
        return field.codec in _NAMES
    meant = known_column_of(name, dataset.reader.fields)
    return meant is not None and name in dataset.columns


def _meant(dataset: Dataset, name: str) -> str:
    if name == _PLACE:
        return name
    if name == KEY or (name == "key" and (dataset.reader.keyed or not _can_name(dataset, name))):
        return KEY
    if not _can_name(dataset, name):
        possible_names = [
            candidate
            for candidate in (*dataset.spec, *dataset.columns)
            if _can_name(dataset, candidate)
        ]
        possible = f"possible are {', '.join(dict.fromkeys(possible_names)) or 'none'}."
        meant = did_you_mean(name, possible_names) or possible
        raise KeyError(
            f"on={name!r} is not a field or column of texts or whole numbers: "
            f"{meant} `bushel index --columns` adds columns, such as meta.id of a field meta of JSON"
        )
    return name


def _joined(
    first: Dataset,
    named: Dataset,
    other: Dataset,
    on: tuple[str, str],
    how: str,
    names: Mapping[str, str],
) -> Dataset:
    """Return a dataset joined with another one.

    `named` has its samples with the fields that it had before anything was joined to it. `on` is
    the property by which samples match, in each of the two.
    """
    new = {name: names.get(name, name) for name in other.spec}
    kept_names = _without_collisions(first, new, on)
    if on[0] == _PLACE:
        pairs = _in_order(named, other, how)
    else:
        names_of_first = Names(named.reader, named.selection, on[0])
        pairs = _by_names(names_of_first, Names(other.reader, other.selection, on[1]), how, new)
    if pairs.joined.misses:
        log = log_info if pairs.joined.matched else log_warning
        log("%s; %d samples have one", pairs.joined.misses, pairs.joined.matched)
    partners = np.full(int(first.reader.starts[-1]), -1, np.int64)
    partners[pairs.samples] = pairs.partners
    reader = joined_readers(
        first.reader, pairs.reader, partners, pairs.joined, names=kept_names, others=new
    )
    positions = first.selection.positions
    if how == "inner":
        chosen = first.selection.every
        chosen = chosen[partners[chosen] >= 0]
        if len(chosen) != len(positions):
            positions = chosen
    return Dataset((), reader=reader)._view(positions, [*kept_names, *new.values()])


class _Pairs(NamedTuple):
    """The samples of two datasets that match."""

    samples: I64  # int64[n], the positions in the whole first dataset of samples with a match
    partners: I64  # int64[n], the position of the match of each, as `reader` counts
    reader: Reader  # of the other dataset, or of lists of its values
    joined: Joined


def _in_order(first: Dataset, other: Dataset, how: str) -> _Pairs:
    """Return the pairs of samples of datasets that have the same order."""
    positions = first.selection.every
    if len(positions) != len(other):
        raise ValueError(
            f"on='position': the first dataset has {len(positions)} samples, and one that is "
            f"joined to it {len(other)}"
        )
    if len(np.unique(positions)) < len(positions):
        raise ValueError(
            "on='position': this view has samples several times, whose "
            "matches could differ: join first, then choose samples"
        )
    joined = Joined("position", how, len(positions), (0, 0), ((), ()))
    return _Pairs(positions, other.selection.every, other.reader, joined)


def _by_names(first: Names, other: Names, how: str, fields: Mapping[str, str]) -> _Pairs:
    """Return the pairs of samples that have the same names. `fields` are wanted of the other, with new names."""
    if other.on != KEY and other.has_list is not None:
        raise ValueError(
            f"field {other.on!r} of a dataset that is joined to "
            "the first one holds lists: give that dataset first"
        )
    if first.on != KEY and first.has_list is not None:
        return _by_lists(first, other, how, fields)
    matches = np.full(len(first.samples), -1, np.int64)
    if first.on == other.on == KEY and not (first.reader.keyed or other.reader.keyed):
        _, places, places_of_other = np.intersect1d(
            first.samples, other.samples, assume_unique=True, return_indices=True
        )
        matches[places] = places_of_other
    else:
        matches[first.owners] = match(first, other)
    matched = matches >= 0
    alone = np.flatnonzero(~matched), _unmatched(other, matches)
    examples = _shown(first, alone[0]), _shown(other, alone[1])
    on = " = ".join(dict.fromkeys(name for name in (first.on, other.on) if name != KEY)) or "key"
    count, lost = int(matched.sum()), (len(alone[0]), len(alone[1]))
    joined = Joined(on, how, count, lost, examples)
    return _Pairs(first.samples[matched], other.samples[matches[matched]], other.reader, joined)


def _by_lists(first: Names, other: Names, how: str, fields: Mapping[str, str]) -> _Pairs:
    """Return the samples that name samples of another dataset in lists, paired with lists of the values of these."""
    matched, complete = match(first, other), np.array(first.has_list)
    missing, alone = np.flatnonzero(matched < 0), _unmatched(other, matched)
    complete[first.owners[missing]] = False
    places = np.flatnonzero(complete)
    # samples without a list are shown by their keys, where no name is missing
    few = np.flatnonzero(~complete)[:_SHOWN]
    shown = first.take(missing[:_SHOWN]) or first.reader.keys(first.samples[few])
    examples = tuple(shown), _shown(other, alone)
    lost = len(complete) - len(places), len(alone)
    joined = Joined(first.on, how, len(places), lost, examples, len(missing))
    named = complete[first.owners]
    starts = offsets_of(np.bincount(first.owners[named], minlength=len(complete)))
    reader = other.reader
    shard = lists_of_values(other, fields, starts, other.samples[matched[named]])
    lists = Reader([shard], verify=reader.verify, incomplete=reader.incomplete)
    return _Pairs(first.samples[complete], places, lists, joined)


def _unmatched(names: Names, matches: I64) -> I64:
    """Return the places of the samples that nothing matches."""
    lone = np.ones(len(names.samples), np.bool_)
    lone[matches[matches >= 0]] = False
    return np.flatnonzero(lone)


def _without_collisions(first: Dataset, new: dict[str, str], on: tuple[str, str]) -> list[str]:
    """Return the fields of the first dataset that a join keeps, and remove unwanted fields of the other."""
    kept_names = list(first.spec)
    name_in_first, name_in_other = on
    new_name = new.get(name_in_other)
    if new_name in kept_names and name_in_first in (KEY, new_name):
        del new[name_in_other]  # it holds what the first dataset has, or names of its samples
    elif name_in_other == KEY and name_in_first in kept_names and name_in_first in new.values():
        kept_names.remove(name_in_first)
    taken = list(new.values())
    if repeated := [
        name for name in dict.fromkeys(taken) if name in kept_names or taken.count(name) > 1
    ]:
        raise ValueError(
            f"two datasets have a field {repeated[0]!r}: choose fields with "
            "ds.select_fields([...]), or give the second one's another "
            f"name, with names={{{repeated[0]!r}: {repeated[0] + '_2'!r}}}"
        )
    return kept_names


def _shown(names: Names, places: I64) -> tuple[str, ...]:
    """Return the names of the first of some samples, and the key of one that has no name."""
    few = places[:_SHOWN]
    if names.on == KEY:
        return tuple(names.reader.keys(names.samples[few]))
    shown = list[str]()
    for place in few.tolist():
        numbers = np.flatnonzero(names.owners == place)
        shown += names.take(numbers) or names.reader.keys(names.samples[place : place + 1])
    return tuple(shown)
