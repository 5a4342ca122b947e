from __future__ import annotations

import gzip
import io
import math
import struct
import zipfile
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bushel.codecs import conversions, get_codec
from bushel.errors import CodecError

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
MSGPACK = st.recursive(
    SCALARS | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(-9, 9), inner, max_size=4),
    max_leaves=12,
)
DTYPES = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?")
    | hnp.complex_number_dtypes(endianness="?")
    | hnp.unicode_string_dtypes(endianness="?", min_len=1)
    | hnp.byte_string_dtypes(min_len=1)
    | hnp.datetime64_dtypes(endianness="?")
    | hnp.timedelta64_dtypes(endianness="?")
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_dims=4, max_side=4))


def through(name: str, value: Any) -> Any:
    """The value after a round trip, decoded from bytes and from a memoryview alike."""
    codec = get_codec(name)
    stored = bytes(codec.encode(value))
    first, second = codec.decode(stored), codec.decode(memoryview(b"xx" + stored + b"x")[2:-1])
    np.testing.assert_equal(first, second)
    return first


def assert_same(found: npt.NDArray[Any], array: npt.NDArray[Any]) -> None:
    assert (found.shape, found.dtype, found.tobytes()) == (array.shape, array.dtype, array.tobytes())
    assert found.flags.writeable
    assert found.flags.owndata or found.base is None or found.base.flags.owndata


@given(st.binary())
def test_bytes(value: bytes) -> None:
    assert through("bytes", value) == value
    assert get_codec("bytes").encode(memoryview(value)) == value
    assert type(get_codec("bytes").decode(memoryview(value))) is bytes


@given(st.text())
def test_utf8(value: str) -> None:
    assert through("utf8", value) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8000"),
        (255, "ff00"),
        (256, "0001"),
        (32767, "ff7f"),
        (32768, "008000"),
        (-1, "ff"),
        (-128, "80"),
        (-129, "7fff"),
        (True, "01"),
        (np.uint8(200), "c800"),
        (np.int64(-2), "fe"),
        (np.bool_(True), "01"),
        (np.array(7), "07"),
    ],
)
def test_int_bytes(value: Any, stored: str) -> None:
    assert get_codec("int").encode(value) == bytes.fromhex(stored)
    assert get_codec("int").decode(bytes.fromhex(stored)) == value


@given(st.integers(-(2**127), 2**127 - 1))
def test_int(value: int) -> None:
    assert through("int", value) == value
    if value >= 0:  # an unsigned reader sees the same number
        assert int.from_bytes(get_codec("int").encode(value), "little") == value


def test_int_reads_no_bytes_as_zero_and_any_length() -> None:
    assert get_codec("int").decode(b"") == 0
    assert get_codec("uint").decode(b"") == 0
    assert get_codec("int").decode(b"\xff" * 40) == -1
    assert get_codec("uint").decode(b"\xc8") == 200


@pytest.mark.parametrize("value", [2**127, -(2**127) - 1, pytest.param(10**5000, id="huge")])
def test_int_too_large_for_granular(value: int) -> None:
    with pytest.raises(CodecError, match="at most 127 bits"):
        get_codec("int").encode(value)


@given(st.integers(0, 2**200))
def test_uint(value: int) -> None:
    assert through("uint", value) == value


@given(st.integers(0, 2**64 - 1))
def test_fixed_widths(value: int) -> None:
    assert through("u64", value) == value
    assert through("int(8)", value) == value
    assert through("i64", value - 2**63) == value - 2**63
    assert get_codec("u64").encode(value) == struct.pack("<Q", value)
    assert get_codec("i64").encode(value - 2**63) == struct.pack("<q", value - 2**63)


@given(st.integers())
def test_cls(value: int) -> None:
    assert through("cls", value) == value
    assert get_codec("cls").encode(value) == str(value).encode()


def test_cls_strips_white_space() -> None:
    assert get_codec("cls").decode(b" +12\n") == 12


