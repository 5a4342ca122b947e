"""The training page: the batches of a loader, with their augmentation, for any rank, epoch and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from bushel._pictures.pixels import displayable
from bushel._pictures.thumbnail import Picture, encoded, shrunk
from bushel._runtime.order import Order
from bushel._runtime.shuffle import make_order
from bushel.errors import CodecError
from bushel.transforms import (
    CenterCrop,
    ColorJitter,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from bushel.viewer.rows import rows_of
from bushel.viewer.shelf import Shown
from bushel.viewer.site import Pages, Site, at, bytes_answer, number_in

if TYPE_CHECKING:
    from bushel import Dataset

PRESETS: Mapping[str, Sequence[Any]] = {
    "train 224": (RandomResizedCrop(224), RandomHorizontalFlip()),
    "train 224, colours": (
        RandomResizedCrop(224),
        RandomHorizontalFlip(),
        ColorJitter(0.4, 0.4, 0.4),
    ),
    "evaluate 224": (Resize(256), CenterCrop(224)),
}
"""Transforms that the page offers, apart from those that were named when the viewer was started."""

_LARGEST = (1 << 64) - 1
_TILES = 256  # largest number of samples of a batch that are shown
_EPOCHS = 8  # number of epochs in which one sample is shown


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the page."""

    field: str  # the image field
    transform: str  # name of the transforms; empty for none
    seed: int  # seed of the loader
    epoch: int  # number of the epoch
    shuffle: str  # `exact`, `blocks` or `none`
    batch: int  # samples in a batch of one rank
    world: int  # number of ranks
    rank: int
    step: int  # number of the batch in the epoch, from 0
    beside: int = 0  # whether the stored picture is shown beside what the loader makes of it

    @classmethod
    def of(
        cls, shown: Shown, transforms: Mapping[str, Any], parameters: Mapping[str, str]
    ) -> Settings:
        """Return the settings in the parameters of a URL.

        Raises:
            ValueError: A parameter is not a number, or out of range.
            KeyError: The field or the transforms are unknown.
        """
        images = [
            field.name for field in shown.fields if field.kind == "image" and not field.sequence
        ]
        field = parameters.get("field") or next(iter(images), "")
        if field not in images:
            raise KeyError(
                f"{field!r} is not an image field: the image fields are"
                f" {', '.join(images) or 'none'}"
            )
        transform = parameters.get("transform", next(iter(transforms), ""))
        if transform and transform not in transforms:
            raise KeyError(f"unknown transforms {transform!r}: known are {', '.join(transforms)}")
        shuffle = parameters.get("shuffle") or "exact"
        if shuffle not in ("exact", "blocks", "none"):
            raise ValueError(f"shuffle={shuffle}: expected exact, blocks or none")
        world = max(1, number_in(parameters, "world", 1, 1 << 20))
        return cls(
            field,
            transform,
            number_in(parameters, "seed", 0, _LARGEST),
            number_in(parameters, "epoch", 0, 1 << 40),
            shuffle,
            max(1, number_in(parameters, "batch", 32, 1 << 16)),
            world,
            number_in(parameters, "rank", 0, world - 1),
            number_in(parameters, "step", 0, 1 << 48),
            number_in(parameters, "beside", 0, 1),
        )

    def url(self, **changed: Any) -> str:
        """Return the settings as parameters of a URL, with some changed."""
        from dataclasses import asdict

        return urlencode({**asdict(self), **changed})


def positions_of_batch(dataset: Dataset, settings: Settings) -> tuple[list[int], int]:
    """Return the samples of a batch, as the loader chooses them, and the number of batches of this rank's epoch."""
    from bushel.loader.plan.plan import Plan
    from bushel.loader.plan.who import batch_of
    from bushel.loader.read.costs import blocks_that_fit

    if settings.shuffle == "blocks":
        order: Order = blocks_that_fit(dataset, settings.seed)
    else:
        order = make_order(settings.shuffle == "exact", len(dataset), settings.seed)
    plan = Plan(order, settings.batch, settings.rank, settings.world)
    steps = plan.at(settings.epoch).steps()
    if settings.step >= steps:
        return [], steps
    batch = batch_of(plan, settings.epoch, settings.step, settings.rank)
    return batch.samples.tolist(), steps


