"""Transforms of values and layout, transforms that contain others, and calling of transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence, ValuesView
from dataclasses import KW_ONLY, dataclass, fields
from functools import lru_cache
from itertools import repeat
from numbers import Real
from typing import Any, Literal, TypeVar, dataclass_transform

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import Array, python_numbers, refuse_bools

from .geometry import Image, check_image

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen_transform(plain: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots, whose numbers, arrays and tensors become Python's and are checked."""
    check = getattr(plain, "__post_init__", None)

    def prepare(self: Any) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if hasattr(value, "tolist") and not callable(value):
                value = value.tolist()
            value = python_numbers(value)
            if isinstance(value, list):
                value = tuple(value)
            if option.type == "Sequence[Transform]":
                value = checked_transforms(type(self).__name__, value)
            if "bool" not in str(option.type):
                refuse_bools(**{option.name: value})
            if option.name == "p" and not (hasattr(value, "__float__") and 0 <= value <= 1):
                raise ValueError(f"invalid probability {value}: expected 0 to 1")
            if option.type == "Fill":
                _check_fill(value)
            object.__setattr__(self, option.name, value)
        if check is not None:
            check(self)

    plain.__post_init__ = prepare  # type: ignore[attr-defined]
    return dataclass(frozen=True, slots=True)(plain)


def _check_fill(fill: Any) -> None:
    """Check that a fill is made of levels. Raise ValueError if it is not."""
    levels = (fill,) if isinstance(fill, int) else fill
    if not levels or not all(isinstance(level, int) and 0 <= level <= 255 for level in levels):
        raise ValueError(
            f"invalid fill={fill!r}: expected a level between 0 and 255, or one for each channel"
        )


Transform = Callable[..., Any]
"""`transform(value)`, or `transform(value, rng=...)` with a parameter named `rng`."""


