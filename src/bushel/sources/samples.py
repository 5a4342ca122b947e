"""Samples made in Python: lists of dicts, and iterables of dicts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from bushel._index.identity import digest_of_value
from bushel._kinds import WEAK, kind_of
from bushel._runtime.arrays import I64, as_array
from bushel.codecs import codec_of_extension
from bushel.codecs.scalars import codec_of_time
from bushel.errors import SpecError
from bushel.spec import KEY
from bushel.storage import as_path, read_whole

from .base import Sample

Types = Mapping[str, str] | None
"""Field names to types."""


class _Dicts:
    """Dicts with a spec.

    Attributes:
        spec: Field names to types.
        labels: Field to the names of its classes.
        infers_types: Whether the types are inferred from the first sample.
    """

    def _describe(self, first: Iterable[Any], spec: Types, types: Types) -> None:
        """Set the attributes, given an iterable that begins with the first sample."""
        self.labels: Mapping[str, Sequence[str]] = {}
        self._names = tuple(types or spec or ())
        self.infers_types = spec is None
        if spec is None:
            spec = infer_spec(as_dict(next(iter(first), None), self._names), types)
        self.spec: Mapping[str, str] = dict(spec)


class Samples(_Dicts):
    """A sequence of dicts.

    Args:
        samples: The dicts, with the key under `__key__` if they have one. A `Path` as value stands
            for its file. They may be named tuples, or tuples for which `types` has names.
        spec: Field names to types; by default they are inferred from the first sample.
        types: Types of fields whose values have no obvious type. Not used with `spec`.

    Raises:
        SpecError: A type cannot be inferred from the first sample.

    Examples:
        >>> from bushel.sources import Samples
        >>> Samples([{"__key__": "a", "text": "straw", "label": 3}]).spec
        {'text': 'utf8', 'label': 'int'}
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        *,
        spec: Types = None,
        types: Types = None,
    ) -> None:
        self.samples = samples
        self._describe((samples[number] for number in range(len(samples))), spec, types)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> Sample:
        return with_files(as_dict(self.samples[position], self._names))


def in_memory(source: Any) -> bool:
    """Return whether reading a sample of a source computes nothing."""
    rows = getattr(source, "samples", source)
    return isinstance(rows, list | tuple) or getattr(rows, "in_memory", False)


def digest_of(source: Any, positions: I64, before: int) -> int:
    """Return a digest of samples at some positions, continued from the digest of those before them.

    A sample that cannot be read counts as its error does, and a path as its text.
    """
    if hasattr(source, "digest"):
        return int(source.digest(positions, before))
    rows = getattr(source, "samples", source)
    for position in positions.tolist():
        try:
            sample = rows[position]
        except Exception as error:  # packing meets it, too, and says which sample it was
            sample = type(error).__name__
        before = digest_of_value(sample, before)
    return before


