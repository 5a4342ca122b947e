"""wids: datasets by position, samplers, and `bushel widsindex`."""

import hashlib
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.webdataset.shards import archive, jpeg, numbered, write_shards

from bushel.compat.webdataset.commands.widsindex import widsindex as main
from bushel.compat.webdataset.wids import (
    ChunkedSampler,
    DistributedChunkedSampler,
    ShardedSampler,
    ShardListDataset,
    default_decoder,
)
from bushel.errors import FormatError


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path, 3, 4)
    assert main(["create", "x-{0000..0002}.tar", "-n", "numbers", "-o", "index.json"]) == 0
    return str(tmp_path / "index.json")


def test_samples_by_position(index: str) -> None:
    dataset = ShardListDataset(index, transformations="numpy", lru_size=2)
    assert len(dataset) == 12
    assert [dataset[i][".cls"] for i in (11, 0, 5, -1, -12)] == [11, 0, 5, 11, 0]
    assert dataset[5] == {
        ".cls": 5,
        ".txt": "t5",
        "__key__": "s005",
        "__dataset__": None,
        "__index__": 5,
        "__shard__": str(Path(index).parent / "x-0001.tar"),
        "__shardindex__": 1,
    }
    assert dataset.get_stats() == (6, 6)
    for wrong in (12, -13):
        with pytest.raises(IndexError, match=f"sample {wrong} is out of range: the dataset has 12 samples"):
            dataset[wrong]
    assert [sample[".cls"] for sample in pickle.loads(pickle.dumps(dataset))] == list(range(12))
    dataset.close()
    assert not list(Path(index).parent.glob(".bushel*"))


def test_transformations(index: str) -> None:
    dataset = ShardListDataset(index, transformations=[lambda sample: sample[".txt"].read()])
    assert dataset.add_transform(len)[11] == 3
    with pytest.raises(TypeError, match="neither a function"):
        ShardListDataset(index, transformations="jpeg")
    with pytest.warns(UserWarning, match="LRU size"):
        ShardListDataset(index, lru_size=1000)


def test_golden_index(golden: Path) -> None:
    folder = golden / "webdataset-0.2.111-wids" / "index"
    manifest = json.loads((folder / "manifest.json").read_text())
    dataset = ShardListDataset(str(folder / "data" / "index.json"), transformations=[])
    assert len(dataset) == len(manifest["samples"])
    for sample, wanted in zip(dataset, manifest["samples"], strict=True):
        stored = {name[1:]: value.read() for name, value in sample.items() if not name.startswith("__")}
        assert sample["__key__"] == wanted["key"]
        assert {name: hashlib.sha256(data).hexdigest() for name, data in stored.items()} == {
            name: entry["sha256"] for name, entry in wanted["fields"].items()
        }


def test_the_index_is_that_of_wids(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = golden / "webdataset-0.2.111-wids" / "index" / "data"
    monkeypatch.chdir(data)
    assert main(["create", "train-{000000..000003}.tar", "-n", "golden", "-o", str(tmp_path / "index.json")]) == 0
    assert (tmp_path / "index.json").read_bytes() == (data / "index.json").read_bytes()


def test_a_list_of_shards_and_indexes_of_indexes(index: str, tmp_path: Path) -> None:
    shards = [{"url": str(tmp_path / "x-0002.tar"), "nsamples": 4}]
    assert ShardListDataset(shards)[0][".cls"] == 8
    joined = {"wids_version": 1, "datasets": [{"source_url": "index.json", "weight": 2}, {"shardlist": shards}]}
    (tmp_path / "joined.json").write_text(json.dumps(joined))
    dataset = ShardListDataset(str(tmp_path / "joined.json"))
    assert [dataset[i][".cls"] for i in (0, 11, 12)] == [0, 11, 8]
    assert dataset[0]["__dataset__"] == "numbers"
    assert dataset.shards[0]["weight"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "not an index of wids"),
        ("[]", "expected a JSON object"),
        ('{"wids_version": 2}', "version 2"),
        ('{"wids_version": 1}', "lists no shards"),
        ('{"wids_version": 1, "shardlist": [{"url": "a"}]}', "a number nsamples"),
        ('{"wids_version": 1, "shardlist": {"url": "a"}}', "a number nsamples"),
        ('{"wids_version": 1, "shardlist": [{"url": "a", "nsamples": -1}]}', "a number nsamples"),
    ],
)
def test_wrong_indexes(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "i.json").write_text(content)
    with pytest.raises(FormatError, match=message):
        ShardListDataset(str(tmp_path / "i.json"))


def test_a_shard_that_is_not_as_the_index_says(index: str, tmp_path: Path) -> None:
    (tmp_path / "x-0001.tar").write_bytes(archive(numbered(4, 7)))
    with pytest.raises(FormatError, match="has 3 samples; the index lists 4"):
        ShardListDataset(index)[4]
    (tmp_path / "x-0002.tar").unlink()
    with pytest.raises(FileNotFoundError):
        ShardListDataset(index)[9]


