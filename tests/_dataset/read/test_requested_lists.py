"""Lists of removed samples that are requested while tables are loaded."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

import bushel
from bushel._dataset.open.remote_discovery import ListedFiles
from bushel._dataset.read.listed import RequestedLists
from bushel._dataset.read.remaining import remaining_in
from bushel._dataset.read.shards import OpenShard
from bushel.storage.base import FROM_TAG


@dataclass
class Removed:
    """A dataset of two shards with a removed sample, whose files have ETags.

    Attributes:
        folder: The dataset.
        shards: Its shards.
        listed: Its files, in a listing.
    """

    folder: Path
    shards: list[OpenShard]
    listed: ListedFiles


@pytest.fixture
def removed(tmp_path: Path) -> Removed:
    folder = tmp_path / "set"
    with bushel.Writer(folder, {"n": "int"}, container="tar", shard_samples=2) as writer:
        for number in range(4):
            writer.append({"n": number}, key=f"k{number}")
    bushel.remove(folder, keys=["k1"], reason="opt-out")
    shards = list(bushel.open(folder).shards)
    for number, shard in enumerate(shards):
        shard.stamps = [replace(stamp, mtime_ns=FROM_TAG + number) for stamp in shard.stamps]
    files = [stamp for shard in shards for stamp in shard.stamps]
    return Removed(folder, shards, ListedFiles({each.name: (each.size, each.mtime_ns) for each in files}))


def test_lists_of_the_listed_files(removed: Removed) -> None:
    lists = RequestedLists([each.shard for each in removed.shards], removed.listed).of(removed.shards)
    assert lists is not None
    remaining = remaining_in(removed.shards, lists)
    assert remaining is not None
    assert [remaining[place] for place in range(len(remaining))] == [0, 2, 3]


def test_a_table_that_may_be_newer_than_the_lists(removed: Removed) -> None:
    requested = RequestedLists([each.shard for each in removed.shards], removed.listed)
    last = removed.shards[1]
    last.stamps = [replace(stamp, mtime_ns=stamp.mtime_ns + 1) for stamp in last.stamps]
    assert requested.of(removed.shards) is None


def test_a_damaged_list(removed: Removed) -> None:
    (removed.folder / ".bushel" / "removed.safetensors").write_bytes(b"no list")
    requested = RequestedLists([each.shard for each in removed.shards], removed.listed)
    with pytest.raises(bushel.errors.FormatError, match="list of removed samples is damaged"):
        requested.of(removed.shards)


def test_the_thread_ends_if_nobody_takes_the_lists(removed: Removed) -> None:
    requested = RequestedLists([each.shard for each in removed.shards], removed.listed)
    end = time.monotonic() + 60
    while any(thread.name.startswith("bushel-removed") for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert requested.of(removed.shards) is not None
