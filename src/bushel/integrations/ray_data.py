"""Ray Data: `ray.data.read_datasource(BushelDatasource(bushel.open("train/")))`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel.errors import needed_by

from .arrow import ArrowStream

with needed_by("bushel.integrations.ray_data", "ray[data]"):
    import pyarrow as pa
    from ray.data.block import BlockAccessor, BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

__all__ = ["BushelDatasource"]


class BushelDatasource(Datasource):  # type: ignore[misc] # Ray is an extra, which the checker does not follow
    """A dataset as a source of Ray Data, read by one task for each of some contiguous parts.

    Args:
        dataset: The dataset or view. Its files must be readable on every machine of the cluster.
        fields: The fields to read; default: all.
        decode: Whether rows have decoded values, such as images as arrays; else the values are as
            in an `ArrowStream`, in which images are their stored bytes.
        batch_samples: Number of samples in a block.

    Raises:
        KeyError: A field does not exist.

    Examples:
        >>> import ray
        >>> from bushel.integrations.ray_data import BushelDatasource
        >>> rows = ray.data.read_datasource(BushelDatasource(ds, ["label"]))
        >>> rows.count()
        12
    """

    def __init__(
        self,
        dataset: Dataset,
        fields: Sequence[str] | None = None,
        *,
        decode: bool = True,
        batch_samples: int = 256,
    ) -> None:
        super().__init__()
        self._dataset = dataset if fields is None else dataset.select_fields(fields)
        self._decode, self._batch_samples = decode, batch_samples

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "Bushel"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the size of the stored samples in bytes. Decoded images take more."""
        samples = self._dataset.info.samples
        if samples:
            return self._dataset.size * len(self._dataset) // samples
        return 0

    def get_read_tasks(self, parallelism: int, *limits: Any, **options: Any) -> list[ReadTask]:
        """Return at most `parallelism` tasks. Each reads a contiguous part."""
        parts = max(1, min(parallelism, len(self._dataset)))
        read = _read_decoded if self._decode else _read_stored
        tasks = []
        for number in range(parts):
            part = self._dataset.shard(number, parts)
            facts = {"num_rows": len(part)}
            metadata = BlockMetadata(
                **{field.name: facts.get(field.name) for field in dataclass_fields(BlockMetadata)}
            )
            tasks.append(ReadTask(partial(read, part, self._batch_samples), metadata))
        return tasks


def _read_stored(dataset: Dataset, batch_samples: int) -> Iterator[pa.Table]:
    for batch in ArrowStream(dataset, batch_samples=batch_samples).reader():
        yield pa.Table.from_batches([batch])


def _read_decoded(dataset: Dataset, batch_samples: int) -> Iterator[Any]:
    names = ["__key__", *dataset.spec]
    for first in range(0, len(dataset), batch_samples):
        samples = dataset.read(range(first, min(first + batch_samples, len(dataset))))
        yield BlockAccessor.batch_to_block(
            {name: _column([sample.get(name) for sample in samples]) for name in names}
        )


def _column(values: list[Any]) -> np.ndarray:
    """Return an array of the values: of their own dtype if they are numbers or arrays of one shape, else of objects."""
    kinds = {
        (value.shape, value.dtype.str) if isinstance(value, np.ndarray) else type(value)
        for value in values
    }
    if len(kinds) == 1 and (isinstance(values[0], np.ndarray | int | float | bool)):
        if isinstance(values[0], np.ndarray):
            return np.stack(values)
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column
