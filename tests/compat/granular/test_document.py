"""The examples of the document, word for word except for the changes that docs/compat-granular.md lists."""

import pathlib
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from tests.compat.granular.points import Elements, write

import bushel.compat.granular as granular

FILES = {"spec.json", "refs.bag", "foo.bag", "bar.bag", "baz.bag", "abc.bag", "xyz.bag"}


def test_writing(tmp_path: Path) -> None:
    directory = pathlib.Path(tmp_path / "dataset")  # the document's text has no glob()
    spec = {
        "foo": "int",  # integer
        "bar": "utf8[]",  # *list* of strings
        "baz": "msgpack",  # packed structure
        "abc": "jpg",  # image
        "xyz": "array",  # array
    }
    with granular.DatasetWriter(directory, spec, granular.encoders) as writer:
        for i in range(10):
            datapoint = {
                "foo": i,
                "bar": ["hello"] * i,
                "baz": {"a": 1},
                "abc": np.zeros((60, 80, 3), np.uint8),
                "xyz": np.arange(0, 1 + i, dtype=np.float32),  # the document's third argument is a step
            }
            writer.append(datapoint)
    assert {path.name for path in directory.glob("*")} == FILES


def test_reading(tmp_path: Path) -> None:
    directory = write(tmp_path / "dataset")
    with granular.DatasetReader(directory, granular.decoders) as reader:
        assert reader.spec == {"foo": "int", "bar": "utf8[]", "baz": "msgpack", "abc": "jpg", "xyz": "array"}
        assert reader.size == sum(path.stat().st_size for path in directory.glob("*.bag"))
        assert len(reader) == 10
        datapoint = reader[2]
        assert datapoint["foo"] == 2
        assert datapoint["bar"] == ["hello", "hello"]
        assert datapoint["abc"].shape == (60, 80, 3)
        assert datapoint["baz"] == {"a": 1}
        assert datapoint["xyz"].tolist() == [0, 1, 2]
    assert reader[2]["foo"] == 2  # the document goes on with a reader whose `with` is over


def test_loading(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "dataset"), granular.decoders)

    def preproc(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {"image": datapoint["abc"], "label": datapoint["foo"]}

    loader = granular.Loader(reader, batch=8, fns=[preproc], shuffle=True, workers=64, seed=0)
    spec: dict[str, Any] = dict(loader.spec)
    assert spec == {"image": (np.uint8, (60, 80, 3)), "label": (np.int64, ())}
    dataset = iter(loader)
    seen: list[int] = []
    for _ in range(100):
        batch = next(dataset)
        assert batch["image"].shape == (8, 60, 80, 3)
        seen += batch["label"].tolist()
    assert seen[:20] == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1, 9, 1, 3, 8, 7, 6, 0, 4, 2, 5]
    state = loader.save()
    assert state == {"step": 800, "seed": 0}  # datapoints; the document's comment has 100
    loader.load(state)
    assert len(next(dataset)["label"]) == 8
    loader.close()


def test_filesystems() -> None:
    directory = Elements({}, "bucket/dataset")
    spec = {"foo": "int", "bar": "utf8[]"}
    with granular.DatasetWriter(directory, spec, granular.encoders) as writer:
        writer.append({"foo": 7, "bar": ["x", "y"]})
    with granular.DatasetReader(directory, granular.decoders) as reader:
        assert reader[0] == {"foo": 7, "bar": ["x", "y"]}


def test_formats(tmp_path: Path) -> None:
    encoders = {
        "bytes": lambda x: x,
        "utf8": lambda x: x.encode("utf-8"),
        "msgpack": msgpack.packb,
    }
    decoders = {
        "bytes": lambda x: x,
        "utf8": lambda x: x.decode("utf-8"),
        "msgpack": msgpack.unpackb,
    }
    spec = {"a": "bytes", "b": "utf8[]", "c": "msgpack"}
    with granular.DatasetWriter(tmp_path / "dataset", spec, encoders) as writer:
        writer.append({"a": b"\0\1", "b": ["ü", "x"], "c": [1, {"k": None}]})
    with granular.DatasetReader(tmp_path / "dataset", decoders) as reader:
        assert reader[0] == {"a": b"\0\1", "b": ["ü", "x"], "c": [1, {"k": None}]}


def test_caching(tmp_path: Path) -> None:
    directory = write(tmp_path / "dataset")
    reader = granular.DatasetReader(
        directory,
        granular.decoders,
        cache_index=True,  # Cache index tables of all bag files in memory.
        cache_keys=("refs", "foo"),  # Fully cache refs.bag and foo.bag in memory.
    )
    assert [reader[i]["foo"] for i in range(10)] == list(range(10))


def test_masking(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "dataset"), granular.decoders)
    mask = {"foo": True, "baz": True}
    datapoint = reader[3, mask]
    assert "foo" in datapoint
    assert "bar" not in datapoint
    assert "baz" in datapoint