@given(st.floats(allow_nan=False))
def test_float(value: float) -> None:
    assert through("float", value) == value
    assert through("float-text", value) == value
    assert get_codec("float").encode(value) == struct.pack("<d", value)


@given(st.floats(width=32, allow_nan=False))
def test_f32(value: float) -> None:
    assert through("f32", value) == value
    assert get_codec("f32").encode(value) == struct.pack("<f", value)


@pytest.mark.parametrize("name", ["float", "f32", "float-text"])
def test_float_takes_any_real_number(name: str) -> None:
    for value in (3, True, np.float32(3), np.int8(3), np.bool_(True), np.array(3.0), Fraction(3), Decimal(3)):
        assert through(name, value) == float(value)
        assert type(through(name, value)) is float
    assert math.isnan(through(name, math.nan))


@given(JSON)
def test_json(value: Any) -> None:
    assert through("json", value) == value


def test_json_bytes_and_what_only_python_reads() -> None:
    assert get_codec("json").encode({"é": [1, 2.5, None, np.float32(0.5), np.int8(3)]}) == (
        '{"é":[1,2.5,null,0.5,3]}'.encode()
    )
    assert math.isnan(through("json", [math.nan])[0])
    assert through("json", -math.inf) == -math.inf
    assert through("json", "\ud800") == "\ud800"
    assert get_codec("json").decode(b"\xef\xbb\xbf[1e300]") == [1e300]
    assert get_codec("json").decode(str(2**100).encode()) == 2**100


@given(MSGPACK)
def test_msgpack(value: Any) -> None:
    assert through("msgpack", value) == value


def test_msgpack_bytes() -> None:
    assert get_codec("msgpack").encode({"a": np.int8(1)}) == bytes.fromhex("81a16101")


@given(ARRAYS)
def test_array(value: npt.NDArray[Any]) -> None:
    for name in ("array", "npy"):
        assert_same(through(name, value), value)
        assert_same(through(name, value.T), value.T)
    assert_same(through("npz", {"a": value, "": value, "x.npy": value})["x.npy"], value)


def test_array_bytes() -> None:
    golden = bytes.fromhex("93a33c66349101c40400000000")
    assert get_codec("array").encode(np.zeros(1, "<f4")) == golden
    assert_same(get_codec("array").decode(golden), np.zeros(1, "<f4"))
    assert get_codec("array").encode([1, 2]) == get_codec("array").encode(np.array([1, 2]))


@pytest.mark.parametrize("size", [0, 255, 256, 65535, 65536])
def test_array_lengths(size: int) -> None:
    value = np.arange(size, dtype=np.uint8)
    assert_same(through("array", value), value)


@pytest.mark.parametrize("name", ["array", "npy", "litdata-array"])
def test_rows_of_an_array_without_any_are_an_error_that_names_the_codec(name: str) -> None:
    codec = get_codec(name)
    assert codec.ranged is not None
    stored = codec.encode(np.array(3.5, np.float32))
    with pytest.raises(CodecError, match=f"codec '{name}' expected an array with rows"):
        codec.ranged.count(stored)


def test_raw_array() -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    codec = get_codec("array(float32,2,3)")
    assert codec.encode(value) == value.tobytes()
    assert codec.encode(value.T.copy().T) == value.tobytes()
    assert_same(through("array(float32,2,3)", value), value)
    assert_same(through("array(uint8)", np.uint8(3)), np.array(3, np.uint8))
    for wrong in (value.T, value.astype(float), value[:1]):
        with pytest.raises(CodecError, match=r"an array of shape \(2, 3\) and dtype float32"):
            codec.encode(wrong)
    with pytest.raises(CodecError, match="found 23 bytes"):
        codec.decode(bytes(23))


@given(ARRAYS)
def test_numpy_reads_what_is_written(value: npt.NDArray[Any]) -> None:
    loaded = np.load(io.BytesIO(bytes(get_codec("npy").encode(value))), allow_pickle=False)
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (value.dtype, value.shape, value.tobytes())
    archive = np.load(io.BytesIO(bytes(get_codec("npz").encode({"a": value}))), allow_pickle=False)
    assert archive["a"].tobytes() == value.tobytes()


