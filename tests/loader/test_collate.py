"""Collation: what is stacked keeps its type, what is not stays a list, and complaints name the sample."""

from typing import Any

import numpy as np
import pytest

from bushel.errors import SpecError
from bushel.loader.collate import Padded, Sample, collate


def batch_of(*values: Any, rule: Any = None) -> Any:
    samples = [{"__key__": f"k{i}", "x": value} for i, value in enumerate(values)]
    return collate(samples, {"x": rule} if rule else None)["x"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((1, 2), np.int64),
        ((1.5, 2.0), np.float64),
        ((True, False), np.bool_),
        ((1, 2.5), np.float64),
        ((np.float32(1), np.float32(2)), np.float32),
        ((np.uint8(1), np.uint8(255)), np.uint8),
        ((2**63, 2**64 - 1), np.uint64),
    ],
)
def test_numbers_become_an_array(values: tuple[Any, ...], dtype: type) -> None:
    batch = batch_of(*values)
    assert batch.dtype == dtype
    assert batch.tolist() == list(values)


def test_equal_shapes_are_stacked_with_their_type() -> None:
    images = [np.full((4, 5, 3), i, np.uint8) for i in range(3)]
    batch = batch_of(*images)
    assert batch.shape == (3, 4, 5, 3)
    assert batch.dtype == np.uint8
    assert batch[:, 0, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        ("a", "b"),
        (b"a", b"b"),
        ({"a": 1}, {}),
        ([1, 2], [3, 4]),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2, np.int8), np.zeros(2, np.int16)),
        (1, "a"),
        (2**70, 1),
        (np.zeros(2), None),
    ],
)
def test_everything_else_stays_a_list(values: tuple[Any, ...]) -> None:
    assert batch_of(*values) == list(values) or isinstance(values[0], np.ndarray)
    assert type(batch_of(*values)) is list
    assert all(a is b for a, b in zip(batch_of(*values), values, strict=True))


def test_keys_are_a_list() -> None:
    assert collate([{"__key__": "a", "x": 1}, {"__key__": "b", "x": 2}])["__key__"] == ["a", "b"]
    assert collate([]) == {}


def test_a_missing_field_names_the_sample_and_the_way_out() -> None:
    samples: list[Sample] = [{"__key__": "a", "x": 1}, {"__key__": "b"}]
    with pytest.raises(SpecError, match=r"'b' has no field 'x'.*fields=.*\"list\""):
        collate(samples)
    assert collate(samples, {"x": "list"})["x"] == [1, None]


def test_stack_refuses_what_does_not_stack() -> None:
    with pytest.raises(SpecError, match=r"field 'x' .*'k0'.*float64\[2\], float64\[3\]"):
        batch_of(np.zeros(2), np.zeros(3), rule="stack")
    assert batch_of(1, 2, rule="stack").tolist() == [1, 2]


def test_stack_reaches_into_sequences() -> None:
    clips = [[np.full((2, 3), 10 * clip + frame, np.uint8) for frame in range(4)] for clip in range(3)]
    batch = batch_of(*clips, rule="stack")
    assert batch.dtype == np.uint8
    np.testing.assert_array_equal(batch, np.array(clips))
    assert batch_of([1, 2], [3, 4], rule="stack").tolist() == [[1, 2], [3, 4]]
    assert batch_of(*clips) == clips
    with pytest.raises(SpecError, match=r"uint8\[3, 2, 3\], uint8\[4, 2, 3\]"):
        batch_of(clips[0], clips[1][:3], rule="stack")
    for clip in ([], [b"text"]):
        with pytest.raises(SpecError, match=r"field 'x' .*do not stack"):
            batch_of(clips[0], clip, rule="stack")


def test_list_leaves_everything_alone() -> None:
    assert batch_of(1, 2, rule="list") == [1, 2]


def test_a_function_collates_its_field() -> None:
    assert batch_of(3, 4, rule=sum) == 7


def test_padding_to_the_largest() -> None:
    batch = batch_of(np.array([1, 2], np.int32), np.array([3], np.int32), rule=Padded(-1))
    assert batch.dtype == np.int32
    assert batch.tolist() == [[1, 2], [3, -1]]


def test_padding_to_a_shape() -> None:
    batch = batch_of(np.ones((1, 2)), np.ones((2, 1)), rule=Padded(shape=(None, 3)))
    assert batch.tolist() == [[[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [1, 0, 0]]]


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [(((3,), (1,)), Padded(shape=(2,))), (((3,), (1, 2)), Padded()), (((3,), (1,)), Padded(shape=(4, 4)))],
)
def test_what_cannot_be_padded_is_refused(shapes: tuple[tuple[int, ...], ...], rule: Padded) -> None:
    with pytest.raises(SpecError, match=r"cannot collate field 'x' of the batch that starts at sample 'k0'"):
        batch_of(*(np.zeros(shape) for shape in shapes), rule=rule)
