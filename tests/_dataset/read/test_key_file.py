"""The key file: it finds what the table in memory finds, and one that is stale or damaged is not used."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._dataset.views.keyed_shards import SHARDS, TEXT, opened

import bushel
from bushel._dataset.read.key_file import NAME, damage, load_key_file, save_key_file
from bushel._index.key_lookup import KeyLookup
from bushel.errors import FormatError

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


def dataset(
    path: Path,
    container: str = "tar",
    samples: int = 30,
    *,
    mode: Literal["create", "append"] = "create",
    first: int = 0,
) -> None:
    """Write shards of ten samples, whose keys are in no order."""
    frames = container == "gulp"
    spec = {"frames": "jpg[]", "label": "int"} if frames else {"label": "int"}
    with bushel.Writer(path, spec, container=container, mode=mode, shard_samples=10, sync=False) as writer:
        for number in range(first, first + samples):
            writer.append({"label": number, **({"frames": []} if frames else {})}, key=f"k{number * 7 % 1000}")


def by_file(opened_dataset: bushel.Dataset) -> bool:
    """Return whether keys are looked up in the key file, which is mapped, and not in a table in memory."""
    return not opened_dataset.reader.lookup.shard_numbers.flags.owndata


@given(SHARDS, TEXT, st.sampled_from([1, 64, 1 << 20]))
def test_it_finds_what_the_table_in_memory_finds(shards: list[list[str] | int], other: str, memory: int) -> None:
    listed = [opened(each) for each in shards]
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        reported: list[int] = []
        count = save_key_file(path, listed, "state", memory=memory, report=reported.append)
        assert count == sum(len(each) for each in shards if isinstance(each, list))
        assert reported[-1] == count
        assert reported == sorted(reported)
        assert damage(path) is None
        found = load_key_file(path, "state")
        assert found is not None
        table = KeyLookup.of(listed)
        stored = KeyLookup(listed, table.starts, *found.values())
        assert np.array_equal(found["hashes"], np.sort(table.hashes))
        keys = {other, *(key for each in shards if isinstance(each, list) for key in each), "0", "3"}
        assert {key: list(stored.find(key)) for key in keys} == {key: list(table.find(key)) for key in keys}


@pytest.mark.parametrize("container", CONTAINERS)
def test_of_every_container(tmp_path: Path, container: str) -> None:
    dataset(tmp_path, container)
    bushel.index(tmp_path, keys=True)
    opened_again = bushel.open(tmp_path)
    assert [opened_again.position(f"k{number * 7 % 1000}") for number in range(30)] == list(range(30))
    assert by_file(opened_again)
    assert "k5000" not in opened_again
    assert opened_again[10:20].position("k70") == 0
    assert bushel.verify(tmp_path).ok


def test_a_dataset_that_grew_is_not_looked_up_in_the_old_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset(tmp_path)
    bushel.index(tmp_path, keys=True)
    dataset(tmp_path, mode="append", first=30)
    grown = bushel.open(tmp_path)
    assert grown.position("k210") == 30
    assert not by_file(grown)
    assert "bushel index --keys" in caplog.text
    bushel.index(tmp_path)  # as the dataset has a key file, it gets a new one
    again = bushel.open(tmp_path)
    assert again.position("k210") == 30
    assert by_file(again)
    written = (tmp_path / ".bushel" / NAME).stat().st_ino
    bushel.index(tmp_path)  # nothing has changed, so it stays
    assert (tmp_path / ".bushel" / NAME).stat().st_ino == written


def test_a_copy_without_times_keeps_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset(tmp_path / "a")
    bushel.index(tmp_path / "a", keys=True)
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    for _ in range(2):  # the first notes the new times in the index
        copied = bushel.open(tmp_path / "b")
        assert copied.position("k7") == 1
        assert by_file(copied)
    assert not caplog.records


def test_a_shard_of_equal_size_in_place_of_another_is_looked_up_as_it_is(tmp_path: Path) -> None:
    dataset(tmp_path / "a")
    dataset(tmp_path / "b", first=60)
    bushel.index(tmp_path / "a", keys=True)
    old, new = (sorted((tmp_path / name).glob("*.tar"))[1] for name in "ab")
    assert old.stat().st_size == new.stat().st_size
    shutil.copyfile(new, old)
    replaced = bushel.open(tmp_path / "a")
    assert replaced.position("k490") == 10
    assert "k70" not in replaced
    bushel.index(tmp_path / "a", force=True)
    again = bushel.open(tmp_path / "a")
    assert again.position("k490") == 10
    assert by_file(again)


def test_damage_is_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset(tmp_path)
    bushel.index(tmp_path, keys=True)
    path = tmp_path / ".bushel" / NAME
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        damaged = bushel.open(tmp_path)
        assert [damaged.position(f"k{number * 7 % 1000}") for number in range(0, 30, 7)] == list(range(0, 30, 7))
    head = 8 + int.from_bytes(whole[:8], "little")
    for at in (*rng.sample(range(head), 30), whole.index(b"state") + 12, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        [problem] = bushel.verify(tmp_path).problems
        assert (problem.kind, problem.file) == ("index", str(path)), at
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="not a key file"):
        load_key_file(path, "state")
    assert "not a key file" in str(damage(path))
    assert load_key_file(tmp_path / "missing", "state") is None
    assert damage(tmp_path / "missing") is None


def test_unsorted_hashes_of_a_shard_are_refused(tmp_path: Path) -> None:
    shard = opened(["a", "b", "c"])
    keys = shard.index.keys
    assert keys is not None
    keys.hashes[:] = keys.hashes[::-1].copy()
    with pytest.raises(FormatError, match="not sorted"):
        save_key_file(tmp_path / NAME, [shard], "state")
    assert not list(tmp_path.iterdir())


def test_it_is_for_one_local_folder(tmp_path: Path) -> None:
    dataset(tmp_path / "a")
    dataset(tmp_path / "b")
    with pytest.raises(bushel.errors.UnsupportedError, match="one local folder|local folder"):
        bushel.index([tmp_path / "a", tmp_path / "b"], keys=True)


@pytest.mark.parametrize("keys", [["no such key"], ["no such key", "another"]])
def test_keys_of_which_the_file_has_no_hash_are_missing(tmp_path: Path, keys: list[str]) -> None:
    dataset(tmp_path)
    bushel.index(tmp_path, keys=True)
    with pytest.raises(KeyError, match="no sample has the key 'no such key'"):
        bushel.remove(tmp_path, keys=keys, reason="no consent")
    assert bushel.remove(tmp_path, keys=keys, reason="no consent", ignore_missing=True).samples == 0
