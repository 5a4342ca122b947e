"""Transforms that contain others: apply them with a probability, choose one of them, or make several views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.transforms.values import Compose, Transform, call


@dataclass(frozen=True, slots=True)
class RandomApply:
    """Apply transforms, all of them or none, with probability `p`.

    Examples:
        >>> from bushel.transforms import ColorJitter, RandomApply, RandomResizedCrop
        >>> jitter = RandomApply([ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32), jitter])
    """

    transforms: tuple[Transform, ...]
    p: float = 0.5

    def __init__(self, transforms: Iterable[Transform], p: float = 0.5) -> None:
        object.__setattr__(self, "transforms", tuple(transforms))
        object.__setattr__(self, "p", p)
        if not 0 <= p <= 1:
            raise ValueError(f"invalid probability {p}: expected 0 to 1")

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """Transform a value of any kind that the transforms take."""
        if rng.random() < self.p:
            return Compose(self.transforms)(value, rng=rng)
        return value


@dataclass(frozen=True, slots=True)
class RandomChoice:
    """Apply one transform, drawn at random. It may be a transform of a field, of samples or of batches.

    Attributes:
        transforms: The transforms to choose from.
        weights: How often each is drawn, relative to the others; None for all alike.

    Examples:
        >>> from bushel.transforms import CutMix, MixUp, RandomChoice
        >>> either = RandomChoice([MixUp("image", "label", 10), CutMix("image", "label", 10)])
        >>> batch = {"image": np.zeros((4, 8, 8, 3), np.uint8), "label": np.arange(4)}
        >>> either(batch, np.random.default_rng(0))["label"].shape
        (4, 10)
    """

    transforms: tuple[Transform, ...]
    weights: tuple[float, ...] | None = None

    def __init__(self, transforms: Iterable[Transform], weights: Sequence[float] | None = None) -> None:
        object.__setattr__(self, "transforms", tuple(transforms))
        object.__setattr__(self, "weights", None if weights is None else tuple(weights))
        if not self.transforms:
            raise ValueError("RandomChoice needs at least one transform")
        shares = (1.0,) * len(self.transforms) if self.weights is None else self.weights
        if len(shares) != len(self.transforms) or min(shares) < 0 or not sum(shares):
            raise ValueError(f"weights={weights!r}: expected one number of 0 or more for each transform")

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """Transform a value of any kind that the transforms take."""
        weights = np.ones(len(self.transforms)) if self.weights is None else np.array(self.weights)
        ends = np.cumsum(weights / weights.sum())
        chosen = min(int(np.searchsorted(ends, rng.random(), side="right")), len(ends) - 1)
        return call(self.transforms[chosen], value, rng)


@dataclass(frozen=True, slots=True)
class MultiCrop:
    """Make several views of one image, which is decoded once, as self-supervised training needs them.

    As `sample_transform=` of a loader, it adds a field for each group of views: arrays of shape (views, ...), so that
    a batch has arrays of shape (samples, views, ...). The image itself goes, unless a group has its name.

    Attributes:
        field: The field of the image.
        groups: Name of a new field → number of views, and the transforms that make one.

    Examples:
        >>> from bushel.transforms import MultiCrop, RandomHorizontalFlip, RandomResizedCrop
        >>> large = [RandomResizedCrop(32, scale=(0.4, 1)), RandomHorizontalFlip()]
        >>> small = [RandomResizedCrop(16, scale=(0.05, 0.4)), RandomHorizontalFlip()]
        >>> views = MultiCrop("image", {"large": (2, large), "small": (6, small)})
        >>> batch = bushel.Loader(ds, 4, sample_transform=views).peek()
        >>> batch["large"].shape, batch["small"].shape
        ((4, 2, 32, 32, 3), (4, 6, 16, 16, 3))
    """

    field: str
    groups: tuple[tuple[str, int, tuple[Transform, ...]], ...]

    def __init__(self, field: str, groups: Mapping[str, tuple[int, Iterable[Transform]]]) -> None:
        object.__setattr__(self, "field", field)
        all_groups = tuple((name, views, tuple(transforms)) for name, (views, transforms) in groups.items())
        object.__setattr__(self, "groups", all_groups)
        if not all_groups or any(views < 1 for _, views, _ in all_groups):
            raise ValueError(f"groups={groups!r}: expected at least one group, and one view or more in each")

    def __call__(self, sample: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Return the sample with the views, and without the image.

        Raises:
            KeyError: The sample has no such field.
            ValueError: The views of a group differ in shape.
        """
        if self.field not in sample:
            raise KeyError(
                f"the sample has no field {self.field!r}, from which MultiCrop makes views: {sorted(sample)}"
            )
        image = sample[self.field]
        views_by_name = {name: value for name, value in sample.items() if name != self.field}
        for name, views, transforms in self.groups:
            crop = Compose(transforms)
            views_by_name[name] = np.stack([crop(image, rng=rng) for _ in range(views)])
        return views_by_name
