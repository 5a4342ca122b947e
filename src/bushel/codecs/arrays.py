"""Arrays: Granular's `array`, the raw `array(dtype,dims)` of bags, `npy`, `npz`, and WebDataset's `tenbin`.

Lengths are checked against dtype and shape before anything is allocated, and no array is ever
unpickled. Decoded arrays own their memory and can be written to.
"""

from __future__ import annotations

import ast
import io
import math
import re
import reprlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Array
from bushel.errors import SpecError

from .base import (
    MAX_EXPANDED,
    ArrayLayout,
    Buffer,
    Codec,
    Factory,
    Ranged,
    choose,
    codec_error,
    plain,
    refused,
    refusing,
    rows_after_header,
)

_KINDS = "biufcSUMm"  # no objects (they would be pickles), no records
_DTYPE = re.compile(r"[<>|=]?([biufcSU][0-9]{1,9}|[mM]8(\[[0-9]{0,9}[A-Za-z]{1,7}\])?)")
_DTYPE_NAME = re.compile(r"[a-z]+[0-9]{0,3}(\([A-Za-z]{1,2}\))?")
_BIN_HEADS = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # msgpack's bin 8, 16 and 32: bytes of the length
_NPY_MAGIC = b"\x93NUMPY"
NPY_HEADER_LIMIT = 65_536


def as_array(codec: str, value: Any) -> Array:
    """Return a value as an array of plain numbers, texts or times.

    Raises:
        CodecError: The value is not an array, or an array of objects or records; or its values
            would change, as whole numbers beside floats may.
    """
    array: Array = value
    if type(value) is not np.ndarray:
        from .columns import exact_array  # which reading does not need

        with refusing(codec, "an array", value, TypeError, ValueError, RuntimeError):
            array = np.asarray(exact_array(value))
    if array.dtype.kind not in _KINDS or array.dtype.itemsize == 0:
        raise refused(codec, "an array of numbers, text or times", value)
    return array


