"""Numbers of joined datasets: readers of several of them, as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bushel._dataset.read.shards import kinds, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_of
from bushel._runtime.arrays import I64, Array

from .batch_reader import NumberReader
from .number_field import NumberField, Rooms


def number_reader(dataset: Dataset, fields: Sequence[NumberField]) -> NumberReader:
    """Return a reader of fields of numbers, of those that `gathers` names."""
    divisions = [union_of_fields(kinds(shards)) for shards in reader_of(dataset).divisions]
    together: dict[tuple[bool, ...], list[NumberField]] = {}
    for field in fields:
        together.setdefault(tuple(field.name in names for names in divisions), []).append(field)
    if len(together) < 2:
        return NumberReader(dataset, fields)
    return _JoinedNumbers(
        dataset, [NumberReader(dataset, number_fields) for number_fields in together.values()]
    )


class _JoinedNumbers(NumberReader):
    """Gathers fields of several datasets, as `NumberReader` gathers fields of one."""

    def __init__(self, dataset: Dataset, readers: Sequence[NumberReader]) -> None:
        super().__init__(dataset, ())
        self._readers = readers
        self.fields = tuple(field for reader in readers for field in reader.fields)
        self._own = [(reader, number) for reader in readers for number in range(len(reader.fields))]

    @property
    def waited(self) -> bool:
        """Whether values of the last batch were not in memory."""
        return any(reader.waited for reader in self._readers)

    @waited.setter
    def waited(self, value: bool) -> None:
        """The readers decide that."""

    def without(self, names: Collection[str]) -> NumberReader:
        """Return a reader of the other fields."""
        return _JoinedNumbers(self._dataset, [reader.without(names) for reader in self._readers])

    def gather(self, samples: I64, arrays: Sequence[Sequence[Array] | None]) -> list[I64 | None]:
        """Gather the values of samples, of all fields that are not ragged."""
        wrong_places: list[I64 | None] = []
        for reader in self._readers:
            wrong_places += reader.gather(
                samples, arrays[len(wrong_places) : len(wrong_places) + len(reader.fields)]
            )
        return wrong_places

    def lengths(self, number: int, samples: I64) -> I64 | None:
        """Return the lengths of the values of a ragged field along their first axis."""
        reader, number_of_field = self._own[number]
        return reader.lengths(number_of_field, samples)

    def gather_rows(self, number: int, samples: I64, rooms: Rooms) -> bool:
        """Gather the values of a ragged field into rooms of one array."""
        reader, number_of_field = self._own[number]
        return reader.gather_rows(number_of_field, samples, rooms)

    def prefetch(self, samples: I64) -> None:
        """Ask the system to load what a later `gather` needs."""
        for reader in self._readers:
            reader.prefetch(samples)
