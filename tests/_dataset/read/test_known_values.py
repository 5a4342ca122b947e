"""Fields whose values the index has: they are what decoding gives, and no data file is read for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bushel
from bushel.errors import CorruptError

COUNT = 30
SPEC = {"label": "int", "score": "float", "caption": "utf8", "tokens": "array"}


def whole(number: int) -> dict[str, Any]:
    return {"label": number, "score": number / 7, "caption": f"caption {number % 5}", "tokens": np.arange(number)}


def sample(number: int, container: str = "tar") -> dict[str, Any]:
    """A sample, of which some lack most fields where the container allows that."""
    sparse = container == "tar" and not number % 7
    return {name: value for name, value in whole(number).items() if not sparse or name == "tokens"}


def written(path: Path, container: str = "tar", **options: Any) -> bushel.Dataset:
    with bushel.Writer(path, SPEC, container=container, shard_samples=12, **options) as writer:
        for number in range(COUNT):
            writer.append(sample(number, container), key=f"k{number}")
    return bushel.open(path)


def without_files(ds: bushel.Dataset) -> bushel.Dataset:
    """Remove the data files of a dataset, whose tables are loaded."""
    for shard in ds.shards:
        assert shard.index is not None
        for number in range(len(shard.shard.files)):
            Path(str(shard.path(number))).unlink()
    return ds


def batches(ds: bushel.Dataset, **options: Any) -> list[Any]:
    return list(bushel.Loader(ds, 8, shuffle=True, seed=1, collate=dict.fromkeys(ds.spec, "list"), **options))


@pytest.mark.parametrize("container", ["tar", "bag", "recordio"])
def test_no_data_file_is_needed(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "data", SPEC, container=container, shard_samples=12) as writer:
        for number in range(COUNT):
            writer.append(whole(number), key=f"k{number}")
    ds = bushel.open(tmp_path / "data")
    names = ["caption", "label", "score"]
    expected = ds.read(range(COUNT), names)
    stored = bushel.open(tmp_path / "data", verify=True).read(range(COUNT), names)
    assert expected == stored
    assert [list(each) for each in expected] == [list(each) for each in stored]
    loaded = batches(bushel.open(tmp_path / "data", verify=True).select_fields(names))
    view = without_files(ds).select_fields(names)
    assert view.read(range(COUNT)) == expected
    assert view[[5, 29, 3]].read([0, 1, 2]) == [expected[5], expected[29], expected[3]]
    assert [dict(view[number]) for number in range(COUNT)] == expected
    assert dict(ds[3, ["label"]]) == {"__key__": expected[3]["__key__"], "label": expected[3]["label"]}
    assert list(view) == expected
    view.prefetch(range(COUNT))
    for threads in (0, 2):
        assert batches(view, threads=threads) == loaded
    numbers = [batch["label"] for batch in bushel.Loader(view.select_fields(["label"]), 8, threads=0)]
    assert np.concatenate(numbers).tolist() == [each["label"] for each in expected]
    assert [each["caption"] for each in bushel.Loader(view, None)] == [each["caption"] for each in expected]
    with pytest.raises((OSError, bushel.BushelError)):
        ds.read([9], ["tokens"])
    with pytest.raises((OSError, bushel.BushelError)):
        ds.read([9], ["label"], decode=False)


def test_only_other_fields_are_read(tmp_path: Path) -> None:
    written(tmp_path / "data", "bag")
    ds = bushel.open(tmp_path / "data")
    expected = bushel.open(tmp_path / "data", verify=True).read(range(COUNT), ["caption", "label", "tokens"])
    for shard in ds.shards:
        for name in ("label", "caption", "score"):
            Path(str(shard.path(shard.index.fields[name].file))).unlink()
    found = ds.read(range(COUNT), ["caption", "label", "tokens"])
    assert [list(each) for each in found] == [list(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert str(one) == str(other)
    loaded = batches(ds.select_fields(["tokens", "label", "caption"]), threads=2)
    assert sum(len(batch["tokens"]) for batch in loaded) == COUNT


def test_samples_that_lack_a_field(tmp_path: Path) -> None:
    ds = without_files(written(tmp_path / "data"))
    expected = [{"__key__": f"k{n}", **{k: v for k, v in sample(n).items() if k != "tokens"}} for n in range(COUNT)]
    assert ds.read(range(COUNT), ["label", "score", "caption"]) == expected
    assert dict(ds[7, ["label"]]) == {"__key__": "k7"}


def test_verifying_reads(tmp_path: Path) -> None:
    written(tmp_path / "data")
    ds = bushel.open(tmp_path / "data")
    [index, *_] = [shard.index for shard in ds.shards]
    column = index.fields["label"]
    path, offset = Path(str(ds.shards[0].path(0))), int(column.offset[3])
    stamp = path.stat()
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    checked = bushel.open(tmp_path / "data", verify=True)
    with pytest.raises(CorruptError):
        checked[3, ["label"]]
    with pytest.raises(CorruptError):
        checked.read([2, 3], ["label"])
    with pytest.raises(CorruptError):
        list(bushel.Loader(checked.select_fields(["label"]), 4))


def test_stale_columns_are_not_used(tmp_path: Path) -> None:
    for name, first in (("a", 1), ("b", 2)):
        with bushel.Writer(tmp_path / name / "x.tar", {"cls": "int"}) as writer:
            for number in range(5):
                writer.append({"cls": number + first}, key=f"k{number}")
    path = tmp_path / "a" / "x.tar"
    assert bushel.open(path)[0]["cls"] == 1
    path.write_bytes((tmp_path / "b" / "x.tar").read_bytes())
    assert [each["cls"] for each in bushel.open(path).read(range(5))] == [2, 3, 4, 5, 6]


def test_texts_that_are_too_long_are_read(tmp_path: Path) -> None:
    texts = ["short", "long " * 100, "short"]
    with bushel.Writer(tmp_path / "data", {"caption": "utf8"}, container="tar", columns=["caption"]) as writer:
        for number, text in enumerate(texts):
            writer.append({"caption": text}, key=f"k{number}")
    ds = bushel.open(tmp_path / "data")
    assert [each["caption"] for each in ds.read([0, 1, 2])] == texts
    assert [ds[number]["caption"] for number in range(3)] == texts


VALUES = {
    "int": st.integers(-(2**126), 2**126),
    "uint": st.integers(0, 2**70),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "int(2)": st.integers(0, 2**16 - 1),
    "float": st.floats(),
    "f32": st.floats(width=32),
    "utf8": st.text(max_size=90),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(data=st.data())
def test_values_are_those_that_decoding_gives(tmp_path: Path, data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(sorted(VALUES)))
    container = data.draw(st.sampled_from(["tar", "bag", "recordio"]))
    if codec == "int(2)":
        container = "bag"
    values = data.draw(st.lists(st.one_of(VALUES[codec], st.none()), min_size=1, max_size=8))
    if container == "bag":
        values = [value for value in values if value is not None]
    target = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    try:
        with bushel.Writer(target, {"a": codec, "b": "bytes"}, container=container, columns=["a"]) as writer:
            for number, value in enumerate(values):
                writer.append({"b": b"x", **({} if value is None else {"a": value})}, key=f"k{number}")
    except bushel.BushelError:
        return  # the container or the column does not hold such values
    if not values:
        return
    known, read = bushel.open(target), bushel.open(target, verify=True)
    found, expected = known.read(range(len(values)), ["a"]), read.read(range(len(values)), ["a"])
    assert [repr(each) for each in found] == [repr(each) for each in expected]
    assert [type(each.get("a")) for each in found] == [type(each.get("a")) for each in expected]
    view = known.select_fields(["a"])
    one, other = (list(bushel.Loader(each, 3, collate={"a": "list"})) for each in (view, read.select_fields(["a"])))
    assert repr(one) == repr(other)
