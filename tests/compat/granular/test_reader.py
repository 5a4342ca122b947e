import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.granular.points import SPEC, Elements, files, write

import bushel
from bushel.compat import granular
from bushel.compat.granular import v24
from bushel.errors import FormatError


def digests(value: Any) -> Any:
    if isinstance(value, list):
        return [digests(item) for item in value]
    return hashlib.sha256(value).hexdigest()


@pytest.mark.parametrize("package", ["granular-A-0.16.4", "granular-B-0.20.3", "granular-C-0.24.2", "bags-0.5.1"])
@pytest.mark.parametrize("name", ["plain", "sharded"])
def test_stored_bytes_of_every_generation(golden: Path, package: str, name: str) -> None:
    manifest = json.loads((golden / package / name / "manifest.json").read_text())
    folder = golden / package / name / manifest["open"]
    before = files(folder)
    for module in (granular, v24):
        kind = module.DatasetReader if name == "plain" else module.ShardedDatasetReader
        reader = kind(folder, None)
        assert len(reader) == len(manifest["samples"])
        for number, sample in enumerate(manifest["samples"]):
            wanted = {
                key: [item["sha256"] for item in field] if isinstance(field, list) else field["sha256"]
                for key, field in sample["fields"].items()
            }
            assert {key: digests(value) for key, value in reader[number].items()} == wanted
        assert reader.points(range(len(reader))) == [reader[number] for number in range(len(reader))]
    assert files(folder) == before  # nothing is left beside the data


@pytest.mark.parametrize("package", ["granular-A-0.16.4", "granular-B-0.20.3", "granular-C-0.24.2"])
def test_values_of_every_generation(golden: Path, package: str) -> None:
    manifest = json.loads((golden / package / "plain" / "manifest.json").read_text())
    checked = 0
    with granular.DatasetReader(golden / package / "plain" / "data", granular.decoders) as reader:
        for number, sample in enumerate(manifest["samples"]):
            point = reader[number]
            for key, field in sample["fields"].items():
                if not isinstance(field, list) and "value" in field:
                    assert point[key] == field["value"], (key, number)
                    checked += 1
    assert checked >= 5


def test_the_unsigned_integers_of_the_oldest_generation(tmp_path: Path) -> None:
    identity = {"int": lambda value: value}
    with granular.bags.DatasetWriter(tmp_path / "a", {"n": "int"}, identity) as writer:
        for stored in (b"", b"\xc8", b"\0\x80"):
            writer.append({"n": stored})
    with granular.DatasetReader(tmp_path / "a", granular.decoders) as reader:
        assert [reader[i]["n"] for i in range(3)] == [0, 200, 32768]


def test_a_for_loop_ends(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)
    assert [point["foo"] for point in reader] == list(range(10))
    index: Any
    for index in (-1, 10, 1 << 70):
        with pytest.raises(IndexError, match="of a dataset of 10") as error:
            reader[index]
        assert isinstance(error.value, AssertionError)
        assert isinstance(error.value, ValueError)
    with pytest.raises(IndexError):
        reader.available(10)
    assert reader[np.int64(3)]["foo"] == 3
    for index in ("3", 1.0, None):
        with pytest.raises(TypeError):
            reader[index]


def test_masks(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)
    assert reader[7, {"foo": True, "abc": False, "bar": range(2, 4)}] == {"foo": 7, "bar": ["hello"] * 2}
    assert reader[7, {"bar": slice(0, 99)}] == {"bar": ["hello"] * 7}
    assert reader[7, {"bar": range(8, 9)}] == reader[0, {"bar": True}] == {"bar": []}
    assert list(reader[7, ("foo", "baz")].items()) == [("foo", 7), ("baz", {"a": 1})]  # as Granular 0.24 asks
    assert reader[7, ["bar"]] == {"bar": ["hello"] * 7}
    assert reader[7, {}] == {}
    assert reader[2:4, {"foo": True, "baz": True, "bar": False}] == {"foo": [2, 3], "baz": [{"a": 1}] * 2}
    assert reader[range(9, 10), ("foo",)] == {"foo": [9]}
    assert reader[4:4, {"foo": True}] == {"foo": []}
    with pytest.raises(KeyError, match="unknown key 'no'") as error:
        reader[0, {"no": True}]
    assert isinstance(error.value, AssertionError)
    wrong: Any
    for wrong in (
        {"foo": range(1)},
        {"bar": [0, 1]},
        {"bar": range(-1, 2)},
        {"bar": range(0, 4, 2)},
        {"foo": 1},
        "foo",
    ):
        with pytest.raises(AssertionError):
            reader[3, wrong]
    for wrong in ({"bar": True}, {"bar": range(1)}, {"foo": True, "no": True}):
        with pytest.raises(AssertionError):
            reader[0:2, wrong]
    with pytest.raises(IndexError):
        reader[0:11, {"foo": True}]
    with pytest.raises(TypeError, match="'bar': sequences"):
        reader[0:2]


