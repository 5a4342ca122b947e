"""What the originals do with odd values, long ranges and refused datapoints."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bushel.compat import granular
from bushel.compat.granular import bags, v24

PIXELS = np.random.RandomState(1).randint(0, 256, (6, 8, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("i64", 2**63, OverflowError),
        ("u64", -1, OverflowError),
        ("int", "text", TypeError),
        ("int", None, TypeError),
        ("utf8", 5, AttributeError),
        ("msgpack", object(), TypeError),
        ("tree", {1: object()}, TypeError),
        ("tree", [np.array([1, None])], TypeError),  # the original writes the addresses of the objects
        ("array", np.array([1, None]), TypeError),
        ("jpg", PIXELS.astype(np.float32), TypeError),
        ("jpg", np.zeros((4, 5, 4), np.uint8), OSError),
        ("jpg", None, AttributeError),
        ("png", PIXELS.astype(np.float64), TypeError),
    ],
)
def test_errors_of_encoders(kind: str, value: Any, error: type[Exception]) -> None:
    for module in (granular, v24):
        with pytest.raises(error) as found:
            module.encoders[kind](value)
        assert type(found.value) is error
        assert kind == "utf8" or any("codec" in note for note in found.value.__notes__)


@pytest.mark.parametrize(
    ("kind", "data", "error"),
    [
        ("i64", b"abc", AssertionError),
        ("utf8", b"\xff", UnicodeDecodeError),
        ("array", b"\xc1", ValueError),
        ("jpg", b"no image", OSError),
        ("jpg", b"\xff\xd8\xff", OSError),
        ("png", b"", OSError),
    ],
)
def test_errors_of_decoders(kind: str, data: bytes, error: type[Exception]) -> None:
    for module in (granular, v24):
        with pytest.raises(error):
            module.decoders[kind](data)


def test_a_truncated_photo_is_an_oserror() -> None:
    photo = v24.encoders["jpg"](np.tile(PIXELS, (9, 9, 1)))
    with pytest.raises(OSError, match="truncated"):
        v24.decoders["jpg"](photo[: len(photo) // 2])


def test_masks_and_other_images_are_those_of_pillow() -> None:
    mask = PIXELS[:, :, 0] > 99
    stored = v24.encoders["png"](mask)
    decoded = v24.decoders["png"](stored)
    assert (decoded.dtype, decoded.flags.writeable) == (np.bool_, True)
    assert (decoded == mask).all()
    row = np.arange(9, dtype=np.uint8)
    assert (
        np.asarray(Image.open(io.BytesIO(v24.encoders["png"](row)))).shape
        == v24.decoders["png"](v24.encoders["png"](row)).shape
    )
    stream = io.BytesIO()
    Image.fromarray(PIXELS).convert("CMYK").save(stream, "JPEG")
    assert v24.decoders["jpg"](stream.getvalue()).shape == (6, 8, 4)
    assert v24.decoders["jpg"](stored).dtype == np.bool_  # the type does not say what the bytes are


def test_structured_arrays_are_stored_as_bytes() -> None:
    structured = np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])
    data = v24.encoders["array"](structured)
    assert v24.decoders["array"](data).dtype == np.dtype("V12")


def test_functions_pickle() -> None:
    for functions in (granular.encoders, granular.decoders, v24.decoders, bags.encoders):
        for kind, function in functions.items():
            assert callable(pickle.loads(pickle.dumps(function))), kind


def test_a_range_may_be_longer_than_a_dataset(tmp_path: Path) -> None:
    with v24.DatasetWriter(tmp_path / "d", {"n": "int"}, v24.encoders) as writer:
        for number in range(5):
            writer.append({"n": number})
    reader = v24.DatasetReader(tmp_path / "d", v24.decoders)
    assert reader[slice(0, 100)] == {"n": [0, 1, 2, 3, 4]}
    assert reader[range(3, 100)] == {"n": [3, 4]}
    assert reader[slice(5, 100)] == {"n": []}
    with pytest.raises(AssertionError):
        reader[slice(6, 100)]
    with pytest.raises(AssertionError):
        granular.DatasetReader(tmp_path / "d", v24.decoders)[slice(0, 100)]
    wrong: Any = None
    with pytest.raises(AttributeError):
        reader[wrong]


def test_a_bag_without_its_index(tmp_path: Path) -> None:
    (tmp_path / "a.bag").write_bytes(b"no table")
    with pytest.raises(FileNotFoundError):
        v24.BagReader(tmp_path / "a.bag")
    with pytest.raises(NotADirectoryError):
        v24.DatasetReader(tmp_path / "a.bag", None)


@pytest.mark.parametrize("module", [bags, granular])
def test_a_refused_datapoint_leaves_no_empty_shard(tmp_path: Path, module: Any) -> None:
    options = {"shard_length": 2} if module is bags else {"shardlen": 2}
    with module.ShardedDatasetWriter(
        tmp_path / "s", {"n": "int(8)" if module is bags else "i64"}, module.encoders, **options
    ) as writer:
        for number in range(2):
            writer.append({"n": number})
        for wrong in ({"n": "x"}, {"m": 1}):
            with pytest.raises(Exception, match="."):
                writer.append(wrong)
            assert (len(writer), writer.shards) == (2, 1)
        assert [path.name for path in (tmp_path / "s").iterdir() if path.name != ".bushel"] == ["000000"]
        writer.append({"n": 2})
        with pytest.raises(Exception, match="."):
            writer.append({"n": "x"})  # a shard with datapoints stays
    reader = module.ShardedDatasetReader(tmp_path / "s", module.decoders)
    assert [reader[number]["n"] for number in range(3)] == [0, 1, 2]
    assert reader.shards == 2


def test_types_of_bags(tmp_path: Path) -> None:
    for kind, value, arguments, error in (
        ("array", np.zeros(3, np.float32), ("float32", "4"), AssertionError),
        ("int", 300, ("1",), OverflowError),
        ("jpeg", PIXELS.astype(np.float32), (), TypeError),
    ):
        with pytest.raises(error):
            bags.encoders[kind](value, *arguments)


def test_invalid_specs_raise_the_errors_of_the_original(tmp_path: Path) -> None:
    for module in (granular, v24):
        with pytest.raises(TypeError, match="text"):
            module.DatasetWriter(tmp_path / "d", {1: "int"}, None)
    with pytest.raises(KeyError, match="sequences"):
        v24.DatasetWriter(tmp_path / "d", {"a": "int[]"}, v24.encoders)
    for error in (AssertionError, ValueError):
        with pytest.raises(error, match="at least one key"):
            v24.DatasetWriter(tmp_path / "d", {}, None)
    with v24.BagWriter(tmp_path / "a.bag"):
        pass
    (tmp_path / "a.idx").unlink()
    for wrong in (range(3, 1), slice(None), "x"):
        with pytest.raises(FileNotFoundError):
            v24.BagReader(tmp_path / "a.bag")[wrong]
    with v24.BagWriter(tmp_path / "b.bag") as writer:
        writer.append(b"x")
    with pytest.raises(TypeError, match="stop"):
        v24.BagReader(tmp_path / "b.bag")[1:]


def test_specs_and_shards_of_bags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = bags.ShardedDatasetWriter(tmp_path / "s", {"Key": "int"}, bags.encoders, shard_step=2)
    assert capsys.readouterr().out == "NOTE: Writing with shard step cannot preserve the record order.\n"
    assert not (tmp_path / "s").exists()  # the first datapoint makes it
    with shards:
        shards.append({"Key": 1})
    assert bags.DatasetReader(tmp_path / "s" / "000000", bags.decoders)[0] == {"Key": 1}
    wrong: Any
    for wrong in ({"refs": "int"}, {1: "int"}, {"a": "Int"}):
        with pytest.raises(AssertionError):
            bags.DatasetWriter(tmp_path / "d", wrong, None)
    for value, error in (((1, 2), TypeError), ([], TypeError), (np.zeros((2, 3)), AttributeError)):
        with pytest.raises(error):
            bags.encoders["int"](value)
    with pytest.raises(AttributeError):
        bags.encoders["int"]("text", "x")
