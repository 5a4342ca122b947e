"""Lists of removed samples that are requested while tables are loaded."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import bushel
from bushel._dataset.read.remaining import remaining_in
from bushel._dataset.read.requested_lists import RequestedLists
from bushel._dataset.read.shards import OpenShard


@dataclass
class Removed:
    """A dataset of two shards with a removed sample.

    Attributes:
        folder: The dataset.
        shards: Its shards.
    """

    folder: Path
    shards: list[OpenShard]


@pytest.fixture
def removed(tmp_path: Path) -> Removed:
    folder = tmp_path / "set"
    with bushel.Writer(folder, {"n": "int"}, container="tar", shard_samples=2) as writer:
        for number in range(4):
            writer.append({"n": number}, key=f"k{number}")
    bushel.remove(folder, keys=["k1"], reason="opt-out")
    return Removed(folder, list(bushel.open(folder).shards))


def test_lists_of_the_listed_files(removed: Removed) -> None:
    lists = RequestedLists([each.shard for each in removed.shards]).get()
    remaining = remaining_in(removed.shards, lists)
    assert remaining is not None
    assert [remaining[place] for place in range(len(remaining))] == [0, 2, 3]


def test_a_damaged_list(removed: Removed) -> None:
    (removed.folder / ".bushel" / "removed.safetensors").write_bytes(b"no list")
    requested = RequestedLists([each.shard for each in removed.shards])
    with pytest.raises(bushel.FormatError, match="list of removed samples is damaged"):
        requested.get()


def test_the_thread_ends_if_nobody_takes_the_lists(removed: Removed) -> None:
    requested = RequestedLists([each.shard for each in removed.shards])
    end = time.monotonic() + 60
    while any(thread.name.startswith("bushel-removed") for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert requested.get()
