"""Arrays and other columns with a value per sample."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.identity import digest_of_value
from bushel._runtime.arrays import I64
from bushel.codecs.arrays import exact_cast
from bushel.codecs.columns import InexactError, exact_array, is_stored, without_arrow
from bushel.codecs.scalars import codec_of_time
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, FormatError, SpecError
from bushel.kernels import crc32
from bushel.spec import KEY
from bushel.storage import AnyLocation, AnyPath, as_path, read_whole

from .base import Sample
from .samples import image_codec

_WIDEST = 64  # bits of the largest whole numbers that arrays hold
_ZIP = b"PK"
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # an odd number, so that the order of columns counts


class Arrays:
    """One column per field, all of the same length.

    Args:
        arrays: Field names to columns: arrays of shape (samples, …), lists (also of arrays of
            different lengths), Arrow arrays, or (data, offsets), the stored bytes of all samples
            and int64[samples + 1]; or one array, whose field is then called `data`; or the path of
            an `.npz` or `.npy` file. A column `__key__` of text gives the keys.
        spec: Types of fields that override the inferred ones, such as `{"image": "jpg"}`.

    Attributes:
        spec: Integers are `int`, real numbers `float`, truth values `bool`, text `utf8`, bytes
            `bytes`, times and durations `datetime64` and `timedelta64` with their unit, images in a
            field with such a name `png` (see `bushel.sources.samples.image_codec`), and everything
            else `array`. Lists of numbers of different lengths are `array`, too. Lists of truth
            values are `json`, which gives them back as such.

    Raises:
        SpecError: The columns differ in length, hold objects, or have invalid offsets.

    Examples:
        >>> from bushel.sources import Arrays
        >>> source = Arrays({"x": np.zeros((5, 8), np.float32), "y": np.arange(5)})
        >>> bushel.pack(source, "numbers.tar").spec
        {'x': 'array', 'y': 'int'}
    """

    def __init__(
        self,
        arrays: Mapping[str, Any] | np.ndarray | AnyLocation,
        *,
        spec: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(arrays, np.ndarray | Mapping):
            arrays = _load(as_path(arrays))
        named = arrays
        if isinstance(named, np.ndarray):
            named = {"data": named}
        typed = {name: _column(name, array) for name, array in named.items()}
        self._columns = {name: column for name, (_, column) in typed.items()}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise SpecError(
                f"the arrays of a source must have the same length, but these have {lengths}"
            )
        self._keys = self._columns.pop(KEY, None)
        self.spec = {name: typed[name][0] for name in self._columns} | dict(spec or {})

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        sample: dict[str, Any] = {}
        if self._keys is not None:
            sample[KEY] = str(self._keys[position])
        for name, column in self._columns.items():
            value = column[position]
            if isinstance(value, np.datetime64 | np.timedelta64):
                if np.isnat(value):
                    continue  # it is missing
            elif isinstance(value, np.generic):
                value = value.item()
            sample[name] = value
        return sample

    def digest(self, positions: I64, before: int) -> int:
        """Return a digest of samples, continued from the digest of those before them."""
        columns, keys = self.columns(positions)
        digests = _digests_of(keys or positions)
        for column in columns.values():
            digests = digests * _FACTOR + _digests_of(column)
        return crc32(digests.view(np.uint8), before)

    in_memory = has_columns = True

    def columns(self, positions: I64) -> tuple[dict[str, Any], list[str] | None]:
        """Return samples as columns: see `bushel.sources.base.Source`. Consecutive ones are views of the arrays."""
        rows: Any = positions
        if len(positions) and (positions[1:] - positions[:-1] == 1).all():
            rows = slice(int(positions[0]), int(positions[-1]) + 1)
        columns = {name: taken(column, rows) for name, column in self._columns.items()}
        if self._keys is None:
            return columns, None
        return columns, list(map(str, taken(self._keys, rows)))


_Column = np.ndarray | Sequence[Any] | StoredColumn
"""A column: an array; stored bytes; or a list of texts or bytes, which would be padded or cut as an array, of truth
values, or of arrays."""


def taken(column: Any, rows: slice | I64) -> Any:
    """Return some rows of a column: an array, a list, or stored bytes."""
    if isinstance(rows, slice) and isinstance(column, StoredColumn):
        return column.rows(rows.start, rows.stop)
    if isinstance(rows, slice) or isinstance(column, np.ndarray):
        return column[rows]
    return [column[row] for row in rows.tolist()]


def _digests_of(column: Any) -> npt.NDArray[np.uint64]:
    """Return uint64[n], a digest of each value of a column."""
    if isinstance(column, list):
        return np.array(list(map(digest_of_value, column)), np.uint64)
    if not isinstance(column, StoredColumn):
        rows = np.ascontiguousarray(column)
        offsets = np.arange(len(rows) + 1) * rows[:1].nbytes
        column = StoredColumn(rows.reshape(-1).view(np.uint8), offsets)
    digests: npt.NDArray[np.uint64] = column.crc32.astype(np.uint64)
    return digests


def _column(name: str, given: Any) -> tuple[str, _Column]:
    """Return the type of a column, and the column.

    Raises:
        SpecError: It is one value, or has values that no codec can store.
    """
    plain = without_arrow(given)
    if is_stored(plain):
        return "bytes", StoredColumn.checked(name, *plain)
    if isinstance(plain, tuple) or (
        isinstance(plain, np.ndarray) and plain.dtype.hasobject and plain.ndim == 1
    ):
        plain = list(plain)
    if _holds(plain, (bytes, bytearray, memoryview)):
        return "bytes", list(map(bytes, plain))
    if _holds(plain, str):
        return "utf8", plain
    # in an array of numbers they would become 0 and 1
    if _holds(plain, (int, float)) and bool in map(type, plain):
        return "json", plain
    try:
        array = exact_array(plain)
    except InexactError as error:
        raise SpecError(f"the column {name!r} cannot be stored: {error}") from error
    except ValueError:  # values of different lengths
        return "array", _ragged(name, plain)
    if array.dtype.hasobject and isinstance(plain, list):
        return "array", _ragged(name, plain)
    if name == KEY:
        return "utf8", array
    return _type_of(name, array), array


def _holds(values: object, kinds: type | tuple[type, ...]) -> bool:
    """Return whether a list has values of some kinds and no others."""
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(element, kinds) for element in values)
    )


def _ragged(name: str, values: Sequence[Any]) -> list[np.ndarray]:
    """Return arrays of different shapes in their common dtype.

    Raises:
        SpecError: A value is not an array of numbers.
    """
    try:
        arrays = [np.asarray(exact_array(value)) for value in values]
    except InexactError as error:
        raise SpecError(f"the column {name!r} cannot be stored: {error}") from error
    except ValueError:
        arrays = []
    full = [array for array in arrays if array.size]
    are_numbers = all(array.dtype.kind in "biuf" for array in full)
    if not full or not are_numbers or not all(array.ndim for array in arrays):
        raise SpecError(
            f"the column {name!r} holds {_unsupported_value(values)}: "
            "pass numbers, text, lists of numbers, or an iterable of dicts"
        )
    common = np.result_type(*(array.dtype for array in full))
    are_whole = common.kind == "f" and all(array.dtype.kind in "iu" for array in full)
    if are_whole and all(array.min() >= 0 for array in full):
        common = np.dtype(np.uint64)
    try:
        return [
            exact_cast(name, array, common) if array.size else array.astype(common)
            for array in arrays
        ]
    except CodecError as error:
        raise SpecError(
            f"the column {name!r} holds whole numbers that "
            f"{common}, the common dtype, does not keep"
        ) from error


def _unsupported_value(values: Sequence[Any]) -> str:
    """Return a description of a value that no array of numbers can hold."""
    for value in values:
        if isinstance(value, int) and value.bit_length() > _WIDEST:
            return f"{value}, which does not fit into 64 bits"
        if not isinstance(value, int | float | str | bytes):
            return f"Python objects, such as {value!r:.80}"
    return "Python objects"


def _load(path: AnyPath) -> dict[str, np.ndarray] | np.ndarray:
    """Return the arrays of a file. The array of a local `.npy` file is mapped, not read.

    Raises:
        FormatError: It is damaged, or holds Python objects.
    """
    from zipfile import BadZipFile  # which few calls need

    try:
        with path.open("rb") as file:
            if file.read(len(_ZIP)) == _ZIP:
                file.seek(0)
                archive = np.load(file, allow_pickle=False)
                return {name: archive[name] for name in archive.files}
        array: np.ndarray
        if isinstance(path, Path):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            array = np.load(io.BytesIO(read_whole(path)), allow_pickle=False)
        return array  # noqa: TRY300 - of several ways
    except (ValueError, EOFError, BadZipFile) as error:
        raise FormatError(
            f"not a file of arrays: {error}",
            path,
            hint="write it again with numpy.save or numpy.savez; arrays "
            "of Python objects are pickles, which are not read",
        ) from error


def _type_of(name: str, array: np.ndarray) -> str:
    if not array.ndim:
        raise SpecError(
            f"{name!r} is one value, but a column has one per sample: a list of dicts packs samples"
        )
    if array.dtype.hasobject:
        raise SpecError(
            f"the array {name!r} holds Python objects: "
            "pass numbers or text, or an iterable of dicts; of a dict of datasets, pack each"
        )
    if array.ndim > 1:
        images = [image_codec(name, value) for value in array[:1]]
        return next(filter(None, images), "array")
    if array.dtype.kind in "Mm":
        return codec_of_time(array.dtype)
    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "utf8", "S": "bytes"}
    if array.dtype.kind not in kinds:
        raise SpecError(
            f"the array {name!r} has the dtype {array.dtype}, which no codec can store: convert it"
        )
    return kinds[array.dtype.kind]
