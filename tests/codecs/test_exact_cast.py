"""Arrays get another dtype only if it keeps their values, whatever a processor makes of the others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bushel.codecs import get_codec
from bushel.codecs.arrays import exact_cast
from bushel.errors import CodecError

WHOLE = [0, -1, 127, 128, 1 << 24, (1 << 24) + 1, (1 << 31) - 1, 1 << 31, (1 << 53) + 1, (1 << 63) - 1, (1 << 64) - 1]
REAL = [0.5, -0.0, np.nan, np.inf, -np.inf, 1e30, 65520.0, 2.0**31, 2.0**63, -(2.0**63), 2.0**64]
DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_values_are_kept_or_refused(dtype: str) -> None:
    for stored, value in itertools.product(DTYPES, [*WHOLE, -(1 << 63), *REAL]):
        if isinstance(value, int) and stored[0] in "iu" and not np.iinfo(stored).min <= value <= np.iinfo(stored).max:
            continue
        array = np.array([value]).astype(stored)
        before, after = array.tolist()[0], array.astype(dtype).tolist()[0]
        if before == after or (before != before and after != after):  # Python compares numbers exactly
            assert exact_cast("x", array, np.dtype(dtype)).tolist() == pytest.approx([after], abs=0, nan_ok=True)
        else:
            with pytest.raises(CodecError, match=f"numbers that {dtype} holds"):
                exact_cast("x", array, np.dtype(dtype))


@pytest.mark.filterwarnings("error")
def test_real_numbers_as_complex_ones() -> None:
    """The imaginary part, which is 0, is not compared, since NumPy warns of casts that leave it out."""
    codec = get_codec("as(array(complex64,2),array(float32,2))")
    assert codec.decode(np.array([0.5, 2], "<f4").tobytes()).tolist() == [0.5 + 0j, 2 + 0j]
    with pytest.raises(CodecError, match="numbers that float32 holds"):
        get_codec("as(array(complex64,1),array(int64,1))").decode(np.array([2**24 + 1]).tobytes())
