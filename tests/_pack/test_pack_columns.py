"""Arrays, lists, Arrow arrays and bytes with offsets are packed as columns: which gives the files of single samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bushel
from bushel._writer.dataset_writer import DatasetWriter
from bushel.errors import SpecError, TooManyErrors
from bushel.sources.arrays import Arrays

CONTAINERS = ("bag", "tar", "ffrecord", "recordio")


class Samples:
    """The same samples, one by one."""

    def __init__(self, source: Arrays) -> None:
        self._source, self.spec = source, source.spec

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, position: int) -> Any:
        return self._source[position]


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".bushel" not in path.parts
    }


def both(folder: Path, arrays: Any, **options: Any) -> bushel.runs.PackResult:
    """Pack columns and the same samples one by one, and compare the files and the results."""
    options = {"sync": False, "threads": 1, **options}
    results = []
    for name, source in (("columns", Arrays(arrays)), ("samples", Samples(Arrays(arrays)))):
        results.append(bushel.pack(source, folder / name, **options))
    assert files_of(folder / "columns") == files_of(folder / "samples")
    first, second = results
    assert (first.samples, first.kept, first.errors, first.bytes, first.spec, first.limits) == (
        second.samples,
        second.kept,
        second.errors,
        second.bytes,
        second.spec,
        second.limits,
    )
    return first


def every_kind(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    return {
        "tokens": rng.integers(0, 60000, (count, 7), np.uint16),
        "n": rng.integers(-5, 1000, count),
        "f": rng.random(count),
        "half": rng.random(count).astype(np.float16),
        "yes": rng.random(count) < 0.5,
        "text": np.array([f"é{number}" * (number % 4) for number in range(count)]),
        "raw": np.array([f"b{number}".encode() for number in range(count)]),
        "list": [f"{number}\0" for number in range(count)],
        "bytes": [b"\0" * (number % 3) for number in range(count)],
    }


@pytest.fixture
def written_as_columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of samples that were written as columns."""
    counts: list[int] = []
    written = DatasetWriter.write_columns

    def observed(self: Any, *arguments: Any) -> tuple[int, int, int]:
        done = written(self, *arguments)
        counts.append(done[1])
        return done

    monkeypatch.setattr(DatasetWriter, "write_columns", observed)
    return counts


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("keyed", [False, True])
def test_every_kind_of_column(tmp_path: Path, container: str, keyed: bool, written_as_columns: list[int]) -> None:
    arrays = every_kind(300) | ({"__key__": np.array([f"key-{number}" for number in range(300)])} if keyed else {})
    result = both(tmp_path, arrays, container=container, shard_samples=70)
    assert (result.samples, sum(written_as_columns)) == (300, 300)
    assert bushel.verify(tmp_path / "columns").ok


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("options", [{"shuffle": True}, {"shuffle": "blocks", "shard_bytes": 3000}, {"keys": False}])
def test_orders(tmp_path: Path, container: str, options: dict[str, Any], written_as_columns: list[int]) -> None:
    arrays = {name: every_kind(150)[name] for name in ("bytes", "n")} | {"__key__": [f"k{n}" for n in range(150)]}
    both(tmp_path, arrays, container=container, **options)
    assert sum(written_as_columns) == 150


@settings(deadline=None, max_examples=25)
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=40), st.sampled_from(CONTAINERS), st.booleans())
def test_bytes_and_offsets(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes], container: str, shuffle: bool
) -> None:
    if container == "ffrecord":  # it refuses values that its readers would take for folders or packed samples
        values = [value and b"\0" + value for value in values]
    offsets = np.cumsum([3, *map(len, values)])
    arrays = {"data": (b"xyz" + b"".join(values) + b"rest", offsets)}
    folder = tmp_path_factory.mktemp("x")
    both(folder, arrays, container=container, shuffle=shuffle, seed=3)
    if not shuffle:
        assert [sample["data"] for sample in bushel.open(folder / "columns")] == values