@frozen_transform
class Normalize:
    """Normalise levels to (level / 255 - mean) / std, channel by channel.

    Attributes:
        mean: Mean of each channel, between 0 and 1.
        std: Standard deviation of each channel.
        dtype: Data type of the result.

    Examples:
        >>> from bushel.transforms import Normalize
        >>> normalize = Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
        >>> normalize(ds[0]["image"]).dtype
        dtype('float32')
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            levels: object = getattr(self, name)
            if isinstance(levels, str | bytes) or not isinstance(levels, Iterable):
                raise TypeError(
                    f"Normalize({name}={levels!r}): expected a "
                    "number for each channel, such as (0.5, 0.5, 0.5)"
                )
            object.__setattr__(self, name, tuple(map(float, levels)))
        if len(self.mean) != len(self.std) or not self.mean or not all(self.std):
            raise ValueError(f"{self}: expected one mean and one std (not 0) for each channel")
        if self.dtype not in ("float32", "float16"):
            raise ValueError(f"invalid dtype {self.dtype!r}: expected 'float32' or 'float16'")

    @property
    def table(self) -> Array:
        """The normalised value of each level and channel, of shape (256, channels)."""
        table: Array = _table(self)
        return table

    def __call__(self, image: Image) -> Array:
        """Transform an image: uint8, HxW or HxWxC; before `ToCHW`, not after it."""
        check_image(image)
        channels = 1 if image.ndim == 2 else image.shape[2]
        if channels != len(self.mean):
            raise ValueError(
                f"{self} is for {len(self.mean)} channels, which an image "
                f"of shape {image.shape} does not have: give a mean and a "
                "std for each channel, and put Normalize before ToCHW"
            )
        if image.ndim == 2:
            return np.asarray(self.table[:, 0][image])
        return np.asarray(self.table[image, np.arange(channels)])


@lru_cache(maxsize=64)
def _table(normalise: Normalize) -> Array:
    levels = np.arange(256, dtype=np.float64)[:, None] / 255
    table: Array = ((levels - np.array(normalise.mean)) / np.array(normalise.std)).astype(
        normalise.dtype
    )
    table.flags.writeable = False
    return table


@frozen_transform
class ToCHW:
    """Move channels first, as PyTorch expects: HxWxC to CxHxW, HxW to 1xHxW.

    Examples:
        >>> from bushel.transforms import ToCHW
        >>> ToCHW()(ds[0]["image"]).shape
        (3, 48, 64)
    """

    def __call__(self, image: Array) -> Array:
        """Transform an image of any dtype."""
        if np.ndim(image) not in (2, 3):
            raise TypeError(f"shape {np.shape(image)} is not an image: expected HxW or HxWxC")
        return np.ascontiguousarray(image[None] if image.ndim == 2 else image.transpose(2, 0, 1))


@frozen_transform
class Lambda:
    """Apply a function to the value.

    Examples:
        >>> from bushel.transforms import Lambda
        >>> loader = bushel.Loader(ds, batch_size=4, transforms={"label": Lambda(lambda label: label * 10)})
        >>> next(iter(loader))["label"]
        array([0, 0, 0, 0])
    """

    function: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        """Call the function."""
        return self.function(value)


@frozen_transform
class Compose:
    """Apply transforms one after the other.

    Examples:
        >>> from bushel.transforms import CenterCrop, Compose, Resize, ToCHW
        >>> Compose([Resize(40), CenterCrop(32), ToCHW()])(ds[0]["image"]).shape
        (3, 32, 32)
    """

    transforms: Sequence[Transform]

    def __call__(self, value: Any, rng: np.random.Generator | None = None) -> Any:
        """Transform a value; `rng` is needed if one of the transforms takes it."""
        return chained(self.transforms, value, rng)


@frozen_transform
class EachFrame:
    """Apply transforms to each frame of a sequence field.

    Attributes:
        transforms: The transforms for each frame.
        same: Whether all frames get the same random numbers, so that frames of one size are cropped
            and flipped alike. Otherwise each frame gets its own.

    Examples:
        >>> from bushel.transforms import EachFrame, RandomCrop
        >>> frames = [np.zeros((48, 64, 3), np.uint8)] * 5
        >>> [frame.shape for frame in EachFrame([RandomCrop(32)])(frames, np.random.default_rng(0))][:2]
        [(32, 32, 3), (32, 32, 3)]
    """

    transforms: Sequence[Transform]
    _: KW_ONLY
    same: bool = True

    def __call__(self, frames: Iterable[Any], rng: np.random.Generator | None = None) -> list[Any]:
        """Transform a list of frames."""
        return [
            chained(self.transforms, frame, rng)
            for frame, rng in zip(frames, self.generators(rng), strict=False)
        ]

    def generators(self, rng: np.random.Generator | None) -> Iterable[np.random.Generator | None]:
        """Yield the source of random numbers of each frame. Use each one before you take the next."""
        if rng is None or not self.same:
            yield from repeat(rng)
        else:
            state = rng.bit_generator.state
            while True:
                rng.bit_generator.state = state
                yield rng


def checked_transforms(name: str, functions: Any) -> tuple[Transform, ...]:
    """Return a list of transforms as a tuple, after a check of each.

    Args:
        name: Where they were given, for the message.
        functions: The transforms. Classes such as `str` and `np.float32` are functions of a value
            here.

    Raises:
        TypeError: It is not a list; or one is not callable, or a class whose instances are
            transforms.
    """
    if not isinstance(functions, Sequence | ValuesView) or isinstance(functions, str):
        raise TypeError(
            f"{name}: expected transforms such as [Resize(224), ToCHW()], not {functions!r}"
        )
    for place, function in enumerate(functions):
        if not callable(function):
            raise TypeError(
                f"{name}[{place}] is {function!r}, which is not callable: a list of transforms has no "
                'lists within, and transforms={"image": [transform, ...]} names a field'
            )
        if isinstance(function, type) and any(
            "__call__" in vars(base) for base in function.__mro__
        ):
            what = f"{function.__module__}.{function.__qualname__}"
            raise TypeError(
                f"{name} has the class {what}: make a transform "
                f"of it, as in {function.__name__}(...)"
            )
    return tuple(functions)


def two_numbers(
    problem: str,
    numbers: Any,
    least: float = 5e-324,  # above 0
    most: float = float("inf"),
    *,
    ordered: bool = True,
) -> tuple[float, float]:
    """Return an option that has two numbers between bounds, by default above 0.

    Args:
        problem: The option and its expected form, for the message.
        numbers: The option.
        least: The least number that is allowed.
        most: The largest one.
        ordered: Whether the second number may not be below the first.

    Raises:
        TypeError: The option is not a sequence of numbers.
        ValueError: They are not two, out of range or not in order.
    """
    sequence: Any = numbers if isinstance(numbers, Sequence) else [None]
    if not all(isinstance(number, Real) for number in sequence):
        raise TypeError(f"invalid {problem}")
    if len(sequence) != 2 or not all(least <= number <= most for number in sequence):
        raise ValueError(f"invalid {problem}")
    low, high = sequence
    if ordered and low > high:
        raise ValueError(f"invalid {problem}")
    return low, high


def chained(transforms: Iterable[Transform], value: Any, rng: np.random.Generator | None) -> Any:
    """Return a value after some transforms, one after the other."""
    for transform in transforms:
        value = Call.of(transform)(value, rng)
    return value


def takes_rng(transform: Transform) -> bool:
    """Return whether a transform, or one that it contains, has a parameter named `rng`."""
    if isinstance(transform, Compose | EachFrame):
        return any(map(takes_rng, transform.transforms))
    try:
        return "rng" in inspect.signature(transform).parameters
    except ValueError:  # builtins without a signature
        return False


class Call(Struct, frozen=True):
    """A transform, and how it is called."""

    function: Transform
    random: bool

    @classmethod
    def of(cls, function: Transform) -> Call:
        """Return the call of a transform, which is inspected for a parameter named `rng`."""
        return cls(function, takes_rng(function))

    def __call__(self, value: Any, rng: np.random.Generator | None) -> Any:
        """Return a value after the transform."""
        if self.random:
            return self.function(value, rng=rng)
        return self.function(value)


def apply_calls(
    calls: Sequence[Call], value: Any, rng: np.random.Generator | None, field: str
) -> Any:
    """Apply transforms to the value of a field, and return the result.

    Raises:
        Exception: A transform fails; the error has a note that names the transform and the field.
    """
    for call in calls:
        try:
            value = checked(call(value, rng), object)
        except Exception as error:
            note_once(error, f"in the transform {named(call.function)} of field {field!r}")
            raise
    return value


def checked(made: Any, kind: type) -> Any:
    """Return the result of a transform if it is valid.

    Raises:
        TypeError: It is None, or of another type.
    """
    if made is None or not isinstance(made, kind):
        noun = "sample, a dict" if kind is dict else "value"
        raise TypeError(f"it returned {made!r:.60}: return the {noun}, changed or not")
    return made


def note_once(error: BaseException, note: str) -> None:
    """Add a note to an exception that lacks it. One object may be raised for several samples."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def named(function: object) -> str:
    """Return the name of a function, or the `repr` of another callable."""
    name = getattr(function, "__qualname__", None)
    if isinstance(name, str):
        return f"{getattr(function, '__module__', '')}.{name}"
    return repr(function)
