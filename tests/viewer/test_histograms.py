"""Histograms: every bin's count is the number of samples for which its condition is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._dataset.read.where import choose
from bushel._dataset.views.info import summary
from bushel.viewer.histograms import Histogram, condition_name, histogram_of

VALUES = st.one_of(
    st.lists(st.integers(-5, 5), max_size=40).map(lambda found: np.array(found, np.int64)),
    st.lists(st.integers(-(2**40), 2**40), max_size=200).map(lambda found: np.array(found, np.int64)),
    st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), max_size=60).map(lambda found: np.array(found, np.float64)),
    st.lists(st.booleans(), max_size=20).map(lambda found: np.array(found, np.bool_)),
    st.lists(st.text('a"\\\nü', max_size=3), max_size=30).map(lambda found: np.array(found, object)),
)


def counts(found: Histogram) -> list[tuple[int, int]]:
    return [(bin_.count, bin_.all) for bin_ in found.bins]


def test_numbers_that_no_dtype_holds_are_drawn_as_floats() -> None:
    values = np.array([1, 1 << 64, 0.5, (1 << 53) + 1], object)
    found = histogram_of("c", values, None, None)
    assert found.kind == "numbers"
    assert sum(bin_.count for bin_ in found.bins) == 4
    shown = summary("c", values)
    assert (shown.kind, shown.min, shown.max) == ("float", 0.5, 2.0**64)


def test_the_largest_whole_numbers_are_classes() -> None:
    """Their classes were an OverflowError."""
    found = histogram_of("u", np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64), None, None)
    assert [(entry.label, entry.count) for entry in found.bins] == [(str(2**64 - 3), 1), (str(2**64 - 1), 2)]


@pytest.mark.parametrize("size", [False, True])
def test_booleans_are_always_classes(size: bool) -> None:
    found = histogram_of("c", np.array([True, False, True]), None, None, size=size)
    assert (found.kind, [bin_.count for bin_ in found.bins]) == ("classes", [1, 2])


@given(values=VALUES, data=st.data())
def test_counts_are_those_of_the_conditions(values: Any, data: st.DataObject) -> None:
    size = len(values)
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
    selected = np.array(sorted(data.draw(st.sets(st.integers(0, max(size - 1, 0)), max_size=size))), np.int64)
    selected = selected[selected < size]
    asked: Any = dict(size=data.draw(st.booleans()), logarithmic=data.draw(st.booleans()))
    found = histogram_of("c", values, missing, selected, **asked)
    for bin_ in found.bins:
        chosen = choose(bin_.condition, size, lambda name: (values, missing))
        assert bin_.all == int(chosen.sum())
        assert bin_.count == int(chosen[selected].sum())
    there = ~missing & (np.isfinite(values) if values.dtype.kind == "f" else True)
    assert sum(bin_.all for bin_ in found.bins) == int(there.sum())
    assert found.missing == len(selected) - int(there[selected].sum())


def test_few_whole_numbers_are_classes_with_names() -> None:
    labels = ["cat", "dog", "", "", "", "", "", "dog"]
    found = histogram_of("label", np.array([0, 1, 1, 2, 7]), None, None, labels=labels)
    assert found.kind == "classes"
    assert [bin_.label for bin_ in found.bins] == ["0 cat", "1 dog", "2", "7 dog"]
    conditions = [bin_.condition for bin_ in found.bins]
    assert conditions == ['label == "cat"', "label == 1", "label == 2", "label == 7"]  # two classes are named "dog"
    chosen = choose(conditions[0], 2, lambda name: (np.array([0, 1]), None), lambda: {"label": tuple(labels)})
    assert chosen.tolist() == [True, False]


def test_many_whole_numbers_are_intervals() -> None:
    found = histogram_of("width", np.arange(1000), None, np.arange(500), size=True)
    assert found.kind == "numbers"
    assert len(found.bins) == 28
    assert sum(count for count, _ in counts(found)) == 500


def test_more_than_a_hundred_classes_are_a_list_that_is_searched() -> None:
    values = np.arange(1008).repeat(3)
    found = histogram_of("label", values, None, None)
    assert (found.kind, len(found.bins), found.more) == ("classes", 100, 908)
    found = histogram_of("label", values, None, None, labels=[f"Breed {n}" for n in range(1008)], find="breed 99")
    assert [bin_.label for bin_ in found.bins] == ["99 Breed 99", *(f"99{n} Breed 99{n}" for n in range(10))]
    texts = np.array([f"t{number}" for number in range(100)] * 2, object)
    found = histogram_of("text", texts, None, None, find="T9")
    assert [bin_.label for bin_ in found.bins] == ["t9", *(f"t9{number}" for number in range(10))]


def test_sizes_are_never_classes() -> None:
    values = np.array([224, 256] * 9)
    assert histogram_of("image.width", values, None, None, size=True).kind == "numbers"
    assert histogram_of("image.width", values, None, None).kind == "classes"


@pytest.mark.parametrize("far", [2, 60, 300, 700])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_outliers_do_not_hide_a_histogram(dtype: Any, far: int) -> None:
    outliers = np.random.default_rng(1).choice([1e9, -1e9], far)
    values = np.concatenate([np.random.default_rng(0).normal(500, 20, 5000).round(), outliers]).astype(dtype)
    found = histogram_of("c", values, None, None)
    assert max(bin_.all for bin_ in found.bins) < 1000
    assert sum(bin_.all > 20 for bin_ in found.bins) >= 15
    assert sum(bin_.all for bin_ in found.bins) == len(values)


def test_logarithmic_intervals_grow_by_a_factor() -> None:
    values = (10 ** np.random.default_rng(0).uniform(0, 6, 5000)).astype(np.int64)
    found = histogram_of("c", values, None, None, size=True, logarithmic=True)
    widths = [float(bin_.high) / float(bin_.low) for bin_ in found.bins[8:]]
    assert max(widths) / min(widths) < 1.2
    for bin_ in found.bins:
        assert bin_.all == int(choose(bin_.condition, len(values), lambda name: (values, None)).sum())
    zero = histogram_of("c", np.append(values, 0), None, None, size=True, logarithmic=True)
    assert sum(bin_.all for bin_ in zero.bins) == 5001


def test_the_most_frequent_texts_are_shown() -> None:
    values = np.array([f"t{number}" for number in range(100)] + ["often"] * 3, object)
    found = histogram_of("caption", values, None, None)
    assert found.bins[0].label == "often"
    assert (len(found.bins), found.more) == (60, 41)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("label", "label"), ("image.width", "image.width"), ("t.0", "t.0"), ("seg-map.width", 'column("seg-map.width")')],
)
def test_names_in_conditions(name: str, expected: str) -> None:
    assert condition_name(name) == expected