def exact_cast(codec: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array with another dtype.

    Raises:
        CodecError: The dtype does not keep its values.
    """
    if dtype.kind == "c" and array.dtype.kind != "c":
        return exact_cast(codec, array, np.dtype(f"f{dtype.itemsize // 2}")).astype(dtype)
    cast, same = cast_and_kept(array, dtype)
    if not same.all():
        raise refused(codec, f"numbers that {dtype} holds", array)
    return cast


def cast_and_kept(array: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return an array with another dtype, and which of its values that holds."""
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        back = cast.astype(array.dtype)
        same = (back == array) | (back != back) & (array != array)  # NaN is kept
        real, whole = (cast, array) if dtype.kind == "f" else (array, cast)
        if whole.dtype.kind in "iu":
            same &= (cast < 0) == (array < 0)
            if real.dtype.kind == "f":  # a processor may turn a larger number into the largest one
                same &= np.isfinite(real) & (real < float(int(np.iinfo(whole.dtype).max) + 1))
    return cast, same


def dtype_from(codec: str, text: object) -> np.dtype[Any]:
    """Return the dtype that a NumPy type string such as `<f4` names.

    Raises:
        CodecError: The string names no dtype, or one of objects or records.
    """
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise refused(codec, "a NumPy type string such as '<f4'", text)
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise refused(codec, "a NumPy type string such as '<f4'", text) from error
    if dtype.itemsize == 0:
        raise refused(codec, "a dtype of at least one byte", text)
    return dtype


def array_from(
    codec: str, dtype: np.dtype[Any], shape: Sequence[Any], data: Buffer, fortran: bool = False
) -> Array:
    """Return a new array with the given bytes.

    Raises:
        CodecError: The shape is invalid, or needs another number of bytes.
    """
    if not all(type(size) is int and size >= 0 for size in shape):
        raise refused(codec, "a shape of integers >= 0", shape)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise codec_error(
            codec,
            f"the bytes of a {dtype} array of shape {reprlib.repr(tuple(shape))}",
            f"{len(data)} bytes",
        )
    order: Literal["C", "F"] = "F" if fortran else "C"
    try:
        if not len(data):
            return np.empty(shape, dtype, order)
        return np.array(np.frombuffer(data, dtype).reshape(shape, order=order), order="K")
    except ValueError as error:
        raise codec_error(
            codec, "a shape that NumPy can hold", f"{reprlib.repr(tuple(shape))} ({error})"
        ) from error


Parsed: TypeAlias = tuple[np.dtype[Any], Sequence[Any], memoryview, bool]
"""What a stored array says: dtype, shape, elements (at the end of its bytes), and whether they are in Fortran order."""


class ArrayForm(Struct, frozen=True):
    """The form of the stored arrays of a codec, and its functions.

    Attributes:
        name: The name of the codec, for errors.
    """

    name: str

    def encode(self, value: Any) -> bytes:
        """Return the stored bytes of an array. Raise CodecError for one that has no such form."""
        raise NotImplementedError

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        """Return the parts of a stored array, or of the first bytes of one of `size` bytes.

        Raises:
            CodecError: The bytes have another form.
        """
        raise NotImplementedError

    def decode(self, data: Buffer) -> Array:
        """Return the array."""
        return array_from(self.name, *self.parse(data))

    def layout(self, data: Buffer, size: int | None = None) -> ArrayLayout | None:
        """Return the layout of an array in C order, if it has numbers in native byte order that fit its shape.

        Args:
            data: Its stored bytes, or the first of them.
            size: Number of its stored bytes; None if `data` has all.
        """
        dtype, shape, payload, fortran = self.parse(data, size)
        is_plain = dtype.kind in "biufc" and dtype.isnative and not (fortran and len(shape) > 1)
        if not is_plain or not all(type(size) is int and size >= 0 for size in shape):
            return None
        start = len(data) - len(payload)
        if math.prod(shape) * dtype.itemsize != (size or len(data)) - start:
            return None
        return ArrayLayout(bytes(data[:start]), dtype, tuple(shape))

    def factory(self, *, by_column: bool = False, has_rows: bool = True) -> Factory:
        """Return the factory of the codec.

        Args:
            by_column: Whether equal arrays have one header, so that many are encoded at once.
            has_rows: Whether the arrays have rows, so that some can be decoded.
        """
        column = ranged = None
        if by_column:
            column = partial(rows_after_header, self.encode)
        if has_rows:
            ranged = Ranged(self._count, self._some, self.layout)
        return plain(self.encode, self.decode, column, self.layout, ranged=ranged)

    def _with_rows(self, data: Buffer) -> Array:
        array = self.decode(data)
        if not array.ndim:
            raise refused(self.name, "an array with rows, so that some of them can be read", array)
        return array

    def _count(self, data: Buffer) -> int:
        return len(self._with_rows(data))

    def _some(self, data: Buffer, elements: slice | I64) -> Array:
        array = self._with_rows(data)
        return array[choose(elements, len(array), "an array", "rows")]


class _Packed(ArrayForm, frozen=True):
    """Granular's arrays: msgpack of dtype, shape and elements."""

    def encode(self, value: Any) -> bytes:
        import msgpack

        array = as_array("array", value)
        try:
            packed: bytes = msgpack.packb([array.dtype.str, array.shape, array.tobytes()])
        except ValueError as error:
            raise refused("array", "an array of less than 4 GiB", array) from error
        return packed

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        import msgpack

        view = memoryview(data)
        head = msgpack.Unpacker()
        head.feed(view[:1024])
        try:
            parts, text, shape = head.read_array_header(), head.unpack(), head.unpack()
            start = head.tell()
            width = _BIN_HEADS[view[start]]
        except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
            raise refused("array", "msgpack of [dtype, shape, bytes]", data) from error
        payload = view[start + 1 + width :]
        length = int.from_bytes(view[start + 1 : start + 1 + width], "big")
        rest = (size or len(data)) - len(data) + len(payload)
        if parts != 3 or not isinstance(shape, list) or length != rest:
            raise refused("array", "msgpack of [dtype, shape, bytes] and nothing after it", data)
        return dtype_from("array", text), shape, payload, False


class _Raw(ArrayForm, frozen=True):
    """The elements alone. A first size of -1 follows from their number."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def encode(self, value: Any) -> bytes:
        array = as_array(self.name, value)
        fits = array.ndim == len(self.shape) and all(
            size in (-1, length) for size, length in zip(self.shape, array.shape, strict=True)
        )
        if not fits or array.dtype != self.dtype:
            expected = f"an array of shape {self.shape} and dtype {self.dtype}"
            raise refused(self.name, expected, array)
        return array.astype(self.dtype, copy=False).tobytes()

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        view, shape = memoryview(data), self.shape
        if shape and shape[0] < 0:
            row = math.prod(shape[1:]) * self.dtype.itemsize
            rows = (size or view.nbytes) // row if row else 0
            shape = (rows, *shape[1:])
        return self.dtype, shape, view, False


def dtype_named(text: str) -> np.dtype[Any] | None:
    """Return the dtype of a name such as `float32` or `datetime64(us)`; None for other texts and dtypes."""
    if not _DTYPE_NAME.fullmatch(text):
        return None
    try:
        dtype = np.dtype(text.replace("(", "[").replace(")", "]"))
    except TypeError:
        return None
    return dtype if dtype.kind in _KINDS and dtype.itemsize else None


def _array(name: str, arguments: str) -> Codec:
    """Return codec `array`, or `array(float32,64,128)`: the raw bytes of bags, with dtype and shape in the name.

    A first size of -1 follows from the number of bytes: `array(int32,-1)` is a list of numbers of
    any length.
    """
    if not arguments:
        return _Packed(name).factory(by_column=True)(name, "")
    kind, *sizes = arguments.split(",")
    dtype = dtype_named(kind)
    if dtype is None:
        raise SpecError(f"codec {name!r}: {kind!r} is not a dtype such as float32 or uint8")
    if not all(
        re.fullmatch("[0-9]{1,18}", size) or (size == "-1" and not at)
        for at, size in enumerate(sizes)
    ):
        raise SpecError(
            f"codec {name!r}: sizes must be numbers, as in "
            "'array(float32,64,128)'; the first may be -1"
        )
    shape = tuple(map(int, sizes))
    # These bytes carry no byte order. Their writers ran on little-endian machines.
    little = dtype.newbyteorder("<")
    form = _Raw(name, little, shape)
    return form.factory(by_column=True, has_rows=bool(shape))(name, "")


def parse_npy(data: Buffer, codec: str) -> Parsed:
    """Return the parts of a .npy file.

    Raises:
        CodecError: The header is malformed, or the array is one of objects or records.
    """
    view = memoryview(data)
    version = view[6] if len(view) >= 12 and view[:6] == _NPY_MAGIC else 0
    start = 10 if version == 1 else 12
    length = int.from_bytes(view[8:start], "little")
    if not 1 <= version <= 3 or start + length > len(view):
        raise refused(codec, "a NumPy .npy file", data)
    if length > NPY_HEADER_LIMIT:
        raise codec_error(
            codec, f"a .npy header of at most {NPY_HEADER_LIMIT} bytes", f"{length} bytes"
        )
    text = bytes(view[start : start + length]).decode("latin-1")
    try:
        header = ast.literal_eval(text.strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError) as error:
        raise refused(codec, "a .npy header with descr, fortran_order and shape", text) from error
    if not isinstance(shape, tuple) or not isinstance(fortran, bool):
        raise refused(codec, "a .npy header with descr, fortran_order and shape", text)
    return dtype_from(codec, descr), shape, view[start + length :], fortran


class _Npy(ArrayForm, frozen=True):
    """NumPy's files."""

    def encode(self, value: Any) -> bytes:
        array = as_array(self.name, value)
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, allow_pickle=False)
        return stream.getvalue()

    def parse(self, data: Buffer, size: int | None = None) -> Parsed:
        return parse_npy(data, self.name)


