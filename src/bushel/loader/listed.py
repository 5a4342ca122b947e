"""Fields of batches that are read as lists and collated, without a dict for each sample: texts, bytes and the like."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.dataset import Dataset
from bushel._runtime.arrays import I64
from bushel.errors import CodecError
from bushel.loader.batch_arrays import BufferPool, is_large
from bushel.loader.batch_reader import NumberReader, gathers
from bushel.loader.collate import FieldCollate, collate_values
from bushel.loader.list_reader import ListReader

if TYPE_CHECKING:
    from bushel._reader.field_lists import FieldList

__all__ = ["ListedFields", "listed_fields"]

_TRIES = 4  # reads that may fail before fields are read in the ordinary way
_POOLED = 1 << 18  # smaller arrays come from the C library, whose memory is in use already


class ListedFields:
    """Makes the fields of some batches at a time. Threads share it.

    Samples that it cannot make are left to the ordinary way, which reports their errors.

    Args:
        lists: Reads the fields.
        rules: The rules by which fields are collated.
        pool: The memory of large arrays.

    Attributes:
        lists: Reads the fields.
    """

    def __init__(self, lists: ListReader, rules: Mapping[str, FieldCollate], pool: BufferPool) -> None:
        self.lists = lists
        self._rules, self._pool = rules, pool
        self._made, self._failed = 0, 0

    @property
    def names(self) -> frozenset[str]:
        """The fields that can be made: none if nearly all reads have failed."""
        return self.lists.names if self._failed <= max(_TRIES, self._made) else frozenset()

    @property
    def numbers(self) -> NumberReader:
        """A reader of numbers of the same dataset, for no fields."""
        return NumberReader(self.lists.dataset, ())

    def read(
        self, samples: I64, names: Sequence[str], clock: Callable[[Mapping[str, float]], None]
    ) -> dict[str, FieldList] | None:
        """Read and decode fields of samples.

        Args:
            samples: int64[n], positions in the dataset.
            names: The fields.
            clock: Adds up seconds; the caller counts the seconds of this call as time of the storage.

        Returns:
            The decoded values by field; None if a sample cannot be read.
        """
        if (found := self.lists.read(samples, names)) is None:
            self._failed += 1
            return None
        started = perf_counter()
        try:
            decoded = {name: found[name].decoded() for name in names}
        except (CodecError, ValueError, TypeError):
            self._failed += 1
            return None
        self._made += 1
        decoding = perf_counter() - started
        clock({"decode": decoding, "storage": -decoding})
        return decoded

    def collated(self, name: str, values: list[Any], samples: I64) -> Any:
        """Collate the values of a field of a batch.

        Raises:
            SpecError: They do not collate.
        """
        rule = self._rules.get(name)
        if rule in (None, "stack") and (out := self._room(values)) is not None:
            return np.stack(values, out=out)
        return collate_values(name, values, rule, lambda: self.lists.keys(samples[:1])[0])

    def _room(self, values: Sequence[Any]) -> npt.NDArray[Any] | None:
        """Return memory for arrays that are stacked; None if they are small, or differ."""
        first = values[0]
        if not is_large(first) or len(values) * first.nbytes < _POOLED:
            return None
        form = first.shape, first.dtype
        if not all(type(value) is np.ndarray and (value.shape, value.dtype) == form for value in values):
            return None
        return self._pool.array((len(values), *first.shape), first.dtype.newbyteorder("="))


def listed_fields(
    dataset: object,
    fields: Any,
    rules: Mapping[str, FieldCollate],
    transformed: Collection[str],
    pool: BufferPool,
    *,
    decode: bool,
) -> ListedFields | None:
    """Return the fields without transforms of a dataset in local files that can be read as lists; None if none can.

    Args:
        dataset: The dataset of the loader.
        fields: Its argument `fields=`.
        rules: The rules by which fields are collated.
        transformed: The fields with transforms.
        pool: The memory of large arrays.
        decode: Whether values are decoded.
    """
    names = [name for name in gathers(dataset, fields) if name not in transformed]
    if not isinstance(dataset, Dataset) or dataset.remote or not names:
        return None
    lists = ListReader(dataset, names, decode=decode)
    return ListedFields(lists, rules, pool) if lists.names else None
