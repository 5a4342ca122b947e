"""`bushel bench`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

import bushel

from .command import Option
from .options import DatasetOptions, Json, OutputOptions, Path, Workers

if TYPE_CHECKING:
    from bushel import Loader


class TrainingOptions(Struct, frozen=True):
    """The batches to load, and how.

    Attributes:
        field: Read only this field; may be repeated.
        shuffle: Order of samples.
    """

    batch: Annotated[int, Option("Samples in a batch.", "--batch", "-b", min=1)] = 256
    seconds: Annotated[float, Option("Time to measure.", min=0.05)] = 5.0
    field: list[str] | None = None
    crop: Annotated[
        int | None,
        Option("Take random crops of this size and flip them at random, as in training.", min=1),
    ] = None
    shuffle: Literal["exact", "blocks", "none"] = "exact"
    threads: Workers = None
    processes: Annotated[int, Option("Number of worker processes.", min=0)] = 0


def bench(
    path: Path,
    *,
    chosen: DatasetOptions,
    training: TrainingOptions,
    as_json: Json = False,
) -> None:
    """Measure how fast a dataset loads, and what limits it.

    It is loaded for some seconds without a trainer.

    Example:
      bushel bench train/ --crop 224
    """
    # the loader refuses a stream
    dataset: Any = chosen.opened(path)
    transforms = None
    if training.crop is not None:
        transforms = _crops(training.crop, training.field or dataset.spec, dataset.spec)
    loader = bushel.Loader(
        dataset,
        training.batch,
        shuffle=None if training.shuffle == "none" else training.shuffle,
        fields=training.field,
        transforms=transforms,
        threads=training.threads,
        processes=training.processes,
    )
    _load(loader, training.seconds)
    stats = loader.stats()
    speeds = {
        name: getattr(stats, name) for name in ("samples_per_second", "bytes_per_second", "advice")
    }
    facts = {"path": path, "batch": training.batch, **speeds, "stats": asdict(stats)}
    OutputOptions(as_json).show(facts, f"{path}, batches of {training.batch}\n{stats}")


def _load(loader: Loader, seconds: float) -> None:
    """Load for some seconds, in as many epochs as that takes.

    Raises:
        ValueError: The dataset has no samples.
    """
    from time import perf_counter

    end = perf_counter() + seconds
    while perf_counter() < end:
        before = loader.stats().batches
        for _ in loader:
            if perf_counter() > end:
                return
        if loader.stats().batches == before:
            raise ValueError("the dataset has no samples to measure, or fewer than a batch")


def _crops(size: int, wanted: Collection[str], spec: Mapping[str, str]) -> dict[str, Any]:
    """Return the transforms of training for the wanted image fields.

    Raises:
        ValueError: No wanted field holds images.
    """
    from bushel.codecs import holds_image
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    names = [name for name, kind in spec.items() if name in wanted and holds_image(kind)]
    if not names:
        raise ValueError(f"--crop needs an image field; the fields are {', '.join(wanted)}")
    return {name: [RandomResizedCrop(size), RandomHorizontalFlip()] for name in names}