def test_options_change_nothing_but_where_bytes_are(tmp_path: Path) -> None:
    folder = write(tmp_path / "d")
    plain = granular.DatasetReader(folder, None)
    wanted = [plain[i] for i in range(10)]
    for options in (
        {"cache_index": False},
        {"cache_keys": ("refs", "foo", "bar")},
        {"cache_keys": list(SPEC), "parallel": True},
        {"parallel": True, "pool_name": "shared"},
    ):
        arguments: dict[str, Any] = options
        reader = granular.DatasetReader(str(folder), None, **arguments)
        for same in (reader, reader.copy(), pickle.loads(pickle.dumps(reader))):
            assert [same[i] for i in range(10)] == wanted
            assert same[5, {"bar": range(1, 3)}] == {"bar": [b"hello"] * 2}
            assert (same.spec, same.size, len(same)) == (plain.spec, plain.size, 10)
            same.close()
        assert reader[9] == wanted[9]
    with pytest.raises(AssertionError):
        granular.DatasetReader(folder, None, cache_keys=("no",))
    wrong: Any = "foo"
    with pytest.raises(AssertionError):
        granular.DatasetReader(folder, None, cache_keys=wrong)


@pytest.mark.parametrize("module", [granular, v24])
def test_parallel_reads_put_cached_keys_last(tmp_path: Path, module: Any) -> None:
    reader = module.DatasetReader(write(tmp_path / "d"), granular.decoders, cache_keys=("abc", "bar"), parallel=True)
    assert list(reader[3]) == ["baz", "foo", "xyz", "abc", "bar"]
    assert list(reader[3, ("bar", "foo", "abc")]) == ["foo", "bar", "abc"]
    assert list(reader[0:2, ("abc", "foo")]) == ["foo", "abc"]
    assert list(granular.DatasetReader(tmp_path / "d", None, cache_keys=("bar",))[3]) == sorted(SPEC)


def test_without_cache_index_the_table_is_mapped(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), None, cache_index=False)
    for shard in reader._dataset.shards:
        for column in shard.index.fields.values():
            assert isinstance(column.offset, np.memmap)
            assert isinstance(column.length, np.memmap)
    assert len(list((tmp_path / "d").iterdir())) == 7


def large(folder: Any, decoders: Any = None, **options: Any) -> granular.DatasetReader:
    """A reader of a dataset whose frames are too large to be kept in memory by default."""
    if not folder.exists():
        with granular.DatasetWriter(folder, {"frames": "bytes[]", "label": "int"}, granular.encoders) as writer:
            for number in range(3):
                writer.append({"frames": [bytes([i]) * 200_000 for i in range(10)], "label": number})
    return granular.DatasetReader(folder, decoders, **options)


def test_a_range_is_a_single_read() -> None:
    folder = Elements({}, "bucket/d")
    reader = large(folder)
    folder.read.clear()
    assert reader[1, {"frames": range(2, 7)}] == {"frames": [bytes([i]) * 200_000 for i in range(2, 7)]}
    assert folder.read == ["frames.bag"]
    folder.read.clear()
    assert reader[2, {"label": True}] == {"label": b"\2"}
    assert reader[0, {"label": True}] == {"label": b"\0"}
    assert folder.read == ["label.bag"]  # small, and from now on in memory


def test_neighbours_of_a_batch_are_a_single_read() -> None:
    folder = Elements({}, "bucket/d")
    reader = large(folder)
    wanted = [reader[number] for number in range(3)]
    folder.read.clear()
    assert reader.points([2, 0, 1]) == wanted[2:] + wanted[:2]
    assert sorted(folder.read) == ["frames.bag", "label.bag"]


def test_cached_keys_are_read_once() -> None:
    folder = Elements({}, "bucket/d")
    reader = large(folder, cache_keys=("refs", "frames"), parallel=True)
    folder.read.clear()
    for _ in range(3):
        assert len(reader[1]["frames"]) == 10
    assert folder.read.count("frames.bag") == 1
    assert "refs.bag" not in folder.read


def test_many_points_in_one_batch(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)
    points = reader.points([7, 0, 7])
    assert [point["foo"] for point in points] == [7, 0, 7]
    assert points[0]["bar"] == ["hello"] * 7
    assert points[1]["abc"].shape == (60, 80, 3)
    assert reader.points([]) == []
    with pytest.raises(IndexError):
        reader.points([0, 10])


