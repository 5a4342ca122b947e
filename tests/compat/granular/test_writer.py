import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.granular.points import SPEC, files, point, write

import bushel
from bushel.compat import granular
from bushel.compat.granular import bags, v24
from bushel.errors import SpecError

GOLDEN = [
    ("granular-B-0.20.3", granular),
    ("granular-C-0.24.2", v24),
    ("bags-0.5.1", bags),
]


@pytest.mark.parametrize(("package", "module"), GOLDEN, ids=lambda value: getattr(value, "__name__", value))
def test_files_are_those_of_the_original(golden: Path, tmp_path: Path, package: str, module: Any) -> None:
    plain, sharded = golden / package / "plain" / "data", golden / package / "sharded" / "data"
    spec, few = (json.loads((folder / "spec.json").read_text()) for folder in (plain, sharded / "000000"))
    with module.DatasetWriter(tmp_path / "plain", spec, None) as writer:
        for stored in granular.DatasetReader(plain, None):
            writer.append(stored)
        size = writer.size
    assert files(tmp_path / "plain") == files(plain)
    assert writer.size == size == sum(path.stat().st_size for path in plain.iterdir() if path.suffix != ".json")
    shardlen = len(granular.DatasetReader(sharded / "000000", None))
    limit = {"shard_length": shardlen} if module is bags else {"shardlen": shardlen}
    with module.ShardedDatasetWriter(tmp_path / "sharded", few, None, **limit) as writer:
        for number, stored in enumerate(granular.ShardedDatasetReader(sharded, None)):
            assert writer.append(stored) == number
    assert files(tmp_path / "sharded") == files(sharded)
    assert writer.size == sum(path.stat().st_size for path in sharded.rglob("*") if path.suffix in (".bag", ".idx"))


def test_golden_bytes(tmp_path: Path) -> None:
    written = files(write(tmp_path / "d", 3))
    assert written["spec.json"] == json.dumps(dict(sorted(SPEC.items()))).encode()
    assert written["refs.bag"].startswith(
        bytes.fromhex("950090000000 950192000101 0101 950292010202 0202".replace(" ", ""))
    )
    assert written["foo.bag"] == bytes([0, 1, 2]) + b"".join(end.to_bytes(8, "little") for end in (1, 2, 3))
    assert written["bar.bag"] == b"hello" * 3 + b"".join(end.to_bytes(8, "little") for end in (5, 10, 15))
    assert written["baz.bag"] == bytes.fromhex("81a16101") * 3 + b"".join(i.to_bytes(8, "little") for i in (4, 8, 12))
    assert written["xyz.bag"].startswith(bytes.fromhex("93a33c66349101c40400000000"))


def test_bushel_opens_it(tmp_path: Path) -> None:
    dataset = bushel.open(write(tmp_path / "d"), index="memory")
    assert dataset[4]["bar"] == ["hello"] * 4
    assert dataset[4]["xyz"].tolist() == [0, 1, 2, 3, 4]


def test_sequences_are_taken_one_by_one(tmp_path: Path) -> None:
    taken: list[int] = []
    encoded: list[int] = []

    def numbers() -> Any:
        for number in range(5):
            assert len(encoded) == number
            taken.append(number)
            yield number

    def encode(number: int) -> bytes:
        encoded.append(number)
        return bytes([number])

    with granular.DatasetWriter(tmp_path / "d", {"n": "byte[]"}, {"byte": encode}) as writer:
        writer.append({"n": numbers()})
    assert taken == encoded == list(range(5))
    assert granular.DatasetReader(tmp_path / "d", None)[0] == {"n": [bytes([i]) for i in range(5)]}


def test_a_failed_datapoint_leaves_nothing(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders) as writer:
        writer.append(point(1))
        size = writer.size
        wrong: Any
        for wrong in (
            {**point(2), "bar": ["fine", 3]},
            {**point(2), "xyz": {1}},
            {"foo": 1},
            {**point(2), "more": 1},
            [1],
        ):
            with pytest.raises(Exception, match="."):
                writer.append(wrong)
        assert (len(writer), writer.size) == (1, size)
        with pytest.raises(AssertionError):
            writer.append({"foo": 1})
        assert writer.append(point(3)) == 1
    reader = granular.DatasetReader(tmp_path / "d", granular.decoders)
    assert [(p["foo"], p["bar"]) for p in reader] == [(1, ["hello"]), (3, ["hello"] * 3)]


def test_the_error_names_the_key(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "d", {"n": "int"}, granular.encoders) as writer:
        with pytest.raises(TypeError) as error:  # as in Granular, with what Bushel has to say
            writer.append({"n": "x"})
        codec, key = error.value.__notes__
        assert "codec 'int' expected an integer" in codec
        assert key == "while encoding key 'n' of type 'int'"
    wrong: Any = {"int": str}
    other = granular.DatasetWriter(tmp_path / "e", {"n": "int"}, wrong)
    with pytest.raises(AssertionError, match="encoded to bytes, not str"):
        other.append({"n": 3})
    other.close()


