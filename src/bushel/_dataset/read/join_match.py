"""Match the samples of two datasets by equal names, or by equal stems of names."""

from __future__ import annotations

import numpy as np

from bushel._dataset.read.join_lists import ListedNames
from bushel._dataset.read.join_names import Names
from bushel._index.key_pairs import LookedUp
from bushel._index.name_stems import stem
from bushel._runtime.arrays import I64
from bushel.spec import KEY

_AT_ONCE = 1 << 16


def match(first: Names | ListedNames, other: Names) -> I64:
    """Return the partner of each sample of a dataset in another one.

    Samples are partners if their names are equal. Where values of a field name keys, those that equal no key are
    compared by their stems, and so are the keys then.

    Args:
        first: The names in one dataset, of its samples or in their lists. If they are keys, and the other's are, too,
            no two samples may have the same.
        other: The names in the other one. No two samples may have the same.

    Returns:
        int64[n]: for each name of `first` the place of its partner in `other.samples`, -1 for none.

    Raises:
        ValueError: Two samples have the same name, or a name has the stem of two keys; the message names them, and
            both positions.
    """
    hashes, named = other.hashes()
    there = np.flatnonzero(named)
    table = LookedUp.of(hashes if len(there) == len(hashes) else hashes[there])
    _refuse_repeated(other, there, table)
    del hashes
    wanted, named = first.hashes()
    asked = LookedUp.of(wanted)  # neighbours are found in neighbouring memory
    if isinstance(first, Names) and first.on == other.on == KEY:
        _refuse_repeated(first, np.arange(len(wanted)), asked)
    found = np.where(named, table.find(asked), -1)
    del asked
    for places in _in_parts(np.flatnonzero(found >= 0)):
        names, partners = first.take(places), other.take(there[found[places]])
        for at, name in enumerate(names) if names != partners else ():
            if name != partners[at]:  # two names have one hash
                others = [each for each in table.places(wanted[places[at]]) if other.take(there[[each]]) == [name]]
                found[places[at]] = others[0] if others else -1
    if KEY in (first.on, other.on) and first.on != other.on:
        lone = np.flatnonzero(named & (found < 0))
        if len(lone):
            found[lone] = _by_stems(first, lone, other, there)
    found[found >= 0] = there[found[found >= 0]]
    return found


def _by_stems(first: Names | ListedNames, lone: I64, other: Names, there: I64) -> I64:
    """Return for each of some samples the sample, of those at some places, whose name has the same stem; -1 if none."""
    table = LookedUp.of(other.hashes(stems=True)[0][there])
    wanted = first.hashes(stems=True)[0][lone]
    found = table.find(LookedUp.of(wanted))
    repeated = table.hashes[1:][table.hashes[1:] == table.hashes[:-1]]
    doubtful = np.isin(wanted, repeated) if len(repeated) else np.zeros(len(wanted), np.bool_)
    for places in _in_parts(np.flatnonzero(found >= 0)):
        names, partners = first.take(lone[places]), other.take(there[found[places]])
        wrong = [stem(name) != stem(partner) for name, partner in zip(names, partners, strict=True)]
        for at in np.flatnonzero(np.array(wrong) | doubtful[places]).tolist():
            same = [
                at_ for at_ in table.places(wanted[places[at]]) if stem(other.take(there[[at_]])[0]) == stem(names[at])
            ]
            if len(same) > 1:
                one, two = (other.take(there[[each]])[0] for each in same[:2])
                raise ValueError(
                    f"{names[at]!r} may name two samples, {one!r} and {two!r}, at positions "
                    f"{_positions(other, there[same[:2]])}: write names in full"
                )
            found[places[at]] = same[0] if same else -1
    return found


def _in_parts(places: I64) -> list[I64]:
    return [places[first : first + _AT_ONCE] for first in range(0, len(places), _AT_ONCE)]


def _refuse_repeated(names: Names, there: I64, table: LookedUp) -> None:
    one, other = table.repeated()
    for first, second in zip(_in_parts(there[one]), _in_parts(there[other]), strict=True):
        pairs = zip(names.take(first), names.take(second), strict=True)
        at = next((at for at, (name, same) in enumerate(pairs) if name == same), None)
        if at is not None:
            what = "the key" if names.on == KEY else f"{names.on} =="
            [name] = names.take(first[at : at + 1])
            where = _positions(names, np.array([first[at], second[at]]))
            raise ValueError(
                f"two samples have {what} {name!r}, at positions {where}: a join needs one partner for each sample. "
                + (
                    "Choose samples with ds[...] or ds.where(...)"
                    if names.on == KEY
                    else "Give this dataset first, and each of its samples gets the partner that it names"
                )
            )


def _positions(names: Names, places: I64) -> str:
    """Return the positions of two samples in their dataset or view, in words."""
    whole = names.positions
    found = sorted(int(np.flatnonzero(whole == each)[0]) for each in names.samples[places].tolist())
    return " and ".join(map(str, found))
