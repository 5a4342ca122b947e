from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._pack.opening import opened
from tests._pack.pack_sources import Numbered, files_of

import bushel
from bushel._dataset.read.splitting import share_out
from bushel._pack.reshape import merge, split
from bushel.errors import UnsupportedError


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    bushel.pack(Numbered(21), tmp_path / "in", container="tar", shard_samples=8)
    return tmp_path / "in"


def test_split_loses_nothing(dataset: Path, tmp_path: Path) -> None:
    done = split(dataset, tmp_path / "out", {"train": 0.8, "val": 0.1, "test": 0.1}, shuffle=True)
    assert {name: one.samples for name, one in done.items()} == {"train": 17, "val": 2, "test": 2}
    labels = {name: [sample["label"] for sample in opened(tmp_path / "out" / name)] for name in done}
    assert sorted(sum(labels.values(), [])) == list(range(21))
    assert all(order == sorted(order) for order in labels.values())
    assert labels["train"] != list(range(17))
    split(dataset, tmp_path / "again", {"train": 0.8, "val": 0.1, "test": 0.1}, shuffle=True)
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")
    seen: list[bushel.runs.Progress] = []
    for shuffle in (None, False):
        out = tmp_path / f"plain{shuffle}"
        split(dataset, out, {"a": 0.5, "b": 0.5}, shuffle=shuffle, container="bag", progress=seen.append)
        assert [sample["label"] for sample in opened(out / "a")] == list(range(10))
        assert (seen[-1].done, seen[-1].total) == (21, 21)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
def test_shares_are_right_to_within_one(samples: int, weights: list[int]) -> None:
    shares = {str(number): weight / sum(weights) for number, weight in enumerate(weights)}
    counts = share_out(samples, shares)
    assert sum(counts.values()) == samples
    assert all(abs(counts[name] - share * samples) <= 1 for name, share in shares.items())


def test_wrong_shares() -> None:
    with pytest.raises(ValueError, match="add up to 1, not to 0.9"):
        share_out(10, {"a": 0.9})
    with pytest.raises(ValueError, match="add up to 1"):
        share_out(10, {"a": 1.5, "b": -0.5})


def test_numbers_of_samples_are_exact(dataset: Path, tmp_path: Path) -> None:
    done = bushel.split(dataset, tmp_path / "out", {"train": 14, "val": 7})
    assert {name: one.samples for name, one in done.items()} == {"train": 14, "val": 7}
    done = bushel.split(dataset, tmp_path / "rest", {"train": None, "val": 4}, shuffle=True)
    assert {name: one.samples for name, one in done.items()} == {"train": 17, "val": 4}
    done = bushel.split(dataset, tmp_path / "shares", {"train": 0.5, "val": None})
    assert sum(one.samples for one in done.values()) == 21
    for wrong, message in (
        ({"a": 20, "b": 2}, "add up to the 21 samples of the dataset, not to 22"),
        ({"a": 22, "b": None}, "are more than 21, and leave no rest"),
        ({"a": None, "b": None}, "at most one of them None"),
        ({}, "expected shares"),
        ({"a": 20, "b": 0.5}, "give whole numbers only"),
    ):
        with pytest.raises(ValueError, match=message):
            bushel.split(dataset, tmp_path / "wrong", wrong)
    assert not (tmp_path / "wrong").exists()


def test_classes_are_divided_by_numbers_of_samples(tmp_path: Path) -> None:
    rows = [{"label": "ab"[number % 2]} for number in range(20)]
    bushel.pack(rows, tmp_path / "in", container="tar", spec={"label": "utf8"})
    done = bushel.split(tmp_path / "in", tmp_path / "out", {"train": None, "val": 4}, stratify="label")
    assert {name: one.samples for name, one in done.items()} == {"train": 16, "val": 4}
    assert sorted(sample["label"] for sample in opened(tmp_path / "out/val")) == ["a", "a", "b", "b"]


def test_merge_takes_a_list(dataset: Path, tmp_path: Path) -> None:
    for wrong in (str(dataset), bushel.open(dataset)):
        with pytest.raises(TypeError, match=r"bushel\.merge\(\[a, b\], target\)"):
            bushel.merge(wrong, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one dataset"):
        bushel.merge([], tmp_path / "out")


def test_merge(dataset: Path, tmp_path: Path) -> None:
    parts = split(dataset, tmp_path / "out", {"a": 0.5, "b": 0.5}, shuffle=None)
    assert merge([tmp_path / "out/a", tmp_path / "out/b"], tmp_path / "one.tar").samples == 21
    assert [sample["label"] for sample in opened(tmp_path / "one.tar")] == list(range(21))
    assert merge((tmp_path / "out" / name for name in parts), tmp_path / "bag", container="bag").container == "bag"


def test_a_split_is_not_written_into_a_dataset_or_over_a_file(dataset: Path, tmp_path: Path) -> None:
    before = files_of(dataset)
    for target, said in ((dataset, "in is a dataset"), (next(dataset.glob("*.tar")), "tar is a file")):
        with pytest.raises(FileExistsError, match=said):
            split(dataset, target, {"a": 0.5, "b": 0.5})
    assert files_of(dataset) == before


def test_streams_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="a stream cannot be split"):
        split(bushel.open_stream("pipe:true", allow_commands=True), "out", {"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["..", "../out2", "/out2", "", ".", "a/../../out2", "s3://bucket/x", "a\0b"])
def test_a_name_that_leads_out_of_the_target(dataset: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a dataset in the target"):
        bushel.split(dataset, tmp_path / "out", {"train": 0.5, name: 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_shares_that_are_no_dict(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a dict such as"):
        bushel.split(dataset, {"train": 0.5, "val": 0.5}, tmp_path / "out")  # type: ignore[arg-type]
