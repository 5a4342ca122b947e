"""Transforms that prepare an image for a model, and those that hold others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bushel.transforms.geometry import Image, check_image

__all__ = ["Call", "Compose", "EachFrame", "Lambda", "Normalize", "ToCHW", "Transform", "takes_rng"]

Transform = Callable[..., Any]
"""`transform(value)`, or `transform(value, rng=...)` with a parameter named `rng`."""


@dataclass(frozen=True, slots=True)
class Normalize:
    """Levels to numbers: (level / 255 - mean) / std of each channel.

    Attributes:
        mean: Of each channel, between 0 and 1.
        std: Of each channel.
        dtype: Of the result.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        if len(self.mean) != len(self.std) or not self.mean or not all(self.std):
            raise ValueError(f"mean and std are as many numbers as there are channels, std not 0; found {self}")
        if self.dtype not in ("float32", "float16"):
            raise ValueError(f"dtype is 'float32' or 'float16', not {self.dtype!r}")

    @property
    def table(self) -> npt.NDArray[Any]:
        """The number of each level of each channel, shape (256, channels)."""
        table: npt.NDArray[Any] = _table(self)
        return table

    def __call__(self, image: Image) -> npt.NDArray[Any]:
        """Transform an image: uint8, HxW or HxWxC; before `ToCHW`, not after it."""
        check_image(image)
        channels = 1 if image.ndim == 2 else image.shape[2]
        if channels != len(self.mean):
            raise ValueError(f"{self} meets an image of shape {image.shape}: Normalize stands before ToCHW")
        if image.ndim == 2:
            return np.asarray(self.table[:, 0][image])
        return np.asarray(self.table[image, np.arange(channels)])


@lru_cache(maxsize=64)
def _table(normalise: Normalize) -> npt.NDArray[Any]:
    levels = np.arange(256, dtype=np.float64)[:, None] / 255
    table: npt.NDArray[Any] = ((levels - np.array(normalise.mean)) / np.array(normalise.std)).astype(normalise.dtype)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, slots=True)
class ToCHW:
    """Channels first, as PyTorch wants them: HxWxC to CxHxW, HxW to 1xHxW."""

    def __call__(self, image: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Transform an image of any dtype."""
        if image.ndim not in (2, 3):
            raise TypeError(f"expected an image, HxW or HxWxC, found shape {image.shape}")
        return np.ascontiguousarray(image[None] if image.ndim == 2 else image.transpose(2, 0, 1))


@dataclass(frozen=True, slots=True)
class Lambda:
    """Any function of a value. It reaches other processes only if it pickles: define it at the top of a module."""

    function: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        """Call the function."""
        return self.function(value)


@dataclass(frozen=True, slots=True)
class Compose:
    """Transforms one after the other."""

    transforms: tuple[Transform, ...]

    def __init__(self, transforms: Iterable[Transform]) -> None:
        object.__setattr__(self, "transforms", tuple(transforms))

    def __call__(self, value: Any, rng: np.random.Generator | None = None) -> Any:
        """Transform a value; `rng` is needed when one of the transforms takes it."""
        for transform in self.transforms:
            value = transform(value, rng=rng) if takes_rng(transform) else transform(value)
        return value


@dataclass(frozen=True, slots=True)
class EachFrame:
    """Transforms for a sequence field: all frames of a sample, one by one.

    Attributes:
        transforms: What is applied to each frame.
        same: Whether each frame meets the same random numbers, so that frames of one size are cropped and mirrored
            alike; otherwise each has its own.
    """

    transforms: tuple[Transform, ...]
    same: bool = True

    def __init__(self, transforms: Iterable[Transform], *, same: bool = True) -> None:
        object.__setattr__(self, "transforms", tuple(transforms))
        object.__setattr__(self, "same", same)

    def __call__(self, frames: Iterable[Any], rng: np.random.Generator | None = None) -> list[Any]:
        """Transform a list of frames."""
        apply = Compose(self.transforms)
        return [apply(frame, rng=rng) for frame, rng in zip(frames, self.generators(rng), strict=False)]

    def generators(self, rng: np.random.Generator | None) -> Iterable[np.random.Generator | None]:
        """The random numbers of each frame; each is to be used up before the next is asked for."""
        if rng is None or not self.same:
            yield from repeat(rng)
        else:
            state = rng.bit_generator.state
            while True:
                rng.bit_generator.state = state
                yield rng


def takes_rng(transform: Transform) -> bool:
    """Whether a transform has a parameter named `rng`; one that holds others, whether any of these has."""
    if isinstance(transform, Compose | EachFrame):
        return any(map(takes_rng, transform.transforms))
    try:
        return "rng" in inspect.signature(transform).parameters
    except ValueError:  # builtins without a signature
        return False


@dataclass(frozen=True, slots=True)
class Call:
    """A transform, and how it is called.

    Attributes:
        function: The transform.
        random: Whether it takes `rng`.
    """

    function: Transform
    random: bool

    @classmethod
    def of(cls, function: Transform) -> Call:
        """Return the call of a transform, which is inspected for a parameter named `rng`."""
        return cls(function, takes_rng(function))
