"""Fields whose values are given, by position."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import bushel
from bushel._dataset.views.dataset import Dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("data") / "numbers"
    with bushel.Writer(path, {"label": "int"}, container="tar", shard_samples=5) as writer:
        for number in range(12):
            writer.append({"label": number}, key=f"k{number}")
    return bushel.open(path)


_NUMBERS = st.sampled_from(["i1", "u2", "<i4", ">i4", "i8", "u8", "f2", "f4", ">f8", "f8", "?"])


@given(data=st.data())
def test_arrays_come_back(dataset: Dataset, data: st.DataObject) -> None:
    shape = (12, *data.draw(st.lists(st.integers(0, 3), max_size=2)))
    array: npt.NDArray[Any] = data.draw(st_numpy.arrays(data.draw(_NUMBERS), shape))
    places = data.draw(st.permutations(range(12)))
    view = dataset[places].with_field("given", array)
    for place, sample in enumerate(view):
        assert sample["label"] == places[place]
        assert np.array_equal(sample["given"], array[place], equal_nan=array.dtype.kind == "f")
    if array.ndim == 1:
        assert np.array_equal(view.column("given"), array, equal_nan=array.dtype.kind == "f")
    same = pickle.loads(pickle.dumps(view))
    assert same.fingerprint == view.fingerprint
    assert np.array_equal(same[3]["given"], array[3], equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (list("abcdefghijkl"), "utf8"),
        ([b"", b"x"] * 6, "bytes"),
        ([{"a": 1}, None] * 6, "json"),
        ([True, False] * 6, "json"),
        ([3, None] * 6, "i64"),
        ([0.5, None] * 6, "float"),
        ([2**70, 3] * 6, "int"),
        (["a", None] * 6, "utf8"),
    ],
)
def test_lists_come_back(dataset: Dataset, values: list[Any], kind: str) -> None:
    view = dataset.with_field("given", values)
    assert view.spec["given"] == kind
    assert [sample.get("given") for sample in view] == values
    assert [sample.get("given") for sample in view[::-1].read(range(12))] == values[::-1]
    if kind in ("utf8", "i64", "float"):
        found = view.column("given")
        assert np.ma.getmaskarray(found).tolist() == [value is None for value in values]
        assert len(view.where(f"given == {values[0]!r}")) == values.count(values[0])


def test_arrays_of_several_lengths_and_named_types(dataset: Dataset) -> None:
    view = dataset.with_field("given", [np.arange(number) for number in range(12)])
    assert [len(sample["given"]) for sample in view] == list(range(12))
    assert dataset.with_field("given", [[1, "a"]] * 12, kind="json")[3]["given"] == [1, "a"]
    assert dataset.with_field("given", [np.zeros(2)] * 12, kind="npy").spec["given"] == "npy"
    assert dataset.with_field("given", [np.float32(0.5)] * 12).spec["given"] == "f32"
    masked = np.ma.MaskedArray(np.arange(12), np.arange(12) > 9)
    assert ["given" in sample for sample in dataset.with_field("given", masked)] == [True] * 10 + [False] * 2


@pytest.mark.parametrize("processes", [0, 1])
def test_a_dataset_is_joined_by_position(dataset: Dataset, tmp_path: Path, processes: int) -> None:
    np.save(tmp_path / "embeddings.npy", np.arange(24, dtype=np.float32).reshape(12, 2))
    embeddings = bushel.open(tmp_path / "embeddings.npy")
    view = dataset[::-1].with_field("embedding", embeddings).with_field("score", np.arange(12.0))
    assert view[0]["embedding"].tolist() == [0, 1]
    assert view.info.joins[0].on == "position"
    assert "joined by position" in repr(view.info)
    for batch in bushel.Loader(view, 5, shuffle=True, processes=processes):
        assert (batch["embedding"][:, 0] == 2 * batch["score"]).all()
        assert (batch["label"] == 11 - batch["score"]).all()
    both = bushel.join(view, dataset[:4].with_field("other", list("abcd")).select_fields(["other"]))
    assert [(sample["other"], sample["score"]) for sample in both] == [("d", 8), ("c", 9), ("b", 10), ("a", 11)]
    few = view.where("score >= 10")
    assert bushel.convert(few, tmp_path / "few", container="bag").samples == 2
    assert bushel.open(tmp_path / "few")[1]["embedding"].tolist() == [22, 23]
    assert bushel.concat([few, dataset])[1]["score"] == 11
    assert view.fingerprint != dataset[::-1].with_field("embedding", embeddings).fingerprint
    lower = dataset.with_field("score", np.arange(12.0))
    assert lower.fingerprint != dataset.with_field("score", np.arange(12.0) + 1).fingerprint


def test_what_does_not_fit(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="field 'label' exists already"):
        dataset.with_field("label", range(12))
    with pytest.raises(ValueError, match="'x': 11 values for 12 samples"):
        dataset.with_field("x", range(11))
    with pytest.raises(ValueError, match="samples several times"):
        dataset[[1, 1]].with_field("x", range(2))
    with pytest.raises(ValueError, match=r"has the fields label, y: choose one"):
        dataset.with_field("x", dataset.with_field("y", range(12)))
    assert dataset.with_field("y", dataset.with_field("y", range(12)))[3]["y"] == 3
    for wrong in ("abc", 5, None):
        with pytest.raises(TypeError, match="expected an array, a list of values or a dataset"):
            dataset.with_field("x", wrong)  # type: ignore[arg-type]
    with pytest.raises(bushel.errors.SpecError, match="cannot be inferred"):
        dataset.with_field("x", [object()] * 12)
    with pytest.raises(TypeError, match="kind= is for values in memory"):
        dataset.with_field("x", dataset, kind="int")
    with pytest.raises(bushel.errors.SpecError, match="sequence"):
        dataset.with_field("x", [[1]] * 12, kind="int[]")
    empty = dataset[:0].with_field("x", np.zeros((0, 3)))
    assert (len(empty), empty.spec["x"]) == (0, "array(float64,3)")


@given(numbers=st.lists(st.integers(-(2**64), 2**65), min_size=12, max_size=12))
def test_whole_numbers_stay_whole(dataset: Dataset, numbers: list[int]) -> None:
    found = [sample["given"] for sample in dataset.with_field("given", numbers)]
    assert found == numbers
    assert all(isinstance(value, int) for value in found)


def test_numbers_that_no_dtype_keeps_are_refused(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="field 'given': 9007199254740993 and its other values have no common dtype"):
        dataset.with_field("given", [2**53 + 1, 0.5] * 6)
