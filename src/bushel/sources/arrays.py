"""Arrays with a sample per entry of their first axis."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.errors import SpecError
from bushel.sources.base import Sample
from bushel.sources.samples import image_codec
from bushel.spec import KEY
from bushel.storage import AnyPath, as_path, read_whole

__all__ = ["Arrays"]


class Arrays:
    """One array per field, all of the same length.

    Args:
        arrays: Field names to arrays of shape (samples, …); or one array, whose field is then called `data`; or the
            path of an `.npz` or `.npy` file. An array `__key__` of text gives the keys.
        spec: Types of fields that override the inferred ones, such as `{"image": "jpg"}`.

    Attributes:
        spec: Integers are `int`, real numbers `float`, text `utf8`, images in a field with such a name `png` (see
            `bushel.sources.samples.image_codec`), and everything else `array`.

    Raises:
        SpecError: The arrays differ in length, or hold objects.
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.ArrayLike] | npt.NDArray[Any] | str | os.PathLike[str] | AnyPath,
        *,
        spec: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(arrays, np.ndarray | Mapping):
            arrays = _load(as_path(arrays))
        named = {"data": arrays} if isinstance(arrays, np.ndarray) else arrays
        self._arrays = {name: np.asanyarray(array) for name, array in named.items()}
        lengths = {name: len(array) if array.ndim else -1 for name, array in self._arrays.items()}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            raise SpecError(f"the arrays of a source must have the same length, but these have {lengths}")
        self._keys = self._arrays.pop(KEY, None)
        self.spec = {name: _type_of(name, array) for name, array in self._arrays.items()} | dict(spec or {})

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values()))) if self._arrays else 0

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} of {len(self)}")
        sample: dict[str, Any] = {} if self._keys is None else {KEY: str(self._keys[position])}
        for name, array in self._arrays.items():
            value = array[position]
            sample[name] = value if array.ndim > 1 else value.item()
        return sample


def _load(path: AnyPath) -> dict[str, npt.NDArray[Any]] | npt.NDArray[Any]:
    """Return the arrays of a file. The array of a local `.npy` file is mapped, not read."""
    if isinstance(path, Path):
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        loaded = np.load(io.BytesIO(read_whole(path)), allow_pickle=False)
    return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}


def _type_of(name: str, array: npt.NDArray[Any]) -> str:
    if array.dtype.hasobject:
        raise SpecError(f"the array {name!r} holds Python objects: pass numbers or text, or an iterable of dicts")
    if array.ndim > 1:
        return (image_codec(name, array[0]) if len(array) else None) or "array"
    kinds = {"b": "int", "i": "int", "u": "int", "f": "float", "U": "utf8", "S": "bytes"}
    if array.dtype.kind not in kinds:
        raise SpecError(f"the array {name!r} has the dtype {array.dtype}, which no codec can store: convert it")
    return kinds[array.dtype.kind]
