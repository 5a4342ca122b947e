"""Encoders and decoders by type: Bushel's codecs, and for values and bytes that these refuse, the originals'."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import msgpack
import numpy as np

from bushel import jpeg
from bushel.codecs import get_codec
from bushel.errors import CodecError

from .base import WrongTypeError

Pair = tuple[Callable[..., Any], Callable[..., Any]]
"""The encoder and the decoder."""


def _always(data: Any) -> bool:
    return True


def _is_no_plain_jpeg(data: Any) -> bool:
    try:
        return bytes(data[:2]) != b"\xff\xd8" or jpeg.read_header(data).components == _CMYK
    except (CodecError, TypeError):
        return True


_CMYK = 4
_DIRECT: Mapping[str, Callable[[Any], bool]] = {"png": _always, "jpg(75)": _is_no_plain_jpeg}
"""Codecs whose values differ from the originals' for some bytes, and which: masks, palettes, CMYK."""


def is_direct(codec: str, data: Any) -> bool:
    """Return whether bytes of a codec are decoded as by the originals, because the codec's values differ."""
    return codec in _DIRECT and _DIRECT[codec](data)


class Coder:
    """A function of a value or of bytes: Bushel's codec, and if that refuses them, the original's."""

    def __init__(self, codec: str, encodes: bool, original: Pair) -> None:
        self._arguments = codec, encodes, original
        functions = get_codec(codec)
        self._call = functions.encode if encodes else functions.decode
        self._original = original[0] if encodes else original[1]
        self._direct = None if encodes else _DIRECT.get(codec)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def __call__(self, value: Any) -> Any:
        if self._direct is not None and self._direct(value):
            return self._original(value)
        try:
            return self._call(value)
        except (CodecError, TypeError, ValueError) as error:
            return as_original(error, self._original, value)


