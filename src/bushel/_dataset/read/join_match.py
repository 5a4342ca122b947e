"""Match the samples of two datasets by equal names, or by names of files and keys."""

from __future__ import annotations

import numpy as np

from bushel._dataset.read.join_lists import ListedNames
from bushel._dataset.read.join_names import Names
from bushel._index.key_pairs import LookedUp
from bushel._index.name_stems import Form, in_form
from bushel._runtime.arrays import I64
from bushel.spec import KEY

_AT_ONCE = 1 << 16
_FORMS: tuple[tuple[Form, Form], ...] = (("path", "path"), ("stem", "path"), ("path", "stem"))
"""The forms in which names without an equal partner are compared, one after another."""


def match(first: Names | ListedNames, other: Names) -> I64:
    """Return the partner of each sample of a dataset in another one.

    Samples are partners if their names are equal. Where values of a field name keys, a value that equals no key may be
    the name of a file whose key lacks its last suffix, or the key of a file's name: `a.jpg` and `a`. Two names that
    both have suffixes are never partners, and `a.b` is not the name of a file.

    Args:
        first: The names in one dataset, of its samples or in their lists. If they are keys, and the other's are, too,
            no two samples may have the same.
        other: The names in the other one. No two samples may have the same.

    Returns:
        int64[n]: for each name of `first` the place of its partner in `other.samples`, -1 for none.

    Raises:
        ValueError: Two samples have the same name, or a name may mean two keys; the message names them, and
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
        for forms in _FORMS:
            lone = np.flatnonzero(named & (found < 0))
            if len(lone):
                found[lone] = _by_forms(first, lone, other, there, forms)
    found[found >= 0] = there[found[found >= 0]]
    return found


def _by_forms(first: Names | ListedNames, lone: I64, other: Names, there: I64, forms: tuple[Form, Form]) -> I64:
    """Return for each of some samples the one of those at some places whose name is equal in other forms; -1 if none.

    Raises:
        ValueError: Two samples have it.
    """
    form, other_form = forms
    table = LookedUp.of(other.hashes(other_form)[0][there])
    wanted = first.hashes(form)[0][lone]
    found = table.find(LookedUp.of(wanted))
    repeated = table.hashes[1:][table.hashes[1:] == table.hashes[:-1]]
    doubtful = np.isin(wanted, repeated) if len(repeated) else np.zeros(len(wanted), np.bool_)
    for places in _in_parts(np.flatnonzero(found >= 0)):
        names = [in_form(name, form) for name in first.take(lone[places])]
        partners = [in_form(name, other_form) for name in other.take(there[found[places]])]
        wrong = np.array([name != partner for name, partner in zip(names, partners, strict=True)])
        for at in np.flatnonzero(wrong | doubtful[places]).tolist():
            same = [
                place
                for place in table.places(wanted[places[at]])
                if in_form(other.take(there[[place]])[0], other_form) == names[at]
            ]
            if len(same) > 1:
                [name] = first.take(lone[places[at : at + 1]])
                one, two = (other.take(there[[place]])[0] for place in same[:2])
                raise ValueError(
                    f"{name!r} may name two samples, {one!r} and {two!r}, at positions "
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
