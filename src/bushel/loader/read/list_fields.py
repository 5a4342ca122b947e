"""Fields of batches that are read as lists and collated, without a dict for each sample: texts, bytes and the like."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._index.read_plan import ReadPlan
from bushel._runtime.arrays import I64, Array, total_of
from bushel.codecs import get_codec, is_light
from bushel.kernels import cold_reads
from bushel.loader.values.collate import FieldCollate, collate_values

from .batch_arrays import BufferPool, is_large


class FieldList(NamedTuple):
    """The values of a field of some batches, and the stored bytes of each; None if they are in the index."""

    values: Sequence[Any]
    sizes: Sequence[int] | None = None

    def size(self, start: int, stop: int) -> int:
        """Return the number of stored bytes that were read of some of the samples."""
        if self.sizes is None:
            return 0
        return sum(self.sizes[start:stop])


class ListFields:
    """Makes fields of a dataset in local files, some batches at a time. Threads share it.

    Attributes:
        names: The fields that can be made.
        waited: Whether values of the last batch were not in memory.
    """

    def __init__(
        self,
        dataset: Dataset,
        names: Collection[str],
        rules: Mapping[str, FieldCollate],
        pool: BufferPool,
        *,
        decode: bool,
    ) -> None:
        self._reader, self._selection = dataset.reader, dataset.selection
        self.names = frozenset(names)
        self._rules, self._pool, self._decode = rules, pool, decode
        self.waited = True

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
            The values by field; None if a sample lacks one of them, or has a sequence there.

        Raises:
            Exception: One of `DAMAGE`: a sample cannot be read or decoded.
        """
        before = cold_reads()
        lists = self._read(self._selection.absolute(samples), names, clock)
        self.waited = cold_reads() > before
        return lists

    def _read(
        self, positions: I64, names: Sequence[str], clock: Callable[[Mapping[str, float]], None]
    ) -> dict[str, FieldList] | None:
        groups, unknown = self._reader.readable(positions, names), list(names)
        lists: dict[str, FieldList] = {}
        if self._decode:
            unknown = list(self._reader.unknown(groups, dict.fromkeys(names)))
        if len(unknown) < len(names):
            from bushel._dataset.read.known_values import known_values

            in_index = [name for name in names if name not in unknown]
            columns = known_values(groups, len(positions), in_index)
            if any(None in values for values in columns.values()):
                return None
            lists = {name: FieldList(values) for name, values in columns.items()}
        if not unknown:
            return lists
        plan = self._reader.plan(groups, len(positions), dict.fromkeys(unknown), parts=False)
        if not _is_whole(plan):
            return None
        stored = cast("list[bytes]", self._reader.stored(plan, positions))
        started = perf_counter()
        for field in plan.fields:
            values = stored[field.first : field.first + len(positions)]
            sizes = list(map(len, values))
            lists[field.name] = FieldList(self._decoded(values, field.codecs), sizes)
        decoding = perf_counter() - started
        clock({"decode": decoding, "storage": -decoding})
        return lists

    def _decoded(self, values: list[bytes], codecs: str | list[str]) -> list[Any]:
        """Return stored values decoded, if they are to be."""
        if not self._decode:
            return values
        if isinstance(codecs, list):
            pairs = zip(codecs, values, strict=True)
            return [get_codec(codec).decode(value) for codec, value in pairs]
        decode: Callable[[Any], Any] = get_codec(codecs).decode
        # stored bytes of the codec `bytes` are the values
        if decode is bytes:
            return values
        return list(map(decode, values))

    def size(self, samples: I64, names: Sequence[str]) -> int:
        """Return the number of stored bytes of plain fields of samples."""
        positions, requested = self._selection.absolute(samples), dict.fromkeys(names)
        groups = self._reader.groups(positions, names)
        plan = self._reader.plan(groups, len(positions), requested, parts=False)
        return sum(total_of(batch.extents.length) for batch in plan.batches)

    def prefetch(self, samples: I64, names: Sequence[str]) -> None:
        """Ask the system to load what a later `read` needs."""
        positions = self._selection.absolute(samples)
        self._reader.prefetch(positions, dict.fromkeys(names), decode=self._decode)

    def collated(self, name: str, values: list[Any], samples: I64) -> Any:
        """Collate the values of a field of a batch.

        Raises:
            SpecError: They do not collate.
        """
        rule = self._rules.get(name)
        if rule in (None, "stack") and (out := self._room(values)) is not None:
            return np.stack(values, out=out)

        def key() -> str:
            return self._reader.key(int(self._selection.absolute(samples[:1])[0]))

        return collate_values(name, values, rule, key)

    def _room(self, values: Sequence[Any]) -> Array | None:
        """Return memory for arrays that are stacked; None if they are small, or differ."""
        first = values[0]
        if not is_large(first):
            return None
        form = first.shape, first.dtype
        if not all(
            type(value) is np.ndarray and (value.shape, value.dtype) == form for value in values
        ):
            return None
        return self._pool.array((len(values), *first.shape), first.dtype.newbyteorder("="))


def _is_whole(plan: ReadPlan) -> bool:
    """Return whether all samples have all fields of a plan, and no field is a sequence."""
    plain = all(field.counts is None for field in plan.fields)
    return plain and not any((batch.extents.length < 0).any() for batch in plan.batches)


def list_fields(
    dataset: Any,
    names: Collection[str],
    rules: Mapping[str, FieldCollate],
    pool: BufferPool,
    *,
    decode: bool,
) -> ListFields | None:
    """Return the fields that are made without samples, apart from numbers; None without such fields.

    They are fields that `gathers` names, of a dataset in local files: all if they stay stored
    bytes, otherwise those whose values take less time to decode than to pass from thread to thread.
    """
    if names and decode:
        codecs = dataset.selection.fields
        names = [name for name in names if is_light(codecs[name].codec)]
    if not names or dataset.remote:
        return None
    return ListFields(dataset, names, rules, pool, decode=decode)
