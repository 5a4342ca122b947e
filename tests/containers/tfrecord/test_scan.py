"""Scans whose rows are given away in pieces, with features that some records lack."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.tfrecords import bytes_list, example, float_list, framed, int_list

import bushel
from bushel._runtime.arrays import GrowingArrays
from bushel.containers import Shard
from bushel.containers.tfrecord import features
from bushel.containers.tfrecord.container import CONTAINER


def records(kinds: str, count: int = 60) -> list[dict[str, Any]]:
    """Return the values of features: `n` may be missing, `e` empty, `m` many; all come late in the file."""
    rng = random.Random(kinds)
    most = 3 if "m" in kinds else 1
    found = []
    for number in range(count):
        own: dict[str, Any] = {"all": number}
        for name in ("bytes", "floats", "ints"):
            if "n" in kinds and (number < 20 or rng.random() < 0.3):
                continue
            size = rng.randrange(0 if "e" in kinds else 1, most + 1)
            each = [rng.randrange(100) for _ in range(size)]
            own[name] = [b"%d" % value for value in each] if name == "bytes" else each
        found.append(own)
    return found


def encoded(values: dict[str, Any], number: int) -> bytes:
    packed = number % 4 != 0
    own = {"all": int_list(values["all"])}
    if "bytes" in values:
        own["bytes"] = bytes_list(*values["bytes"])
    if "floats" in values:
        own["floats"] = float_list(*values["floats"], packed=packed)
    if "ints" in values:
        own["ints"] = int_list(*values["ints"], packed=packed)
    return example(own)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kinds", ["", "n", "e", "ne", "m", "nm", "em", "nem"])
def test_values_are_those_of_the_records(
    kinds: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:
        for name, size in (("STEP", 7), ("_ROWS", 10), ("_WINDOW", 200)):
            monkeypatch.setattr(features, name, size)
        monkeypatch.setattr(features, "STEP", 7)
        monkeypatch.setattr(GrowingArrays.__init__, "__defaults__", (100,))
    wanted = records(kinds)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed([encoded(each, number) for number, each in enumerate(wanted)]))
    ds = bushel.open(path)
    many = "m" in kinds
    for number, own in enumerate(wanted):
        sample = ds[number]
        assert sample["all"] == number
        for name in ("bytes", "floats", "ints"):
            found, expected = sample.get(name), own.get(name)
            if expected is not None and not many:
                expected = expected[0] if expected else None
            assert (found.tolist() if isinstance(found, np.ndarray) else found) == expected
    assert ds.column("all").tolist() == list(range(60))
    if not many:
        for name in ("floats", "ints"):
            there = [own[name][0] for own in wanted if own.get(name)]
            column = np.ma.masked_array(ds.column(name))
            assert column.compressed().tolist() == there


def test_wrong_checksums_before_damage_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    one = framed([example({"i": int_list(1)})])
    data = bytearray(one * 3)
    path.write_bytes(data)
    data[len(one) - 1] ^= 1
    data[2 * len(one)] ^= 1
    path.write_bytes(data)
    found = [str(error) for error in CONTAINER.check_stored(Shard(tmp_path, path.name, (path.name,)), lambda _: None)]
    assert len(found) == 2
    assert "record 0: its" in found[0]
    assert f"length of a record has another checksum (record after byte {2 * len(one)})" in found[1]
