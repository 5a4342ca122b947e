"""Fields of batches that are read as lists and collated, without a dict for each sample: texts, bytes and the like."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.read.field_lists import field_lists, stored_size
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_and_selection
from bushel._runtime.arrays import I64
from bushel.codecs import is_light
from bushel.errors import BushelError, CodecError
from bushel.kernels import cold_reads
from bushel.loader.read.batch_arrays import BufferPool, is_large
from bushel.loader.read.batch_reader import NumberReader, gathers
from bushel.loader.values.collate import FieldCollate, collate_values

if TYPE_CHECKING:
    from bushel._dataset.read.field_lists import FieldList


class ListReader:
    """Reads fields of a dataset in local files as lists. Threads share it.

    Attributes:
        dataset: The dataset.
        names: The fields that can be read as lists: all if they stay stored bytes, otherwise the
            fields whose values take less time to decode than to pass from thread to thread.
        waited: Whether values of the last batch were not in memory.
    """

    def __init__(self, dataset: Dataset, fields: Sequence[str], *, decode: bool) -> None:
        self.dataset = dataset
        self._reader, self._selection = reader_and_selection(dataset)
        self._decode = decode
        own = self._selection.fields
        self.names = frozenset(name for name in fields if not decode or is_light(own[name].codec))
        self.waited = True

    def read(self, samples: I64, names: Sequence[str]) -> dict[str, FieldList] | None:
        """Read fields of samples.

        Args:
            samples: int64[n], positions in the dataset.
            names: The fields.

        Returns:
            The values by field; None if they have to be read in the ordinary way, which also
            reports errors.
        """
        before = cold_reads()
        with suppress(BushelError, OSError, KeyError):
            found = field_lists(
                self._reader, self._selection.absolute(samples), names, decode=self._decode
            )
            self.waited = cold_reads() > before
            return found
        return None

    def size(self, samples: I64, names: Sequence[str]) -> int:
        """Return the number of stored bytes of fields of samples; 0 if the index has no place of them."""
        with suppress(BushelError, OSError, KeyError):
            return stored_size(self._reader, self._selection.absolute(samples), names)
        return 0

    def keys(self, samples: I64) -> list[str]:
        """Return the keys of samples."""
        return self._reader.keys(self._selection.absolute(samples))

    def prefetch(self, samples: I64, names: Sequence[str]) -> None:
        """Ask the system to load what a later `read` needs."""
        with suppress(BushelError, OSError, KeyError):  # raised again when it is read
            wanted = dict.fromkeys(names)
            self._reader.prefetch(self._selection.absolute(samples), wanted, decode=self._decode)


_TRIES = 4  # reads that may fail before fields are read in the ordinary way
_POOLED = 1 << 18  # smaller arrays come from the C library, whose memory is in use already


class ListedFields:
    """Makes the fields of some batches at a time. Threads share it.

    Samples that it cannot make are left to the ordinary way, which reports their errors.

    Attributes:
        lists: Reads the fields.
    """

    def __init__(
        self, lists: ListReader, rules: Mapping[str, FieldCollate], pool: BufferPool
    ) -> None:
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
            clock: Adds up seconds; the caller counts the seconds of this call as time of the
                storage.

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
        if not all(
            type(value) is np.ndarray and (value.shape, value.dtype) == form for value in values
        ):
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
    """Return the fields without transforms of a dataset in local files that can be read as lists; None if none can."""
    names = [name for name in gathers(dataset, fields) if name not in transformed]
    if not isinstance(dataset, Dataset) or dataset.remote or not names:
        return None
    lists = ListReader(dataset, names, decode=decode)
    return ListedFields(lists, rules, pool) if lists.names else None