def test_integers_that_the_original_refuses(tmp_path: Path) -> None:
    values = [0, 1, 127, 128, 200, 255, 256, 32767, 32768, 1 << 40, -1, -128, -129]
    with granular.DatasetWriter(tmp_path / "d", {"n": "int"}, granular.encoders) as writer:
        for value in values:
            writer.append({"n": value})
    assert [p["n"] for p in granular.DatasetReader(tmp_path / "d", granular.decoders)] == values


def test_empty_values_and_empty_datasets(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "d", {"a": "bytes", "s": "utf8[]"}, granular.encoders) as writer:
        writer.append({"a": b"", "s": ["", "x"]})
        writer.append({"a": b"1", "s": []})
    reader = granular.DatasetReader(tmp_path / "d", granular.decoders)
    assert list(reader) == [{"a": b"", "s": ["", "x"]}, {"a": b"1", "s": []}]
    for module in (granular, v24, bags):
        with module.DatasetWriter(tmp_path / module.__name__, {"a": "bytes"}, module.encoders) as writer:
            assert len(writer) == 0
        assert len(granular.DatasetReader(tmp_path / module.__name__, None, cache_keys=("a",))) == 0


def test_closing_when_the_body_raised(tmp_path: Path) -> None:
    writer = granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders)

    def body() -> None:
        with writer:
            writer.append(point(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert len(granular.DatasetReader(tmp_path / "d", granular.decoders)) == 1
    with pytest.raises(AssertionError, match="closed"):
        writer.append(point(1))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "d")
    before = files(tmp_path / "d")
    with pytest.raises(FileExistsError) as error:
        granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders)
    assert isinstance(error.value, AssertionError)
    with granular.ShardedDatasetWriter(tmp_path / "s", {"n": "int"}, granular.encoders, 2) as writer:
        writer.append({"n": 1})
    again = granular.ShardedDatasetWriter(tmp_path / "s", {"n": "int"}, granular.encoders, 2)
    with pytest.raises(FileExistsError):
        again.append({"n": 1})
    assert files(tmp_path / "d") == before


def test_specs(tmp_path: Path) -> None:
    for wrong in ({"Foo": "int"}, {"1": "int"}, {"foo": "Int"}, {"a/b": "int"}, {"refs": "int"}):
        with pytest.raises((AssertionError, SpecError)):
            granular.DatasetWriter(tmp_path / "d", wrong, None)
    with pytest.raises(KeyError, match="no function was given for the type 'unknown'"):
        granular.DatasetWriter(tmp_path / "d", {"a": "unknown"}, granular.encoders)
    for start, step in ((1, 1), (0, 2)):
        with pytest.raises(AssertionError, match="need a shardlen"):
            granular.ShardedDatasetWriter(tmp_path / "d", {"a": "int"}, granular.encoders, None, start, step)
    assert not (tmp_path / "d").exists()
    for module in (granular, v24):
        shards = module.ShardedDatasetWriter(tmp_path / "s", {"b": "utf8", "a": "int"}, module.encoders)
        assert list(shards.spec) == ["b", "a"]  # as given; the files have it sorted
    any_text = {"a": "my Type v2", "b": "my Type v2[]"}
    codecs = {"my Type v2": lambda value: value[::-1]}
    with granular.DatasetWriter(tmp_path / "d", any_text, codecs) as writer:
        writer.append({"a": b"abc", "b": [b"de", b"f"]})
    reader = granular.DatasetReader(tmp_path / "d", codecs, cache_index=False)
    assert (reader.spec, reader[0]) == (any_text, {"a": b"abc", "b": [b"de", b"f"]})


def test_a_killed_writer_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom bushel.compat import granular\n"
        "writer = granular.DatasetWriter(sys.argv[1], {'n': 'int'}, granular.encoders)\n"
        "for n in range(1000): writer.append({'n': n})\nwriter.flush()\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path / "d")], check=False).returncode == 9
    assert [path.name for path in (tmp_path / "d").iterdir()] == [".bushel"]
    with pytest.raises(FileNotFoundError):
        granular.DatasetReader(tmp_path / "d", granular.decoders)
    with pytest.raises(FileExistsError):
        granular.DatasetWriter(tmp_path / "d", {"n": "int"}, granular.encoders)


def test_images_and_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    clip = np.repeat(np.linspace(0, 255, 8, dtype=np.uint8)[:, None, None, None], 32, 1)
    clip = np.ascontiguousarray(np.broadcast_to(clip, (8, 32, 48, 3)))
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    spec = {"clip": "mp4", "web": "webm", "picture": "png", "tree": "tree"}
    with granular.DatasetWriter(tmp_path / "d", spec, granular.encoders) as writer:
        writer.append({"clip": clip, "web": clip, "picture": picture, "tree": {"a": [picture, 1]}})
    found = granular.DatasetReader(tmp_path / "d", granular.decoders)[0]
    for name in ("clip", "web"):
        assert found[name].shape == clip.shape
        assert np.abs(found[name].astype(int) - clip).mean() < 8
    assert np.array_equal(found["picture"], picture)
    assert np.array_equal(found["tree"]["a"][0], picture)
