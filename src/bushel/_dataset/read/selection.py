"""Positions in a view, of all samples or of those that were not removed, and masks of fields. Pure: no I/O."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from msgspec import Struct

from bushel._index.elements import Elements, Ranges
from bushel._index.key_lookup import LookedUp
from bushel._runtime.arrays import I64, U32, Array, Bools
from bushel.codecs import holds_elements
from bushel.spec import Field, Spec

if TYPE_CHECKING:
    from bushel._index.removal_list import RemovalCall

Given = Iterable[int] | np.ndarray[Any, np.dtype[Any]]
"""Positions in a view as a caller gives them: negative ones count from the end, and an array may be a boolean mask."""

Sample = dict[str, Any]
"""A training example: its key under `__key__`, and the value of each field that it has."""

Mask = Iterable[str] | Mapping[str, bool | slice | Iterable[int]] | None
"""The fields to read: None for all, names, or a mapping of names to True, False, or elements of a sequence or clip."""


class Remaining(Struct, frozen=True, eq=False):
    """The positions of the samples that were not removed, in order. It takes the place of an array of them.

    It has 16 bytes per removed sample, for any size of the dataset.
    """

    total: int  # number of samples with the removed ones
    removed: I64  # int64[n], the positions of the removed samples, ascending
    calls: U32  # uint32[n], the number of the call that removed each
    by: tuple[RemovalCall, ...]  # the calls, in order of time
    before: I64  # int64[n], the number of remaining samples before each removed one

    @classmethod
    def of(cls, total: int, removed: I64, calls: U32, by: tuple[RemovalCall, ...]) -> Remaining:
        """Return the selection without these samples."""
        return cls(total, removed, calls, by, removed - np.arange(len(removed)))

    def __len__(self) -> int:
        return self.total - len(self.removed)

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice | I64) -> I64: ...

    def __getitem__(self, item: int | slice | I64) -> int | I64:
        if isinstance(item, slice):
            first, last, step = item.indices(len(self))
            item = np.arange(first, last, step)
        if isinstance(item, np.ndarray):
            numbers = np.where(item < 0, item + len(self), item)
            return np.asarray(
                numbers + np.searchsorted(self.before, numbers, side="right"), np.int64
            )
        number = operator.index(item)
        if not -len(self) <= number < len(self):
            raise IndexError(
                f"position {number} is out of range for a dataset of {len(self)} samples"
            )
        number %= len(self)
        return number + int(np.searchsorted(self.before, number, side="right"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:].astype(np.int64 if dtype is None else dtype, copy=False)

    def places(self, positions: I64) -> I64:
        """Return the places of positions among those that remain; -1 if its sample was removed."""
        before = np.searchsorted(self.removed, positions)
        is_removed = np.searchsorted(self.removed, positions, side="right") > before
        return np.where(is_removed, -1, positions - before)

    def kept(self) -> Bools:
        """Return bool[total]: whether each sample remains."""
        remains = np.ones(self.total, np.bool_)
        remains[self.removed] = False
        return remains

    def if_removed(self, chosen: Bools, total: int) -> range | Remaining:
        """Return the positions that remain of the first `total` samples if only some were removed: bool[n]."""
        if not chosen.any():
            return range(total)
        return Remaining.of(total, self.removed[chosen], self.calls[chosen], self.by)


def joined(parts: Sequence[range | Remaining]) -> range | Remaining:
    """Return the remaining samples of several datasets, one after another. A range is all of a dataset."""
    sizes = [len(part) if isinstance(part, range) else part.total for part in parts]
    some = [(part, sum(sizes[:at])) for at, part in enumerate(parts) if isinstance(part, Remaining)]
    if not some:
        return range(sum(sizes))
    every = dict.fromkeys(call for part, _ in some for call in part.by)
    by = sorted(every, key=lambda call: call.time)
    number = {call: place for place, call in enumerate(by)}
    return Remaining.of(
        sum(sizes),
        np.concatenate([part.removed + start for part, start in some]),
        np.concatenate(
            [
                np.array([number[call] for call in part.by], np.uint32)[part.calls]
                for part, _ in some
            ]
        ),
        tuple(by),
    )


Positions = range | I64 | Remaining
"""The samples of a view, in order, as positions in the whole dataset."""


class Selection(Struct, frozen=True):
    """The samples and the fields of a view."""

    positions: Positions
    fields: Spec
    # how they were chosen, in words: `where label == 3, then [0:100]`; empty for all samples
    made: str = ""

    @property
    def every(self) -> I64:
        """All positions, in order: int64[n]."""
        return self.absolute(np.arange(len(self.positions)))

    def at(self, position: int) -> int:
        """Return a position in the view as one in the whole dataset. Raise IndexError if it is out of range."""
        return int(self.positions[self._checked(position)])

    def all_of(self, given: Given) -> I64:
        """Return positions in the view as positions in the whole dataset.

        Raises:
            IndexError: One is out of range, or a boolean mask has another length.
            TypeError: They are not positions.
        """
        return self.absolute(self.numbers(given))

    def absolute(self, numbers: I64) -> I64:
        """Return int64[n], positions in the view, as positions in the whole dataset.

        Raises:
            IndexError: One is out of range.
        """
        size = len(self.positions)
        # One pass for the usual case: as unsigned numbers, negative positions are beyond every
        # dataset.
        if len(numbers) and int(numbers.view(np.uint64).max()) >= size:
            low, high = int(numbers.min()), int(numbers.max())
            self._checked(low)
            self._checked(high)
            if low < 0:
                numbers = np.where(numbers < 0, numbers + size, numbers)
        if not isinstance(self.positions, range):
            return self.positions[numbers]
        if self.positions.start or self.positions.step != 1:
            return numbers * self.positions.step + self.positions.start
        return numbers

    def numbers(self, given: Given) -> I64:
        """Return the positions that a caller gives as int64[n]. They may be negative.

        Raises:
            IndexError: One is out of range of int64, or a boolean mask has another length.
            TypeError: They are not positions.
        """
        if isinstance(given, range):
            for end in (given[0], given[-1]) if given else ():
                self._checked(end)
            return np.arange(given.start, given.stop, given.step)
        if isinstance(given, str):
            return self.numbers([given])  # which refuses it
        if isinstance(given, int | np.integer) or not (
            hasattr(given, "__array__") or hasattr(given, "__iter__")
        ):
            raise TypeError(f"expected a list of positions, not {given!r}: write [{given!r}]")
        array = np.asarray(given if hasattr(given, "__array__") else list(given))
        if array.dtype.kind == "U":
            from .read_errors import texts_as_positions

            raise TypeError(texts_as_positions(array.reshape(-1).tolist(), self.fields))
        if array.dtype == np.bool_:
            size = len(self.positions)
            if array.shape != (size,):
                raise IndexError(
                    f"the boolean mask has shape {array.shape}, but the dataset has {size} samples"
                )
            if isinstance(given, np.ma.MaskedArray):  # made of a column in which values are missing
                array = array & ~np.ma.getmaskarray(given)
            return np.flatnonzero(array).astype(np.int64)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iuO"):
            raise TypeError(f"positions must be a one-dimensional list of integers, not {given!r}")
        if array.dtype.kind == "O":  # some do not fit into int64, or are not integers
            return np.array(
                [self._checked(operator.index(position)) for position in array], np.int64
            )
        if array.dtype == np.uint64 and array.size:
            self._checked(int(array.max()))
        return np.ascontiguousarray(array, np.int64)

    def first(self, found: Sequence[int]) -> int | None:
        """Return the first position in the view of any of these samples of the whole dataset, or None."""
        places = self.places(np.array(found, np.int64)).tolist()
        return min((place for place in places if place >= 0), default=None)

    def places(self, positions: I64) -> I64:
        """Return the first position in the view of each of some samples of the whole dataset; -1 for those without."""
        if isinstance(self.positions, Remaining):
            return self.positions.places(positions)
        if isinstance(self.positions, range):
            places, rest = np.divmod(positions - self.positions.start, self.positions.step)
            is_shown = (rest == 0) & (places >= 0) & (places < len(self.positions))
            return np.where(is_shown, places, -1)
        # few of many positions: only those are sorted
        asked_for = np.flatnonzero(np.isin(self.positions, positions))
        shown = LookedUp.of(self.positions[asked_for].view(np.uint64))
        places = shown.find(LookedUp.of(positions.view(np.uint64)))
        return np.append(asked_for, -1)[places]

    def wanted(self, mask: Mask) -> dict[str, Elements]:
        """Return the elements to read of each field in a mask; None for all of them.

        Raises:
            KeyError: A field is unknown.
            TypeError: A value is neither a bool nor, for a sequence field, a clip, a sound or an
                array, a selection of elements.
            IndexError: The number of an element does not fit into int64.
        """
        if mask is None:
            return dict.fromkeys(self.fields)
        if isinstance(mask, str):
            raise TypeError(f"give fields as a list or a dict, such as [{mask!r}], not {mask!r}")
        if not isinstance(mask, Iterable):
            raise TypeError(f"give fields as a list of names or a dict, not {mask!r}")
        names = list(self.fields)
        elements_of: dict[str, Elements] = {}
        if isinstance(mask, Mapping):
            chosen: Iterable[tuple[str, Any]] = mask.items()
        else:
            chosen = ((name, True) for name in mask)
        for name, value in chosen:
            if name not in names:
                raise KeyError(
                    f"unknown field {name!r}: the fields are {', '.join(names) or 'none'}"
                )
            if value is True:
                elements_of[name] = None
            elif value is not False:
                elements_of[name] = _elements(self.fields[name], value)
        return elements_of

    def plain(self, name: str, what: str) -> str:
        """Return the name of a field that is not a sequence. `what` continues the message about one that is.

        Raises:
            KeyError: The field does not exist.
            TypeError: It is a sequence.
        """
        [name] = self.wanted([name])
        if self.fields[name].sequence:
            raise TypeError(f"field {name!r} is a sequence: {what}")
        return name

    def _checked(self, position: int) -> int:
        size = len(self.positions)
        if not -size <= position < size:
            raise IndexError(self.out_of_range(position))
        return position

    def out_of_range(self, position: int) -> str:
        """Return the error text for a position that no sample has."""
        return f"position {position} is out of range for a dataset of {len(self.positions)} samples"


def _elements(field: Field, value: object) -> Elements:
    """Return the elements of a field that a value of a mask means."""
    if not field.sequence and not holds_elements(field.codec):
        kinds = "neither a sequence nor a clip, a sound or an array"
        raise TypeError(f"field {field.name!r} is {kinds}: ask for it with True, not {value!r}")
    if isinstance(value, slice | Ranges):
        return value
    if isinstance(value, range):
        return np.arange(value.start, value.stop, value.step)
    try:
        return np.array([operator.index(number) for number in value], np.int64)  # type: ignore[attr-defined]
    except TypeError as error:
        raise TypeError(
            f"give the elements of {field.name!r} as a slice, "
            f"a range or a list of numbers, not {value!r}"
        ) from error
    except OverflowError as error:
        raise IndexError(f"{value!r} is out of range for any sequence") from error
