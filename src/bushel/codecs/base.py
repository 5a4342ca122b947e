"""The codec protocol and its errors."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, Array
from bushel._runtime.public import did_you_mean, public
from bushel.errors import CodecError, MissingPackageError, SpecError

MAX_EXPANDED = 1 << 30
"""Limit in bytes to which one compressed value may expand. A larger one is rejected as a decompression bomb."""

INTEGERS = ("int", "uint", "i64", "u64", "cls")
"""The codecs of whole numbers."""

REAL = ("float", "f32", "float-text")
"""The codecs of real numbers."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Stored bytes. Memoryviews are contiguous and of format `B`."""


class Ranged(Struct, frozen=True):
    """Decodes some elements of a value without all others, such as frames of a clip.

    Attributes:
        count: Maps bytes to the number of elements.
        decode: Maps bytes and a slice or int64[n] of elements (negative ones count from the end) to
            the value with only these elements. Raises `IndexError` for an element out of range.
        layout: Maps the first bytes of an array, perhaps none, and the number of all of them to its
            layout, so that rows are read without the others; None if these bytes are not enough.
            None for values that are not arrays.
        in_file: Maps an open file, which begins and ends as the value, and elements to the value with
            only these; None if that takes the whole value. None for values that are read whole.
        outline: Maps the number of bytes of a value to a new `Outline`, which finds its elements by
            looking at some of the bytes; None for values that are read whole.

    Examples:
        >>> from bushel.codecs import Ranged
        >>> letters = Ranged(count=len, decode=lambda data, part: bytes(data[part]))
        >>> letters.decode(b"bushel", slice(0, 4))
        b'bush'
    """

    count: Callable[[Buffer], int]
    decode: Callable[[Buffer, slice | I64], Any]
    layout: Callable[[Buffer, int], ArrayLayout | None] | None = None
    in_file: Callable[[BufferedReader, slice | I64], Any] | None = None
    outline: Callable[[int], Outline] | None = None


class Outline(Protocol):
    """Finds the bytes of some elements of one value, such as frames of a sound, by looking at a few of its bytes.

    Threads share it, so what it learns must replace what it knew at once.
    """

    def probe(self, elements: slice | I64) -> tuple[int, int] | None:
        """Return offset and length of bytes to look at before a part of some elements is planned; None for none.

        Raises:
            IndexError: An element is out of range.
        """

    def learn(self, offset: int, data: bytes) -> None:
        """Look at bytes that `probe` asked for."""

    def part(self, elements: slice | I64) -> Any:
        """Return the `Part` with some elements; None if the value has to be read whole.

        Raises:
            IndexError: An element is out of range.
        """


class ArrayLayout(Struct, frozen=True):
    """The layout of an array in its stored bytes.

    Any bytes of the same length that begin with the same header decode to an array of this dtype
    and shape, whose elements are the rest of the bytes, in C order. So a loader copies the elements
    without calling the codec.

    Attributes:
        header: The bytes before the elements, which may be none.
        dtype: The dtype, of numbers in native byte order.
        shape: The shape.

    Examples:
        >>> from bushel.codecs import ArrayLayout
        >>> layout = ArrayLayout(b"vec1", np.dtype("<f4"), (3,))
        >>> data = b"vec1" + np.ones(3, "<f4").tobytes()
        >>> np.frombuffer(data, layout.dtype, offset=len(layout.header)).reshape(layout.shape)
        array([1., 1., 1.], dtype=float32)
    """

    header: bytes
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class NumberLayout(Struct, frozen=True):
    """The layout of a Python number in its stored bytes.

    Attributes:
        kind: `signed` and `unsigned` are little-endian integers, `real` a little-endian float32 or
            float64, `whole-real` the same where only integers are valid, `decimal` an integer as
            text.
        length: Length of the stored bytes with the header; None if it varies.
        header: The bytes before the number.

    Examples:
        >>> from bushel.codecs import NumberLayout
        >>> bushel.codecs.get_codec("i64").layout == NumberLayout("signed", 8)
        True
        >>> bushel.codecs.get_codec("i64").layout
        NumberLayout(kind='signed', length=8, header=b'')
    """

    kind: Literal["signed", "unsigned", "real", "whole-real", "decimal"]
    length: int | None = None
    header: bytes = b""


