"""Conditions that name classes, and views made by dividing a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel

CLASSES = ("crane", "dog", "", "crane bird", "terrier")
"""One number has no name."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    path = tmp_path_factory.mktemp("classes") / "data"
    spec = {"label": "int", "name": "utf8", "meta": "json"}
    with bushel.Writer(path, spec, container="tar", shard_samples=7, labels={"label": CLASSES}, sync=False) as writer:
        for number in range(20):
            label = (0, 1, 3, 4)[number % 4]
            writer.append({"label": label, "name": CLASSES[label], "meta": {"x": number}}, key=f"k{number:02}")
    return bushel.open(path)


@pytest.mark.parametrize(
    ("condition", "labels"),
    [
        ("label == 'dog'", {1}),
        ("'dog' == label", {1}),
        ("label == 'crane bird'", {3}),
        ("label != 'crane'", {1, 3, 4}),
        ("label in ('dog', 'terrier')", {1, 4}),
        ("label in ('dog', 0)", {0, 1}),
        ("label not in ['crane', 'dog']", {3, 4}),
        ("label == 'dog' or name == 'terrier'", {1, 4}),
        ("not label == 'dog' and label < 4", {0, 3}),
        ('column("label") == "dog"', {1}),
    ],
)
def test_names_of_classes(dataset: bushel.Dataset, condition: str, labels: set[int]) -> None:
    for view in (dataset, dataset[::-1], dataset.select_fields(["name"]), bushel.concat([dataset, dataset])):
        found = view.where(condition)
        assert set(found.column("label").tolist()) == labels
        assert len(found) == sum(label in labels for label in view.column("label").tolist())


def test_unknown_names_and_orders_are_errors(dataset: bushel.Dataset) -> None:
    with pytest.raises(ValueError, match="no class of 'label' is named 'terier': did you mean 'terrier'"):
        dataset.where("label == 'terier'")
    with pytest.raises(ValueError, match="no class of 'label' is named 'submarine': it has 5 classes, such as 'crane'"):
        dataset.where("label in ('dog', 'submarine')")
    with pytest.raises(ValueError, match="no class of 'label' is named ''"):
        dataset.where("label == ''")
    with pytest.raises(ValueError, match="'label' is a number, but \"'dog'\" is a text"):
        dataset.where("label < 'dog'")
    with pytest.raises(ValueError, match="but .* is a (text|number)"):
        dataset.where("meta.x == 'dog'" if "meta.x" in dataset.columns else "name == 3")
    assert len(dataset[:0].where("label == 'dog'")) == 0


@given(seed=st.integers(0, 1 << 40), shares=st.lists(st.integers(1, 9), min_size=1, max_size=4), stratify=st.booleans())
def test_every_sample_is_in_one_view(dataset: bushel.Dataset, seed: int, shares: list[int], stratify: bool) -> None:
    wanted = {f"v{number}": share / sum(shares) for number, share in enumerate(shares)}
    parts = dataset.split(wanted, seed=seed, stratify="label" if stratify else None)
    keys = [list(part.keys) for part in parts.values()]
    assert sorted(sum(keys, [])) == list(dataset.keys)
    assert all(own == sorted(own) for own in keys)
    again = dataset.split(wanted, seed=seed, stratify="label" if stratify else None)
    assert {name: part.fingerprint for name, part in parts.items()} == {
        name: part.fingerprint for name, part in again.items()
    }


def test_split_chooses_what_bushel_split_writes(dataset: bushel.Dataset, tmp_path: Path) -> None:
    for stratify in (None, "label"):
        views = dataset.split(train=0.7, val=0.3, stratify=stratify, seed=5)
        target = tmp_path / str(stratify)
        bushel.split(dataset, target, {"train": 0.7, "val": 0.3}, shuffle=True, stratify=stratify, seed=5, sync=False)
        for name, view in views.items():
            assert list(bushel.open(target / name).keys) == list(view.keys)


def test_split_of_views_by_numbers_and_in_order(dataset: bushel.Dataset) -> None:
    half = dataset[::2]
    parts = half.split(train=None, val=3, shuffle=False)
    assert list(parts["train"].keys) + list(parts["val"].keys) == list(half.keys)
    assert len(parts["val"]) == 3
    assert len(dataset[:0].split(a=0.5, b=0.5)["a"]) == 0
    with pytest.raises(ValueError, match="add up"):
        dataset.split(train=0.5)
    with pytest.raises(ValueError, match="expected shares"):
        dataset.split()


def test_a_column_as_an_argument_gets_the_condition_as_text(dataset: bushel.Dataset) -> None:
    with pytest.raises(TypeError, match=r"""write ds\.where\("label == 3 and name == 'dog'"\)"""):
        dataset.where(label=3, name="dog")
