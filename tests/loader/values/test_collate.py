"""Collation: stacked values keep their type, others stay a list, and errors name the sample."""

from typing import Any

import numpy as np
import pytest

from bushel.errors import SpecError
from bushel.loader.values.collate import Padded, Ragged, Sample, collate


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
        ((1, 2**63 + 1), np.uint64),
        ((np.int64(3), np.uint64(2**64 - 1)), np.uint64),
        ((2**53, 0.5), np.float64),
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
        (-1, 2**63),
        (np.int64(-1), np.uint64(2**64 - 1)),
        (2**53 + 1, 0.5),
        (np.int64(2**53 + 1), 0.5),
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


@pytest.mark.parametrize("options", [{"multiple_of": True}, {"multiple_of": 2.5}, {"shape": (True,)}])
def test_paddings_are_whole_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected a whole number"):
        Padded(**options)


@pytest.mark.parametrize("rule", [None, "stack", Padded(), Ragged()], ids=str)
def test_a_masked_array_is_refused_before_it_loses_its_mask(rule: Any) -> None:
    values = [np.ma.masked_array([1, 2], [False, True]), np.ma.masked_array([3, 4], [False, False])]
    with pytest.raises(SpecError, match=r"lose its mask: fill it in a transform.*'list'|.*\"list\""):
        batch_of(*values, rule=rule)
    assert batch_of(*values, rule="list")[0] is values[0]


@pytest.mark.parametrize("rule", [None, "stack", Padded(), Ragged()], ids=str)
@pytest.mark.parametrize("length", [3, 3000])
def test_arrays_come_out_in_native_byte_order(rule: Any, length: int) -> None:
    values = [np.arange(length, dtype=">i4") + i for i in range(3)]
    batch = batch_of(*values, rule=rule)
    array = batch["values"].reshape(3, -1) if isinstance(rule, Ragged) else batch
    assert array.dtype == np.dtype("=i4")
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, np.stack(values))


def test_joined_arrays_have_a_type_that_holds_all_numbers() -> None:
    large, small = np.array([2**63 + 1], np.uint64), np.array([5, 6], np.int64)
    for rule in (Padded(), Ragged()):
        batch = batch_of(large, small, rule=rule)
        array = batch["values"] if isinstance(rule, Ragged) else batch
        assert array.dtype == np.uint64
        assert array.reshape(-1)[0] == 2**63 + 1
        with pytest.raises(SpecError, match="no type holds the numbers of arrays of int64, uint64"):
            batch_of(large, -small, rule=rule)
        with pytest.raises(SpecError, match="no type holds the numbers of arrays of float32, int64"):
            batch_of(np.array([2**53 + 1]), np.ones(1, np.float32), rule=rule)


@pytest.mark.parametrize(
    ("value", "dtype"), [(0.5, np.int64), (-1, np.uint8), (float("nan"), np.int32), (300, np.uint8)]
)
def test_a_padding_that_the_type_does_not_have_is_refused(value: float, dtype: str) -> None:
    with pytest.raises(SpecError, match="cannot be padded with"):
        batch_of(np.ones(2, dtype), np.ones(3, dtype), rule=Padded(value))