def test_remote_shards_are_copied(index: str, tmp_path: Path) -> None:
    shards = [{"url": f"pipe:cat {tmp_path}/x-0001.tar", "nsamples": 4}]
    with pytest.raises(ValueError, match="allow_commands"):
        ShardListDataset(shards, localname=lambda url: str(tmp_path / "copy"))[0]
    dataset = ShardListDataset(shards, localname=lambda url: str(tmp_path / "cache" / "copy"), allow_commands=True)
    assert dataset[3][".cls"] == 7
    assert (tmp_path / "cache" / "copy.tar").read_bytes() == (tmp_path / "x-0001.tar").read_bytes()


def test_decoding() -> None:
    import gzip
    import io

    sample = {
        "__key__": "k",
        ".txt": b"t",
        ".json.gz": gzip.compress(b"[1]"),
        ".JPG": io.BytesIO(jpeg(0)),
        ".x": b"x",
    }
    found = default_decoder(sample, "numpy", gz_update_key=True)
    assert (found[".txt"], found[".json"], found[".x"].read()) == ("t", [1], b"x")
    assert found[".JPG"].shape == (16, 24, 3)
    assert default_decoder({**sample, ".JPG": jpeg(0)})[".JPG"].size == (24, 16)
    with pytest.raises(ValueError, match="must start with a dot"):
        default_decoder({"txt": b""})
    with pytest.raises(ValueError, match="Unknown format"):
        default_decoder({}, "jax")
    with pytest.raises(ValueError, match="BUSHEL_ALLOW_PICKLE"):
        default_decoder({".pkl": pickle.dumps(1)})


class Sized:
    lengths: Sequence[int] = (3, 3, 4)

    def __len__(self) -> int:
        return 10


def test_orders_are_those_of_wids() -> None:
    sampler = ShardedSampler(Sized())
    assert list(sampler) == [0, 2, 1, 5, 4, 3, 6, 8, 7, 9]
    assert list(sampler) == [1, 0, 2, 7, 9, 8, 6, 4, 3, 5]
    sampler.set_epoch(0)
    assert list(sampler) == [0, 2, 1, 5, 4, 3, 6, 8, 7, 9]
    assert len(sampler) == 10
    assert list(ShardedSampler(Sized(), lengths=[2], seed=1, shufflefirst=True)) in ([0, 1], [1, 0])


def test_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ChunkedSampler(Sized(), shuffle=False, chunksize=3)) == list(range(10))
    chunked = ChunkedSampler(Sized(), num_samples=(2, 8), chunksize=3, seed=4)
    first, second = list(chunked), list(chunked)
    assert sorted(first[:3]) == [2, 3, 4]
    assert sorted(first) == sorted(second) == list(range(2, 8))
    assert len(chunked) == 6
    found: list[int] = []
    for rank in range(3):
        part = DistributedChunkedSampler(Sized(), num_replicas=3, rank=rank, shuffle=False)
        assert len(part) == 4
        found += list(part)
    assert found == list(range(10))
    with pytest.warns(UserWarning, match="assuming single process"):
        assert len(list(DistributedChunkedSampler(Sized()))) == 10
    with pytest.warns(UserWarning, match="drop_last"), pytest.raises(ValueError, match="rank=3"):
        DistributedChunkedSampler(Sized(), num_replicas=3, rank=3, drop_last=True)


def test_create_names_and_describes(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "about").write_text("ten numbers")
    main(["create", "x-0001.tar", "x-0000.tar", "-i", "about", "-b", "/data"])
    assert capsys.readouterr().out.splitlines()[-3:] == ["setting name to x", "x-0001.tar", "x-0000.tar"]
    found = json.loads((tmp_path / "shardindex.json").read_text())
    assert [shard["url"] for shard in found["shardlist"]] == ["x-0000.tar", "x-0001.tar"]
    assert (found["name"], found["base"], found["info"]) == ("x", "/data", "ten numbers")
    (tmp_path / "bad.tar").write_bytes(archive(numbered(0, 2))[:600])
    with pytest.raises(FormatError, match=r"bad\.tar"):
        main(["create", "bad.tar", "-o", "bad.json"])
    assert not (tmp_path / "bad.json").exists()


@pytest.mark.parametrize("content", ['{"shardlist": [7]}', '{"shardlist": 7}', "[" * 100_000])
def test_what_is_no_index_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(FormatError, match=r"a\.json"):
        ShardListDataset(str(tmp_path / "a.json"))


def test_wrong_use_of_the_command() -> None:
    for arguments in ([], ["create"], ["info", "a.json"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)


def test_pytorchs_loader_reads_it(index: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = ShardListDataset(index, transformations=[number])
    loader = data.DataLoader(dataset, batch_size=5, sampler=ShardedSampler(dataset), num_workers=2)
    assert sorted(np.concatenate([batch.numpy() for batch in loader]).tolist()) == list(range(12))


def number(sample: dict[str, Any]) -> int:
    return int(sample[".cls"].read())