def test_npz_that_numpy_wrote() -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.arange(3), b=np.ones((2, 2)))
    found = get_codec("npz").decode(stream.getvalue())
    assert_same(found["a"], np.arange(3))
    assert_same(found["b"], np.ones((2, 2)))


@given(
    st.lists(hnp.arrays(st.sampled_from(["<f2", "<f8", "|i1", "<i8", "<u2"]), hnp.array_shapes(max_side=3)), max_size=3)
)
def test_tenbin(value: list[npt.NDArray[Any]]) -> None:
    found = through("tenbin", value)
    assert len(found) == len(value)
    for one, other in zip(found, value, strict=True):
        assert_same(one, other)


@given(hnp.arrays(np.int64, st.integers(0, 30)))
def test_varints(value: npt.NDArray[np.int64]) -> None:
    assert_same(through("varints", value), value)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varint(value: int) -> None:
    assert through("varint", value) == value
    assert get_codec("varint").encode(value) == get_codec("varints").encode([value])


@pytest.mark.parametrize("data", [b"", b"\x80", b"\1\1", b"\x80\1\1", b"\xff" * 9 + b"\2", b"\x80" * 10 + b"\1"])
def test_damaged_varint(data: bytes) -> None:
    with pytest.raises(CodecError, match="expected one packed varint"):
        get_codec("varint").decode(data)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 0.5, "1"])
def test_value_that_is_not_a_varint(value: Any) -> None:
    with pytest.raises(CodecError, match="an integer"):
        get_codec("varint").encode(value)


def test_varints_bytes() -> None:
    assert get_codec("varints").encode([1, 300, -1]) == b"\x01\xac\x02" + b"\xff" * 9 + b"\x01"


def test_tenbin_bytes() -> None:
    word = struct.Struct("<q").pack
    header = b"~TenBin~" + word(40) + b"u1".ljust(8, b"\0") + word(0) + word(2) + word(1) + word(3) + bytes(24)
    golden = header + b"~TenBin~" + word(3) + b"\1\2\3" + bytes(61)
    assert len(golden) == 160
    value = np.array([[1, 2, 3]], np.uint8)
    assert get_codec("tenbin").encode(value) == get_codec("tenbin").encode([value]) == golden
    (found,) = get_codec("tenbin").decode(golden)
    assert_same(found, value)
    # A u4 is read, though the original cannot.
    data = b"~TenBin~" + word(4) + b"\1\2\0\0" + bytes(60)
    header = b"~TenBin~" + word(32) + b"u4".ljust(8, b"\0") + word(0) + word(1) + word(1) + bytes(32)
    (found,) = get_codec("tenbin").decode(header + data)
    assert_same(found, np.array([513], "<u4"))


@given(
    st.recursive(
        SCALARS | ARRAYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )
)
def test_tree(value: Any) -> None:
    found = through("tree", value)
    np.testing.assert_equal(found, value)


def test_tree_bytes_and_its_one_ambiguity() -> None:
    codec = get_codec("tree")
    stored = bytes.fromhex("81a16194a15fa33c66349101c40400000000")
    assert codec.encode({"a": np.zeros(1, "<f4")}) == stored
    assert_same(codec.decode(stored)["a"], np.zeros(1, "<f4"))
    assert through("tree", {"t": (1, (2,))}) == {"t": [1, [2]]}
    assert through("tree", ["_", 1]) == ["_", 1]
    with pytest.raises(CodecError, match="cannot be confused with an array"):
        codec.encode([["_", 1, 2, 3]])
    with pytest.raises(CodecError, match="an array as"):
        codec.decode(bytes.fromhex("94a15f010203"))


def test_pickle() -> None:
    assert through("pickle", {"a": (1, {2})}) == {"a": (1, {2})}
    with pytest.raises(CodecError, match="a value that pickles"):
        get_codec("pickle").encode(lambda: None)
    with pytest.raises(CodecError, match="expected a pickle"):
        get_codec("pickle").decode(b"\x80\x04nonsense")


