"""Datasets one after another, for mixtures. Some are views through a function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._dataset.views.concat import one_after_another
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.mapped import Mapped
from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct
from bushel.errors import FormatError
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel._dataset.read.reader import Sample
    from bushel._index.key_lookup import KeyView


class MappedParts(Struct, frozen=True, eq=False):
    """Datasets one after another. Each sample passes through the function of its own.

    Attributes:
        whole: The datasets without their functions, as one: keys, order and fingerprint are its own.
        parts: The datasets.
    """

    whole: Dataset
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def spec(self) -> dict[str, str]:
        """The fields of all datasets, each with the type that the first dataset gives it."""
        found: dict[str, str] = {}
        for part in self.parts:
            for name, kind in part.spec.items():
                if found.setdefault(name, kind).endswith("[]") != kind.endswith("[]"):
                    raise FormatError(f"field {name!r} is a sequence in one dataset and plain in another")
        return found

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the datasets without their functions."""
        return self.whole.fingerprint

    @property
    def keys(self) -> KeyView:
        """The keys by position."""
        return self.whole.keys

    def position(self, key: str) -> int:
        """Return the position of a key."""
        return self.whole.position(key)

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field; None for one that a function adds."""
        [(part, own, _)] = self._divided([position])
        return part.location(int(own[0]), field) if field in part.spec else (None, None)

    def select_fields(self, names: Iterable[str]) -> MappedParts:
        """Return the datasets with these fields only. A dataset without a function may lack some of them."""
        wanted = list(names)
        chosen = (
            part.select_fields([name for name in wanted if not isinstance(part, Dataset) or name in part.spec])
            for part in self.parts
        )
        return replace(self, parts=tuple(chosen))

    def read(self, positions: Any, fields: Any = None, *, decode: bool = True) -> list[Sample]:
        """Read samples, as their datasets do."""
        found: list[Sample] = [{}] * len(positions)
        for part, own, places in self._divided(positions):
            names = None if fields is None else [name for name in fields if name in part.spec]
            for place, sample in zip(places.tolist(), part.read(own, names, decode=decode), strict=True):
                found[place] = {**sample, KEY: self.keys[int(positions[place])]}
        return found

    def decode_samples(
        self, stored: Sequence[Sample], positions: Any, encoded: Collection[str] = (), fields: Any = None
    ) -> list[Sample]:
        """Decode samples that `read(decode=False)` returned. Images of datasets without functions may stay stored."""
        found = list(stored)
        for part, own, places in self._divided(positions):
            given = [stored[place] for place in places.tolist()]
            for place, sample in zip(places.tolist(), part.decode_samples(given, own, encoded), strict=True):
                found[place] = sample
        return found

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Announce samples that will be read soon to the storage."""
        for part, own, _ in self._divided(positions):
            part.prefetch(own, None if fields is None else [name for name in fields if name in part.spec])

    def _divided(self, positions: Any) -> Iterator[tuple[Part, I64, I64]]:
        """Yield the datasets of some positions, the positions in them, and their places in the argument."""
        given = np.asarray(positions, np.int64)
        starts = np.array([0, *accumulate(map(len, self.parts))], np.int64)
        numbers = np.searchsorted(starts, given, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            yield self.parts[number], given[places] - starts[number], places


Part = Dataset | Mapped | MappedParts


def parts_of(parts: Sequence[Part]) -> Dataset | MappedParts:
    """Return datasets one after another: as one dataset if none of them is a view through a function."""
    plain = [part.dataset if isinstance(part, Mapped) else part for part in parts]
    whole = one_after_another([part.whole if isinstance(part, MappedParts) else part for part in plain])
    return MappedParts(whole, tuple(parts)) if any(not isinstance(part, Dataset) for part in parts) else whole


def indexed(dataset: object) -> Dataset | None:
    """Return the dataset whose index has the columns of a dataset or view, also one through functions; None if none."""
    if isinstance(dataset, MappedParts):
        return dataset.whole
    own = dataset.dataset if isinstance(dataset, Mapped) else dataset
    return own if isinstance(own, Dataset) else None


def chosen_fields(dataset: Mapped | MappedParts, fields: Any, *, decode: bool) -> Mapped | MappedParts:
    """Return a view through functions with the fields that a loader is to give.

    Raises:
        TypeError: Elements of a field are wanted, or `fields` is a single name.
        ValueError: Samples are not to be decoded.
    """
    if not decode:
        raise ValueError(
            "decode=False: what the function of ds.map returns is not stored; ds.map(function, decode=False) gives the "
            "function stored bytes"
        )
    if fields is None:
        return dataset
    if isinstance(fields, str | Mapping):
        raise TypeError(
            f"fields={fields!r}: give a list of names; elements of fields are read by views, as in "
            f"ds.windows(...).map(function), or by ds.map(function, {{field: slice(0, 8)}})"
        )
    return dataset.select_fields(fields)