def augmented(
    shown: Shown, position: int, field: str, transforms: Sequence[Any], seed: int, epoch: int
) -> Any:
    """Return an image as a loader with this seed yields it in that epoch, for any order, rank and batch size.

    Raises:
        BushelError: The sample cannot be read or decoded.
        CodecError: The result is not an image.
    """
    from bushel.loader import Loader

    # in the stored order, step `position` of each epoch is this sample; its random numbers are the
    # same in every order
    loader = Loader(
        shown.dataset,
        1,
        fields=[field],
        transforms={field: list(transforms)},
        seed=seed,
        threads=0,
        rank=0,
        world_size=1,
    )
    loader.skip(epoch * len(shown.dataset) + position)
    batches = iter(loader)
    try:
        value = next(batches).get(field)
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
    if value is None:
        raise KeyError(f"this sample lacks the field {field!r}")
    image = np.asarray(value[0])
    if image.ndim == 3 and image.shape[0] in (1, 3) and image.shape[2] not in (1, 3, 4):
        image = np.moveaxis(image, 0, 2)
    if image.ndim not in (2, 3) or image.dtype.kind not in "buif" or 0 in image.shape:
        raise CodecError(
            f"the transforms give an array of shape {image.shape} and dtype"
            f" {image.dtype}, not an image"
        )
    return image


class TrainingPages(Pages):
    """The handlers of the training page."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._transforms: Mapping[str, Any] = {**site.shelf.transforms, **PRESETS}

    @at("/d/{d:int}/training")
    def training(self, request: Any) -> Any:
        """A batch on a rank, and one sample in several epochs."""
        shown = self._site.shown(request)
        settings = Settings.of(shown, self._transforms, request.query_params)
        positions, steps = positions_of_batch(shown.dataset, settings)
        rows = rows_of(shown, positions[:_TILES], [settings.field])
        return self._site.page(
            request,
            "training.html",
            shown,
            here="training",
            settings=settings,
            names=list(self._transforms),
            described={
                name: ", ".join(map(repr, steps)) or "nothing"
                for name, steps in self._transforms.items()
            },
            images=[
                field.name for field in shown.fields if field.kind == "image" and not field.sequence
            ],
            rows=rows,
            hidden=max(0, len(positions) - _TILES),
            steps=steps,
            epochs=range(settings.epoch, settings.epoch + _EPOCHS),
        )

    @at("/d/{d:int}/augmented")
    def picture(self, request: Any) -> Any:
        """An image as the loader yields it."""
        shown, parameters = self._site.shown(request), request.query_params
        settings = Settings.of(shown, self._transforms, parameters)
        position = number_in(parameters, "i")
        if position >= len(shown.dataset):
            raise IndexError(
                f"position {position} is out of range: the dataset has {len(shown.dataset)} samples"
            )
        key = (
            shown.number,
            position,
            settings.field,
            "augmented",
            settings.transform,
            settings.seed,
            settings.epoch,
        )
        with self._site.decoding:
            picture = self._site.shelf.pictures.get(
                key, lambda: self._picture(shown, position, settings)
            )
        return bytes_answer(picture.data, picture.media_type, cache="private, max-age=86400")

    def _picture(self, shown: Shown, position: int, settings: Settings) -> Picture:
        if settings.transform:
            transforms = self._transforms[settings.transform]
        else:
            transforms = ()
        value = augmented(
            shown, position, settings.field, transforms, settings.seed, settings.epoch
        )
        pixels: npt.NDArray[np.uint8] = displayable(value)
        return encoded(shrunk(pixels, 256))