Layout: TypeAlias = Callable[[Buffer], ArrayLayout | None] | NumberLayout
"""The layout of a codec's stored bytes: of all numbers, or a function of the stored bytes of one array. That returns
None, or raises a `CodecError`, for bytes without such a layout."""

ColumnEncoder: TypeAlias = Callable[[np.ndarray[Any, np.dtype[Any]]], tuple[U8, I64] | None]
"""Maps an array to the stored bytes of its elements, one after another, and their offsets."""


def fixed_rows(data: Array) -> tuple[U8, I64]:
    """Return the bytes of the rows of a contiguous array, which all have one length, and their offsets."""
    size = data.nbytes // len(data) if len(data) else 0
    return data.reshape(-1).view(np.uint8), np.arange(len(data) + 1) * size


def rows_after_header(encode: Callable[[Any], Buffer], array: Array) -> tuple[U8, I64] | None:
    """Encode the elements of an array as a header, which is the same for all, and the bytes of each."""
    rows = len(array)
    if (
        not rows
        or not array.dtype.isnative
        or array.dtype.kind not in "biufcmM"
        or not array[0].flags.c_contiguous
    ):
        return None
    plain = np.ascontiguousarray(array)
    size = plain.nbytes // rows
    first = bytes(encode(array[0]))
    header = np.frombuffer(first, np.uint8, len(first) - size)
    out = np.empty((rows, len(first)), np.uint8)
    out[:, : len(header)] = header
    if size:
        out[:, len(header) :] = plain.reshape(-1).view(np.uint8).reshape(rows, size)
    if out[0].tobytes() == first:
        return fixed_rows(out)
    return None


@public("bushel.codecs")
class Codec(Struct, frozen=True):
    """A pair of functions between values and stored bytes.

    It pickles with its functions, so a registered codec also reaches a spawned process that never
    called `register_codec`, as long as `pickle` can import its functions there.

    Attributes:
        name: The name by which a spec selects it, with its parameters.
        encode: Maps a value to bytes. Raises `CodecError` for a value it cannot encode.
        decode: Maps bytes to a value, which never borrows the memory of the bytes. Raises
            `CodecError` for invalid bytes.
        ranged: Decodes single elements of the value, or None.
        encode_column: Encodes all elements of an array along its first axis at once, or None.
            Returns bytes and int64[n + 1] offsets: the bytes that `encode` makes of element `i` are
            `data[offsets[i]:offsets[i + 1]]`. It returns None for an array whose elements it cannot
            encode; `encode` then gets them one by one.
        layout: Where the numbers are in the stored bytes, for loading without `decode`; None for
            other values.
        runs_code: Whether `decode` runs code that the bytes bring along, as unpickling does. Such a
            codec is used only if the caller names it, never because a file does.

    Examples:
        >>> from bushel.codecs import get_codec
        >>> codec = get_codec("utf8")
        >>> codec.decode(codec.encode("straw"))
        'straw'
    """

    name: str
    encode: Callable[[Any], Buffer]
    decode: Callable[[Buffer], Any]
    ranged: Ranged | None = None
    encode_column: ColumnEncoder | None = None
    layout: Layout | None = None
    runs_code: bool = False


Factory: TypeAlias = Callable[[str, str], Codec]
"""Makes a codec from its full name and the text between its parentheses, which is empty if it has none."""


