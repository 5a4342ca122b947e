"""Read the source of a conversion in batches of bounded size: a dataset or a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec
from bushel.codecs.extensions import tar_storage
from bushel.core.dataset.columns import names_in_any
from bushel.core.dataset.dataset import Dataset, Sample
from bushel.core.dataset.inside import whole_positions
from bushel.core.dataset.shards import OpenShard
from bushel.core.dataset.stream import StreamDataset
from bushel.core.index.class_names import Labels, labels_of_fields
from bushel.core.index.value_scan import scanned_in
from bushel.errors import CodecError, SpecError
from bushel.sources.stored import empty_folders_in
from bushel.spec import KEY, Field, parse_spec

__all__ = ["Batch", "Batches", "DatasetBatches", "StreamBatches", "batch_ranges"]

_BYTES = 16 << 20
_SAMPLES = 1024
_LOOK = 1 << 16
"""Number of samples whose lengths are looked up at once."""

Batch = Sequence[tuple[int, Sample]]
"""Positions and stored samples."""


def batch_ranges(first: int, lengths: npt.NDArray[np.int64]) -> Iterator[range]:
    """Yield the batches of consecutive samples: up to 16 MiB or 1024 samples each, and at least one sample.

    Args:
        first: Position of the first sample.
        lengths: int64[n], bytes of each sample.
    """
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _BYTES, side="right"))
        stop = min(max(stop, start + 1), start + _SAMPLES)
        yield range(first + start, first + stop)
        start = stop


class DatasetBatches:
    """Batches of a dataset or view, in order.

    Attributes:
        fields: The fields.
        codecs: Field to the codecs of its stored bytes in the shards of these samples.
        keyed: Whether the samples have keys.
        samples: Number of samples.
        workers: Number of batches that may be read at once.
        folders: Empty folders of a packed folder, or None.
        labels: Names of classes in each shard.
        has_seek_tables: Whether the index has seek tables.
        columns: Names of the columns in the index.
    """

    def __init__(self, dataset: Dataset, workers: int) -> None:
        self._dataset = dataset
        self.fields: dict[str, Field] = parse_spec(dataset.spec)
        self.keyed = dataset.info.keyed
        self.samples: int | None = len(dataset)
        self.workers = workers
        self._own = _shards_of(dataset)
        self.codecs = {name: self._codecs(name) for name in self.fields}
        self.folders = empty_folders_in(dataset)
        self.labels: list[Labels] = [labels_of_fields(shard.labels, self.fields) for shard in dataset.shards]
        self.has_seek_tables = any("seek" in scanned_in(shard.index) for shard in self._own)
        self.columns = names_in_any(dataset.shards)

    def _codecs(self, name: str) -> frozenset[str]:
        indexes = (shard.index for shard in self._own if shard.samples)
        return frozenset(index.columns[name].codec for index in indexes if name in index.columns)

    def refuse_missing(self, names: Sequence[str], advice: str) -> None:
        """Raise `SpecError` for the first sample that lacks one of these fields."""
        for first in range(0, len(self._dataset), _LOOK):
            positions = range(first, min(first + _LOOK, len(self._dataset)))
            lacking = {name: self._dataset.lengths(positions, name) < 0 for name in names}
            worst = min(names, key=lambda name: (not lacking[name].any(), int(lacking[name].argmax())), default=None)
            if worst is not None and lacking[worst].any():
                key = self._dataset.keys[first + int(lacking[worst].argmax())]
                raise SpecError(f"sample {key!r} lacks the field {worst!r}: {advice}")

    def shard_of(self, position: int) -> int:
        """Return the number of the shard that holds a sample."""
        return self._dataset.shard_of(position)

    def batches(self, names: Sequence[str], first: int) -> Iterator[range]:
        """Yield the positions of batches from sample `first` on. Each batch is prefetched when it is yielded."""
        for start in range(first, len(self._dataset), _LOOK):
            positions = range(start, min(start + _LOOK, len(self._dataset)))
            lengths = np.zeros(len(positions), np.int64)
            for name in names:
                lengths += np.maximum(self._dataset.lengths(positions, name), 0)
            for batch in batch_ranges(start, lengths):
                self._dataset.prefetch(batch, names)
                yield batch

    def load(self, batch: range, names: Sequence[str]) -> Batch:
        """Read a batch."""
        return list(zip(batch, self._dataset.read(batch, names, decode=False), strict=True))

    def decode(self, position: int, key: str, name: str, stored: Any) -> Any:
        """Return the value of one field of a sample."""
        return self._dataset.decode_sample({KEY: key, name: stored}, position)[name]


def _shards_of(dataset: Dataset) -> list[OpenShard]:
    """Return the shards that hold samples of a dataset or view. The tables of the others need not be loaded."""
    if len(dataset) == dataset.info.samples:
        return list(dataset.shards)
    first = np.cumsum([0, *(shard.samples for shard in dataset.shards)])
    used = np.zeros(len(dataset.shards), np.bool_)
    for start in range(0, len(dataset), _LOOK):
        positions = whole_positions(dataset, np.arange(start, min(start + _LOOK, len(dataset)), dtype=np.int64))
        used[np.unique(np.searchsorted(first, positions, "right") - 1)] = True
    return [dataset.shards[number] for number in np.flatnonzero(used).tolist()]


class StreamBatches:
    """Batches of a stream, which is read once. Its fields are known from its spec and its first batch of samples.

    The attributes are those of `DatasetBatches`.
    """

    def __init__(self, stream: StreamDataset) -> None:
        self._samples: Iterator[tuple[int, Sample]] = enumerate(stream.stored())
        self._first_batch: Batch = list(_cut(self._samples))
        self.fields: dict[str, Field] = parse_spec(stream.spec)
        self.codecs = {name: frozenset({tar_storage(field.codec)[1]}) for name, field in self.fields.items()}
        self.keyed = True
        self.samples: int | None = None
        self.workers = 1  # one thread reads the stream, so batches come in order
        self.folders: list[str] | None = None
        self.labels: list[Labels] = []
        self.has_seek_tables = False
        self.columns: tuple[str, ...] = ()

    def refuse_missing(self, names: Sequence[str], advice: str) -> None:
        """Raise `SpecError` for the first sample of the first batch that lacks one of these fields."""
        for _, sample in self._first_batch:
            for name in names:
                if name not in sample:
                    raise SpecError(f"sample {sample[KEY]!r} lacks the field {name!r}: {advice}")

    def shard_of(self, position: int) -> int:
        """Return 0. A stream has no shards, and no names of classes."""
        return 0

    def batches(self, names: Sequence[str], first: int) -> Iterator[range]:
        """Yield empty ranges without end, and skip `first` samples. A batch that loads empty is the last one."""
        self._samples = itertools.islice(itertools.chain(self._first_batch, self._samples), first, None)
        self._first_batch = ()
        return (range(number, number) for number in itertools.count())

    def load(self, batch: range, names: Sequence[str]) -> Batch:
        """Read the next batch."""
        samples = []
        for position, sample in _cut(self._samples):
            unknown = next((name for name in sample if name not in self.fields and name != KEY), None)
            if unknown is not None:
                raise SpecError(
                    f"sample {sample[KEY]!r} has the field {unknown!r}, which the first samples lack: name all "
                    "fields when the stream is opened, with bushel.open_stream(source, spec={...})"
                )
            kept = {name: value for name, value in sample.items() if name in names or name == KEY}
            samples.append((position, kept))
        return samples

    def decode(self, position: int, key: str, name: str, stored: Any) -> Any:
        """Return the value of one field of a sample."""
        [codec] = self.codecs[name]
        decode = get_codec(codec).decode
        try:
            return [decode(element) for element in stored] if isinstance(stored, list) else decode(stored)
        except CodecError as error:
            raise CodecError(f"sample {key!r}, field {name!r}: {error}", **{**error.details, "field": name}) from error


def _cut(samples: Iterator[tuple[int, Sample]]) -> Iterator[tuple[int, Sample]]:
    """Yield the next batch of samples."""
    size = 0
    for number, (position, sample) in enumerate(samples, 1):
        yield position, sample
        values = (value if isinstance(value, list) else [value] for name, value in sample.items() if name != KEY)
        size += sum(len(element) for value in values for element in value)
        if size >= _BYTES or number == _SAMPLES:
            break


Batches = DatasetBatches | StreamBatches