def test_a_fork_reads_by_itself(tmp_path: Path) -> None:
    reader = large(tmp_path / "d", parallel=True)
    wanted = reader[1]
    child = os.fork()
    if child == 0:
        right = reader[1] == wanted
        reader.close()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader[1] == wanted


def test_keys_of_bushel_are_a_field(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "d", {"n": "int"}, container="bag") as writer:
        for number in range(3):
            writer.append({"n": number}, key=f"kéy {number}")
    reader = granular.DatasetReader(tmp_path / "d", granular.decoders)
    assert reader.spec == {"__key__": "utf8", "n": "int"}
    assert [reader[i] for i in range(3)] == [{"__key__": f"kéy {i}", "n": i} for i in range(3)]
    assert reader.points([1]) == [{"__key__": "kéy 1", "n": 1}]
    assert reader[0:2, {"__key__": True}] == {"__key__": ["kéy 0", "kéy 1"]}
    assert reader.available(0) == {"__key__": True, "n": True}
    with granular.DatasetWriter(tmp_path / "e", reader.spec, granular.encoders) as again:
        for point in reader:
            again.append(point)
    for name in ("refs.bag", "n.bag", "__key__.bag", "spec.json"):
        assert (tmp_path / "e" / name).read_bytes() == (tmp_path / "d" / name).read_bytes()
    assert bushel.open(tmp_path / "e", index="memory")["kéy 2"]["n"] == 2


def test_errors_say_which_key(tmp_path: Path) -> None:
    folder = write(tmp_path / "d")

    def fail(stored: bytes) -> Any:
        raise ZeroDivisionError

    reader = granular.DatasetReader(folder, {**granular.decoders, "jpg": fail})
    with pytest.raises(ZeroDivisionError) as error:
        reader[3]
    assert error.value.__notes__ == ["while reading key 'abc' of type 'jpg', datapoint 3"]
    with pytest.raises(KeyError, match="no function was given for the type 'array'"):
        granular.DatasetReader(folder, {"int": int})


def test_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        granular.DatasetReader(tmp_path / "missing", None)
    folder = write(tmp_path / "d")
    reader = granular.DatasetReader(folder, None)
    (folder / "abc.bag").write_bytes(b"changed")
    with pytest.raises(FormatError, match="has changed since the dataset was opened"):
        reader[0]
    with pytest.raises(FormatError):
        granular.DatasetReader(folder, None)


def test_shards(tmp_path: Path) -> None:
    with granular.ShardedDatasetWriter(tmp_path / "d", {"n": "int", "s": "int[]"}, granular.encoders, 3) as writer:
        for number in range(10):
            writer.append({"n": number, "s": range(number % 3)})
    (tmp_path / "d" / ".DS_Store").write_bytes(b"")
    for options in ({}, {"parallel": True}, {"cache_index": False}, {"cache_keys": ["n"]}):
        arguments: dict[str, Any] = options
        reader = granular.ShardedDatasetReader(tmp_path / "d", granular.decoders, **arguments)
        assert (len(reader), reader.shards) == (10, 4)
        assert [point["n"] for point in reader] == list(range(10))
        assert reader[5, {"s": range(1, 2)}] == {"s": [1]}
        assert reader.available(5) == {"n": True, "s": range(2)}
        assert reader[2:8, {"n": True}] == {"n": list(range(2, 8))}
        assert [point["n"] for point in reader.points([9, 0, 4])] == [9, 0, 4]
        assert [point["n"] for point in reader.copy()] == list(range(10))
        assert reader.size == sum(path.stat().st_size for path in (tmp_path / "d").rglob("*.bag"))
        with pytest.raises(AssertionError):
            reader[10]
    every_other = granular.ShardedDatasetReader(tmp_path / "d", granular.decoders, shardstart=1, shardstep=2)
    assert [point["n"] for point in every_other] == [3, 4, 5, 9]
    with pytest.raises(FileNotFoundError):
        granular.ShardedDatasetReader(tmp_path / "d", granular.decoders, shardstart=4)
    with pytest.raises(AssertionError):
        granular.ShardedDatasetReader(tmp_path / "d", granular.decoders, shardstep=0)
    shutil.rmtree(tmp_path / "d" / "000001")
    with pytest.raises(FormatError, match="shard 000001 is missing"):
        granular.ShardedDatasetReader(tmp_path / "d", granular.decoders)
    assert len(granular.ShardedDatasetReader(tmp_path / "d", granular.decoders, shardstep=2)) == 6
