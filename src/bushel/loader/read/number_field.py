"""Fields of numbers: the form of a codec's values, learned from examples of its stored bytes.

A codec declares where numbers are in its bytes (`Codec.layout`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field

from bushel._runtime.arrays import I64, Array
from bushel.codecs import ArrayLayout, NumberLayout, get_codec, is_registered
from bushel.errors import CodecError
from bushel.kernels import NumberForms

Value = Literal["array", "number", "bytes"]

_MOST_LENGTHS = 1 << 16  # of values of one field: beyond that, each is read as any other value
_UINT8, _NONE = np.dtype(np.uint8), np.dtype(np.void)


class Rooms(Struct, frozen=True, eq=False):
    """Where the values of a ragged field go: each into a room of one array.

    Attributes:
        out: A contiguous array of the field's type.
        starts: int64[n + 1]: value `i` belongs at `starts[i]` to `starts[i + 1]` of the first axis
            of `out`.
        fill: The bytes of the element that fills the rest of each room; None without a rest.
        skip: int64[n], elements of each value before those that fill its room; any may follow
            these. None for whole values. `fill` is None then.
    """

    out: Array
    starts: I64
    fill: bytes | None = None
    skip: I64 | None = None


class NumberField(Struct):
    """A field to gather.

    Attributes:
        name: The field.
        stored: Whether to gather the stored bytes themselves, of any codec.
        bytes_too: Whether values of the codec `bytes` are gathered, as arrays of bytes.
        ragged: Whether values may differ in the length of their first axis.
        axes: The number of axes that values must have; None for any.
        dtype: Type of the gathered numbers. A `NumberReader` finds it out.
        shape: Shape of a value; of a ragged one, with any first length.
        value: Kind of the values that `Dataset.read` returns.
    """

    name: str
    stored: bool = False
    bytes_too: bool = False
    ragged: bool = False
    axes: int | None = None
    dtype: np.dtype[Any] = _NONE
    shape: tuple[int, ...] = ()
    value: Value = "array"
    _known: dict[str, _Known] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether the type of its values is known."""
        return self.dtype != _NONE

    @property
    def nbytes(self) -> int:
        """Size of a value in bytes; of a ragged one, of each element of its first axis."""
        return math.prod(self.shape[1:] if self.ragged else self.shape) * self.dtype.itemsize

    def learn_number(self, dtype: np.dtype[Any]) -> bool:
        """Find out the type of the numbers of a column. Return whether they can be gathered."""
        return not (self.stored or self.ragged) and self._fits("number", dtype, ())

    def knows(self, codec: str, length: int) -> bool:
        """Return whether values of a codec and a stored length can be gathered."""
        codec_facts = self._known.get(codec)
        return codec_facts is not None and (
            codec_facts.headers is None or length in codec_facts.headers
        )

    def may_learn(self, codec: str) -> bool:
        """Return whether values of a codec may still be met that have another length."""
        return codec not in self._known or (
            self.ragged and len(self._known[codec].headers or ()) < _MOST_LENGTHS
        )

    def learn(self, codec: str, data: bytes) -> bool:
        """Learn the layout of this codec's values of one length from a stored one. Return whether that succeeded."""
        layout = get_codec(codec).layout
        if self.stored or (codec == "bytes" and self.bytes_too and not is_registered(codec)):
            if not self._fits("bytes", _UINT8, (len(data),)):
                return False
            self._known.setdefault(codec, _Known("bytes", None if self.ragged else {})).add(
                len(data), b""
            )
        elif isinstance(layout, NumberLayout):
            dtype = np.dtype(np.float64 if layout.kind == "real" else np.int64)
            of_length = layout.length is None or len(data) == layout.length
            if self.ragged or not of_length or not self._fits("number", dtype, ()):
                return False
            self._known[codec] = _Known(
                layout.kind, None if layout.length is None else {layout.length: layout.header}
            )
        elif layout is not None:
            try:
                found_layout = layout(data)
            except CodecError:
                return False
            if found_layout is None or not self._fits(
                "array", found_layout.dtype, found_layout.shape
            ):
                return False
            plain = self.ragged and _takes_any_length(layout, data, found_layout)
            self._known.setdefault(codec, _Known("bytes", None if plain else {})).add(
                len(data), found_layout.header
            )
        else:
            return False
        return True

    def _fits(self, value: Value, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
        """Return whether values of this type and shape are like those before. The first one decides."""
        first_axis, first = (1, 0) if self.ragged else (0, 1)
        if self.dtype == _NONE:
            if (
                0 in shape[first_axis:]
                or (self.ragged and not shape)
                or self.axes not in (None, len(shape))
            ):
                return False
            self.value, self.dtype, self.shape = value, dtype, shape
        return (
            (value, dtype) == (self.value, self.dtype)
            and len(shape) == len(self.shape)
            and shape[first_axis:] == self.shape[first_axis:]
        )

    def value_of(self, gathered: Array) -> Any:
        """Return a gathered value as `Dataset.read` returns it."""
        if self.value == "number":
            return gathered.item()
        if self.value == "bytes":
            return gathered.tobytes()
        return gathered

    def forms(self, codec: str) -> tuple[str, NumberForms | None]:
        """Return the kind and the headers of a codec's values, for the kernel."""
        codec_facts = self._known.setdefault(codec, _Known("bytes", {}))
        return codec_facts.kind, codec_facts.forms()


def _takes_any_length(
    layout: Callable[[bytes], ArrayLayout | None], data: bytes, found: ArrayLayout
) -> bool:
    """Return whether a codec stores numbers of one axis without a header, and as many as there are."""
    if found.header or len(found.shape) != 1:
        return False
    try:
        longer = layout(data + data)
    except CodecError:
        return False
    return longer is not None and not longer.header and longer.shape == (2 * found.shape[0],)


class _Known(Struct):
    """The known facts about values of one codec: their kind, and their headers by stored length (None: any, none)."""

    kind: str
    headers: dict[int, bytes] | None
    _forms: NumberForms | None = None

    def add(self, length: int, header: bytes) -> None:
        if self.headers is not None and length not in self.headers:
            self.headers[length] = header
            self._forms = None

    def forms(self) -> NumberForms | None:
        if self.headers is not None and self._forms is None:
            self._forms = NumberForms(self.headers)
        return self._forms
