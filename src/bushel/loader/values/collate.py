"""Collation: making one batch from a list of samples, field by field."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import NO_TENSORS, Array, as_array, check_count, is_torch, offsets_of
from bushel.codecs.conversions import exact
from bushel.codecs.parts import Part
from bushel.codecs.scalars import time_dtype
from bushel.errors import CodecError, SpecError
from bushel.spec import KEY

Sample = dict[str, Any]
Batch = dict[str, Any]


class Padded(Struct, frozen=True):
    """Collate arrays of different shapes: pad each at the end of every axis to a common shape.

    Attributes:
        value: Value of the padding.
        shape: The common shape; None for the largest size in the batch along each axis. A None in
            the tuple means the largest size along that axis. A larger array is an error.
        multiple_of: The largest sizes of the batch are rounded up to a multiple of this, so that
            fewer shapes occur.

    Examples:
        >>> from bushel.loader import Padded, collate
        >>> samples = [{"tokens": np.arange(3)}, {"tokens": np.arange(5)}]
        >>> collate(samples, {"tokens": Padded(multiple_of=4)})["tokens"].shape
        (2, 8)
    """

    value: float = 0
    shape: tuple[int | None, ...] | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        check_count("multiple_of", self.multiple_of, least=1)
        for size in self.shape or ():
            if size is not None:
                check_count("shape", size)

    def shape_for(self, largest: Sequence[int]) -> list[int]:
        """Return the common shape of arrays, given the largest size along each axis.

        Raises:
            ValueError: `shape` has another number of axes, or is smaller.
        """
        lengths = (None,) * len(largest) if self.shape is None else self.shape
        if len(lengths) != len(largest):
            raise ValueError(
                f"arrays of {len(largest)} axes cannot be padded to a shape of {len(lengths)} axes"
            )
        rounded = [-(-size // self.multiple_of) * self.multiple_of for size in largest]
        shape = [up if size is None else size for up, size in zip(rounded, lengths, strict=True)]
        if any(most > size for most, size in zip(largest, shape, strict=True)):
            raise ValueError(
                f"arrays of up to {tuple(largest)} do not fit into the padded shape {tuple(shape)}"
            )
        return shape

    def padding(self, dtype: np.dtype[Any]) -> Array:
        """Return the value of the padding as a number of a type, in an array of one element.

        Raises:
            ValueError: The type does not have this number.
        """
        if dtype.kind in "biu":
            if dtype.kind == "b":
                low, high = 0, 1
            else:
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            if not (low <= self.value <= high and self.value == int(self.value)):
                raise ValueError(
                    f"arrays of {dtype} cannot be padded with "
                    f"{self.value!r}, which is not such a number"
                )
        return np.full(1, self.value, dtype)

    def __call__(self, values: Sequence[Any]) -> Array:
        """Collate the values of one field.

        Raises:
            ValueError: The arrays differ in the number of axes, one is larger than `shape` or
                masked, no type holds all of their numbers, or theirs does not have the number of
                the padding.
        """
        arrays = _arrays(values)
        axes = arrays[0].ndim
        if any(array.ndim != axes for array in arrays):
            raise ValueError(
                f"arrays of {sorted({array.ndim for array in arrays})} "
                "axes cannot be padded to one shape"
            )
        if not axes:
            raise ValueError("numbers have no length to be padded: leave out the rule")
        shape = self.shape_for([max(array.shape[axis] for array in arrays) for axis in range(axes)])
        dtype = common_type(arrays)
        batch = np.empty((len(arrays), *shape), dtype)
        batch[...] = self.padding(dtype)
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(slice(size) for size in array.shape)] = array
        return batch


class Ragged(Struct, frozen=True):
    """Collate arrays of different lengths without padding: one after another, and where each begins.

    The batch has a dict: `values`, an array of shape (total, ...) of all arrays joined along their
    first axis; and `offsets`, int64[n + 1]: array `i` is `values[offsets[i]:offsets[i + 1]]`. Bytes
    are arrays of uint8.

    Examples:
        >>> from bushel.loader import Ragged, collate
        >>> samples = [{"tokens": np.arange(3)}, {"tokens": np.arange(2)}]
        >>> collate(samples, {"tokens": Ragged()})["tokens"]
        {'values': array([0, 1, 2, 0, 1]), 'offsets': array([0, 3, 5])}
    """

    def __call__(self, values: Sequence[Any]) -> dict[str, Array]:
        """Collate the values of one field.

        Raises:
            ValueError: A value is not an array of numbers, or masked, the arrays differ in more
                than their length, or no type holds all of their numbers.
        """
        arrays = _arrays(
            [
                np.frombuffer(bytearray(value), np.uint8) if type(value) is bytes else value
                for value in values
            ]
        )
        if any(array.ndim == 0 or array.dtype.kind not in "biufc" for array in arrays):
            raise ValueError(
                "values without a length, or of other things "
                f"than numbers: {', '.join(_forms(values))}"
            )
        if len({array.shape[1:] for array in arrays}) > 1:
            raise ValueError(
                f"arrays that differ in more than their length: {', '.join(_forms(values))}"
            )
        offsets = offsets_of(map(len, arrays))
        return {
            "values": np.concatenate(arrays, dtype=common_type(arrays), casting="unsafe"),
            "offsets": offsets,
        }


_KINDS: Mapping[str, Any] = {
    "int": bool | int,
    "float": bool | int | float | np.number,
}


class AsOneType(Struct, frozen=True):
    """Collate values of a field whose type differs between files: always as the type that holds all.

    Attributes:
        codec: The type: `int`, `float`, or one of times; `json` for texts beside numbers, always a list.
        must: Whether other values than numbers and times have to stack, too.
    """

    codec: str
    must: bool = False

    def __call__(self, values: Sequence[Any]) -> Any:
        """Collate the values of one field.

        Raises:
            CodecError: A value has no equal in the type.
            ValueError: Values do not stack.
        """
        if self.codec == "json" and not self.must:
            return list(values)
        dtype = time_dtype(self.codec)
        kind = _KINDS.get(self.codec, ()) if dtype is None else dtype.type
        if all(isinstance(value, kind) for value in values):  # others are of a transform
            values = [exact(self.codec, value) for value in values]
        return _stack(list(values), must=self.must)


FieldCollate = Literal["list", "stack"] | Padded | Ragged | Callable[[Sequence[Any]], Any]
Collate = Callable[[list[Sample]], Any] | Mapping[str, FieldCollate]


def collate(
    samples: list[Sample],
    rules: Mapping[str, FieldCollate] | None = None,
    stacked: Mapping[str, Any] | None = None,
) -> Batch:
    """Make a batch from samples.

    Without a rule, numbers become an array that equals them (Python ints int64, or uint64 if one is
    above 2**63 - 1; floats float64, bools bool; numbers that no type holds stay a list), arrays of
    one shape and type are stacked and keep their type, in native byte order, and all other values
    (text, bytes, dicts, arrays of different shapes) stay a list. Tensors that have `__array__` or
    DLPack, as in torch and JAX, are arrays; tensors of torch without an array (on a device, or of
    bfloat16) are stacked by torch.

    Args:
        samples: The samples, in the order of the batch.
        rules: A mapping of fields to rules: `"list"`, `"stack"` (arrays that do not stack are an
            error; the elements of sequences are stacked, too, and bytes of one length become an
            array of uint8), a `Padded`, a `Ragged`, or a function of the list of values.
        stacked: The fields of the batch that are collated already.

    Returns:
        A dict of fields to arrays of shape (len(samples), ...) or lists. `__key__` is a list of
        str.

    Raises:
        SpecError: A sample lacks a field that others have, or has a masked array there, and the
            rule of the field is not `"list"`; or values do not collate.

    Examples:
        >>> from bushel.loader import collate
        >>> samples = [{"x": np.zeros(2), "text": "one"}, {"x": np.ones(2), "text": "two"}]
        >>> collate(samples)["x"].shape, collate(samples)["text"]
        ((2, 2), ['one', 'two'])
    """
    if not samples:
        return {}
    rules, stacked = rules or {}, stacked or {}
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {
        name: stacked[name] if name in stacked else _collate_field(name, samples, rules.get(name))
        for name in names
    }


def without_key(sample: Sample) -> Sample:
    """Return a sample without its key."""
    return {name: value for name, value in sample.items() if name != KEY}


def _collate_field(name: str, samples: list[Sample], rule: FieldCollate | None) -> Any:
    values = [sample.get(name) for sample in samples]
    if rule == "list" or name == KEY:
        return values
    for sample in samples:
        if name not in sample:
            raise SpecError(
                f"sample {sample.get(KEY)!r} has no field {name!r}, but other "
                "samples of its batch have. Leave the field out with fields=, or "
                f'get a list with None for it with collate={{{name!r}: "list"}}'
            )
    return collate_values(name, values, rule, lambda: samples[0].get(KEY))


def collate_values(
    name: str, values: list[Any], rule: FieldCollate | None, first_key: Callable[[], Any]
) -> Any:
    """Collate the values of one field, which all samples have.

    Raises:
        SpecError: They do not collate.
    """
    if rule == "list":
        return values
    try:
        if callable(rule):
            return rule(values)
        return _stack(values, must=rule == "stack")
    except (ValueError, CodecError) as error:
        start = f"cannot collate field {name!r} of the batch that starts at sample {first_key()!r}"
        raise SpecError(f"{start}: {error}") from error


def _stack(values: list[Any], *, must: bool) -> Any:
    if not NO_TENSORS.issuperset(map(type, values)):
        values = list(map(as_array, values))
    first = values[0]
    if isinstance(first, np.ndarray):
        _refuse_masks(values)
        if all(
            isinstance(v, np.ndarray) and v.shape == first.shape and v.dtype == first.dtype
            for v in values
        ):
            return np.stack(values, dtype=first.dtype.newbyteorder("="))
    elif must and type(first) is bytes:
        if all(type(value) is bytes and len(value) == len(first) for value in values):
            return np.frombuffer(bytearray().join(values), np.uint8).reshape(
                len(values), len(first)
            )
    elif must and isinstance(first, list):
        sequences = [_stack(value, must=True) if value else value for value in values]
        if all(isinstance(sequence, np.ndarray) for sequence in sequences):
            return _stack(sequences, must=True)
    elif isinstance(first, np.datetime64 | np.timedelta64):
        if all(type(value) is type(first) for value in values):
            return np.array(values)  # in the finest of their units
    elif isinstance(first, bool | int | float | complex | np.generic):
        kinds = bool | int | float | complex | np.number | np.bool_
        if (
            all(isinstance(value, kinds) for value in values)
            and (array := _exact(values)) is not None
        ):
            return array
    elif (tensor := _stacked_by_torch(values)) is not None:
        return tensor
    if must:
        raise ValueError(
            f"values of different kinds do not stack: {', '.join(_forms(values))}. "
            'Resize them, or collate with Padded, Ragged or "list"'
        )
    return values


def _exact(values: Sequence[Any]) -> Array | None:
    """Return an array that equals numbers; None if no type holds them all."""
    array = np.array(values)
    if array.dtype.kind not in "fcO":
        return array
    whole = {
        place: int(value)
        for place, value in enumerate(values)
        if isinstance(value, int | np.integer)
    }
    if len(whole) == len(values):  # NumPy makes floats of integers on both sides of 2**63
        if 0 <= min(whole.values()) <= max(whole.values()) < 1 << 64:
            return np.array([*whole.values()], np.uint64)
        return None
    if array.dtype == object or any(array[place].item() != value for place, value in whole.items()):
        return None
    return array


def _arrays(values: Sequence[Any]) -> list[Array]:
    _refuse_masks(values)
    arrays = [as_array(value) for value in values]
    if any(map(is_torch, arrays)):
        raise ValueError("tensors of bfloat16 or on a device do not become arrays: convert them")
    return [np.asarray(array) for array in arrays]


def _refuse_masks(values: Sequence[Any]) -> None:
    if any(is_masked(value) for value in values):
        raise ValueError(
            "a masked array would lose its mask: fill it in a "
            'transform, as in array.filled(0), or collate with "list"'
        )


def is_masked(value: Any) -> bool:
    """Return whether a value is a masked array, without importing `numpy.ma`."""
    return (
        type(value) is not np.ndarray and isinstance(value, np.ndarray) and hasattr(value, "mask")
    )


def common_type(arrays: Sequence[Array]) -> np.dtype[Any]:
    """Return the type, in native byte order, that holds all numbers of some arrays.

    Raises:
        ValueError: No arrays were given.
    """
    dtypes = {array.dtype for array in arrays}
    common = np.result_type(*dtypes).newbyteorder("=")
    if len(dtypes) == 1 or common.kind not in "fc":
        return common
    whole = [array for array in arrays if array.dtype.kind in "iu" and array.size]
    low, high = (
        min((int(array.min()) for array in whole), default=0),
        max((int(array.max()) for array in whole), default=0),
    )
    if all(dtype.kind in "biu" for dtype in dtypes):
        if low >= 0:
            return np.dtype(np.uint64)
        if high < 1 << 63:
            return np.dtype(np.int64)
    elif low >= -(1 << 53) and high <= 1 << 53:
        return common
    raise ValueError(
        "no type holds the numbers of arrays of "
        f"{', '.join(sorted(map(str, dtypes)))}: convert them"
    )


def _forms(values: Sequence[Any]) -> list[str]:
    return sorted({_form(value) for value in values})


def _form(value: Any) -> str:
    if type(value) is bytes:
        return f"bytes[{len(value)}]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__


def _stacked_by_torch(values: Sequence[Any]) -> Any:
    """Return tensors of torch that have no arrays, stacked; None if they are others, or differ in form."""
    if not all(map(is_torch, values)):
        return None
    if len({(value.shape, value.dtype, value.device) for value in values}) > 1:
        return None
    return sys.modules["torch"].stack([value.detach() for value in values])


def count_bytes(value: Any) -> int:
    """Return the size of the arrays, bytes and text in a batch, in bytes."""
    if isinstance(value, np.ndarray | memoryview | Part):
        return value.nbytes
    if isinstance(value, bytes | bytearray | str):
        return len(value)
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        return sum(map(count_bytes, value))
    return 0
