import gzip
import inspect
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.compat import granular
from bushel.compat.granular import bags

SPEC = {"arr": "array(float32,2,3)", "bar": "utf8[]", "foo": "int(8)", "n": "int", "pic": "jpeg", "raw": "bytes"}


def point(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {
        "arr": rng.standard_normal((2, 3)).astype(np.float32),
        "bar": ["", "x"][: number % 3],
        "foo": 1 << (8 * number % 60),
        "n": 100 * number,
        "pic": np.full((8, 8, 3), number, np.uint8),
        "raw": b"" if number == 1 else bytes([number]),
    }


def test_a_length_of_minus_one_is_no_type_of_bags() -> None:
    with pytest.raises(AssertionError):
        bags.encoders["array"](np.zeros(2, np.int32), "int32", "-1")


def test_types_with_parameters(tmp_path: Path) -> None:
    with bags.DatasetWriter(tmp_path / "new" / "d", SPEC, bags.encoders) as writer:
        for number in range(5):
            assert writer.append(point(number)) == number
        assert writer.spec["arr"] == (False, "array", ("float32", "2", "3"))
    assert json.loads((tmp_path / "new" / "d" / "spec.json").read_text()) == SPEC
    with bags.DatasetReader(tmp_path / "new" / "d", bags.decoders) as reader:
        assert reader.spec["bar"] == (True, "utf8", ())
        assert reader.spec["foo"] == (False, "int", ("8",))
        for number in range(5):
            found, wanted = reader[number], point(number)
            assert np.array_equal(found.pop("arr"), wanted.pop("arr"))
            assert np.array_equal(found.pop("pic"), wanted.pop("pic"))
            assert found == wanted
            assert reader[number, {"bar": range(1, 9), "n": True}] == {"bar": wanted["bar"][1:], "n": wanted["n"]}
            for nothing in (range(0), None, 0, False):
                assert list(reader[number, {"raw": True, "bar": nothing, "foo": True}]) == ["foo", "raw"]
            with pytest.raises(TypeError):
                reader[number, {"foo": range(0)}]
    assert (tmp_path / "new" / "d" / "n.bag").read_bytes()[5:13] == b"d\xc8,\x01\x90\x01\0\0"[5:] + bytes(5)


def test_codecs_of_the_user_get_the_parameters_as_text(tmp_path: Path) -> None:
    seen: list[Any] = []

    def encode(value: int, *arguments: str) -> bytes:
        seen.append(arguments)
        return bytes([value])

    with bags.DatasetWriter(tmp_path / "d", {"a": "mine(x,2.5)", "b": "mine[]"}, {"mine": encode}) as writer:
        writer.append({"a": 1, "b": [2, 3]})
    assert seen == [("x", "2.5"), (), ()]
    decoders = {"mine": lambda stored, *arguments: (stored[0], arguments)}
    reader = bags.DatasetReader(tmp_path / "d", decoders)
    assert reader[0] == {"a": (1, ("x", "2.5")), "b": [(2, ()), (3, ())]}
    with pytest.raises(KeyError):
        bags.DatasetReader(tmp_path / "d", {})
    for wrong in ({"refs": "int"}, {"a": "In t"}, {"a": "int(8"}):
        with pytest.raises(AssertionError):
            bags.DatasetWriter(tmp_path / "e", wrong, bags.encoders)


def test_shards_by_length_and_by_size(tmp_path: Path) -> None:
    for name, limit in (("length", {"shard_length": 2}), ("size", {"shard_size": 60})):
        with bags.ShardedDatasetWriter(tmp_path / name, {"n": "int"}, bags.encoders, **limit) as writer:
            for number in range(5):
                assert writer.append({"n": number}) == number
        reader = bags.ShardedDatasetReader(tmp_path / name, bags.decoders)
        assert [datapoint["n"] for datapoint in reader] == list(range(5))
        assert reader.shards == writer.shards > 1
        assert reader.spec == {"n": (False, "int", ())}
        assert reader.size == writer.size
    some = bags.ShardedDatasetReader(tmp_path / "length", bags.decoders, shard_start=1, shard_step=2)
    assert [datapoint["n"] for datapoint in some] == [2, 3]
    with pytest.raises(IndexError):
        some[len(some)]  # the original gives None
    with pytest.raises(IndexError):
        some[-1]


def test_a_shard_is_ten_gigabytes_by_default() -> None:
    assert inspect.signature(bags.ShardedDatasetWriter).parameters["shard_size"].default == 10 * 2**30
    assert "Some 10 GB make a good shard" in (granular.ShardedDatasetWriter.__doc__ or "")


def test_bags_in_open_files(tmp_path: Path) -> None:
    wanted = [b"hello", b"", b"abc"]
    with bags.BagWriter(open(tmp_path / "x.bag", "wb")) as writer:
        for number, record in enumerate(wanted):
            assert writer.append(record) == number
        assert (len(writer), writer.size) == (3, 40)
    with bags.BagWriter(tmp_path / "y.bag") as writer:
        for record in wanted:
            writer.append(record)
        assert (len(writer), writer.size) == (3, 40)
    content = (tmp_path / "x.bag").read_bytes()
    assert content == (tmp_path / "y.bag").read_bytes()
    with open(tmp_path / "x.bag", "rb") as file:
        sources: list[Any] = [file, io.BytesIO(content), str(tmp_path / "x.bag"), tmp_path / "x.bag"]
        for source in sources:
            reader = bags.BagReader(source, cache_index=False)
            assert list(reader) == wanted
            assert reader[1:3] == wanted[1:]
    with pytest.raises(AssertionError):
        writer.append(b"more")
    with pytest.raises(AssertionError):
        bags.BagWriter(tmp_path / "x.bag")


def test_a_bag_in_a_stream_that_wraps_a_file(tmp_path: Path) -> None:
    with bags.BagWriter(tmp_path / "x.bag") as writer:
        writer.append(b"hello")
    content = (tmp_path / "x.bag").read_bytes()
    (tmp_path / "x.bag.gz").write_bytes(gzip.compress(content))
    with gzip.open(tmp_path / "x.bag.gz", "rb") as packed:
        assert list(bags.BagReader(packed)) == [b"hello"]
    with open(tmp_path / "x.bag", "rb") as file:
        (tmp_path / "x.bag").unlink()
        (tmp_path / "x.bag").write_bytes(b"another file")
        assert list(bags.BagReader(file)) == [b"hello"]


def test_a_dataset_without_datapoints_can_be_opened(tmp_path: Path) -> None:
    bags.DatasetWriter(tmp_path / "d", SPEC, bags.encoders).close()
    assert len(bags.DatasetReader(tmp_path / "d", bags.decoders)) == 0