def as_original(error: Exception, original: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of the original; its error gets the message of Bushel's codec as a note."""
    try:
        return original(*arguments)
    except Exception as same:
        same.add_note(str(error))
        raise same from error


def encode_int(value: Any, size: int | None = None, signed: bool = True) -> bytes:
    """Encode a whole number, little-endian, in `size` bytes or as few as it needs."""
    if size is None:
        size = int(np.ceil(np.log2(1 + value) / 8))
    stored: bytes = value.to_bytes(max(1, int(size)), "little", signed=signed)
    return stored


def decode_int(data: bytes, size: int | None = None, signed: bool = True) -> int:
    """Decode a whole number of at most 16 bytes."""
    if (size is not None and len(data) != size) or len(data) > 16:
        raise AssertionError(f"{len(data)} bytes where {size or 'at most 16'} are needed")
    return int.from_bytes(data, "little", signed=signed)


def _contiguous(value: Any) -> Any:
    if value.dtype.hasobject:
        raise TypeError(
            f"an array of {value.dtype} has addresses of objects instead of values: give it numbers"
        )
    if not value.data.c_contiguous:
        raise AssertionError("the array is not contiguous in memory")
    return value


def _encode_array(value: Any) -> bytes:
    data: bytes = msgpack.packb((_contiguous(value).dtype.str, value.shape, value.data))
    return data


def _decode_array(data: bytes) -> Any:
    dtype, shape, content = msgpack.unpackb(data)
    return np.frombuffer(content, dtype).reshape(shape).copy()


def _encode_tree(value: Any) -> bytes:
    def plain(each: Any) -> Any:
        if isinstance(each, list | tuple):
            return [plain(element) for element in each]
        if isinstance(each, dict):
            return {key: plain(element) for key, element in each.items()}
        return (
            ("_", each.dtype.str, each.shape, _contiguous(each).data)
            if isinstance(each, np.ndarray)
            else each
        )

    data: bytes = msgpack.packb(plain(value))
    return data


def _decode_tree(data: bytes) -> Any:
    def full(each: Any) -> Any:
        if isinstance(each, list) and len(each) == 4 and each[0] == "_":
            return np.frombuffer(each[3], each[1]).reshape(each[2]).copy()
        if isinstance(each, list):
            return [full(element) for element in each]
        return (
            {key: full(element) for key, element in each.items()}
            if isinstance(each, dict)
            else each
        )

    return full(msgpack.unpackb(data))


def _encode_image(value: Any, *_: str, kind: str) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(value).save(stream, kind)
    return stream.getvalue()


def decode_image(data: bytes, *_: str) -> Any:
    """Decode an image with Pillow: uint8, HxWx3, or HxW of a grey one."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(data)))


def _unchanged(value: Any) -> Any:
    return value


def _encode_utf8(value: Any) -> Any:
    return value.encode("utf-8")


def _decode_utf8(data: Any) -> Any:
    return data.decode("utf-8")


def _refuse_video(value: Any, *_: str) -> NoReturn:
    """Raise the error of the libraries of videos for a value that the codec refuses."""
    raise ValueError(f"this {type(value).__name__} is not a video")


AS_IN_THE_ORIGINAL = frozenset({"bytes", "utf8"})
"""Types for which no codec is called."""

_PLAIN: Mapping[str, Pair] = {
    "bytes": (_unchanged, _unchanged),
    "utf8": (_encode_utf8, _decode_utf8),
    "msgpack": (msgpack.packb, msgpack.unpackb),
}
_JPEG: Pair = partial(_encode_image, kind="JPEG"), decode_image
_IMAGE_AND_VIDEO: Mapping[str, Pair] = {
    "png": (partial(_encode_image, kind="PNG"), decode_image),
    "mp4": (_refuse_video, _refuse_video),
}
GRANULAR: Mapping[str, Pair] = {
    **_PLAIN,
    "int": (encode_int, decode_int),
    "i64": (partial(encode_int, size=8), partial(decode_int, size=8)),
    "u64": (partial(encode_int, size=8, signed=False), partial(decode_int, size=8, signed=False)),
    "array": (_encode_array, _decode_array),
    "tree": (_encode_tree, _decode_tree),
    "jpg": _JPEG,
    **_IMAGE_AND_VIDEO,
    "webm": (_refuse_video, _refuse_video),
}
"""Granular's functions by type."""


def _encode_shaped(value: Any, dtype: str, *shape: str) -> bytes:
    if value.dtype != np.dtype(dtype) or value.shape != tuple(map(int, shape)):
        raise AssertionError(
            f"an array of {value.dtype}{list(value.shape)} "
            f"where {dtype}({','.join(shape)}) is needed"
        )
    data: bytes = value.tobytes()
    return data


def _decode_shaped(data: bytes, dtype: str, *shape: str) -> Any:
    return np.frombuffer(data, dtype).reshape(tuple(map(int, shape))).copy()


def _encode_uint(value: Any, size: str | None = None) -> bytes:
    # in the original's order, for its errors
    length = np.ceil(np.log2(1 + value) / 8) if size is None else size
    data: bytes = value.to_bytes(int(length), "little")
    return data


def _decode_uint(data: bytes, size: str | None = None) -> int:
    return int.from_bytes(data, "little")


BAGS: Mapping[str, Pair] = {
    **_PLAIN,
    "int": (_encode_uint, _decode_uint),
    "array": (_encode_shaped, _decode_shaped),
    "jpeg": _JPEG,
    **_IMAGE_AND_VIDEO,
}
"""The functions of bags by type, which get the type's parameters as text."""

Codecs = dict[str, Callable[..., Any]] | None

_CODECS = {**{name: name for name in GRANULAR}, "jpg": "jpg(75)"}  # 75 is Pillow's default

encoders: dict[str, Callable[[Any], Any]] = {
    name: pair[0] if name in AS_IN_THE_ORIGINAL else Coder(_CODECS[name], True, pair)
    for name, pair in GRANULAR.items()
}
"""Types to functions from a value to bytes."""

decoders: dict[str, Callable[[bytes], Any]] = {
    name: pair[1] if name in AS_IN_THE_ORIGINAL else Coder(_CODECS[name], False, pair)
    for name, pair in GRANULAR.items()
}
"""Types to functions from bytes to a value."""


def bind_codecs(codecs: Codecs, spec: dict[str, str]) -> dict[str, Callable[..., Any]]:
    """Return the function for each key of a spec, or raise a KeyError if a type has none."""
    if codecs is None:
        return dict.fromkeys(spec, _unchanged)
    missing = sorted({kind.removesuffix("[]") for kind in spec.values()} - codecs.keys())
    if missing:
        raise KeyError(
            f"no function was given for the type {missing[0]!r}; there are {', '.join(codecs)}"
        )
    return {key: codecs[kind.removesuffix("[]")] for key, kind in spec.items()}


def of_generation(decode: Callable[..., Any], stored: str) -> Callable[..., Any]:
    """Return the decoder for records of the codec `stored`: the oldest generation wrote `int` without a sign."""
    if stored == "uint" and decode is decoders["int"]:
        return Coder("uint", False, GRANULAR["int"])
    return decode


def stored_bytes(key: str, kind: str, encode: Callable[..., Any], value: Any) -> bytes:
    """Return an encoded value. An error of the encoder gets a note that names the key."""
    try:
        value = encode(value)
    except Exception as error:
        error.add_note(f"while encoding key {key!r} of type {kind!r}")
        raise
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise WrongTypeError(
        f"key {key!r} of type {kind!r} must be encoded to bytes, not {type(value).__name__}"
    )
