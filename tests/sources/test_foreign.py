"""Samples of other libraries are packed: datasets of torch, named tuples, frames and tables."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import bushel

Pair = namedtuple("Pair", ["text", "label"])


class OfTorch:
    """A map-style dataset: a length and positions, and nothing else."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> Any:
        return self.samples[position]


def packed(source: Any, folder: Path, **options: Any) -> bushel.Dataset:
    bushel.pack(source, folder / "set", container="tar", sync=False, **options)
    return bushel.open(folder / "set")


@pytest.mark.parametrize("kind", [list, OfTorch])
@pytest.mark.parametrize(
    "samples",
    [
        [{"text": "a", "label": 1}, {"text": "b", "label": 2}],
        [("a", 1), ("b", 2)],
        [Pair("a", 1), Pair("b", 2)],
    ],
)
def test_samples_by_position(samples: list[Any], kind: Any, tmp_path: Path) -> None:
    spec = {"text": "utf8", "label": "int"}
    opened = packed(kind(samples), tmp_path, spec=spec)
    assert opened.spec == spec
    assert [(sample["text"], sample["label"]) for sample in opened] == [("a", 1), ("b", 2)]


def test_types_of_dicts_are_inferred(tmp_path: Path) -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    assert packed(OfTorch([{"image": image, "n": 1}]), tmp_path).spec == {"image": "png", "n": "int"}


def test_datasets_keep_the_names_of_their_classes(tmp_path: Path) -> None:
    """They were lost, though `datasets` has them."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["oak", "ash"])})
    table = datasets.table.InMemoryTable.from_pydict({"text": ["a", "b", "c"], "label": [1, 0, 1]})
    # without a fingerprint it pickles the table, which depends on the version of dill
    source = datasets.Dataset(table, info=datasets.DatasetInfo(features=features), fingerprint="1")
    opened = packed(source, tmp_path)
    assert opened.labels == {"label": ("oak", "ash")}
    assert [sample["label"] for sample in opened] == [1, 0, 1]
    # the caller may number the names otherwise
    bushel.pack(source, tmp_path / "other.tar", labels={"label": ["ash", "oak"]})
    renumbered = bushel.open(tmp_path / "other.tar")
    assert [renumbered.labels["label"][sample["label"]] for sample in renumbered] == ["ash", "oak", "ash"]


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([("a", 1)], {}, "a sample is a tuple of 2 values: name each of them"),
        ([("a", 1)], {"spec": {"text": "utf8"}}, "a sample is a tuple of 2 values"),
        ([7], {}, "a sample must be a dict of fields, not int"),
    ],
)
def test_what_has_no_names_is_refused(
    samples: list[Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(bushel.SpecError, match=message):
        packed(OfTorch(samples), tmp_path, **options)
    assert not (tmp_path / "set").exists()


def test_the_advice_of_the_loader_works(tmp_path: Path) -> None:
    samples = OfTorch([(np.full((4, 4, 3), number, np.uint8), number) for number in range(3)])
    with pytest.raises(TypeError, match="write it once by bushel.pack") as refused:
        bushel.Loader(samples, 2)  # type: ignore[arg-type]
    call = str(refused.value).partition("write it once by ")[2].partition(", where")[0]
    eval(call.replace("'set/'", "target"), {"bushel": bushel, "dataset": samples, "target": tmp_path / "set"})
    batch = next(iter(bushel.Loader(bushel.open(tmp_path / "set"), 2)))
    assert (batch["image"].shape, batch["label"].tolist()) == ((2, 4, 4, 3), [0, 1])


def test_tensors_are_arrays(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    opened = packed(OfTorch([{"x": torch.arange(4) + number} for number in range(2)]), tmp_path)
    assert opened[1]["x"].tolist() == [1, 2, 3, 4]
    opened = packed(OfTorch([{"x": torch.ones(2, requires_grad=True)}]), tmp_path / "with gradients")
    assert opened[0]["x"].tolist() == [1, 1]
    with pytest.raises(bushel.errors.SpecError, match="the type of field 'x' cannot be inferred from tensor"):
        packed(OfTorch([{"x": torch.ones(2, dtype=torch.bfloat16)}]), tmp_path / "halves")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for names in (["a", "a"], [1, "1"]):
        with pytest.raises(bushel.errors.SpecError, match="two columns are named"):
            packed(pandas.DataFrame([[1, 2]], columns=names), tmp_path)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_rows_of_tables(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    pytest.importorskip("pyarrow")
    columns = {"text": [None, "b", "c"], "n": [1, 2, 3], "w": [0.5, 1.5, 2.5]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    opened = packed(table, tmp_path)
    assert opened.spec == {"text": "utf8", "n": "int", "w": "float"}
    assert [{name: value for name, value in sample.items() if name != "__key__"} for sample in opened] == [
        {"n": 1, "w": 0.5},
        {"text": "b", "n": 2, "w": 1.5},
        {"text": "c", "n": 3, "w": 2.5},
    ]


def test_columns_of_frames_keep_their_types(tmp_path: Path) -> None:
    """Of missing values, times with nanoseconds, and an index with a name."""
    pandas = pytest.importorskip("pandas")
    columns = {
        "whole": pandas.array([2**53 + 1, None], "Int64"),
        "time": pandas.to_datetime([None, "2020-01-02 03:04:05.000000007"]),
        "span": pandas.to_timedelta(["1s", None]),
    }
    names = pandas.Index(["a", "b"], name="name")
    opened = packed(pandas.DataFrame(columns, index=names), tmp_path)
    assert opened.spec == {"name": "utf8", "whole": "int", "time": "datetime64(ns)", "span": "timedelta64(us)"}
    assert [{name: value for name, value in sample.items() if name != "__key__"} for sample in opened] == [
        {"name": "a", "whole": 2**53 + 1, "span": np.timedelta64(1, "s")},
        {"name": "b", "time": np.datetime64("2020-01-02T03:04:05.000000007")},
    ]
    packed(pandas.DataFrame({"name": ["a", "b"]}, index=names), tmp_path / "the index is a column")


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (["n", None], {"n": "a", "level_1": 4, "v": 1}),
        ([None, None], {"level_0": "a", "level_1": 4, "v": 1}),
        (["v", "n"], {"n": 4, "v": 1}),  # `v` is a column already
    ],
)
def test_no_level_of_an_index_is_lost(names: list[Any], fields: dict[str, Any], tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.MultiIndex.from_tuples([("a", 4)], names=names)
    [sample] = packed(pandas.DataFrame({"v": [1]}, index=index), tmp_path)
    assert {name: value for name, value in sample.items() if name != "__key__"} == fields


def test_texts_of_an_index_are_a_column_and_numbers_of_rows_are_none(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"v": [1, 2]}, index=["a", "b"])
    assert packed(frame, tmp_path / "texts").spec == {"index": "utf8", "v": "int"}
    assert packed(frame.reset_index(drop=True)[1:], tmp_path / "rows").spec == {"v": "int"}


@pytest.mark.parametrize("is_dataset", [False, True])
def test_long_tables_are_read_in_blocks(is_dataset: bool, tmp_path: Path) -> None:
    """So are datasets of PyArrow, of which Lance's is one."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"n": np.arange(2500)})
    opened = packed(pytest.importorskip("pyarrow.dataset").dataset(table) if is_dataset else table, tmp_path)
    assert opened.column("n").tolist() == list(range(2500))


