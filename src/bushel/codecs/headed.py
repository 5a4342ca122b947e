"""Values with the headers of MDS and LitData: arrays, images, and nested values.

`mds-array` and `mds-array(float32)` are the encoding `ndarray` of mosaicml-streaming
(`format/mds/encodings.py`): a byte for the dtype if the column does not fix it, a byte with the
number of axes and the width of sizes, the sizes, the elements. `litdata-array` and `litdata-tensor`
are the serializers `numpy` and `tensor` of litdata (`streaming/serializers.py`): dtype, number of
axes and sizes as u32, little-endian in one and big-endian in the other. `pil` is the raw image of
both: width, height and length of the mode as u32, the mode, the pixels.

`litdata-json` has lists and dicts in a binary form with a tag before each value, or as JSON
(https://github.com/Lightning-AI/litData). A list of texts, of numbers or of equal dicts has one tag
for all elements.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array
from bushel.errors import CodecError, SpecError

from .arrays import ArrayForm, Parsed, as_array
from .base import Buffer, Codec, Factory, codec_error, plain, refused
from .structured import FACTORIES as STRUCTURED

_MDS_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_LITDATA_NAMES = (
    # NumPy's
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128 bool"
)
_TORCH_NAMES = (
    "float32 float32 float64 float64 complex64 complex64 complex128 complex128 float16 "
    "float16 bfloat16 uint8 int8 int16 int16 int32 int32 int64 int64 bool uint16"
)
LITDATA_DTYPES = dict(enumerate(_LITDATA_NAMES.split(" ")))
"""NumPy dtypes by their numbers in LitData."""
TORCH_DTYPES = dict(enumerate(_TORCH_NAMES.split(" ")))
"""PyTorch dtypes by their numbers in LitData. NumPy has no bfloat16."""
_MODES: Mapping[str, tuple[Any, ...]] = {
    "L": ("uint8",),
    "P": ("uint8",),
    "LA": ("uint8", 2),
    "RGB": ("uint8", 3),
    "RGBA": ("uint8", 4),
    "CMYK": ("uint8", 4),
    "YCbCr": ("uint8", 3),
    "HSV": ("uint8", 3),
    "I;16": ("uint16",),
    "I": ("int32",),
    "F": ("float32",),
}
"""The dtype and the channels of the modes of Pillow whose pixels are elements of an array, if they have some."""
_BITS = "1"  # the mode of Pillow with eight pixels in a byte
_MOST_AXES = 32


def _little(name: str) -> np.dtype[Any]:
    return np.dtype(name).newbyteorder("<")


def _elements(array: Array) -> bytes:
    return array.astype(_little(array.dtype.name)).tobytes()


class _Mds(ArrayForm, frozen=True):
    dtype: str | None  # the one that the column has; None if it is in each value

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        view, at, dtype = memoryview(data), 0, self.dtype
        if dtype is None:
            dtype, at = _MDS_DTYPES.get(view[0]) if view else None, 1
        if dtype is None or len(view) <= at:
            raise refused(self.name, "an array of MDS with a known dtype", data)
        axes, width = view[at] >> 2, 1 << (view[at] & 3)
        start = at + 1 + axes * width
        if len(view) < start:
            raise refused(self.name, f"the sizes of {axes} axes", data)
        sizes = np.frombuffer(view[at + 1 : start], f"<u{width}").tolist()
        return _little(dtype), tuple(sizes), view[start:], False

    def encode(self, value: Any) -> bytes:
        array = as_array(self.name, value)
        dtype, numbers = array.dtype.name, {name: number for number, name in _MDS_DTYPES.items()}
        if dtype not in numbers or self.dtype not in (None, dtype) or 0 in (array.ndim, array.size):
            expected = self.dtype or "8 to 64 bits"
            what = f"an array of numbers of {expected}, with elements and axes"
            raise refused(self.name, what, value)
        width = next(width for width in range(4) if max(array.shape) < 1 << (8 << width))
        sizes = np.array(array.shape, f"<u{1 << width}").tobytes()
        head = [] if self.dtype else [numbers[dtype]]
        return bytes([*head, array.ndim << 2 | width]) + sizes + _elements(array)


def _mds(name: str, arguments: str) -> Codec:
    if arguments and arguments not in _MDS_DTYPES.values():
        raise SpecError(f"codec {name!r}: {arguments!r} is not a dtype of MDS such as float32")
    return _Mds(name, arguments or None).factory()(name, "")


class _Litdata(ArrayForm, frozen=True):
    order: str  # of the bytes of numbers in the header: `<` or `>`
    dtypes: Mapping[int, str]

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        view, number, axes = memoryview(data), -1, 0
        if len(view) >= 8:
            number, axes = struct.unpack(f"{self.order}II", view[:8])
        start, dtype = 8 + 4 * axes, self.dtypes.get(number)
        if dtype is None or dtype == "bfloat16" or axes > _MOST_AXES or len(view) < start:
            expected = "a known dtype (NumPy has no bfloat16) and the sizes of the axes"
            description = f"dtype {dtype or number}, {axes} axes and {len(view)} bytes"
            raise codec_error(self.name, expected, description)
        shape = struct.unpack(f"{self.order}{axes}I", view[8:start])
        return _little(dtype), shape, view[start:], False

    def encode(self, value: Any) -> bytes:
        array = as_array(self.name, value)
        names = list(self.dtypes.values())
        if array.dtype.name not in names or array.ndim > _MOST_AXES:
            what = f"an array of {', '.join(dict.fromkeys(names))}"
            raise refused(self.name, what, value)
        numbers = names.index(array.dtype.name), array.ndim, *array.shape
        return struct.pack(f"{self.order}{len(numbers)}I", *numbers) + _elements(array)


class _Pil(ArrayForm, frozen=True):
    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        view, mode, start = memoryview(data), "", 0
        if len(view) >= 12:
            width, height, size = struct.unpack("<III", view[:12])
            start = 12 + size
            mode = bytes(view[12:start]).decode("latin-1")
        if mode == _BITS and len(view) == start + height * -(-width // 8):
            bits = np.frombuffer(view[start:], np.uint8).reshape(height, -(-width // 8))
            pixels = np.unpackbits(bits, axis=1, count=width)
            return np.dtype(np.bool_), (height, width), memoryview(pixels.tobytes()), False
        if mode not in _MODES or len(view) < start:
            modes = ", ".join((_BITS, *_MODES))
            raise refused(self.name, f"a raw image of a mode among {modes}", data)
        dtype, *channels = _MODES[mode]
        return _little(dtype), (height, width, *channels), view[start:], False

    def encode(self, value: Any) -> bytes:
        array = as_array(self.name, value)
        kind, pixels = (array.dtype.name, *array.shape[2:]), array
        mode = next((mode for mode, stored in _MODES.items() if stored == kind), None)
        if kind == ("bool",) and array.ndim == 2:
            mode, pixels = _BITS, np.packbits(array, axis=1)
        if mode is None or array.ndim < 2:
            what = "an array H×W or H×W×2 to 4 of uint8, or H×W of bool, uint16, int32, float32"
            raise refused(self.name, what, value)
        height, width = array.shape[:2]
        return struct.pack("<III", width, height, len(mode)) + mode.encode() + _elements(pixels)


# Nested values of LitData


_NESTED_NAME = "litdata-json"
_PLAIN = STRUCTURED["json"]("json", "")
(
    _AS_JSON,
    _TEXTS,
    _INTEGERS,
    _REALS,
    _TRUTHS,
    _DICT,
    _DICTS,
    _TEXT,
    _INTEGER,
    _REAL,
    _TRUTH,
    _NONE,
) = range(12)
_DEEPEST = 200
_NUMBERS = {_INTEGER: "<q", _REAL: "<d"}
_NUMBER_LISTS = {_INTEGERS: "<i8", _REALS: "<f8"}
_OF_ROWS = {0x10: _NONE, 0x11: _TEXT, 0x12: _INTEGER, 0x13: _REAL, 0x14: _TRUTH}
"""The tags of values in a list of dicts."""


class _Cursor:
    """Reads values one after another."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def _take(self, length: int) -> memoryview:
        if length > len(self._data) - self._at:
            raise ValueError(f"{length} bytes are announced at offset {self._at}, and fewer follow")
        self._at += length
        return self._data[self._at - length : self._at]

    def _count(self, least: int) -> int:
        """Read the number of elements, whose smallest size is `least` bytes."""
        count = int.from_bytes(self._take(4), "little")
        if count * least > len(self._data) - self._at:
            raise ValueError(
                f"{count} elements are announced at offset {self._at}, and fewer bytes follow"
            )
        return count

    def _text(self) -> str:
        return str(self._take(self._count(1)), "utf-8")

    def _numbers(self, dtype: str) -> list[Any]:
        width = np.dtype(dtype).itemsize
        return list(np.frombuffer(self._take(self._count(width) * width), dtype).tolist())

    def value(self, tag: int | None = None, depth: int = 0) -> Any:
        """Read a value, after its tag if that is known."""
        if tag is None:
            tag = self._take(1)[0]
        if depth > _DEEPEST:
            raise ValueError(f"values are nested deeper than {_DEEPEST}")
        if tag == _NONE:
            return None
        if tag == _AS_JSON:
            return _PLAIN.decode(self._take(self._count(1)))
        if tag == _TEXT:
            return self._text()
        if tag in _NUMBERS:
            return struct.unpack(_NUMBERS[tag], self._take(8))[0]
        if tag == _TRUTH:
            return self._take(1)[0] != 0
        if tag == _TEXTS:
            return [self._text() for _ in range(self._count(4))]
        if tag in _NUMBER_LISTS:
            return self._numbers(_NUMBER_LISTS[tag])
        if tag == _TRUTHS:
            return [number != 0 for number in self._take(self._count(1))]
        if tag == _DICT:
            return {self._text(): self.value(None, depth + 1) for _ in range(self._count(5))}
        if tag == _DICTS:
            return self._dicts()
        raise ValueError(f"the tag {tag} at offset {self._at - 1} is unknown")

    def _dicts(self) -> list[dict[str, Any]]:
        rows = self._count(0)
        names = [self._text() for _ in range(self._count(4))]
        if not names or rows * len(names) > len(self._data) - self._at:
            raise ValueError(
                f"{rows} dicts of {len(names)} values are announced, and fewer bytes follow"
            )
        return [{name: self._of_row() for name in names} for _ in range(rows)]

    def _of_row(self) -> Any:
        tag = self._take(1)[0]
        if tag not in _OF_ROWS:
            raise ValueError(f"the tag {tag} at offset {self._at - 1} is unknown")
        return self.value(_OF_ROWS[tag])


def _decode_nested(data: Buffer) -> Any:
    view = memoryview(data).cast("B")
    if len(view) and view[0] > 0x20:  # the older form
        return _PLAIN.decode(view)
    try:
        return _Cursor(view).value()
    except (ValueError, CodecError) as error:
        raise refused(_NESTED_NAME, "a nested value of LitData", data, error) from error


FACTORIES: Mapping[str, Factory] = {
    "mds-array": _mds,
    "litdata-array": _Litdata("litdata-array", "<", LITDATA_DTYPES).factory(),
    "litdata-tensor": _Litdata("litdata-tensor", ">", TORCH_DTYPES).factory(),
    "pil": _Pil("pil").factory(),
    _NESTED_NAME: plain(_PLAIN.encode, _decode_nested),
}