@given(st.text())
def test_gzip(value: str) -> None:
    assert through("gzip(utf8)", value) == value
    assert through("gzip(gzip(utf8))", value) == value
    assert gzip.decompress(bytes(get_codec("gzip(utf8)").encode(value))) == value.encode()


def test_gzip_has_no_time_and_may_have_members() -> None:
    stored = bytes(get_codec("gzip(bytes)").encode(b"a"))
    assert stored[:8] == bytes.fromhex("1f8b080000000000")
    assert get_codec("gzip(bytes)").decode(stored * 1000) == b"a" * 1000


@pytest.mark.parametrize("name", ["gzip(bytes)", "npz"])
def test_expansion_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1000
    monkeypatch.setattr(conversions, "MAX_EXPANDED", limit)
    monkeypatch.setattr("bushel.codecs.arrays.MAX_EXPANDED", limit)
    value: Any = {"a": np.zeros(2000, np.uint8)} if name == "npz" else bytes(2000)
    with pytest.raises(CodecError, match="at most 1000 bytes when expanded"):
        get_codec(name).decode(get_codec(name).encode(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes", "text"),
        ("bytes", np.zeros(3, np.uint8)),
        ("utf8", b"x"),
        ("utf8", "\ud800"),
        ("int", 1.0),
        ("int", "1"),
        ("int", None),
        ("uint", -1),
        ("int(2)", 65536),
        ("int(2)", -1),
        ("i64", 2**63),
        ("u64", -1),
        ("cls", "3"),
        pytest.param("cls", 10**5000, id="cls-huge"),
        ("float", "1.0"),
        ("float", 1j),
        ("float", np.complex64(1)),
        ("float", np.ones(1)),
        ("float", 10**400),
        ("f32", 1e39),
        ("float-text", None),
        ("array", [object()]),
        ("array", [[1], [1, 2]]),
        ("array", np.zeros(2, "f4,i4")),
        ("npy", np.array([None])),
        ("npz", np.zeros(2)),
        ("npz", {1: np.zeros(2)}),
        ("npz", {"a\0": np.zeros(2)}),
        ("npz", {"a": object()}),
        ("tenbin", np.zeros(1, np.uint32)),
        ("tenbin", np.zeros(1, bool)),
        ("tenbin", [np.zeros((1,) * 10, np.uint8)]),
        ("tree", {"a": object()}),
        ("tree", {"a": np.array([None])}),
        ("json", {"a": {1, 2}}),
        ("json", np.zeros(2)),
        pytest.param("json", 10**5000, id="json-huge"),
        ("msgpack", 2**64),
        ("msgpack", {"a": np.zeros(2)}),
        ("gzip(utf8)", 3),
    ],
)
def test_values_that_do_not_encode(name: str, value: Any) -> None:
    inner = name.removeprefix("gzip(").removesuffix(")") if name.startswith("gzip") else name
    with pytest.raises(CodecError) as info:
        get_codec(name).encode(value)
    assert str(info.value).startswith(f"codec {inner!r} expected ")


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("name", ["json", "msgpack", "tree"])
def test_endless_nesting(name: str) -> None:
    with pytest.raises(CodecError):
        get_codec(name).encode(nested())
    with pytest.raises(CodecError):
        get_codec(name).decode((b"[" if name == "json" else b"\x91") * 100_000)


