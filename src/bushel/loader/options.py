"""The options of loaders: frozen dataclasses from which `Loader`, `StreamLoader` and `MapView` inherit `__init__`.

`Loader`, `StreamLoader` and `MapView` inherit from them and check them in `__post_init__`. So the signature that
`inspect`, `help`, editors and type checkers show is the one that `dataclasses` made of these lines.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy.typing as npt

from bushel._dataset.views.stream import StreamDataset
from bushel._runtime.public import check_names
from bushel._runtime.shuffle import Shuffle
from bushel.loader.order.bucketed import BatchSizes
from bushel.loader.order.megatron import Megatron
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.packed import Longer
from bushel.loader.plan.plan import Pad
from bushel.loader.read.loadable import Loadable
from bushel.loader.values.bad_samples import BadSample, OnError
from bushel.loader.values.collate import Collate, Sample
from bushel.loader.values.outputs import To
from bushel.transforms.by_field import Transforms

if TYPE_CHECKING:
    from bushel.loader.device.device import DeviceDecoder


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options:
    """The options of every loader."""

    seed: int = 0
    transforms: Transforms | None = None
    sample_transform: Callable[..., Sample] | None = None
    reducing_gap: float | None = 2.0

    def __new__(cls, *given: Any, **options: Any) -> Self:
        """Refuse unknown arguments, with the name of the class and the most similar option."""
        signature = inspect.signature(cls)
        check_names(cls.__name__, options, signature.parameters)
        try:
            if given or options:  # pickle makes the object first, and gives it its attributes
                signature.bind(*given, **options)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}() {error}") from None
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check the options. `dataclasses` calls it if it is there when the class is made, so it stands here, too."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions(Options):
    """The options of loaders that read samples by position."""

    fields: Any = None
    exif_rotate: bool = False
    allow_truncated: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BatchOptions(Options):
    """The options of loaders that make batches."""

    rank: int | None = None
    world_size: int | None = None
    threads: int | None = None
    processes: int = 0
    on_error: OnError = "raise"
    max_errors: float | None = 100
    collate: Collate | None = None
    batch_transform: Callable[..., Any] | None = None
    prefetch: int | None = None
    prefetch_bytes: int = 1 << 30
    to: To = "numpy"
    pin_memory: bool = False
    device: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class OrderOptions:
    """The dataset of a `Loader`, and the order and the batches of its samples."""

    dataset: Loadable | Mixture
    batch_size: BatchSizes = None
    _: KW_ONLY
    shuffle: Shuffle | Megatron = None
    weights: str | npt.ArrayLike | None = None
    balance: str | None = None
    bucket_by: str | npt.ArrayLike | None = None
    batch_tokens: float | None = None
    drop_last: bool = False
    pad: Pad = None
    decode: bool | Literal["device"] = True
    keys: bool = True
    exclude: str | os.PathLike[str] | Iterable[str | int | BadSample] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RowOptions:
    """The options by which documents share the rows of the batches of a `Loader`."""

    pack_by: str | Mapping[str, float] | None = None
    pack_tokens: int | None = None
    pack_longer: Longer = "error"
    chunk_by: str | None = None
    chunk_tokens: int | None = None
    overlap: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeviceOptions:
    """The options of a `Loader` with `decode="device"`."""

    decoder: DeviceDecoder | None = None
    share: float | Literal["tuned"] = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class LoaderOptions(BatchOptions, ReadOptions, DeviceOptions, RowOptions, OrderOptions):
    """The options of `Loader`, which documents them."""


@dataclass(frozen=True, eq=False, repr=False)
class StreamOptions(BatchOptions):
    """The options of `StreamLoader`, which documents them."""

    stream: StreamDataset
    batch_size: int
    _: KW_ONLY
    buffer: int = 1000
    steps: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class MapOptions(ReadOptions):
    """The options of `MapView`, which documents them."""

    dataset: Loadable


for _options, _class in ((LoaderOptions, "Loader"), (StreamOptions, "StreamLoader"), (MapOptions, "MapView")):
    _options.__init__.__qualname__ = _class  # which Python names in the error about a missing argument
