"""Batches: stages that put samples together and take them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bushel.compat.webdataset.currying import pipelinefilter
from bushel.compat.webdataset.pytorch import is_tensor

__all__ = ["batched", "combine_values", "default_collation_fn", "dict2tuple", "tuple2dict", "unbatched", "unlisted"]

Collate = Callable[[list[Any]], Any]


def combine_values(b: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """The values of one field: numbers, arrays and tensors of equal shapes become one; others stay a list.

    Raises:
        ValueError: Arrays or tensors are of different shapes.
    """
    first = b[0]
    if isinstance(first, int | float):
        return np.array(list(b)) if combine_scalars else b
    if not (is_tensor(first) or isinstance(first, np.ndarray)):
        return list(b)
    if not combine_tensors:
        return b
    shapes = {tuple(value.shape) for value in b}
    if len(shapes) != 1:
        raise ValueError(f"all shapes must be equal in collation, got {shapes}")
    if isinstance(first, np.ndarray):
        return np.array(list(b)) if first.ndim == 0 else np.stack(b)
    import torch

    return torch.stack(list(b))


def tuple2dict(sample: Any) -> dict[Any, Any]:
    """A tuple as a dict by position; a dict as it is."""
    return sample if isinstance(sample, dict) else dict(enumerate(sample))


def dict2tuple(d: dict[int, Any]) -> tuple[Any, ...]:
    """The reverse."""
    return tuple(d[i] for i in range(1 + max(d)))


def default_collation_fn(samples: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """A batch: a tuple or a dict, as the samples are, of their fields' values.

    Raises:
        ValueError: Samples have different fields, or arrays different shapes.
    """
    rows = [tuple2dict(sample) for sample in samples]
    keys = rows[0].keys()
    if any(row.keys() != keys for row in rows[1:]):
        other = next(row.keys() for row in rows[1:] if row.keys() != keys)
        raise ValueError(f"keys don't match in different samples: {list(keys)} and {list(other)}")
    result = {key: combine_values([row[key] for row in rows], combine_tensors, combine_scalars) for key in keys}
    return dict2tuple(result) if isinstance(samples[0], list | tuple) else result


def _batched(
    data: Iterable[Any],
    batchsize: int = 20,
    collation_fn: Collate | None = default_collation_fn,
    partial: bool = True,
) -> Iterator[Any]:
    """Batches of so many samples.

    Args:
        data: The source.
        batchsize: Samples in a batch.
        collation_fn: Makes a batch of a list; None: the list.
        partial: Whether the last batch may have fewer.
    """
    batch: list[Any] = []
    for sample in data:
        batch.append(sample)
        if len(batch) >= batchsize:
            yield batch if collation_fn is None else collation_fn(batch)
            batch = []
    if batch and partial:
        yield batch if collation_fn is None else collation_fn(batch)


batched = pipelinefilter(_batched)


def _unlisted(data: Iterable[list[Any]]) -> Iterator[Any]:
    """The samples of lists.

    Raises:
        TypeError: What comes is no list.
    """
    for batch in data:
        if not isinstance(batch, list):
            raise TypeError(f"unlisted takes lists, not a {type(batch).__name__}: batches are for unbatched()")
        yield from batch


unlisted = pipelinefilter(_unlisted)


def _unbatched(data: Iterable[Any]) -> Iterator[Any]:
    """The samples of batches.

    Raises:
        ValueError: A batch is neither tuple nor dict, or its fields are not of one length.
    """
    for batch in data:
        if not isinstance(batch, list | tuple | dict):
            raise ValueError(f"unknown sample type: {type(batch)}")  # noqa: TRY004  (what the original raises)
        values = list(batch.values()) if isinstance(batch, dict) else list(batch)
        lengths = {len(value) for value in values}
        if len(lengths) > 1:
            raise ValueError(f"the fields of a batch have {sorted(lengths)} values")
        for i in range(lengths.pop() if lengths else 0):
            row = [value[i] for value in values]
            yield dict(zip(batch, row, strict=True)) if isinstance(batch, dict) else tuple(row)


unbatched = pipelinefilter(_unbatched)