def npy(header: str, payload: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + payload


def zipped(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", content)
    return stream.getvalue()


HUGE = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}")
OBJECTS = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("utf8", b"a\xff", "invalid start byte at byte 1"),
        ("i64", bytes(7), "expected 8 bytes, found 7 bytes"),
        ("int(2)", b"", "expected 2 bytes, found 0 bytes"),
        ("float", bytes(4), "expected 8 bytes"),
        ("f32", bytes(8), "expected 4 bytes"),
        ("cls", b"", "decimal text"),
        ("cls", b"n01440764", "decimal text"),
        ("cls", b"1_0", "decimal text"),
        ("cls", b"1" * 5000, "5000 digits"),
        ("float-text", b"true", "a number as JSON text"),
        ("float-text", b"1" * 400, "a number as JSON text"),
        ("json", b"", "JSON text"),
        ("json", b"{", "JSON text"),
        ("json", b"1 2", "JSON text"),
        ("msgpack", b"", "one msgpack value"),
        ("msgpack", b"\x01\x02", "one msgpack value"),
        ("msgpack", bytes.fromhex("ddffffffff"), "one msgpack value"),
        ("msgpack", bytes.fromhex("c6ffffffff00"), "one msgpack value"),
        ("msgpack", bytes.fromhex("819001"), "one msgpack value"),
        ("array", bytes.fromhex("93a33c66349101c405 00000000"), "nothing after it"),
        ("array", bytes.fromhex("93a33c66349101c4040000000000"), "nothing after it"),
        ("array", bytes.fromhex("93a33c66349102c40400000000"), "shape (2,)"),
        ("array", bytes.fromhex("93a33c663491ffc40400000000"), "integers >= 0"),
        ("array", bytes.fromhex("93a33c663491cf7fffffffffffffffc40400000000"), "found 4 bytes"),
        ("array", bytes.fromhex("93a33c6634 92 cf4000000000000000 00 c400"), "a shape that NumPy can hold"),
        ("array", bytes.fromhex("93a27c4f9101c4080000000000000000"), "type string such as '<f4', found str '|O'"),
        ("array", bytes.fromhex("93a566342c66349101c4080000000000000000"), "found str 'f4,f4'"),
        ("npy", b"\x93NUMPY", "a NumPy .npy file"),
        ("npy", HUGE, "found 0 bytes"),
        ("npy", OBJECTS, "found str '|O'"),
        ("npy", npy("(" * 5000), "a .npy header"),
        ("npy", npy("{'descr': '<f8'}"), "a .npy header"),
        ("npz", b"PK", "a NumPy .npz file"),
        ("npz", zipped(HUGE), "found 0 bytes"),
        ("npz", zipped(OBJECTS), "found str '|O'"),
        ("tenbin", b"~TenBin~" + b"\xff" * 7 + b"\x7f", "a length of 9223372036854775807"),
        ("tenbin", b"~TenBin~" + b"\xff" * 8, "a length of -1"),
        ("tenbin", b"~TenBin~" + bytes(8), "in pairs, found 1 chunks"),
        ("tenbin", b"TenBin", "a chunk at byte 0"),
        ("varints", b"\x80", "truncated"),
        ("varints", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("gzip(utf8)", b"", "found 0 bytes"),
        ("gzip(utf8)", gzip.compress(b"abc", mtime=0)[:-1], "a complete gzip file"),
        ("gzip(utf8)", gzip.compress(b"\xff", mtime=0), "UTF-8 text"),
    ],
)
def test_bytes_that_do_not_decode(name: str, data: bytes, message: str) -> None:
    with pytest.raises(CodecError) as info:
        get_codec(name).decode(memoryview(data))
    assert message in str(info.value)
    assert len(str(info.value)) < 500


@pytest.mark.parametrize("name", ["datetime64", "timedelta64"])
def test_times_keep_their_values_in_another_unit(name: str) -> None:
    codec, kind = get_codec(f"{name}(ms)"), getattr(np, name)
    for value in (kind(5, "s"), kind(5, "ms"), kind(5000, "us"), np.array(kind(5, "s"))):
        assert codec.decode(codec.encode(value)) == value
    assert codec.decode(codec.encode(5)) == kind(5, "ms")
    for bad in (kind(5, "us"), kind("NaT", "s"), kind("NaT", "ms"), True):
        with pytest.raises(CodecError, match="without loss"):
            codec.encode(bad)
    assert get_codec("datetime64(Y)").encode("2020") == get_codec("datetime64(Y)").encode(np.datetime64("2020"))
    with pytest.raises(CodecError, match="without loss"):
        get_codec("datetime64(D)").encode("2020")
