"""Lists become arrays of the same values, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel.codecs import get_codec
from bushel.codecs.columns import exact_array

BIG = 2**63 + 1
NUMBERS = st.one_of(
    st.integers(-(2**64), 2**65), st.integers(2**53 - 3, 2**53 + 3), st.floats(allow_nan=False), st.booleans()
)


@given(st.one_of(st.lists(NUMBERS, min_size=1), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1)))
def test_numbers_keep_their_values_or_are_refused(values: list[Any]) -> None:
    try:
        array = exact_array(values)
    except (ValueError, OverflowError):
        return
    flat = [leaf for value in values for leaf in (value if isinstance(value, tuple) else (value,))]
    assert array.ravel().tolist() == flat
    assert array.dtype.kind in "biu" or not all(isinstance(leaf, int) for leaf in flat)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([BIG, -1], "have no common dtype"),
        ([2**53 + 1, 0.5], "have no common dtype"),
        ([[1, BIG], [0.5, 1]], "have no common dtype"),
        ([np.array([BIG], np.uint64), np.array([-1])], "an array of uint64 and its other values have no common dtype"),
        ([1, "a"], "texts and other values"),
        ([["a"], [2]], "texts and other values"),
        (np.ma.MaskedArray([1, 2], [False, True]), "masked"),
    ],
)
@pytest.mark.parametrize("codec", ["array", "npy"])
def test_what_no_dtype_holds_is_refused(codec: str, values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        exact_array(values)
    with pytest.raises(bushel.errors.CodecError, match=said):
        get_codec(codec).encode(values)


@pytest.mark.parametrize(
    "values", [[0.5, 1], [[1, 2], [3, BIG]], ["a", "b"], [np.array(["a"]), np.array(["b"])], (1, 2), [True, False], 7]
)
def test_the_others_are_the_arrays_of_numpy(values: Any) -> None:
    expected = np.array(values, np.uint64 if str(BIG) in str(values) else None)
    found = exact_array(values)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
    assert get_codec("array").decode(get_codec("array").encode(values)).tolist() == expected.tolist()


def test_a_mask_without_masked_values() -> None:
    assert exact_array(np.ma.MaskedArray([1, 2], False)).tolist() == [1, 2]


def test_columns_keep_whole_numbers(tmp_path: Path) -> None:
    done = bushel.pack({"x": [BIG, 1], "y": [[BIG], [1, 2]]}, tmp_path / "x.tar", sync=False)
    assert done.spec == {"x": "int", "y": "array"}
    samples = list(bushel.open(tmp_path / "x.tar"))
    assert [sample["x"] for sample in samples] == [BIG, 1]
    assert [sample["y"].tolist() for sample in samples] == [[BIG], [1, 2]]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([BIG, -1], "have no common dtype"),
        ([1, "a", 3.5], "texts and other values"),
        ([2**70, 1], f"holds {2**70}, which does not fit into 64 bits"),
        ([1, None], "holds Python objects, such as None"),
        ([[2**53 + 1], [0.5, 1.5]], "holds whole numbers that float64, the common dtype, does not keep"),
        ([[BIG, -1], [1]], "have no common dtype"),
        ([[BIG], [-1, 1]], "holds whole numbers that float64, the common dtype, does not keep"),
        (np.ma.MaskedArray([1, 2], [False, True]), "masked"),
        (3, "'x' is one value, but a column has one per sample"),
    ],
)
def test_columns_that_would_change_are_refused(tmp_path: Path, column: Any, said: str) -> None:
    with pytest.raises(bushel.errors.SpecError, match=said):
        bushel.pack({"x": column}, tmp_path / "x.tar", sync=False)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_files_of_objects_are_named(tmp_path: Path, name: str) -> None:
    array = np.array([{}], object)
    np.save(tmp_path / name, array) if name == "x.npy" else np.savez(tmp_path / name, array)
    with pytest.raises(
        bushel.errors.FormatError, match=rf"{name}: not a file of arrays: .*pickles, which are not read"
    ):
        bushel.pack(tmp_path / name, tmp_path / "x.tar", sync=False)
    (tmp_path / name).write_bytes(b"PK\3\4 damaged")
    with pytest.raises(bushel.errors.FormatError, match=rf"{name}: not a file of arrays"):
        bushel.pack(tmp_path / name, tmp_path / "x.tar", sync=False)
