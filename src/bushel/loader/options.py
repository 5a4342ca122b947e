"""The options of loaders: frozen dataclasses from which `Loader`, `StreamLoader` and `MapView` inherit `__init__`.

`Loader`, `StreamLoader` and `MapView` inherit from them and check them in `__post_init__`. So the
signature that `inspect`, `help`, editors and type checkers show is the one that `dataclasses` made
of these lines. Errors of the checks name the options as the user wrote them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy.typing as npt

from bushel._dataset.views.stream import StreamDataset
from bushel._runtime.arrays import check_count
from bushel._runtime.order import Shuffle
from bushel._runtime.public import check_flags, check_list, check_names, meant
from bushel.errors import SpecError, UnsupportedError
from bushel.loader.order.bucketed import BatchSizes
from bushel.loader.order.chunks import Megatron
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.packed import Longer
from bushel.loader.plan.plan import Pad
from bushel.loader.read.costs import names_read
from bushel.loader.read.loadable import Loadable
from bushel.loader.read.random_window import Fields
from bushel.loader.values.bad_samples import BadSample, OnError
from bushel.loader.values.collate import Collate, Padded, Ragged, Sample
from bushel.loader.values.outputs import AnyDevice, To
from bushel.transforms.by_field import Transforms, check_known

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import SampleTransforms
    from bushel.loader.device.device import DeviceDecoder

_METHODS = (
    "spec",
    "keys",
    "fingerprint",
    "__len__",
    "read",
    "decode_samples",
    "prefetch",
    "position",
    "location",
)
_RULES = ("list", "stack")


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
        """Make lists of iterators, which would be empty when they are asked again, as by a copy of the loader.

        Subclasses check the options. `dataclasses` calls this if it is there when the class is made.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            is_list = isinstance(value, Iterator) and not callable(value)
            if is_list and field.name not in ("dataset", "stream"):
                object.__setattr__(self, field.name, list(value))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions(Options):
    """The options of loaders that read samples by position."""

    fields: Fields = None
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
    device: AnyDevice | None = None


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
    # how documents share the rows of batches
    pack_by: str | Mapping[str, float] | None = None
    pack_tokens: int | None = None
    pack_longer: Longer = "error"
    chunk_by: str | None = None
    chunk_tokens: int | None = None
    overlap: int = 0
    # with `decode="device"`
    decoder: DeviceDecoder | None = None
    share: float | Literal["tuned"] = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class LoaderOptions(BatchOptions, ReadOptions, OrderOptions):
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


for _options, _class in (
    (LoaderOptions, "Loader"),
    (StreamOptions, "StreamLoader"),
    (MapOptions, "MapView"),
):
    # which Python names in the error about a missing argument
    _options.__init__.__qualname__ = _class


_COUNTS = {"processes": 0, "prefetch_bytes": 0, "threads": 0, "prefetch": 1}
"""Options that are whole numbers, and the least of each."""


def check_shared(options: BatchOptions) -> None:
    """Check the options that all loaders share, whose numbers of NumPy have become Python's.

    Raises:
        TypeError: One has another type.
        ValueError: One is out of its range.
    """
    flags = ("drop_last", "keys", "exif_rotate", "allow_truncated", "pin_memory")
    check_flags(**{name: getattr(options, name) for name in flags if hasattr(options, name)})
    another = "; for another order in every run, give seed=secrets.randbits(64) and keep it"
    check_count("seed", options.seed, most=(1 << 64) - 1, instead=another)
    for name, least in _COUNTS.items():
        if (count := getattr(options, name)) is not None:
            check_count(name, count, least=least)
    if options.on_error not in (choices := get_args(OnError)):
        raise ValueError(
            f"unknown on_error={options.on_error!r}: {meant(options.on_error, choices)}"
        )
    if options.batch_transform is not None and not callable(options.batch_transform):
        raise TypeError(f"batch_transform={options.batch_transform!r} is not callable")


