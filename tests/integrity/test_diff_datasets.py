"""What differs between two datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel

SPEC = {"text": "utf8", "label": "int", "frames": "bytes[]"}


def write(path: Path, samples: dict[str, dict[str, Any]], container: str = "bag", **options: Any) -> bushel.Dataset:
    spec = options.pop("spec", SPEC)
    with bushel.Writer(path, spec, container=container, **options) as writer:
        for key, sample in samples.items():
            writer.append(sample, key=key)
    return bushel.open(path)


def sample(number: int) -> dict[str, Any]:
    return {"text": f"text {number}", "label": number, "frames": [b"%d" % part for part in range(number % 4)]}


SAMPLES = {f"k{number}": sample(number) for number in range(12)}


def counts(found: bushel.integrity.Diff) -> dict[str, tuple[int, int, int]]:
    fields = found.fields.items()
    return {name: (len(one.changed), len(one.same_value), len(one.unknown)) for name, one in fields}


@pytest.mark.parametrize("shard_samples", [None, 5])
def test_equal_datasets(tmp_path: Path, shard_samples: int | None) -> None:
    left = write(tmp_path / "a", SAMPLES)
    shuffled = dict(sorted(SAMPLES.items(), key=lambda item: hash(item[1]["text"])))
    right = write(tmp_path / "b", shuffled, shard_samples=shard_samples)
    found = bushel.diff(left, right)
    assert found.same
    assert (found.samples, found.by) == ((12, 12), "key")
    assert [left.keys[one] for one in found.pairs[0]] == [right.keys[other] for other in found.pairs[1]]
    assert counts(found) == dict.fromkeys(SPEC, (0, 0, 0))


def test_what_is_added_removed_and_changed(tmp_path: Path) -> None:
    other = {key: dict(value) for key, value in SAMPLES.items() if key != "k3"}
    other["k4"]["text"] = "text x"
    other["k5"]["frames"] = [b"9"]
    other["k7"]["frames"] = [b"0", b"1", b"3"]
    other["new"] = sample(99)
    left, right = write(tmp_path / "a", SAMPLES, shard_samples=5), write(tmp_path / "b", other, shard_samples=4)
    for values in (False, True):
        found = bushel.diff(left, right, values=values)
        assert not found.same
        assert [left.keys[position] for position in found.removed] == ["k3"]
        assert [right.keys[position] for position in found.added] == ["new"]
        assert counts(found) == {"text": (1, 0, 0), "label": (0, 0, 0), "frames": (2, 0, 0)}
        assert [left.keys[position] for position in found.fields["frames"].changed] == ["k5", "k7"]


def test_views_are_compared_by_their_positions(tmp_path: Path) -> None:
    ds = write(tmp_path / "a", SAMPLES, shard_samples=5)
    found = bushel.diff(ds[[7, 1, 2, 1]], ds[[1, 7, 0]])
    assert (found.removed.tolist(), found.added.tolist()) == ([2, 3], [2])
    assert [one.tolist() for one in found.pairs] == [[0, 1], [1, 0]]
    assert bushel.diff(ds[::-1], ds).same


def test_equal_values_in_other_bytes(tmp_path: Path) -> None:
    spec = {"label": "int", "text": "utf8"}
    samples = {key: {name: value[name] for name in spec} for key, value in SAMPLES.items()}
    changed = {**samples, "k2": {"label": 1000, "text": "other"}}
    left, right = write(tmp_path / "a", samples, spec=spec), write(tmp_path / "b.tar", changed, "tar", spec=spec)
    found = bushel.diff(left, right)
    assert counts(found)["label"] == (0, 0, 12)
    assert counts(found)["text"] == (1, 0, 0)
    assert not found.same
    decoded = bushel.diff(left, right, values=True)
    assert counts(decoded) == {"label": (1, 11, 0), "text": (1, 0, 0)}
    reports: list[bushel.runs.Progress] = []
    bushel.diff(left, right, values=True, progress=reports.append)
    assert (reports[-1].done, reports[-1].total) == (13, 13)


def test_without_checksums_values_of_one_length_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"text": "TWO"}\n{"text": "four"}\n{"text": "five"}\n')
    left, right = bushel.open(tmp_path / "a.jsonl"), bushel.open(tmp_path / "b.jsonl")
    found = bushel.diff(left, right)
    assert (found.by, found.added.tolist()) == ("position", [3])
    assert counts(found) == {"text": (1, 0, 2)}
    assert counts(bushel.diff(left, right, values=True)) == {"text": (2, 1, 0)}


def test_missing_values_and_fields(tmp_path: Path) -> None:
    kinds = {"text": "utf8", "extra": "bytes", "label": "int"}
    for name, sample in (("a", {"text": "1", "extra": b"x"}), ("b", {"label": 3, "text": "1"})):
        with bushel.Writer(tmp_path / f"{name}.tar", {each: kinds[each] for each in sample}) as writer:
            writer.append(sample, key="k")
            writer.append({"text": "2", **({"label": 1} if name == "b" else {"extra": b""})}, key="m")
    left, right = bushel.open(tmp_path / "a.tar"), bushel.open(tmp_path / "b.tar")
    found = bushel.diff(left, right)
    assert (found.removed_fields, found.added_fields) == ({"extra": "bytes"}, {"label": "int"})
    assert not found.same
    assert counts(found) == {"text": (0, 0, 0)}


def test_paths_are_refused_with_what_works() -> None:
    with pytest.raises(TypeError, match=r"open paths with bushel\.open"):
        bushel.diff("a", "b")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return write(tmp_path_factory.mktemp("diff") / "a", {key: SAMPLES[key] for key in ("k0", "k1", "k2", "k3")})


@given(one=st.lists(st.integers(0, 3), max_size=8), other=st.lists(st.integers(0, 3), max_size=8))
def test_views_with_repeated_samples(small: bushel.Dataset, one: list[int], other: list[int]) -> None:
    ds = small
    found = bushel.diff(ds[one], ds[other])
    left, right = [ds.keys[position] for position in one], [ds.keys[position] for position in other]
    both = sum(min(left.count(key), right.count(key)) for key in set(left))
    assert len(found.pairs[0]) == both
    assert (len(found.removed), len(found.added)) == (len(left) - both, len(right) - both)
    assert not any(len(field.changed) for field in found.fields.values())


def test_nan_equals_nan_when_values_are_decoded(tmp_path: Path) -> None:
    spec = {"vector": "array"}
    left = write(tmp_path / "a", {"x": {"vector": np.array([1, np.nan])}}, spec=spec)
    right = write(tmp_path / "b.rec", {"x": {"vector": np.array([1, np.nan])}}, "recordio", spec=spec)
    assert counts(bushel.diff(left, right, values=True))["vector"][0] == 0


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        ("float", 0.0, -0.0),
        ("json", {"x": [0.0]}, {"x": [-0.0]}),
        ("array", np.array([1, 0.0]), np.array([1, -0.0])),
        ("json", [[1], [2, 3]], [[1], [2, 3.0]]),
        ("array", np.array([0j]), np.array([complex(0, -0.0)])),
    ],
)
def test_zeros_have_a_sign(kind: str, value: Any, other: Any, tmp_path: Path) -> None:
    left, right, same = (
        write(tmp_path / name, {"x": {"v": zero}}, container, spec={"v": kind})
        for name, zero, container in (("a", value, "tar"), ("b", other, "tar"), ("c.rec", value, "recordio"))
    )
    assert counts(bushel.diff(left, right, values=True)) == {"v": (1, 0, 0)}
    assert counts(bushel.diff(left, same, values=True))["v"][0] == 0


SIX = np.arange(6, dtype="f4")
OTHERS: dict[str, tuple[tuple[str, Any], tuple[str, Any]]] = {
    "signs": (("int", -1), ("uint", 255)),
    "large": (("i64", -1), ("u64", 2**64 - 1)),
    "dtypes": (("array(float32,6)", SIX), ("array(int32,6)", SIX.view("i4"))),
    "shapes": (("array(float32,2,3)", SIX.reshape(2, 3)), ("array(float32,3,2)", SIX.reshape(3, 2))),
    "kinds": (("int", 1), ("float", 1.0)),
}


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("what", OTHERS)
def test_values_of_other_types_are_not_the_same(tmp_path: Path, what: str, container: str, values: bool) -> None:
    for side, (kind, value) in zip("ab", OTHERS[what], strict=True):
        with bushel.Writer(tmp_path / side, {"x": kind}, container=container, sync=False) as writer:
            writer.append({"x": value}, key="k")
    found = bushel.diff(bushel.open(tmp_path / "a"), bushel.open(tmp_path / "b"), values=values)
    assert not found.same
    assert found.types["x"] == (OTHERS[what][0][0], OTHERS[what][1][0])
    if values:
        assert found.fields["x"].changed.tolist() == [0]
        assert found.summary.startswith("1 x changed, x is ")


@pytest.mark.parametrize("samples", [0, 1])
def test_types_alone_are_a_difference(tmp_path: Path, samples: int) -> None:
    for side, kind in (("a", "array"), ("b", "array(float32,6)")):
        with bushel.Writer(tmp_path / side, {"x": kind}, container="bag", sync=False) as writer:
            for number in range(samples):
                writer.append({"x": SIX}, key=f"k{number}")
    found = bushel.diff(bushel.open(tmp_path / "a"), bushel.open(tmp_path / "b"), values=True)
    assert len(found.fields["x"].changed) == 0
    assert (found.same, found.summary.endswith("x is array(float32,6), was array")) == (False, True)


@pytest.mark.parametrize("values", [False, True])
def test_classes_of_other_names_are_not_the_same(tmp_path: Path, values: bool) -> None:
    for side, names in (("a", ["cat", "dog", "emu"]), ("b", ["dog", "cat", "emu"])):
        with bushel.Writer(tmp_path / side, {"x": "int"}, container="tar", labels={"x": names}, sync=False) as writer:
            for number in range(3):
                writer.append({"x": number}, key=f"k{number}")
    one, other = bushel.open(tmp_path / "a"), bushel.open(tmp_path / "b")
    found = bushel.diff(one, other, values=values)
    assert (found.same, found.fields["x"].changed.tolist()) == (False, [0, 1])
    assert found.summary == "2 xs changed, classes of x have other names"
    assert bushel.diff(one, one, values=values).summary == "the same"


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"x": None}, {"x": None}, True),
        ({"x": None}, {}, False),
        ({"l": []}, {"l": []}, True),
        ({"l": []}, {"l": ["a"]}, False),
        ({"l": ["a", "b"]}, {"l": ["b", "a"]}, False),
        ({"l": ["ab", ""]}, {"l": ["", "ab"]}, False),
        ({"l": ["a", "a"]}, {"l": ["a"]}, False),
    ],
)
def test_empty_missing_and_moved_values(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], same: bool, values: bool
) -> None:
    for side, changed in (("a", one), ("b", other)):
        with bushel.Writer(tmp_path / f"{side}.tar", {"z": "int", "x": "json", "l": "utf8[]"}, sync=False) as writer:
            writer.append({"z": 0, "x": 1, "l": ["c"]}, key="k")
            writer.append({"z": 0, **changed}, key="m")
    found = bushel.diff(bushel.open(tmp_path / "a.tar"), bushel.open(tmp_path / "b.tar"), values=values)
    assert found.same == same
