"""Shards that a list of removed samples knows to have none are not read, and all others are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.integrity.removed import keys, write

import bushel
from bushel._dataset.read import remaining
from bushel._dataset.read.shards import OpenShard
from bushel._index.removal_list import NameLookup


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the shards that are searched for removed samples from now on."""
    names: list[str] = []
    real = remaining.named_rows

    def named_rows(shard: OpenShard, lookup: NameLookup, *, same: bool) -> object:
        names.append(shard.shard.name)
        return real(shard, lookup, same=same)

    monkeypatch.setattr(remaining, "named_rows", named_rows)
    return names


def of_opening(path: Path, searched: list[str]) -> tuple[list[str], list[str]]:
    """Return the shards that are searched when a dataset is opened, and its keys."""
    searched.clear()
    dataset = bushel.open(path)
    return searched.copy(), list(dataset.keys)


def test_only_shards_concerned_are_searched(tmp_path: Path, searched: list[str]) -> None:
    path = write(tmp_path / "data", count=24)  # 4 shards of 6
    first = bushel.remove(path, keys=keys([7, 8]), reason="a")
    shards, left = of_opening(path, searched)
    assert shards == ["shard-000001.tar"]
    assert left == keys(number for number in range(24) if number not in (7, 8))
    bushel.remove(path, keys=keys([20]), reason="b")
    assert of_opening(path, searched)[0] == ["shard-000001.tar", "shard-000003.tar"]
    bushel.restore(path, first.call)
    assert of_opening(path, searched)[1] == keys(number for number in range(24) if number != 20)


def test_shards_that_came_later_are_searched_until_the_next_call(tmp_path: Path, searched: list[str]) -> None:
    path = write(tmp_path / "data", count=12)
    bushel.remove(path, keys=keys([7]), reason="a")
    with bushel.Writer(path, mode="append", sync=False) as writer:
        for number in (7, 30):  # the first one is another sample with a removed key, so it stays
            writer.append({"data": b"new", "label": number}, key=f"k{number:02}")
    shards, left = of_opening(path, searched)
    assert (shards, left.count("k07")) == (["shard-000001.tar", "shard-000002.tar"], 1)
    with bushel.Writer(path, mode="append", sync=False) as writer:
        writer.append({"data": b"007" * 5, "label": 7}, key="k077")  # renamed: another sample
    assert len(of_opening(path, searched)[0]) == 3
    bushel.remove(path, keys=["k30"], reason="b")
    assert of_opening(path, searched)[0] == ["shard-000001.tar", "shard-000002.tar"]


@pytest.mark.parametrize("change", ["rename", "rebuild", "copy over another"])
def test_a_shard_in_another_place_is_known_by_its_digest(change: str, tmp_path: Path, searched: list[str]) -> None:
    path = write(tmp_path / "data", count=24)
    bushel.remove(path, keys=keys([7, 8]), reason="a")
    if change == "rename":
        (path / "shard-000001.tar").rename(path / "zzz.tar")
        expected = ["zzz.tar"]
    elif change == "rebuild":
        for sidecar in (path / ".bushel").glob("shard*.safetensors"):
            sidecar.unlink()
        expected = ["shard-000001.tar"]
    else:
        shutil.copy(path / "shard-000001.tar", path / "shard-000003.tar")
        expected = ["shard-000001.tar", "shard-000003.tar"]
    if change == "copy over another":
        bushel.index(path, force=True)
    else:
        bushel.index(path)
    shards, left = of_opening(path, searched)
    assert shards == expected
    assert not {"k07", "k08"} & set(left)


def test_without_checksums_every_shard_is_searched(tmp_path: Path, searched: list[str]) -> None:
    path = write(tmp_path / "data", count=12)
    shutil.rmtree(path / ".bushel")
    bushel.index(path, checksums=False)
    bushel.remove(path, keys=keys([7]), reason="a")
    assert of_opening(path, searched)[0] == ["shard-000000.tar", "shard-000001.tar"]


def test_info_counts_names_of_samples_that_are_not_stored(tmp_path: Path) -> None:
    path = write(tmp_path / "data", count=12)
    assert bushel.open(path).info.removed_missing == 0
    bushel.remove(path, keys=keys([1, 7, 8]), reason="a")
    bushel.remove(path, keys=keys([3]), reason="b")
    (path / "shard-000001.tar").unlink()
    bushel.index(path)
    info = bushel.open(path).info
    assert (info.removed, info.removed_missing) == (2, 2)
    assert "2 removed before and not stored any more" in repr(info)
    assert [(one.samples, one.missing) for one in bushel.removals(path)] == [(1, 2), (1, 0)]
    bushel.erase(path)
    info = bushel.open(path).info
    assert (info.samples, info.removed, info.removed_missing) == (4, 0, 4)


@pytest.mark.parametrize("how", ["keys", "where", "positions"])
def test_the_key_file_says_which_shards_a_call_searches(how: str, tmp_path: Path, searched: list[str]) -> None:
    path = write(tmp_path / "data", count=24)
    bushel.index(path, keys=True)
    searched.clear()
    if how == "keys":
        bushel.remove(path, keys=keys([7, 20]), reason="a")
    elif how == "where":
        bushel.remove(path, where="label == 7 or label == 20", reason="a")
    else:
        bushel.remove(path, positions=[7, 20], reason="a")
    assert searched == ["shard-000001.tar", "shard-000003.tar"]
    assert of_opening(path, searched)[1] == keys(number for number in range(24) if number not in (7, 20))