def check_dataset(dataset: Any) -> None:
    """Check that a loader can read from an object.

    Raises:
        TypeError: It cannot.
        UnsupportedError: It is a stream.
    """
    if isinstance(dataset, StreamDataset):
        raise UnsupportedError(
            "a stream can only be read forward: load it with bushel.StreamLoader"
        )
    if isinstance(dataset, str | os.PathLike):
        raise TypeError(
            f"{dataset!r} is a path: open it first, as in "
            f"bushel.Loader(bushel.open({os.fspath(dataset)!r}))"
        )
    # a class is asked first: what its properties return, such as the fingerprint of a view, may be slow to make
    missing = [
        name for name in _METHODS if not hasattr(type(dataset), name) and not hasattr(dataset, name)
    ]
    if missing:
        raise TypeError(
            f"this {type(dataset).__name__} is not a dataset (it has no {', '.join(missing)}): "
            "give what bushel.open returns; or write it once by bushel.pack(dataset, "
            "'set/', container='tar', spec={'image': 'png', 'label': 'int'}), where spec= "
            "names the values of samples that are tuples, and give bushel.open('set/')"
        )


def check_fields(fields: Any, spec: Mapping[str, str], transforms: SampleTransforms) -> None:
    """Check `fields=` of a loader, and that transforms are for fields that it reads.

    Raises:
        TypeError: `fields` is a single name.
        SpecError: The field does not exist, or a transform is for a field that is not read.
    """
    if fields is None:
        return
    check_list("fields", fields)
    check_known("fields", fields, spec)
    read = names_read(fields, spec)
    if left_out := [name for name in transforms.names if name not in read]:
        raise SpecError(
            f"transforms= changes {left_out[0]!r}, which fields= "
            "does not read: add it there, or leave it out"
        )


def check_rules(collate: Any, spec: Mapping[str, str] | None) -> None:
    """Check `collate=` of a loader.

    Args:
        collate: The argument.
        spec: Field to type; None if the fields are unknown.

    Raises:
        TypeError: It, or a rule in it, is neither a function nor a rule.
        SpecError: A rule is for a field that the dataset does not have.
        ValueError: The rule does not exist.
    """
    if collate is None or callable(collate):
        return
    if not isinstance(collate, Mapping):
        raise TypeError(
            f"collate={collate!r}: expected a function, or a mapping of fields to rules"
        )
    if spec is not None:
        check_known("collate", collate, spec)
    for name, rule in collate.items():
        if isinstance(rule, str) and rule not in _RULES:
            alternative = "; bushel.loader.Padded(0) pads to the longest value"
            raise ValueError(
                f"collate={{{name!r}: {rule!r}}}: unknown rule: {meant(rule, _RULES)}{alternative}"
            )
        if rule in (Padded, Ragged):
            raise TypeError(
                f"collate={{{name!r}: {rule.__name__}}} is a class: write {rule.__name__}()"
            )
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(
                f"collate={{{name!r}: {rule!r}}}: expected "
                "'list', 'stack', Padded(), Ragged() or a function"
            )


def check_whole_batches(options: LoaderOptions, excluded: Collection[int]) -> None:
    """Check that samples are not left out where batches have to be full, or ranks need equally many.

    Args:
        options: The options, with the number of ranks that was found out.
        excluded: The samples that `exclude=` names.

    Raises:
        ValueError: Samples may be left out there.
    """
    if options.on_error == "skip":
        leaves_out = "on_error='skip'"
    elif options.on_error == "raise" and excluded:
        leaves_out = "exclude="
    else:
        return
    if (options.world_size or 1) > 1:
        why = (
            "a rank whose samples are all bad would have "
            "fewer batches than the others, which wait for it"
        )
    elif options.drop_last or options.pad is not None:
        why = f"{'drop_last=' if options.drop_last else 'pad='} promises full batches"
    else:
        return
    raise ValueError(
        f"{leaves_out} leaves samples out, but {why}: give "
        'on_error="replace", which takes another sample instead'
    )