_OF_NPZ = _Npy("npz")


def _encode_npz(value: Any) -> bytes:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and "\0" not in name for name in value
    ):
        raise refused("npz", "a dict of arrays", value)
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, item in value.items():
            # A fixed time and system, so that equal arrays give equal bytes.
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            member.create_system, member.compress_type = 3, zipfile.ZIP_DEFLATED
            archive.writestr(member, _OF_NPZ.encode(item))
    return stream.getvalue()


def _decode_npz(data: Buffer) -> dict[str, Array]:
    import zipfile

    # zipfile raises BadZipFile, zlib.error, NotImplementedError, struct.error …
    with refusing("npz", "a NumPy .npz file", data), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if size > MAX_EXPANDED:
            raise codec_error("npz", f"at most {MAX_EXPANDED} bytes when expanded", f"{size} bytes")
        content = {member.filename.removesuffix(".npy"): archive.read(member) for member in members}
    return {name: _OF_NPZ.decode(item) for name, item in content.items()}


_TENBIN_MAGIC = b"~TenBin~"
_TENBIN_ALIGNMENT = 64
_TENBIN_MAX_RANK = 9
_TENBIN_DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def _tenbin_chunk(data: bytes) -> bytes:
    padding = bytes(-len(data) % _TENBIN_ALIGNMENT)
    return _TENBIN_MAGIC + struct.pack("<q", len(data)) + data + padding


