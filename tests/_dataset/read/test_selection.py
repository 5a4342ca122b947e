"""Positions in a view, and masks of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._dataset.read.selection import Selection
from bushel.spec import Field

POSITIONS = st.one_of(
    st.builds(range, st.integers(0, 9), st.integers(0, 9), st.sampled_from([-2, -1, 1, 3])),
    st.lists(st.integers(0, 99), max_size=6),
)


@given(POSITIONS, st.data())
def test_positions_are_those_of_a_list(chosen: range | list[int], data: st.DataObject) -> None:
    view = Selection(chosen if isinstance(chosen, range) else np.array(chosen, np.int64), {})
    size = len(chosen)
    asked = data.draw(st.lists(st.integers(-size, size - 1), max_size=5)) if size else []
    expected = [chosen[position] for position in asked]
    assert view.all_of(asked).tolist() == view.all_of(np.array(asked, np.int32)).tolist() == expected
    assert [view.at(position) for position in asked] == expected
    mask = np.array([position in asked for position in range(size)], np.bool_)
    assert view.all_of(mask).tolist() == [one for one, kept in zip(chosen, mask, strict=True) if kept]
    assert view.first(expected) == min((list(chosen).index(one) for one in expected), default=None)
    for wrong in (size, -size - 1, 2**63, 10**30):
        for refused in (view.at, lambda position: view.all_of([position])):
            with pytest.raises(IndexError, match=f"position {wrong} is out of range for a dataset of {size} samples"):
                refused(wrong)


SELECTION = Selection(range(3), {"image": Field("image", "jpg"), "words": Field("words", "utf8", sequence=True)})


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, {"image": None, "words": None}),
        ([], {}),
        (["words", "image", "words"], {"words": None, "image": None}),
        ({"image": True, "words": False}, {"image": None}),
        ({"words": slice(1, None)}, {"words": slice(1, None)}),
    ],
)
def test_masks(mask: Any, expected: dict[str, Any]) -> None:
    found = SELECTION.wanted(mask)
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    "value", [range(5, 0, -2), [5, 3, 1], (5, 3, 1), np.array([5, 3, 1], np.uint8), iter([5, 3, 1])]
)
def test_elements_become_numbers(value: Any) -> None:
    elements = SELECTION.wanted({"words": value})["words"]
    assert isinstance(elements, np.ndarray)
    assert elements.dtype == np.int64
    assert elements.tolist() == [5, 3, 1]


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ("image", TypeError),
        (["gone"], KeyError),
        ({"gone": False}, KeyError),
        ({"image": slice(1)}, TypeError),
        ({"image": 1}, TypeError),
        ({"words": 1}, TypeError),
        ({"words": None}, TypeError),
        ({"words": [0.5]}, TypeError),
        ({"words": "01"}, TypeError),
        ({"words": [10**30]}, IndexError),
        ({"words": [-(10**30)]}, IndexError),
    ],
)
def test_invalid_masks(mask: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        SELECTION.wanted(mask)
