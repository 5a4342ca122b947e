"""`Mapped`: a dataset whose samples pass through a function when they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.selection import Given, Mask, Sample
from bushel._runtime.arrays import chunks
from bushel._runtime.order import Shuffle
from bushel._runtime.public import public
from bushel.errors import UnsupportedError
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel._index.key_lookup import KeyView

_CHUNK = 64


@public("bushel.datasets")
class Mapped(Struct, frozen=True, eq=False):
    """A lazy view of a dataset: every sample that is read passes through a function. `Dataset.map` makes it.

    A `Loader`, a `MapView` and `pack` take it as a dataset. Positions, keys, order and seeds stay
    the same.

    Attributes:
        dataset: The `Dataset`, or a view of it.
        function: Takes a sample, a dict with `__key__`, and returns one.
        needs: The fields that the function gets, as `ds[position, fields]` takes them; None for
            all.
        types: Types of fields that the function adds or changes.
        kept: The fields of its results that samples have; None for all.
        decodes: Whether the function gets decoded values. False gives it stored bytes.

    Examples:
        >>> small = ds.map(lambda sample: {"label": sample["label"] + 10}, ["label"])
        >>> small[0], len(small)
        ({'__key__': 'cat/0', 'label': 10}, 12)
        >>> next(iter(bushel.Loader(small, 4)))["label"]
        array([10, 10, 10, 10])
    """

    dataset: Any
    function: Callable[[Sample], Sample]
    needs: Mask = None
    types: Mapping[str, str] | None = None
    kept: tuple[str, ...] | None = None
    decodes: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"map() takes a function of a sample, not {self.function!r}")

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"<bushel.datasets.Mapped: {name} of {self.dataset!r}>"

    @property
    def spec(self) -> dict[str, str]:
        """The fields that the function gets, with the types that were given for its results."""
        if self.needs is None:
            needed = self.dataset.spec
        else:
            needed = self.dataset.select_fields(self.needs).spec
        types = {**needed, **(self.types or {})}
        if self.kept is None:
            return types
        return {name: types[name] for name in self.kept if name in types}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the dataset: a state belongs to the samples and their order, not to the function."""
        return str(self.dataset.fingerprint)

    @property
    def keys(self) -> KeyView:
        """The keys in order."""
        keys: KeyView = self.dataset.keys
        return keys

    def __contains__(self, key: object) -> bool:
        return key in self.dataset

    def position(self, key: str) -> int:
        """Return the position of a key."""
        return int(self.dataset.position(key))

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field; None for one that the function adds."""
        return (
            self.dataset.location(position, field) if field in self.dataset.spec else (None, None)
        )

    def __getitem__(self, item: Any) -> Any:
        """Return a sample by position or key, optionally with its fields, or a view of several."""
        place, fields = item, None
        if isinstance(item, tuple) and len(item) == 2:
            place, fields = item
        if isinstance(place, str):
            place = self.position(place)
        if hasattr(place, "__index__") and getattr(place, "ndim", 0) == 0:
            return self.read([place], fields)[0]
        # which refuses the fields of several samples
        return replace(self, dataset=self.dataset[item])

    def __iter__(self) -> Iterator[Sample]:
        for positions in chunks(range(len(self)), _CHUNK):
            yield from self.read(positions)

    def where(self, condition: str) -> Mapped:
        """Return the samples for which a condition on columns of the dataset is true, as `Dataset.where` takes it."""
        return replace(self, dataset=self.dataset.where(condition))

    @property
    def columns(self) -> tuple[str, ...]:
        """No names: the function may change every value, so no column of the index is one of its results."""
        return ()

    def column(self, name: str) -> NoReturn:
        """Refuse: a column of the index has the values before the function.

        Raises:
            UnsupportedError: Always. It says where these values are.
        """
        raise UnsupportedError(
            f"the function of ds.map may change {name!r}, and the index "
            f"has the values before it: view.dataset.column({name!r})"
        )

    def split(
        self,
        shares: Mapping[str, float | None] | None = None,
        /,
        *,
        shuffle: Shuffle = True,
        seed: int = 0,
        stratify: str | None = None,
        **named: float | None,
    ) -> dict[str, Mapped]:
        """Divide the samples into several views, as `Dataset.split` does. `stratify` reads the function's results."""
        from bushel._dataset.read.splitting import divided

        chosen = divided(self, shares, named, shuffle=shuffle, seed=seed, stratify=stratify)
        return {name: self[positions] for name, positions in chosen.items()}

    def select_fields(self, names: Iterable[str]) -> Mapped:
        """Return a view whose samples have only these fields of the function's results: a list, or a spec."""
        if isinstance(names, Mapping):
            names = list(names)
        return replace(self, kept=listed(names))

    def map(
        self, function: Callable[[Sample], Sample], *, spec: Mapping[str, str] | None = None
    ) -> Mapped:
        """Return a view in which another function gets the results of this one."""
        types = {**(self.types or {}), **(spec or {})}
        composed = partial(_both, self._result, function)
        return replace(self, function=composed, types=types, kept=None)

    def read(self, positions: Given, fields: Mask = None, *, decode: bool = True) -> list[Sample]:
        """Read many samples. With `decode=False`, these are the stored bytes that the function's samples are made of.

        Raises:
            TypeError: The function returned something that is not a dict; or `fields` is not a list
                of names.
            KeyError: A sample that the function returned lacks one of the fields.
        """
        if not decode:
            stored: list[Sample] = self.dataset.read(positions, self.needs, decode=False)
            return stored
        if fields is not None:
            return replace(self, function=self._result, kept=listed(fields)).read(positions)
        samples = self.dataset.read(positions, self.needs, decode=self.decodes)
        return list(map(self._made, samples))

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Given,
        encoded: Collection[str] = (),
        fields: Mask = None,
    ) -> list[Sample]:
        """Decode samples that `read(..., decode=False)` returned, and pass them through the function."""
        if self.decodes:
            stored = self.dataset.decode_samples(stored, positions, (), self.needs)
        return list(map(self._made, stored))

    def prefetch(self, positions: Given, fields: Mask = None) -> None:
        """Do nothing: files are read when samples are."""

    def _made(self, sample: Sample) -> Sample:
        try:
            return self._result(sample)
        except Exception as error:
            error.add_note(f"in the function of ds.map, for sample {sample[KEY]!r}")
            raise

    def _result(self, sample: Sample) -> Sample:
        """Return the fields that samples have of what the function returns."""
        key, result = sample[KEY], self.function(sample)
        if not isinstance(result, dict):
            raise TypeError(
                f"it returned {result!r:.60}: return the sample, a dict, changed or not"
            )
        result = {KEY: key} | result | {KEY: key}
        if self.kept is None:
            return result
        if missing := [name for name in self.kept if name not in result]:
            fields = ", ".join(name for name in result if name != KEY)
            raise KeyError(f"it returned no field {missing[0]!r}, but {fields}")
        return {KEY: key, **{name: result[name] for name in self.kept}}


def listed(fields: Iterable[str]) -> tuple[str, ...]:
    """Return names of fields. Raise TypeError if they are not a list, such as a dict of elements."""
    if isinstance(fields, str | Mapping) or not isinstance(fields, Iterable):
        raise TypeError(
            f"fields={fields!r}: give a list of names; elements of fields are read by views, as in "
            "ds.windows(...).map(function), or by ds.map(function, {field: slice(0, 8)})"
        )
    return tuple(fields)


def _both(
    first: Callable[[Sample], Sample], second: Callable[[Sample], Sample], sample: Sample
) -> Sample:
    """Return the result of two functions, one after the other."""
    return second(first(sample))