def test_sequences(tmp_path: Path) -> None:
    spec = {
        "title": "utf8",
        "frames": "jpg[]",
        "captions": "utf8[]",
        "times": "int[]",
    }
    frames = [np.full((16, 16, 3), 4 * i, np.uint8) for i in range(54)]
    with granular.DatasetWriter(tmp_path / "dataset", spec, granular.encoders) as writer:
        for number in range(2):
            captions = (f"caption {i}" for i in range(7))
            times = range(number, number + 7)
            writer.append({"title": f"clip {number}", "frames": frames, "captions": captions, "times": times})
    reader = granular.DatasetReader(tmp_path / "dataset", granular.decoders)
    available = reader.available(1)
    assert available == {"title": True, "frames": range(54), "captions": range(7), "times": range(7)}
    mask = {
        "title": True,  # Read the title modality
        "frames": range(32, 42),  # Read a range of 10 frames.
        "captions": range(7),  # Read all captions.
        "times": True,  # Another way to read the full list.
    }
    datapoint = reader[1, mask]
    assert len(datapoint["frames"]) == 10
    assert [int(frame[0, 0, 0]) for frame in datapoint["frames"]] == [4 * i for i in range(32, 42)]
    assert datapoint["captions"] == [f"caption {i}" for i in range(7)]
    assert datapoint["times"] == list(range(1, 8))
    assert datapoint["title"] == "clip 1"


def test_sharding(tmp_path: Path) -> None:
    directory, spec = tmp_path / "directory", {"foo": "int", "bar": "utf8"}
    writer = granular.ShardedDatasetWriter(directory, spec, granular.encoders, shardlen=10000)
    for i in range(20003):
        writer.append({"foo": i, "bar": "x"}, flush=False)
    writer.close()
    reader = granular.ShardedDatasetReader(directory, granular.decoders)
    assert (len(reader), reader.shards, reader[20002]["foo"]) == (20003, 3, 20002)
    tree = {path.relative_to(directory).as_posix() for path in directory.rglob("*.*")}
    names = {"spec.json", "refs.bag", "foo.bag", "bar.bag"}
    assert tree == {f"{shard:06}/{name}" for shard in range(3) for name in names}
    with granular.DatasetReader(directory / "000001", granular.decoders) as one:
        assert (len(one), one[0]["foo"]) == (10000, 10000)


def test_workers_write_and_read_their_own_shards(tmp_path: Path) -> None:
    directory, spec, encoders, decoders = tmp_path / "d", {"foo": "int"}, granular.encoders, granular.decoders
    num_workers = 2
    for worker_id in range(num_workers):
        writer = granular.ShardedDatasetWriter(
            directory, spec, encoders, shardlen=10,
            shardstart=worker_id,   # Start writing at this shard.
            shardstep=num_workers,  # Afterwards, jump this many shards ahead.
        )  # fmt: skip
        for i in range(25):
            assert writer.append({"foo": 100 * worker_id + i}) == i
        writer.close()
        # Read from a sharded dataset; the other worker has written nothing yet.
        reader = granular.ShardedDatasetReader(
            directory, decoders,
            shardstart=worker_id,   # Start reading at this shard.
            shardstep=num_workers,  # Afterwards, jump this many shards ahead.
        )  # fmt: skip
        assert [reader[i]["foo"] for i in range(len(reader))] == [100 * worker_id + i for i in range(25)]
    assert sorted(path.name for path in directory.glob("*")) == [f"{i:06}" for i in range(6)]
    assert len(granular.ShardedDatasetReader(directory, decoders)) == 50


def test_resuming(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "dataset"), granular.decoders)
    with granular.Loader(reader, 4, fns=[lambda datapoint, seed: {"foo": datapoint["foo"]}], seed=5) as loader:
        for _ in range(3):
            next(loader)
        state = loader.save()
        wanted = [next(loader)["foo"].tolist() for _ in range(4)]
        loader.load(state)
        assert [next(loader)["foo"].tolist() for _ in range(4)] == wanted
    with granular.Loader(reader, 4, fns=[lambda datapoint, seed: {"foo": datapoint["foo"]}]) as other:
        other.load(state)
        assert [next(other)["foo"].tolist() for _ in range(4)] == wanted
        assert other.save() == {"step": 28, "seed": 5}


def test_elements_paths(tmp_path: Path) -> None:
    elements = pytest.importorskip("elements")
    directory = elements.Path(str(tmp_path / "dataset"))
    with granular.DatasetWriter(directory, {"foo": "int"}, granular.encoders) as writer:
        writer.append({"foo": 3})
    with granular.DatasetReader(directory, granular.decoders) as reader:
        assert reader[0] == {"foo": 3}
