"""Split, merge and reshard datasets with `convert`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bushel._dataset.concat import one_after_another
from bushel._dataset.dataset import Dataset
from bushel._dataset.open import open as open_dataset
from bushel._dataset.stream import StreamDataset
from bushel._runtime.progress import OnProgress, Progress, ShowProgress, callback_of, shows_progress
from bushel._runtime.public import public
from bushel._runtime.shuffle import Shuffle, make_order
from bushel.containers import container_by_suffix
from bushel.errors import UnsupportedError
from bushel.ingest.converting import convert
from bushel.ingest.packing import PackResult
from bushel.ingest.stratify import classes_of, stratified
from bushel.storage import AnyPath, as_path

__all__ = ["merge", "reshard", "share_out", "split", "with_rest"]


@public()
@shows_progress("splitting")
def split(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    shares: Mapping[str, float | None],
    *,
    shuffle: Shuffle = False,
    seed: int = 0,
    stratify: str | None = None,
    container: str | None = None,
    progress: ShowProgress = None,
    **options: Any,
) -> dict[str, PackResult]:
    """Divide a dataset into several, such as one for training and one for validation. Every sample is in one of them.

    Args:
        source: A dataset, or anything that `bushel.open` takes.
        target: A folder. Each new dataset is a folder in it.
        shares: Name of each new dataset to its share of the samples, where the shares add up to 1:
            `{"train": 0.9, "val": 0.1}`; or to its number of samples, where the numbers add up to all samples:
            `{"train": 200, "val": 40}`. None, for one of them, is the rest: `{"train": None, "val": 40}`.
        shuffle: How samples are chosen: False or None takes them in order, the first share first; True or `"exact"`
            chooses at random; or `"blocks"`, or an order object. Each new dataset keeps the order of the source.
        seed: Seed of the random choice. The same seed chooses the same samples.
        stratify: Name of a field of numbers or text, such as `label`. Every class is then divided by `shares`: each
            dataset gets its exact number, rounded down, and the samples left over go to those with the largest
            remainders, to the earlier one if they are equal. Samples without the field are a class. Numbers of samples
            are shares then, so that a dataset may differ from its number by less than one sample for each class.
        container: Container of the new datasets; by default that of the source.
        progress: True for a bar in a terminal or notebook; or a function that is called with a `bushel.Progress` some
            times per second.
        options: See `bushel.convert`.

    Returns:
        Name of each new dataset to its result.

    Raises:
        ValueError: The shares do not add up to 1, or the numbers not to the number of samples.
        KeyError, SpecError: There is no field `stratify`, or its values are neither numbers nor text.

    Examples:
        >>> done = bushel.split("train/", "parts/", {"train": 0.75, "val": 0.25}, shuffle=True)
        >>> done["train"].samples, len(bushel.open("parts/val/"))
        (9, 3)
    """
    dataset = _open(source)
    known = with_rest(len(dataset), shares)
    counts = share_out(len(dataset), known)
    positions = make_order(shuffle, len(dataset), seed).take(0, np.arange(len(dataset), dtype=np.int64))
    if stratify is None:
        ends = np.cumsum(list(counts.values()))[:-1]
        chosen = dict(zip(counts, map(np.sort, np.split(positions, ends)), strict=True))
    else:
        chosen = stratified(classes_of(dataset, stratify), positions, known)
    results: dict[str, PackResult] = {}
    start = 0
    for name, own in chosen.items():
        results[name] = convert(
            dataset[own],
            as_path(target) / name,
            container=container or dataset.info.container,
            progress=_of_whole(
                callback_of(progress), start, sum(each.bytes for each in results.values()), len(dataset)
            ),
            **options,
        )
        start += len(own)
    return results


@public()
@shows_progress("merging")
def merge(
    sources: Iterable[Any],
    target: str | os.PathLike[str] | AnyPath,
    *,
    container: str | None = None,
    progress: ShowProgress = None,
    **options: Any,
) -> PackResult:
    """Write several datasets as one, one after another. `bushel.concat` reads them as one without writing.

    If the datasets number the classes of a field differently, classes are found by their names: those of the first
    dataset keep their numbers, and new ones follow. The numbers of the others are mapped; the other fields keep their
    bytes.

    Args:
        sources: Datasets, or anything that `bushel.open` takes.
        target: See `bushel.convert`.
        container: Container of the new dataset; by default that of the first source.
        progress: True for a bar in a terminal or notebook; or a function that is called with a `bushel.Progress` some
            times per second.
        options: See `bushel.convert`.

    Raises:
        ValueError: There are no sources.

    Examples:
        >>> halves = bushel.split("train/", "halves/", {"a": 0.5, "b": 0.5})
        >>> bushel.merge(["halves/b/", "halves/a/"], "all/").samples
        12
    """
    if isinstance(sources, str | os.PathLike | Dataset):
        raise TypeError("merge takes a list of datasets: bushel.merge([a, b], target)")
    datasets = [_open(source) for source in sources]
    if not datasets:
        raise ValueError("merge needs at least one dataset: bushel.merge([a, b], target)")
    kind = container or _container(target, datasets[0])
    return convert(one_after_another(datasets), target, container=kind, progress=progress, **options)


def reshard(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    **options: Any,
) -> PackResult:
    """Write a dataset in the same container, in shards of another size; without a size, in one shard.

    Args:
        source: A dataset, or anything that `bushel.open` takes.
        target: See `bushel.convert`.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        options: See `bushel.convert`.
    """
    dataset = _open(source)
    kind = dataset.info.container
    return convert(dataset, target, container=kind, shard_samples=shard_samples, shard_bytes=shard_bytes, **options)


def with_rest(samples: int, shares: Mapping[str, float | None]) -> dict[str, float]:
    """Return the shares, with a number for the one that is None: what the others leave.

    Raises:
        ValueError: Several are None, there are none at all, or the others leave less than nothing.
    """
    known = {name: share for name, share in shares.items() if share is not None}
    if not shares or len(shares) - len(known) > 1:
        raise ValueError(
            f"expected shares such as {{'train': 0.9, 'val': 0.1}}, at most one of them None: {dict(shares)}"
        )
    whole = samples if known and all(isinstance(share, int) for share in known.values()) else 1
    return {name: whole - sum(known.values()) if share is None else share for name, share in shares.items()}


def share_out(samples: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return the number of samples of each share. Each is within one of its exact value, and all samples are used.

    Raises:
        ValueError: The shares do not add up to 1, or numbers of samples not to `samples`.
    """
    total = sum(shares.values())
    if all(isinstance(share, int) for share in shares.values()) and total != 1:
        if min(shares.values()) < 0 or total != samples:
            raise ValueError(
                f"numbers of samples must be 0 or more and add up to the {samples} samples of the dataset, not to "
                f"{total}: {dict(shares)}. One of them can be the rest"
            )
        return {name: int(share) for name, share in shares.items()}
    if any(not 0 <= share <= 1 for share in shares.values()) or abs(total - 1) > 1e-6:
        raise ValueError(
            f"shares must lie between 0 and 1 and add up to 1, not to {total}: {dict(shares)}. "
            "For numbers of samples, give whole numbers only"
        )
    whole = sum(Fraction(share) for share in shares.values())
    counts, given, due = {}, 0, Fraction(0)
    for name, share in shares.items():
        due += Fraction(share) * samples / whole
        counts[name] = round(due) - given
        given += counts[name]
    return counts


def _of_whole(callback: OnProgress | None, samples: int, size: int, total: int) -> OnProgress | None:
    """Return a callback that adds the earlier samples and bytes of the whole call to the progress of one dataset."""
    if callback is None:
        return None

    def report(progress: Progress) -> None:
        done = samples + progress.done
        callback(replace(progress, done=done, total=total, samples=done, bytes=size + progress.bytes))

    return report


def _open(source: Any) -> Dataset:
    if isinstance(source, StreamDataset):
        raise UnsupportedError("a stream cannot be split or merged: write it as a dataset first, with bushel.convert")
    return source if isinstance(source, Dataset) else open_dataset(source, verify=True, damaged="raise")


def _container(target: str | os.PathLike[str] | AnyPath, dataset: Dataset) -> str | None:
    """Return the container of a merged dataset; None if the target's suffix implies it."""
    return None if container_by_suffix(as_path(target).name) is not None else dataset.info.container
