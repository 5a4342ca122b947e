"""Damaged and hostile Granular datasets: every fault has a name, and none does harm."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from tests.containers.bag.samples import (
    SAMPLES,
    SHUFFLED,
    SPEC,
    SPLIT_SPEC,
    Samples,
    dataset,
    files_of,
    index_of,
    read,
    refs_bag,
    split,
)
from tests.containers.writing import write_shard

from bushel.containers.bag import CONTAINER
from bushel.containers.bag.tables import decode_refs
from bushel.errors import BushelError, FormatError


@pytest.mark.parametrize("kept", [(1, 2), (0, 2)])
def test_a_missing_shard_is_named(kept: tuple[int, int], tmp_path: Path) -> None:
    for number in kept:
        write_shard(CONTAINER, tmp_path, SPEC, SAMPLES, number=number)
    with pytest.raises(FormatError, match=f"shard 00000{1 - kept[0]} is missing"):
        CONTAINER.shards(tmp_path)


def test_a_shard_cannot_be_there_twice(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPEC, SAMPLES)
    shutil.copytree(tmp_path / "000000", tmp_path / "0")
    with pytest.raises(FormatError, match="shard 0 exists twice"):
        CONTAINER.shards(tmp_path)


def test_a_shard_with_other_fields_is_named(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPEC, SAMPLES)
    write_shard(CONTAINER, tmp_path, SPLIT_SPEC, split(SAMPLES), number=1)
    (tmp_path / "000001" / "bar.bag").write_bytes(b"")
    with pytest.raises(FormatError, match="fields of the first shard, found abc, baz, foo") as error:
        read(tmp_path)
    assert error.value.file == str(tmp_path / "000001" / "spec.json")


def test_a_shard_of_another_generation_is_named(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPLIT_SPEC, split(SAMPLES))
    write_shard(CONTAINER, tmp_path, SPLIT_SPEC, split(SAMPLES), number=1, generation="C")
    with pytest.raises(FormatError, match="missing") as error:
        read(tmp_path)
    assert error.value.file == str(tmp_path / "000001" / "refs.bag")


@pytest.mark.parametrize(
    ("refs", "problem"),
    [
        ([[3, []]], r"refers to 1 records from number 3, but a\.bag has 3"),
        ([[0, [3, 2]]], r"refers to 2 records from number 3, but s\.bag has 4"),
        ([[0, [2**64 - 1, 2**64 - 1]]], r"refers to 18446744073709551615 records"),
        ([[0, [0, 4]], [1, [0, 4]]], r"share records of s\.bag"),
        ([[0]], "expected an array of 2 elements"),
        ([[0, []], [0, [], 1]], "sample 1: expected an array of 2 elements"),
        ([[-1, []]], "expected the number of a record"),
        ([["0", []]], "expected the number of a record"),
        ([[0, [1]]], "expected .first, count. or"),
        ([[0, 1]], "expected .first, count. or"),
        ([], r"no sample, although a\.bag has 3 records"),
    ],
)
def test_wrong_refs_are_named(refs: list[Any], problem: str, tmp_path: Path) -> None:
    dataset(tmp_path, {**SHUFFLED, "refs.bag": refs_bag(*refs)})
    with pytest.raises(FormatError, match=problem) as error:
        index_of(tmp_path)
    assert error.value.file == str(tmp_path / "refs.bag")


def test_refs_that_are_cut_or_too_long_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "refs.bag")
    record = msgpack.packb([70000])
    for data in (record[:-1], record + b"\0", b""):
        with pytest.raises(FormatError, match="sample 1"):
            decode_refs(record + data, np.array([0, len(record), len(record) + len(data)]), [False], path)


DAMAGED_SPECS = {
    "no object": b"[]", "no text": b'{"a": 1}', "cut": b'{"a": "by', "nothing": b"", "no UTF-8": b'{"\xff": "int"}',
    "a path": b'{"../a": "bytes"}', "no name": b'{"": "bytes"}', "refs": b'{"refs": "bytes"}', "deep": b"[" * 100_000,
    "a key that is not text": b'{"__key__": "int"}', "a long name": b'{"%s": "bytes"}' % (b"9" * 5000),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED_SPECS)
def test_a_damaged_spec_is_named(name: str, tmp_path: Path) -> None:
    dataset(tmp_path, {**SHUFFLED, "spec.json": DAMAGED_SPECS[name]})
    with pytest.raises(FormatError) as error:
        CONTAINER.shards(tmp_path)
    assert error.value.file == str(tmp_path / "spec.json")


@pytest.mark.parametrize("name", list(SHUFFLED))
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    dataset(tmp_path, SHUFFLED)
    (tmp_path / name).unlink()
    with pytest.raises(FormatError, match="missing") as error:
        index_of(tmp_path)
    assert error.value.file == str(tmp_path / name)


def test_a_missing_idx_is_named(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPLIT_SPEC, split(SAMPLES), single=True, generation="C")
    (tmp_path / "foo.idx").unlink()
    with pytest.raises(FormatError, match="missing") as error:
        index_of(tmp_path)
    assert error.value.file == str(tmp_path / "foo.idx")


def small_datasets(folder: Path) -> list[dict[str, bytes]]:
    datasets = [SHUFFLED]
    for generation in "ABC":
        spec, samples = (SPLIT_SPEC, split(SAMPLES)) if generation == "C" else (SPEC, SAMPLES)
        keyed: Samples = [(f"k{i}", fields) for i, (_, fields) in enumerate(samples)]
        write_shard(CONTAINER, folder / generation, spec, keyed, single=True, generation=generation, keyed=True)
        datasets.append(files_of(folder / generation))
    return datasets


def only_bushel_errors(folder: Path) -> None:
    with suppress(BushelError):
        read(folder)


def test_files_cut_anywhere_raise_only_our_errors(tmp_path: Path) -> None:
    for number, files in enumerate(small_datasets(tmp_path)):
        folder = dataset(tmp_path / str(number), files)
        for name, data in files.items():
            for length in range(len(data)):
                (folder / name).write_bytes(data[:length])
                only_bushel_errors(folder)
            (folder / name).write_bytes(data)


def test_mutated_files_raise_only_our_errors(tmp_path: Path) -> None:
    dice = random.Random(0)
    for number, files in enumerate(small_datasets(tmp_path)):
        folder = dataset(tmp_path / str(number), files)
        for _ in range(100):
            name = dice.choice([name for name, data in files.items() if data])
            mutated = bytearray(files[name])
            for _ in range(dice.choice([1, 1, 2, 8])):
                mutated[dice.randrange(len(mutated))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
            (folder / name).write_bytes(mutated)
            only_bushel_errors(folder)
            (folder / name).write_bytes(files[name])


def test_damaged_datasets_are_refused(golden: Path) -> None:
    cases = json.loads((golden / "damaged" / "damaged.json").read_text())["cases"]
    for case in cases:
        if case["container"] != "bag":
            continue
        folder = golden / "damaged" / case["open"]
        if case["revealed_by"] == "index":
            read(folder)
            continue
        with pytest.raises(FormatError) as error:
            read(folder)
        assert error.value.file is not None
        assert Path(error.value.file).name in case["named"], case["open"]
