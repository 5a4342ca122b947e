"""Datasets whose samples are in the same order, as one view."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bushel
from bushel._dataset.views.dataset import Dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("data") / "numbers"
    with bushel.Writer(path, {"label": "int"}, container="tar", shard_samples=5) as writer:
        for number in range(12):
            writer.append({"label": number}, key=f"k{number}")
    return bushel.open(path)


def by_position(first: Dataset, values: npt.NDArray[Any], folder: Path, name: str = "given") -> Dataset:
    """Return a dataset with one more field, whose values are the rows of an array."""
    np.save(folder / f"{name}.npy", values)
    return bushel.join(first, bushel.open(folder / f"{name}.npy"), on="position", names={"data": name})


@pytest.mark.parametrize("dtype", ["i1", "<f4", "?"])
@pytest.mark.parametrize("shape", [(12,), (12, 1), (12, 3, 2)])
def test_arrays_come_back(dataset: Dataset, tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    array, places = rng.integers(0, 2, shape).astype(dtype), rng.permutation(12)
    view = by_position(dataset[places], array, tmp_path)
    for place, sample in enumerate(view):
        assert sample["label"] == places[place]
        assert np.array_equal(sample["given"], array[place])
    same = pickle.loads(pickle.dumps(view))
    assert same.fingerprint == view.fingerprint
    assert np.array_equal(same[3]["given"], array[3])


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("processes", [0, 1])
def test_rows_of_files_join_in_order(dataset: Dataset, tmp_path: Path, processes: int, how: Any) -> None:
    rows = [f'{{"score": {number}, "note": "n{number}"}}\n' for number in range(12)]
    (tmp_path / "scores.jsonl").write_text("".join(rows))
    scores = bushel.open(tmp_path / "scores.jsonl")
    view = by_position(dataset[::-1], np.arange(24, dtype=np.float32).reshape(12, 2), tmp_path)
    view = bushel.join(view, scores, on="position", how=how)
    assert view[0]["given"].tolist() == [0, 1]
    assert [join.on for join in view.info.joins] == ["position", "position"]
    assert "joined by position" in repr(view.info)
    assert view.column("score").tolist() == list(range(12))
    for batch in bushel.Loader(view, 5, shuffle=True, processes=processes):
        assert (batch["given"][:, 0] == 2 * batch["score"]).all()
        assert (batch["label"] == 11 - batch["score"]).all()
    few = view.where("score >= 10")
    assert [sample["note"] for sample in few] == ["n10", "n11"]
    assert bushel.convert(few, tmp_path / "few", container="bag").samples == 2
    assert bushel.open(tmp_path / "few")[1]["given"].tolist() == [22, 23]
    assert bushel.concat([few, dataset])[1]["score"] == 11
    assert view.fingerprint != bushel.join(dataset, scores, on="position").fingerprint


def test_a_field_of_this_name_is_meant_first(tmp_path: Path) -> None:
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        rows = [f'{{"position": {number}, "{name}": {number}}}\n' for number in order]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    both = bushel.join(bushel.open(tmp_path / "a.jsonl"), bushel.open(tmp_path / "b.jsonl"), on="position")
    assert [(sample["a"], sample["b"]) for sample in both] == [(0, 0), (1, 1), (2, 2)]


def test_what_does_not_fit(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the first dataset has 12 samples, and one that is joined to it 11"):
        by_position(dataset, np.arange(11), tmp_path)
    with pytest.raises(ValueError, match=r"samples several times.*join first, then choose samples"):
        by_position(dataset[[1, 1]], np.arange(2), tmp_path)
    with pytest.raises(ValueError, match=r"two datasets have a field 'label'"):
        bushel.join(dataset, dataset, on="position")
    empty = by_position(dataset[:0], np.zeros((0, 3)), tmp_path)
    assert (len(empty), empty.spec["given"]) == (0, "array(float64,3)")
