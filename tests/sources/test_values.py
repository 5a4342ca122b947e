"""Arrays, dicts and datasets as sources, and how a source is made of what a user names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.sources.folders import image_folder, jpeg, png

import bushel
from bushel.errors import FormatError, SpecError
from bushel.sources import (
    Arrays,
    Files,
    LabelledFolder,
    ListFile,
    Samples,
    Stream,
    Table,
    open_source,
)
from bushel.sources.samples import infer_spec
from bushel.testing import check_source


class TestArrays:
    def test_types(self) -> None:
        source = Arrays(
            {
                "x": np.arange(6, dtype=np.float32).reshape(3, 2),
                "n": np.array([1, 2, 3]),
                "r": np.array([0.5, 1, 2]),
                "t": np.array(["a", "é", ""]),
                "ok": np.array([True, False, True]),
                "__key__": np.array(["k0", "k1", "k2"]),
            }
        )
        check_source(source)
        assert source.spec == {"x": "array", "n": "int", "r": "float", "t": "utf8", "ok": "bool"}
        sample = source[1]
        np.testing.assert_array_equal(sample["x"], np.array([2, 3], np.float32))
        assert {name: sample[name] for name in ("n", "r", "t", "ok", "__key__")} == {
            "n": 2,
            "r": 1.0,
            "t": "é",
            "ok": False,
            "__key__": "k1",
        }

    def test_one_array_and_another_type(self) -> None:
        images = np.zeros((2, 8, 8, 3), np.uint8)
        assert Arrays(images).spec == {"data": "array"}
        assert Arrays({"image": images}, spec={"image": "jpg"}).spec == {"image": "jpg"}

    def test_files(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones((3, 2)))
        np.save(tmp_path / "b.npy", np.arange(8).reshape(4, 2))
        both = Arrays(tmp_path / "a.npz")
        check_source(both)
        assert (both.spec, both[2]["x"]) == ({"x": "int", "y": "array"}, 2)
        assert len(Arrays(tmp_path / "b.npy")) == 4

    def test_not_a_source(self) -> None:
        with pytest.raises(SpecError, match="have the same length"):
            Arrays({"a": np.arange(3), "b": np.arange(4)})
        with pytest.raises(SpecError, match="Python objects"):
            Arrays({"a": np.array([None, 1])})
        with pytest.raises(SpecError, match="which no codec can store"):
            Arrays({"a": np.zeros(3, complex)})


class TestSamples:
    def test_types_come_from_the_first_sample(self) -> None:
        sample = {
            "__key__": "a",
            "image": jpeg(0),
            "mask": png(0),
            "raw": b"\0",
            "label": 3,
            "yes": True,
            "score": np.float32(0.5),
            "text": "t",
            "x": np.zeros(3),
            "meta": {"a": 1},
            "frames": [jpeg(0), jpeg(1)],
        }
        assert infer_spec(sample) == {
            "image": "jpg",
            "mask": "png",
            "raw": "bytes",
            "label": "int",
            "yes": "json",
            "score": "float",
            "text": "utf8",
            "x": "array",
            "meta": "json",
            "frames": "jpg[]",
        }
        check_source(Samples([sample]))

    @pytest.mark.parametrize("value", [None, [], [1, "a"], [[1]], object()])
    def test_types_that_cannot_be_inferred(self, value: object) -> None:
        with pytest.raises(SpecError, match="the type of field 'x' cannot be inferred"):
            infer_spec({"x": value})

    def test_without_samples_a_spec_is_needed(self) -> None:
        with pytest.raises(SpecError, match="pass spec="):
            Samples([])
        with pytest.raises(SpecError, match="pass spec="):
            Stream(iter(()))
        assert len(Samples([], spec={"x": "int"})) == 0

    def test_a_stream_gives_every_sample_once(self) -> None:
        stream = Stream({"x": number} for number in range(3))
        assert stream.spec == {"x": "int"}
        assert list(stream) == [{"x": 0}, {"x": 1}, {"x": 2}]
        assert list(stream) == []


class TestOpening:
    def test_by_looks(self, tmp_path: Path) -> None:
        image_folder(tmp_path / "images", 2)
        (tmp_path / "videos").mkdir()
        (tmp_path / "videos/a.mp4").touch()
        (tmp_path / "set.lst").write_text("0\t1\tx.jpg\n")
        (tmp_path / "set.json").write_text('[{"path": "x.jpg"}]')
        np.save(tmp_path / "x.npy", np.arange(3))
        with bushel.Writer(tmp_path / "bag", {"x": "int"}, container="bag") as writer:
            writer.append({"x": 1})
        kinds = {
            "images": LabelledFolder,
            "videos": LabelledFolder,
            "set.lst": ListFile,
            "set.json": Table,
            "x.npy": Arrays,
            "bag": bushel.Dataset,
        }
        for name, kind in kinds.items():
            assert type(open_source(tmp_path / name)) is kind
            assert type(open_source(str(tmp_path / name))) is kind
        assert type(open_source(tmp_path / "images", "files")) is Files

    def test_values(self, tmp_path: Path) -> None:
        def made() -> Iterator[dict[str, Any]]:
            yield {"x": 1}

        assert type(open_source({"x": np.arange(2)})) is Arrays
        assert type(open_source(np.arange(2))) is Arrays
        assert type(open_source([{"x": 1}])) is Samples
        assert type(open_source(made())) is Stream
        source = Samples([{"x": 1}])
        assert open_source(source) is source

    def test_not_a_source(self, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match="int cannot be packed"):
            open_source(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="need a path"):
            open_source([{"x": 1}], "files")
        with pytest.raises(FormatError, match="neither images nor videos .*: it is empty"):
            open_source(tmp_path)
        for name in ("notes.txt", "a.nef", "b.NEF"):
            (tmp_path / name).touch()
        with pytest.raises(FormatError, match=r"neither images nor videos .*: it has 2 \.nef, 1 \.txt"):
            open_source(tmp_path)
        with pytest.raises(FileNotFoundError):
            open_source(tmp_path / "missing")


@pytest.mark.parametrize("kind", [list, iter])
def test_named_tuples_tuples_with_names_and_tensors_are_samples(kind: Any, tmp_path: Path) -> None:
    """In a list and in a stream as in a dataset of torch."""

    class Pair(NamedTuple):
        n: int
        x: Any

    class Tensor:
        shape, dtype = (3,), np.dtype(np.float32)

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            return np.arange(3, dtype=np.float32)

    spec = {"n": "int", "x": "array"}
    for number, rows in enumerate(([{"n": 7, "x": Tensor()}], [Pair(7, Tensor())], [(7, Tensor())])):
        done = bushel.pack(kind(rows), tmp_path / str(number), container="tar", spec=spec)
        assert done.spec == spec
        [sample] = bushel.open(tmp_path / str(number))
        assert (sample["n"], sample["x"].tolist()) == (7, [0, 1, 2])


def test_keys_of_arrays_may_have_any_type_that_has_a_text() -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    source = Arrays({"__key__": days, "x": np.arange(2)})
    assert (source.spec, source[1]["__key__"]) == ({"x": "int"}, "2020-01-02")


def test_tuples_have_the_names_of_a_declared_spec(tmp_path: Path) -> None:
    rows: Any = [(1, "a"), (2, "b")]
    source = Samples(rows, spec={"x": "int", "t": "utf8"})
    bushel.pack(source, tmp_path / "x.tar")
    assert [(sample["x"], sample["t"]) for sample in bushel.open(tmp_path / "x.tar")] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("source", [{"x": [1]}, [{"x": 1}], np.arange(2)])
def test_arrays_and_rows_are_not_converted(source: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a path or an object with open"):
        bushel.convert(source, tmp_path / "x.tar")


@pytest.mark.parametrize("suffix", ["tar", "ffr", "rec"])
def test_arrays_of_times_and_truth_values(tmp_path: Path, suffix: str) -> None:
    columns = {
        "day": np.array(["2020-01-01", "1969-12-31"], "datetime64[D]"),
        "time": np.array(["2020-01-01T00:00:01", "1969-12-31T23:59:59"], "datetime64[ns]"),
        "long": np.array([5, -7], "timedelta64[ms]"),
        "ok": np.array([True, False]),
    }
    spec = bushel.pack(columns, tmp_path / f"new.{suffix}", sync=False).spec
    assert spec == {"day": "datetime64(D)", "time": "datetime64(ns)", "long": "timedelta64(ms)", "ok": "bool"}
    samples = list(bushel.open(tmp_path / f"new.{suffix}"))
    source = bushel.sources.Arrays(columns)
    for position, sample in enumerate(samples):
        assert {name: sample[name] for name in columns} == {name: source[position][name] for name in columns}
        assert {name: sample[name] for name in columns} == {name: columns[name][position] for name in columns}
        assert type(sample["ok"]) is bool


def test_names_of_classes_belong_to_one_source() -> None:
    first, second = Samples([{"label": 1}]), Stream(iter([{"label": 1}]))
    first.labels = {"label": ["cat", "dog"]}
    assert (second.labels, Samples([{"label": 1}]).labels) == ({}, {})
    assert Samples([{"label": 1}]).labels is not Samples([{"label": 1}]).labels


def test_times_that_are_missing_are_missing_values(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "NaT"], "datetime64[D]")
    bushel.pack({"day": days, "n": np.arange(2)}, tmp_path / "x.tar", sync=False)
    assert [sample.get("day") for sample in bushel.open(tmp_path / "x.tar").read([0, 1])] == [days[0], None]


def test_times_have_their_units() -> None:
    day = datetime(2026, 11, 30, tzinfo=UTC)
    values = {
        "at": day,
        "day": day.date(),
        "span": day - day,
        "numpy": np.datetime64(1, "ns"),
        "spans": [np.timedelta64(1, "s")],
    }
    assert infer_spec(values) == {
        "at": "datetime64(us)",
        "day": "datetime64(D)",
        "span": "timedelta64(us)",
        "numpy": "datetime64(ns)",
        "spans": "timedelta64(s)[]",
    }


@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize(
    ("first", "other"),
    [(1, True), (0.5, np.True_), ([1], [True]), (datetime(2024, 1, 2), 5), (datetime(2024, 1, 2), np.int64(5))],
)
def test_a_value_is_not_taken_for_one_of_the_kind_of_the_first(
    first: Any, other: Any, kind: Any, tmp_path: Path
) -> None:
    samples = [{"x": first}, {"x": other}]
    with pytest.raises(bushel.TooManyErrors, match=r"field 'x'.* a value like the first one \(spec=\{'x': TYPE\}"):
        bushel.pack(kind(samples), tmp_path / "x.tar", sync=False)
    if first == 1:
        bushel.pack(kind(samples), tmp_path / "int.tar", spec={"x": "int"}, sync=False)
        assert [sample["x"] for sample in bushel.open(tmp_path / "int.tar")] == [1, 1]


def test_results_of_transforms_are_no_values_of_another_kind(tmp_path: Path) -> None:
    bushel.pack([{"x": 3}, {"x": 4}], tmp_path / "x.tar", transforms={"x": lambda number: number == 3}, sync=False)
    assert [sample["x"] for sample in bushel.open(tmp_path / "x.tar")] == [1, 0]


@pytest.mark.parametrize("other", [b"x", "x", None])
def test_truth_values_beside_others_than_numbers_are_refused_as_a_column(other: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the column 'x'"):
        bushel.pack({"x": [True, other]}, tmp_path / "x.tar", sync=False)


@pytest.mark.parametrize("values", [[1, True], [0.5, False], [True, False]])
def test_truth_values_of_a_column_stay(values: list[Any], tmp_path: Path) -> None:
    bushel.pack({"x": values}, tmp_path / "x.tar", sync=False)
    stored = [sample["x"] for sample in bushel.open(tmp_path / "x.tar")]
    assert list(map(repr, stored)) == list(map(repr, values))
