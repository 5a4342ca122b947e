from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.storage.block_files import FILTERS, PACK, pack_deflate

from bushel import filters
from bushel.errors import SpecError
from bushel.filters import MAX_BLOCK, FilterError, expand, get_filter, register

DATA = st.one_of(
    st.binary(max_size=3000),
    st.lists(st.sampled_from([b"bushel ", b"a", b"\0" * 100]), max_size=300).map(b"".join),
)


def packed(name: str, data: bytes) -> tuple[bytes, bytes | None]:
    return pack_deflate(data, b"", 0) if name == "deflate" else (PACK[name](data), None)


@pytest.mark.parametrize("name", FILTERS)
@given(data=DATA)
@settings(deadline=None)
def test_blocks_expand_to_what_was_packed(name: str, data: bytes) -> None:
    stored, side = packed(name, data)
    for stored_as in (stored, bytearray(stored), memoryview(stored), np.frombuffer(stored, np.uint8).data):
        found = expand(name, stored_as, len(data), side)
        assert found.dtype == np.uint8
        assert found.tobytes() == data


@pytest.mark.parametrize("name", FILTERS)
@given(data=DATA, wrong=st.integers(-3, 3).filter(bool))
@settings(deadline=None)
def test_another_size_is_an_error(name: str, data: bytes, wrong: int) -> None:
    stored, side = packed(name, data)
    size = len(data) + wrong
    if name == "deflate" and 0 <= size < len(data):
        assert expand(name, stored, size, side).tobytes() == data[:size]  # it may end at any restart point
    else:
        with pytest.raises(FilterError, match=f"filter '{name}' cannot expand {len(stored)} bytes to {size}"):
            expand(name, stored, size, side)


@pytest.mark.parametrize("name", FILTERS)
@given(data=DATA, place=st.integers(0, 10**6), change=st.integers(-1, 255), side_too=st.booleans())
@settings(deadline=None)
def test_damage_is_an_error_or_gives_bytes_of_the_size(
    name: str, data: bytes, place: int, change: int, side_too: bool
) -> None:
    stored, side = packed(name, data)
    if name == "deflate" and side_too:
        stored, side = pack_deflate(data, b"window " * 99, 3)
        broken = bytearray(side)
    else:
        broken = bytearray(stored)
    if broken:
        at = place % len(broken)
        broken[at : at + 1] = b"" if change < 0 else bytes([change])
    given = (stored, broken) if broken is not stored and side_too and name == "deflate" else (broken, side)
    try:
        assert len(expand(name, given[0], len(data), given[1])) == len(data)
    except FilterError as error:
        assert name in str(error)  # noqa: PT017 - it may also expand


@pytest.mark.parametrize("name", FILTERS)
@given(data=st.binary(max_size=300), size=st.integers(0, 5000))
@settings(deadline=None)
def test_any_bytes(name: str, data: bytes, size: int) -> None:
    with suppress(FilterError):
        assert len(expand(name, data, size)) == size


def test_a_bomb_takes_no_memory() -> None:
    bomb = bytes(cramjam.zstd.compress(bytes(1 << 26)))
    with pytest.raises(FilterError, match="zstd"):
        expand("zstd", bomb, 10)
    with pytest.raises(FilterError, match="which exceeds its largest expansion"):
        expand("snappy", b"x" * 10, 1 << 29)
    with pytest.raises(FilterError, match="which exceeds its largest expansion"):
        expand("zstd", bomb, MAX_BLOCK + 1)
    with pytest.raises(FilterError):
        expand("gzip", PACK["gzip"](bytes(1 << 26)), 10)
    with pytest.raises(FilterError):
        expand("stored", b"abc", -1)


@pytest.mark.parametrize("name", ["gzip", "zlib"])
def test_members_follow_one_another(name: str) -> None:
    pack = PACK[name]
    stored = pack(b"") + pack(b"abc") + pack(b"") + pack(b"def") + pack(b"") + bytes(5)
    assert expand(name, stored, 6).tobytes() == b"abcdef"
    for size in (0, 3, 5, 7):
        with pytest.raises(FilterError):
            expand(name, stored, size)
    for broken in (pack(b"abcdef")[:-1], pack(b"abcdef") + b"x"):
        with pytest.raises(FilterError):
            expand(name, broken, 6)


@given(DATA, st.binary(max_size=300), st.integers(0, 7))
@settings(deadline=None)
def test_a_stream_continues_at_any_bit(data: bytes, before: bytes, bit: int) -> None:
    stored, side = pack_deflate(data, before, bit)
    assert expand("deflate", stored, len(data), side).tobytes() == data


def test_a_filter_of_ones_own() -> None:
    def upper(stored: object, out: memoryview, side: object) -> int:
        out[:] = bytes(stored).upper()  # type: ignore[call-overload]
        return len(out)

    try:
        assert register("upper", upper, ratio=1).name == "upper"
        assert "upper" in filters.filter_names()
        assert expand("upper", b"abc", 3).tobytes() == b"ABC"
        with pytest.raises(FilterError, match="exceeds its largest expansion"):
            expand("upper", b"abc", 4)
        with pytest.raises(FilterError, match="memoryview assignment"):
            expand("upper", b"abc", 2)
        with pytest.raises(SpecError, match="exists"):
            register("upper", upper)
        register("upper", lambda stored, out, side: 7, replace=True)
        with pytest.raises(FilterError, match="7 bytes were made"):
            expand("upper", b"abc", 2)
    finally:
        filters._registered.pop("upper", None)
        get_filter.cache_clear()
    for name in ("zstd", "Upper", "a b", ""):
        with pytest.raises(SpecError, match="exists|invalid filter name"):
            register(name, upper)
    with pytest.raises(SpecError, match="unknown filter 'upper'"):
        get_filter("upper")


def test_large_blocks_of_zstd_expand_the_same_with_and_without_pyarrow() -> None:
    pytest.importorskip("pyarrow")
    data = np.random.default_rng(0).bytes(3 << 19) + bytes(1 << 19)
    two = PACK["zstd"](data[: 1 << 20]) + PACK["zstd"](data[1 << 20 :])
    plain = replace(get_filter("zstd"), whole=None)
    for stored in (PACK["zstd"](data), two):
        for stored_as in (stored, bytearray(stored), memoryview(stored), np.frombuffer(stored, np.uint8).data):
            found = expand("zstd", stored_as, len(data))
            assert found.dtype == np.uint8
            assert found.tobytes() == data
    stored = PACK["zstd"](data)
    wrong = [(stored, len(data) - 1), (stored, len(data) + 1), (stored[:-5], len(data)), (stored + b"x", len(data))]
    for broken, size in [*wrong, (b"", len(data)), (two[:-1], len(data))]:
        errors = []
        for own in (get_filter("zstd"), plain):
            with pytest.raises(FilterError) as caught:
                own.expanded(broken, size)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


def test_pyarrow_is_imported_after_many_bytes_of_zstd() -> None:
    pytest.importorskip("pyarrow")
    program = """if True:
        import sys
        import cramjam
        from bushel.filters import expand

        data = bytes(1 << 26)
        stored = bytes(cramjam.zstd.compress(data))
        imported = []
        for _ in range(5):
            assert expand("zstd", stored, len(data)).tobytes() == data
            imported.append("pyarrow" in sys.modules)
        print(imported)
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[False, False, False, True, True]"
