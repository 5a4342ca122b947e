"""Split and merge datasets with `convert`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bushel._dataset.open.completeness import marker_path
from bushel._dataset.open.locking import lock_target
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.read.splitting import divided
from bushel._dataset.views.concat import one_after_another
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.mapped import Mapped
from bushel._dataset.views.stream import StreamDataset
from bushel._index.sidecar import find_manifest
from bushel._runtime.order import Shuffle
from bushel._runtime.progress import OnProgress, Progress, ShowProgress, callback_of, user_call
from bushel._runtime.public import public
from bushel.containers import container_by_suffix
from bushel.errors import FormatError, UnsupportedError
from bushel.storage import AnyLocation, AnySource, as_path, below

from .pack_job import PackResult
from .packing import convert


@public()
@user_call("splitting")
def split(
    source: Dataset | Mapped | AnySource,
    target: AnyLocation,
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
        source: A dataset, a view such as `ds.map(...)`, or anything that `bushel.open` takes.
        target: A folder. Each new dataset is a folder in it.
        shares: Name of each new dataset to its share of the samples, where the shares add up to 1:
            `{"train": 0.9, "val": 0.1}`; or to its number of samples, where the numbers add up to
            all samples: `{"train": 200, "val": 40}`. None, for one of them, is the rest:
                `{"train": None, "val": 40}`.
        shuffle: How samples are chosen: False or None takes them in order, the first share first;
            True or `"exact"` chooses at random; or `"blocks"`, or an order object. Each new dataset
            keeps the order of the source.
        seed: Seed of the random choice. The same seed chooses the same samples.
        stratify: Name of a field of numbers or text, such as `label`. Every class is then divided
            by `shares`: each dataset gets its exact number, rounded down, and the samples left over
            go to those with the largest remainders, to the earlier one if they are equal. Samples
            without the field are a class. Numbers of samples are shares then, so that a dataset may
            differ from its number by less than one sample for each class.
        container: Container of the new datasets; by default the container of the source.
        progress: True for a bar in a terminal or notebook; or a function that is called with a
            `bushel.runs.Progress` some times per second.
        options: See `bushel.convert`.

    Returns:
        Name of each new dataset to its result.

    Raises:
        ValueError: The shares do not add up to 1, or the numbers not to the number of samples; or a
            name would lead out of `target`.
        FileExistsError: `target` is a file, or a dataset.
        InUseError: A writer is open for `target`.
        KeyError, SpecError: The field `stratify` does not exist, or its values are neither numbers
            nor text.

    Examples:
        >>> done = bushel.split("train/", "parts/", {"train": 0.75, "val": 0.25}, shuffle=True)
        >>> done["train"].samples, len(bushel.open("parts/val/"))
        (9, 3)
    """
    dataset = source if isinstance(source, Mapped) else _open(source)
    if not isinstance(shares, Mapping):
        raise TypeError(
            "shares: expected a dict such as {'train': 0.9, "
            f"'val': 0.1}}, not {type(shares).__name__}"
        )
    for name in shares:
        _check_name(name)
    chosen = divided(dataset, shares, {}, shuffle=shuffle, seed=seed, stratify=stratify)
    stored = dataset.dataset if isinstance(dataset, Mapped) else dataset
    kind = container or stored.info.container
    results: dict[str, PackResult] = {}
    start = 0
    folder = as_path(target)
    if isinstance(folder, Path) and folder.exists() and not folder.is_dir():
        raise FileExistsError(
            f"{target} is a file, but split writes its datasets into a folder: use another path"
        )
    with lock_target(folder, single=False, sync=bool(options.get("sync", True))):
        if find_manifest(marker_path(folder, "")) is not None:
            raise FileExistsError(
                f"{target} is a dataset, and split would write "
                "others into its folder: use another path"
            )
        for name, rows in chosen.items():
            size = sum(result.bytes for result in results.values())
            report = _of_whole(callback_of(progress), start, size, len(dataset))
            results[name] = convert(
                dataset[rows], folder / name, container=kind, progress=report, **options
            )
            start += len(rows)
    return results


@public()
@user_call("merging")
def merge(
    sources: Iterable[Dataset | AnySource],
    target: AnyLocation,
    *,
    container: str | None = None,
    progress: ShowProgress = None,
    **options: Any,
) -> PackResult:
    """Write several datasets as one, one after another. `bushel.concat` reads them as one without writing.

    If the datasets number the classes of a field differently, classes are found by their names:
    classes of the first dataset keep their numbers, and new ones follow. The numbers of the others
    are mapped; the other fields keep their bytes.

    Args:
        sources: Datasets, or anything that `bushel.open` takes.
        target: See `bushel.convert`.
        container: Container of the new dataset; by default the container of the first source.
        progress: True for a bar in a terminal or notebook; or a function that is called with a
            `bushel.runs.Progress` some times per second.
        options: See `bushel.convert`.

    Raises:
        ValueError: No sources were given.

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
    implied = container_by_suffix(as_path(target).name) is not None
    kind = container or (None if implied else datasets[0].info.container)
    return convert(
        one_after_another(datasets), target, container=kind, progress=progress, **options
    )


def _of_whole(
    callback: OnProgress | None, samples: int, size: int, total: int
) -> OnProgress | None:
    """Return a callback that adds the earlier samples and bytes of the whole call to the progress of one dataset."""
    if callback is None:
        return None

    def report(progress: Progress) -> None:
        packed = samples + progress.done
        callback(
            replace(progress, done=packed, total=total, samples=packed, bytes=size + progress.bytes)
        )

    return report


def _open(source: Dataset | AnySource) -> Dataset:
    if isinstance(source, StreamDataset):
        raise UnsupportedError(
            "a stream cannot be split or merged: write it as a dataset first, with bushel.convert"
        )
    if isinstance(source, Mapped):
        raise UnsupportedError(
            "merge finds classes by their names, and the results of a function have "
            "none: write each view with bushel.convert(view, target, mode='append')"
        )
    if isinstance(source, Dataset):
        return source
    return open_dataset(source, verify=True, on_damage="raise")


def _check_name(name: str) -> None:
    """Check the name of a new dataset in a folder. Raise ValueError if it would not be in the folder."""
    try:
        below(Path(), name, any_text=True)
    except FormatError:
        raise ValueError(
            f"{name!r} cannot be the name of a dataset in the target: use a name such as 'train'"
        ) from None
