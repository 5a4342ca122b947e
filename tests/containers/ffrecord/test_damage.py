"""A damaged record of packed maps is the error of its sample; the dataset opens."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.errors import CorruptError

SPEC = {"text": "utf8", "numbers": "int[]", "rare": "bytes"}
COUNT = 6


def sample(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {"text": f"text {number} " * 3, "numbers": list(range(number % 3))}
    return values | ({"rare": b"x" * number} if number % 2 else {})


def written(path: Path, bad: list[int], *, keyed: bool) -> list[int]:
    """Write a file without an index, and damage these records. Return the offsets of all records."""
    with bushel.Writer(path, SPEC, container="ffrecord", sync=False) as writer:
        for number in range(COUNT):
            writer.append(sample(number), key=f"k{number}" if keyed else None)
    shutil.rmtree(path.parent / ".bushel")
    data = bytearray(path.read_bytes())
    offsets: list[int] = np.frombuffer(bytes(data), "<i8", COUNT, 12 + 4 * COUNT).tolist()
    for number in bad:
        data[offsets[number] + 20] ^= 1
    path.write_bytes(data)
    return offsets


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("bad", [[0], [2], [5], [0, 5], [3, 4], [0, 1, 4, 5]], ids=str)
def test_only_damaged_samples_raise(tmp_path: Path, bad: list[int], keyed: bool) -> None:
    path = tmp_path / "x.ffr"
    offsets = written(path, bad, keyed=keyed)
    for verify in (None, False):
        with pytest.warns(bushel.errors.DamagedWarning, match=f"{len(bad)} of {COUNT} samples cannot be read"):
            dataset = bushel.open(path, spec=SPEC, verify=verify)
        for number in range(COUNT):
            fields = ["text", "numbers", *(["rare"] if number % 2 or number in bad else [])]
            if number not in bad:
                key = f"k{number}" if keyed else str(number)
                assert dataset[number] == {"__key__": key, **sample(number)}
                assert list(dataset[number, fields]) == ["__key__", *fields]
                continue
            assert dataset.keys[number] == (f"at-{offsets[number]}" if keyed else str(number))
            for name in fields:
                with pytest.raises(CorruptError) as caught:
                    dataset[number, [name]]
                assert (caught.value.file, caught.value.offset) == (str(path), offsets[number])
                assert caught.value.key == dataset.keys[number]
    assert bushel.repair(path, tmp_path / "out.ffr").samples == COUNT - len(bad)


def test_without_a_whole_record_nothing_is_known(tmp_path: Path) -> None:
    written(tmp_path / "x.ffr", [1, 2, 3, 4, 5], keyed=True)
    data = bytearray((tmp_path / "x.ffr").read_bytes())
    data[-1] ^= 1
    (tmp_path / "x.ffr").write_bytes(data)
    with pytest.warns(bushel.errors.DamagedWarning):
        assert len(bushel.open(tmp_path / "x.ffr")) == COUNT
    written(tmp_path / "y.ffr", list(range(COUNT)), keyed=True)
    with pytest.raises(CorruptError):
        bushel.open(tmp_path / "y.ffr")


def test_indexing_and_verification_stay_strict(tmp_path: Path) -> None:
    written(tmp_path / "x.ffr", [2], keyed=True)
    with pytest.raises(CorruptError):
        bushel.index(tmp_path / "x.ffr")
    [shard] = get_container("ffrecord").shards(tmp_path / "x.ffr") or []
    with pytest.raises(CorruptError):
        get_container("ffrecord").index(shard, ReadOptions())
    with pytest.raises(CorruptError):
        bushel.open(tmp_path / "x.ffr", on_damage="raise")
    assert not bushel.verify(tmp_path / "x.ffr").ok


@pytest.mark.parametrize("damaged_header", [False, True])
def test_an_empty_record_at_the_end_is_believed_only_if_the_header_is_whole(
    tmp_path: Path, damaged_header: bool
) -> None:
    path = tmp_path / "x.ffr"
    with bushel.Writer(path, {"data": "bytes"}, container="ffrecord", sync=False) as writer:
        for value in (b"first", b"second", b""):
            writer.append({"data": value})
    shutil.rmtree(tmp_path / ".bushel")
    data = bytearray(path.read_bytes())
    data[0 if damaged_header else -1] ^= 1  # -1: of the second record
    path.write_bytes(data)
    bushel.repair(path, tmp_path / "repaired")
    with bushel.open(tmp_path / "repaired") as dataset:
        found = [each["data"] for each in dataset.read(range(len(dataset)), decode=False)]
    assert found == ([b"first", b"second"] if damaged_header else [b"first", b""])
