"""Conformance checks of codecs."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Iterable
from typing import Any

import numpy as np

from bushel._dataset.views.stored_values import same_value
from bushel.codecs import ArrayLayout, Codec, Ranged, get_codec
from bushel.errors import CodecError

from .expect import expect, expect_equal

_MUTATIONS = 200


def check_codec(
    codec: str | Codec, values: Iterable[Any], *, lossless: bool = True, seed: int = 0
) -> None:
    """Check a codec with given values: round trip, kinds of buffers, pickling, and damaged bytes.

    Args:
        codec: A codec, or the name of one that is registered.
        values: Values that it can encode.
        lossless: Whether decoding must give an equal value. Otherwise it must give one of the same
            type (for arrays, the same dtype and shape), and encoding may give other bytes each
            time.
        seed: Seed of the random damage.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.testing import check_codec
        >>> check_codec("utf8", ["", "straw", "a longer text"])
    """
    checked = get_codec(codec) if isinstance(codec, str) else codec
    copy = pickle.loads(pickle.dumps(checked))
    rng = random.Random(seed)
    for value in values:
        what = f"codec {checked.name!r}, value {str(value)[:60]}"
        stored = checked.encode(value)
        expect(
            isinstance(stored, bytes | bytearray | memoryview),
            f"{what}: encoded as a {type(stored).__name__}",
        )
        data = bytes(stored)
        decoded = checked.decode(data)
        _expect_like(decoded, value, what, lossless=lossless)
        expect_equal(copy.decode(data), decoded, f"{what}, decoded by the pickled codec")
        # Encoding need not give the same bytes every time; a lossy codec then decodes to a value
        # like the first.
        _expect_like(
            copy.decode(bytes(copy.encode(value))),
            value,
            f"{what}, pickled codec",
            lossless=lossless,
        )
        _check_buffers(checked, data, decoded, what)
        if checked.ranged is not None:
            _check_ranged(checked.ranged, data, decoded, what)
        if callable(checked.layout) and (layout := checked.layout(data)) is not None:
            _check_layout(layout, data, decoded, what)
        _check_damage(checked, data, what, rng)


def _expect_like(actual: Any, value: Any, what: str, *, lossless: bool) -> None:
    if lossless:
        expect_equal(actual, value, what)
    elif isinstance(value, np.ndarray):
        expect_equal(
            (actual.dtype, actual.shape), (value.dtype, value.shape), f"{what}: dtype and shape"
        )
    else:
        expect(isinstance(actual, type(value)), f"{what}: decoded as a {type(actual).__name__}")


def _check_buffers(codec: Codec, data: bytes, value: Any, what: str) -> None:
    """Check that any buffer can be decoded, and that the value does not change with it afterwards."""
    buffer = bytearray(data)
    for view in (memoryview(buffer), memoryview(buffer).toreadonly(), buffer):
        decoded = codec.decode(view)
        expect_equal(decoded, value, f"{what}, decoded from a {type(view).__name__}")
    buffer[:] = bytes(len(buffer))
    expect(same_value(decoded, value), f"{what}: the decoded value borrows the memory of its bytes")


def _check_ranged(ranged: Ranged, data: bytes, value: Any, what: str) -> None:
    """Check that elements equal the same elements of the whole value."""
    if getattr(value, "ndim", 1) == 0:
        try:
            ranged.count(data)
        except CodecError:
            return
        expect(False, f"{what}: a single number has a number of elements")
    count = len(value)
    expect_equal(ranged.count(data), count, f"{what}: number of elements")
    for chosen in (slice(None), slice(1, None, 2), slice(None, None, -1), slice(count, None)):
        expect_equal(ranged.decode(data, chosen), value[chosen], f"{what}: elements {chosen}")
    numbers = [count - 1, 0, -1] if count else []
    elements = ranged.decode(data, np.array(numbers, np.int64))
    expect_equal(
        list(elements), [value[number] for number in numbers], f"{what}: elements {numbers}"
    )
    try:
        ranged.decode(data, np.array([count], np.int64))
    except IndexError:
        return
    expect(False, f"{what}: element {count} of {count} does not raise an IndexError")


def _check_layout(layout: ArrayLayout, data: bytes, value: Any, what: str) -> None:
    """Check that header and elements are the stored bytes, and that the elements are the value."""
    header, dtype = layout.header, layout.dtype
    expect(
        data.startswith(header),
        f"{what}: the stored bytes do not begin with the header of the layout",
    )
    expect(
        dtype.isnative and dtype.kind in "biufc",
        f"{what}: the layout has dtype {dtype}, expected numbers",
    )
    size = dtype.itemsize * math.prod(layout.shape)
    expect_equal(
        len(header) + size, len(data), f"{what}: bytes in header and elements of the layout"
    )
    elements = np.frombuffer(data[len(header) :], np.uint8).view(dtype).reshape(layout.shape)
    expect_equal(elements, value, f"{what}: the elements that the layout finds")


def _check_damage(codec: Codec, data: bytes, what: str, rng: random.Random) -> None:
    """Check that damaged bytes are decoded to something or raise a CodecError."""
    for _ in range(_MUTATIONS if data else 0):
        damaged = bytearray(data)
        kind = rng.randrange(3)
        at = rng.randrange(len(damaged))
        if kind == 0:
            damaged[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del damaged[at:]
        else:
            damaged[at:at] = rng.randbytes(rng.randrange(1, 9))
        try:
            codec.decode(bytes(damaged))
        except CodecError:
            continue
        except Exception as error:
            expect(
                False,
                (
                    f"{what}: damaged bytes {bytes(damaged[:40])!r} "
                    f"raise {error!r}, not a CodecError"
                ),
            )