def plain(
    encode: Callable[[Any], Buffer],
    decode: Callable[[Buffer], Any],
    encode_column: ColumnEncoder | None = None,
    layout: Layout | None = None,
    *,
    ranged: Ranged | None = None,
    runs_code: bool = False,
) -> Factory:
    """Return a factory for a codec without parameters."""

    def factory(name: str, arguments: str) -> Codec:
        if arguments:
            raise SpecError(f"codec {name!r} takes no parameters: write {name.partition('(')[0]!r}")
        return Codec(name, encode, decode, ranged, encode_column, layout, runs_code)

    return factory


_OF_DTYPES = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint"),
    "int64": "i64",
    "uint64": "u64",
    "float64": "float",
    "float32": "f32",
}
"""The codecs of single numbers of NumPy's types, whose names people write instead."""

_INSTEAD = {
    "array": "tensor ndarray list sequence",
    "audio": "sound",
    "clip": "video",
    "int": "integer label class category",
    "json": "dict object",
    "mp4": "video",
    "utf8": "str string text unicode",
}
"""Codecs, and the types of other libraries that hold such values."""


def unknown_codec(name: str, base: str, names: Sequence[str]) -> SpecError:
    """Return the error for a codec that is not among `names`. `base` is its name without parameters."""
    meant = did_you_mean(base, names, _INSTEAD) or f"known codecs: {', '.join(names)}."
    if base in _OF_DTYPES:
        meant = f"did you mean {_OF_DTYPES[base]!r}, or 'array' for arrays of {base}?"
    return SpecError(f"unknown codec {name!r}: {meant} Add your own with bushel.register_codec")


def codec_error(codec: str, expected: str, found: str) -> CodecError:
    """Return the error of a codec: its name, what it expected, what it found."""
    return CodecError(f"codec {codec!r} expected {expected}, found {found}", codec=codec)


def refused(codec: str, expected: str, value: object, problem: object = None) -> CodecError:
    """Return the error of a codec that does not take a value or stored bytes, with the problem that was found."""
    description = describe(value)
    return codec_error(
        codec, expected, description if problem is None else f"{description} ({problem})"
    )


def bad_jpeg(
    value: object, problem: object, expected: str = "a complete image (JPEG)", codec: str = "jpg"
) -> CodecError:
    """Return the error of the kernels about a JPEG, or an image that does not become one."""
    return codec_error(codec, expected, f"{describe(value)}: {problem}")


@contextmanager
def refusing(codec: str, expected: str, value: object, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of a library, by default all, into the error of a codec that does not take a value or stored bytes.

    Some libraries document no set of errors for damaged files.
    """
    expected_errors = errors or (Exception,)
    try:
        yield
    except (CodecError, MissingPackageError):
        raise
    except expected_errors as error:
        raise refused(codec, expected, value, reason(error)) from error


def reason(error: Exception) -> str:
    """Return the message of an error, of PyAV's without FFmpeg's error number and unnamed file."""
    return getattr(error, "strerror", None) or str(error)


def describe(value: object) -> str:
    """Describe a value of any size in a few words."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"a {type(value).__name__} of shape {shape} and dtype {dtype}"
    if isinstance(value, bytes | bytearray | memoryview):
        return found_bytes(value)
    try:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too large to print"


def found_bytes(data: Buffer) -> str:
    """Describe stored bytes by their number and the first few."""
    head = bytes(data[:8]).hex(" ")
    return f"{len(data)} bytes" + (f" starting with {head}" if head else "")


def choose(elements: slice | I64, count: int, value: str = "a clip", unit: str = "frames") -> I64:
    """Return the numbers of the chosen elements of a value with `count` elements.

    `value` and `unit` name both in errors.

    Raises:
        IndexError: An element is out of range.
    """
    if isinstance(elements, slice):
        return np.arange(*elements.indices(count))
    numbers = np.where(elements < 0, elements + count, elements)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
        raise IndexError(f"{value} of {count} {unit} has no {unit} {elements.tolist()}")
    return numbers