class Stream(_Dicts):
    """Dicts from an iterable, such as a generator. They can be packed once, in order, in one part.

    Args:
        samples: The dicts, with the key under `__key__` if they have one.
        spec: Field names to types; by default they are inferred from the first sample.
        types: Types of fields whose values have no obvious type. Not used with `spec`.

    Raises:
        SpecError: A type cannot be inferred from the first sample.

    Examples:
        >>> from bushel.sources import Stream
        >>> bushel.pack(Stream({"text": f"line {number}"} for number in range(5)), "lines.tar").samples
        5
    """

    def __init__(
        self,
        samples: Iterable[Sample],
        *,
        spec: Types = None,
        types: Types = None,
    ) -> None:
        self._samples = iter(samples)
        first: list[Sample] = []
        if spec is None:
            first += islice(self._samples, 1)
            self._samples = chain(first, self._samples)
        self._describe(first, spec, types)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples that have not been taken yet."""
        for sample in self._samples:
            yield with_files(as_dict(sample, self._names))


def infer_spec(sample: Sample | None, known: Types = None) -> dict[str, str]:
    """Return the types of a sample's values.

    Bytes are `jpg`, `png` or `bytes` by their first bytes; a `Path` stands for the bytes of its
    file, by its suffix; a Pillow image or an array that looks like an image is stored as one, see
    `image_codec`; a truth value is `json`, which gives it back as one; a time has its unit, as
    `datetime64(us)`; a list is a sequence.

    Raises:
        SpecError: No sample is given; or a value has no obvious type, and its field is not in
            `known`.
    """
    if sample is None:
        raise SpecError("fields cannot be inferred without samples: pass spec=")
    if not isinstance(sample, Mapping):
        raise SpecError(f"a sample must be a dict of fields, not {type(sample).__name__}")
    spec = {}
    for name, value in sample.items():
        if name != KEY:
            if not isinstance(name, str):
                raise SpecError(f"the name of a field must be a str, not {name!r}")
            declared = (known or {}).get(name)
            try:
                spec[name] = _type_of(name, value)
                if declared is not None and spec[name].endswith("[]") != declared.endswith("[]"):
                    spec[name] = declared  # a list may be one value, as of json or an array
            except SpecError:
                if declared is None:
                    raise
                spec[name] = declared
    return spec


_IMAGE_NAMES = re.compile(r"(.*[._])?(images?|imgs?|photos?|pictures?|frames?|rgb|gr[ae]y)")
_CODEC_NAMES = re.compile(r"(.*[._])?(jpg|jpeg|png|webp|bmp|tif|tiff|ppm|pgm|gif|avif|heic|jxl)")


def image_codec(name: str, value: Any) -> str | None:
    """Return the codec of a Pillow image, or of an array in an image field; None for other values.

    A field that is named like an image codec (`jpg`, `left.png`) gets that codec. Otherwise a
    Pillow image that was read from a JPEG gets `jpg`, and other images get `png`, which loses
    nothing. An array is an image if it is uint8, its shape is HxW, HxWx1, HxWx3 or HxWx4, and its
    field is named `image`, `img`, `photo`, `picture`, `frame`, `rgb` or `gray`, also in the plural
    and after a dot or underscore (`left_image`), or like an image codec.
    """
    codec = _CODEC_NAMES.fullmatch(name.lower())
    named = codec and codec[2]
    if isinstance(value, np.ndarray):
        is_image = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
        if value.dtype != np.uint8 or not is_image or 0 in value.shape:
            return None
        if named is None and _IMAGE_NAMES.fullmatch(name.lower()) is None:
            return None
        return named or "png"
    if "PIL.Image" not in sys.modules:  # no Pillow image exists without Pillow's module
        return None
    from PIL import Image

    if not isinstance(value, Image.Image):
        return None
    return named or ("jpg" if value.format in ("JPEG", "MPO") else "png")


_TYPES = (
    (str, "utf8"),
    ((bool, np.bool_, Mapping), "json"),  # `int` would give 1 for True
    (datetime, "datetime64(us)"),
    (date, "datetime64(D)"),
    (timedelta, "timedelta64(us)"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    (np.ndarray, "array"),
)
"""The codecs of values, by their types."""


def _type_of(name: str, value: Any) -> str:
    if (image := image_codec(name, value)) is not None:
        return image
    if isinstance(value, os.PathLike):
        return codec_of_extension(Path(value).suffix[1:])
    if isinstance(value, bytes | bytearray | memoryview):
        kind = kind_of(value)
        if kind is None or kind in WEAK:
            return "bytes"
        if kind == "m4a":
            return "audio"
        return kind
    if isinstance(value, np.datetime64 | np.timedelta64):
        return codec_of_time(value.dtype)
    for kinds_of_values, codec in _TYPES:
        if isinstance(value, kinds_of_values):
            return codec
    if isinstance(value, list | tuple) and value:
        kinds = {_type_of(name, element) for element in value}
        if len(kinds) == 1 and not (kind := kinds.pop()).endswith("[]"):
            return f"{kind}[]"
    raise SpecError(f"the type of field {name!r} cannot be inferred from {value!r:.80}: pass spec=")


def as_dict(sample: Any, names: Sequence[str]) -> Any:
    """Return a sample as a dict, in which tensors are arrays. A value of another kind stays as it is.

    Args:
        sample: A dict, a named tuple, or a tuple or list of values.
        names: The names of such values.

    Raises:
        SpecError: There are not as many names.
    """
    if hasattr(sample, "_asdict"):
        sample = sample._asdict()
    elif isinstance(sample, tuple | list):
        if len(sample) != len(names):
            raise SpecError(
                f"a sample is a {type(sample).__name__} of {len(sample)} values: name each of "
                "them, in this order, with its type, as in spec={'image': 'png', 'label': 'int'}"
            )
        sample = dict(zip(names, sample, strict=True))
    if not isinstance(sample, Mapping):
        return sample
    return {name: as_array(value) for name, value in sample.items()}


def with_files(sample: Sample) -> Sample:
    """Return a sample in which paths are replaced by the bytes of their files, also in lists.

    Raises:
        FileNotFoundError: A file does not exist.
    """
    if not isinstance(sample, Mapping) or not any(map(holds_paths, sample.values())):
        return sample
    return {name: _with_file(value) for name, value in sample.items()}


def holds_paths(value: object) -> bool:
    """Return whether a value is a path object, or a list that begins with one."""
    return isinstance(value, os.PathLike) or (
        isinstance(value, list | tuple) and bool(value) and isinstance(value[0], os.PathLike)
    )


def _with_file(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return read_whole(as_path(value))
    if holds_paths(value):
        return [_with_file(member) for member in value]
    return value


def rows_of(columns: Mapping[str, Any]) -> list[Sample]:
    """Return columns as dicts. Some columns are lists of paths. Raise ValueError if the columns differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(
            f"the columns of a source must have the same length, but these have {lengths}"
        )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