@pytest.mark.parametrize("iterated", [False, True])
def test_the_first_row_of_a_dataset_lacks_its_label(iterated: bool, tmp_path: Path) -> None:
    class ClassLabel:
        names = ("cat", "dog")

    class Rows(list[dict[str, Any]]):
        features: ClassVar = {"label": ClassLabel()}

    class Iterated:
        features: ClassVar = Rows.features

        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(rows)

    rows = Rows([{"label": None, "text": "a"}, {"label": 1, "text": "b"}])
    source = Iterated() if iterated else rows
    assert bushel.pack(source, tmp_path / "new.tar", sync=False).spec == {"label": "int", "text": "utf8"}
    dataset = bushel.open(tmp_path / "new.tar")
    assert [sample.get("label") for sample in dataset.read([0, 1])] == [None, 1]
    assert dataset.labels == {"label": ("cat", "dog")}


@pytest.mark.parametrize(
    ("spec", "values", "kind", "labels"),
    [
        (None, [0, 1], "int", ("dog", "cat")),
        ({"label": "int"}, [0, 1], "int", ("dog", "cat")),
        (None, [[1.0, 0.0], [0.0, 1.0]], "float[]", None),  # one-hot, by a function of the dataset
    ],
)
def test_numbers_of_a_class_label_get_the_numbers_of_the_caller(
    spec: dict[str, str] | None, values: list[Any], kind: str, labels: tuple[str, ...] | None, tmp_path: Path
) -> None:
    class ClassLabel:
        names = ("cat", "dog")

    class Rows(list[dict[str, Any]]):
        features: ClassVar = {"label": ClassLabel()}

    named = None if labels is None else {"label": list(labels)}
    rows = Rows([{"label": value} for value in values])
    assert bushel.pack(rows, tmp_path / "x.tar", spec=spec, labels=named, sync=False).spec == {"label": kind}
    dataset = bushel.open(tmp_path / "x.tar")
    if labels is not None:
        assert [dataset.labels["label"][sample["label"]] for sample in dataset] == ["cat", "dog"]