def _encode_tenbin(value: Any) -> bytes:
    chunks = []
    for item in value if isinstance(value, list) else [value]:
        array = as_array("tenbin", item)
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        # The original cannot write or read u4, because of a misspelt name in its table.
        if code not in _TENBIN_DTYPES or code == "u4" or array.ndim > _TENBIN_MAX_RANK:
            raise refused(
                "tenbin", "arrays of 16 to 64 bit numbers (no uint32, bool or complex)", array
            )
        words = struct.pack(f"<8s8sq{array.ndim}q", code.encode(), b"", array.ndim, *array.shape)
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        chunks += [_tenbin_chunk(words), _tenbin_chunk(data)]
    return b"".join(chunks)


def _tenbin_chunks(view: memoryview) -> Iterator[memoryview]:
    offset = 0
    while offset < len(view):
        if view[offset : offset + 8] != _TENBIN_MAGIC or offset + 16 > len(view):
            raise refused("tenbin", f"a chunk at byte {offset}", view[offset : offset + 16])
        length = struct.unpack_from("<q", view, offset + 8)[0]
        offset += 16
        if not 0 <= length <= len(view) - offset:
            raise codec_error(
                "tenbin", f"a chunk of at most {len(view) - offset} bytes", f"a length of {length}"
            )
        yield view[offset : offset + length]
        offset += length + -length % _TENBIN_ALIGNMENT


def _tenbin_array(header: memoryview, data: memoryview) -> Array:
    if len(header) < 24 or len(header) % 8:
        raise refused("tenbin", "a header of at least three 8-byte words", header)
    code = bytes(header[:8]).rstrip(b"\0").decode("latin-1")
    rank, *shape = struct.unpack(f"<{len(header) // 8 - 2}q", header[16:])
    if code not in _TENBIN_DTYPES or rank != len(shape):
        raise refused("tenbin", "a header of dtype, info, rank and sizes", header)
    return array_from("tenbin", np.dtype(f"<{code}"), shape, data)


def _decode_tenbin(data: Buffer) -> list[Array]:
    chunks = list(_tenbin_chunks(memoryview(data)))
    if len(chunks) % 2:
        raise codec_error("tenbin", "header and data chunks in pairs", f"{len(chunks)} chunks")
    return list(map(_tenbin_array, chunks[::2], chunks[1::2]))


FACTORIES: Mapping[str, Factory] = {
    "array": _array,
    "npy": _Npy("npy").factory(by_column=True),
    "npz": plain(_encode_npz, _decode_npz),
    "tenbin": plain(_encode_tenbin, _decode_tenbin),
}
