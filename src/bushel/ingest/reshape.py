"""Datasets cut apart, put together and sharded anew: `convert`, with the samples chosen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from bushel.core.dataset.concat import concat
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.open import open as open_dataset
from bushel.core.dataset.stream import StreamDataset
from bushel.core.order import Exact
from bushel.errors import UnsupportedError
from bushel.ingest.conversion import Conversion, convert
from bushel.storage import AnyPath, as_path

__all__ = ["merge", "reshard", "share_out", "split"]


def split(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    shares: Mapping[str, float],
    *,
    shuffle: int | None = 0,
    container: str | None = None,
    **options: Any,
) -> dict[str, Conversion]:
    """Divide a dataset into several, such as one for training and one for validation, of which every sample is in one.

    Args:
        source: What `bushel.open` takes, or a dataset.
        target: A folder; each dataset becomes a folder in it.
        shares: Names of the datasets to shares of the samples, which add up to 1: `{"train": 0.9, "val": 0.1}`.
        shuffle: Seed that chooses the samples; None takes them in order, the first share first. In each dataset
            they keep their order.
        container: Of the new datasets; by default that of the source.
        options: As for `bushel.convert`.

    Returns:
        What was done, by name.

    Raises:
        ValueError: The shares do not add up to 1.
    """
    dataset = _opened(source)
    counts = share_out(len(dataset), shares)
    positions = np.arange(len(dataset), dtype=np.int64)
    if shuffle is not None:
        positions = Exact(len(dataset), shuffle).take(0, positions)
    done, start = {}, 0
    for name, count in counts.items():
        chosen = dataset[np.sort(positions[start : start + count])]
        done[name] = convert(chosen, as_path(target) / name, container=container or dataset.info.container, **options)
        start += count
    return done


def merge(
    sources: Iterable[Any], target: str | os.PathLike[str] | AnyPath, *, container: str | None = None, **options: Any
) -> Conversion:
    """Write several datasets as one, one after another. To only read them so, `bushel.concat` needs no writing.

    Args:
        sources: What `bushel.open` takes, or datasets.
        target: As for `bushel.convert`.
        container: Of the new dataset; by default that of the first source.
        options: As for `bushel.convert`.
    """
    datasets = [_opened(source) for source in sources]
    joined = concat(datasets)
    return convert(joined, target, container=container or _container(target, datasets[0]), **options)


def reshard(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    **options: Any,
) -> Conversion:
    """Write a dataset in its own container, in shards of another size; without a size, in one.

    Args:
        source: What `bushel.open` takes, or a dataset.
        target: As for `bushel.convert`.
        shard_samples: As for `bushel.Writer`.
        shard_bytes: As for `bushel.Writer`.
        options: As for `bushel.convert`.
    """
    dataset = _opened(source)
    kind = dataset.info.container
    return convert(dataset, target, container=kind, shard_samples=shard_samples, shard_bytes=shard_bytes, **options)


def share_out(samples: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide a number of samples so that each share is right to within one, and none is lost.

    Raises:
        ValueError: The shares do not add up to 1.
    """
    if any(share < 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"shares lie between 0 and 1 and add up to 1, not to {sum(shares.values())}: {dict(shares)}")
    whole = sum(Fraction(share) for share in shares.values())
    counts, given, due = {}, 0, Fraction(0)
    for name, share in shares.items():
        due += Fraction(share) * samples / whole
        counts[name] = round(due) - given
        given += counts[name]
    return counts


def _opened(source: Any) -> Dataset:
    if isinstance(source, StreamDataset):
        raise UnsupportedError("a stream cannot be split or merged: write it as a dataset first, with bushel.convert")
    return source if isinstance(source, Dataset) else open_dataset(source, verify=True)


def _container(target: str | os.PathLike[str] | AnyPath, dataset: Dataset) -> str | None:
    """None where the target's suffix tells."""
    return None if as_path(target).name.endswith((".tar", ".ffr", ".rec")) else dataset.info.container
