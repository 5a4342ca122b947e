"""What `open` compares by default: the checksums that the container itself promises."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.integrity.small import SPEC, flip, key, reading, sample, write

import bushel


def damaged(folder: Path, container: str) -> Path:
    """A dataset of one shard whose image 1 has a flipped bit."""
    write(folder, container, shard_samples=None)
    file, offset = reading(folder).location(1, "image")
    flip(Path(file), offset + 300)
    return folder


def test_samples_of_ffrecord_are_checked(tmp_path: Path) -> None:
    folder = damaged(tmp_path / "data", "ffrecord")
    dataset = reading(folder)
    for read in (
        lambda: dataset[1],
        lambda: dataset.read([0, 1]),
        lambda: dataset.gather([1], "image"),
        lambda: list(dataset[:3]),
        lambda: pickle.loads(pickle.dumps(dataset))[1],
        lambda: bushel.concat([reading(folder), reading(folder)])[8],
        lambda: next(iter(bushel.Loader(dataset, 7, on_error="raise"))),
    ):
        with pytest.raises(bushel.errors.CorruptError) as caught:
            read()
        assert (caught.value.key, caught.value.field) == (key(1), "image")
    assert dataset[2]["label"] == sample(2)["label"]
    assert dataset.read([1], ["label"])[0]["label"] == sample(1)["label"]
    unchecked = reading(folder, verify=False)
    assert unchecked.read([1], decode=False)[0]["image"] != sample(1)["image"]
    with pytest.raises(bushel.errors.CorruptError):
        reading(folder, verify=True).read([1], decode=False)


def test_plain_records_of_ffrecord_are_checked(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.ffr", {"data": "bytes"}, sync=False) as writer:
        for number in range(3):
            writer.append({"data": bytes([number]) * 100})
    flip(tmp_path / "x.ffr", (tmp_path / "x.ffr").stat().st_size - 10)
    for index in ("auto", "memory"):
        dataset = reading(tmp_path / "x.ffr", index=index)
        assert dataset[0]["data"] == bytes(100)
        with pytest.raises(bushel.errors.CorruptError):
            dataset[2]


@pytest.mark.parametrize("container", ["tar", "recordio", "gulp", "bag"])
def test_other_containers_promise_nothing(tmp_path: Path, container: str) -> None:
    folder = damaged(tmp_path / "data", container)
    assert reading(folder).read([1], decode=False)
    with pytest.raises(bushel.errors.CorruptError):
        reading(folder, verify=True).read([1], decode=False)


def test_shards_of_several_containers(tmp_path: Path) -> None:
    both = bushel.concat([reading(damaged(tmp_path / "a", "tar")), reading(damaged(tmp_path / "b", "ffrecord"))])
    assert list(both.spec) == list(SPEC)
    assert [bool(each["image"]) for each in both.read([1, 7], decode=False)] == [True, True]
    for positions in ([8], [1, 8]):
        with pytest.raises(bushel.errors.CorruptError):
            both.read(positions, decode=False)
        with pytest.raises(bushel.errors.CorruptError):
            both.gather(positions, "image")