def test_arrow(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    arrays = {
        "b": pa.array([b"a\0", b"", b"ccc"]),
        "t": pa.chunked_array([["x"], ["é", ""]]),
        "n": pa.array([1, 2, 3]),
        "v": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        "__key__": pa.array(["p", "q", "r"]),
    }
    assert bushel.pack(arrays, tmp_path / "ds", container="bag").spec == {
        "b": "bytes",
        "t": "utf8",
        "n": "int",
        "v": "array",
    }
    ds = bushel.open(tmp_path / "ds")
    assert list(ds.keys) == ["p", "q", "r"]
    assert [(s["b"], s["t"], s["n"], s["v"].tolist()) for s in ds] == [
        (b"a\0", "x", 1, [1, 2]),
        (b"", "é", 2, [3, 4]),
        (b"ccc", "", 3, [5, 6]),
    ]


def test_samples_that_cannot_be_packed_are_found(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(500)]
    keys[333] = "a.b"
    keys[400] = "k7"
    arrays = {"n": np.arange(500), "__key__": keys}
    result = both(tmp_path, arrays, container="tar", max_errors=None)
    assert (result.samples, result.errors) == (498, 2)
    logs = [(tmp_path / f"{name}.errors.jsonl").read_text() for name in ("columns", "samples")]
    assert logs[0] == logs[1]
    with pytest.raises(TooManyErrors, match="a.b"):
        bushel.pack(arrays, tmp_path / "strict", container="tar", shard_samples=100)
    assert len(bushel.open(tmp_path / "strict", allow_incomplete=True)) == 300
    arrays["__key__"] = [key if key != "a.b" else "k333" for key in keys]
    result = bushel.pack(arrays, tmp_path / "resumed", container="tar", max_errors=1, sync=False)
    assert (result.samples, result.errors) == (499, 1)


def test_resume(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(1000)]
    arrays = {"n": np.arange(1000), "__key__": keys}
    both(tmp_path, arrays, container="bag", shard_samples=100)
    bad = {"n": np.arange(1000), "__key__": [*keys[:640], "k1", *keys[641:]]}
    with pytest.raises(TooManyErrors):
        bushel.pack(bad, tmp_path / "ds", container="bag", shard_samples=100, sync=False)
    kept = len(bushel.open(tmp_path / "ds", allow_incomplete=True))
    assert kept == 600
    result = bushel.pack(arrays, tmp_path / "ds", container="bag", shard_samples=100, sync=False, mode="resume")
    assert (result.kept, result.samples) == (600, 400)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "samples")


def test_what_has_to_be_done_with_samples_is_done(tmp_path: Path, written_as_columns: list[int]) -> None:
    arrays = {"image": np.zeros((20, 8, 8, 3), np.uint8), "label": np.arange(20)}
    both(tmp_path / "images", arrays, container="tar")
    numbers = {"n": np.arange(20), "__key__": [f"k{n}" for n in range(20)]}
    both(tmp_path / "keys", numbers, container="tar", keys=str.upper)
    assert written_as_columns == []


def test_wrong_columns(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="same length"):
        Arrays({"a": [1, 2], "b": (b"abc", [0, 3])})
    with pytest.raises(SpecError, match="field 'a': offsets must ascend"):
        Arrays({"a": (b"abc", [2, 1])})
    with pytest.raises(SpecError, match="Python objects"):
        Arrays({"a": [b"x", None]})
    assert bushel.pack({"a": np.zeros((0, 3))}, tmp_path / "empty", container="bag").samples == 0


@pytest.mark.parametrize("make", [list, tuple, lambda values: np.array(values, object)])
@pytest.mark.parametrize(
    ("values", "kind"), [([1, True], "json"), ([True, 0.5], "json"), ([b"a\0", b"b"], "bytes"), (["a\0", "b"], "utf8")]
)
def test_the_form_of_a_column_does_not_change_its_values(
    make: Callable[[list[Any]], Any], values: list[Any], kind: str, tmp_path: Path
) -> None:
    """NumPy makes numbers of truth values beside numbers, and drops the zeros that end bytes and texts."""
    bushel.pack({"x": make(values)}, tmp_path / "new.tar", sync=False)
    dataset = bushel.open(tmp_path / "new.tar")
    assert dataset.spec == {"x": kind}
    assert repr([sample["x"] for sample in dataset]) == repr(values)


def test_bytes_beside_texts_are_not_texts(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="it has texts and other values"):
        bushel.pack({"x": [b"a", "a"]}, tmp_path / "new.tar")
