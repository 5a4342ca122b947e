"""Rows that a kernel gathers equal those that are joined sample by sample, whatever arrays are stored as."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.loader import Megatron, Padded
from bushel.loader.run.groups import RowGroups

LENGTHS = [700 if number == 7 else number * 37 % 59 + 1 for number in range(250)]
PACK: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": 64}
CHUNK: dict[str, Any] = {"chunk_by": "tokens.length", "chunk_tokens": 33}


@pytest.fixture(scope="module", params=["array in a bag", "array in a tar", "array(int32,-1) in a bag"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    codec, _, container = request.param.partition(" in a ")
    root = tmp_path_factory.mktemp("rows") / "data"
    with bushel.Writer(root, {"tokens": codec, "mask": "array"}, container=container, shard_samples=90) as writer:
        for number, length in enumerate(LENGTHS):
            tokens = np.arange(length, dtype=np.int32) + 1000 * number
            writer.append({"tokens": tokens, "mask": tokens % 2 == 0}, key=f"k{number}")
    return bushel.open(root)


def same(value: Any) -> Any:
    """A transform that changes nothing, but has every value decoded."""
    return value


@pytest.mark.parametrize(
    "options",
    [
        {**PACK, "pack_longer": "split"},
        {**PACK, "pack_longer": "cut", "collate": {"tokens": Padded(-7)}},
        {**PACK, "pack_tokens": 1000},
        {**CHUNK, "overlap": 1},
        {**CHUNK, "shuffle": Megatron(rows=400)},
        {**CHUNK, "chunk_tokens": 900},
    ],
)
@pytest.mark.parametrize("threads", [0, 2])
def test_gathered_rows_are_those_of_samples(
    ds: bushel.Dataset, options: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, gather = list[bool](), RowGroups._batches

    def noted(*given: Any) -> Any:
        batches = gather(*given)
        made.extend(batch is not None for batch in batches)
        return batches

    monkeypatch.setattr(RowGroups, "_batches", noted)
    given = {"shuffle": True, "seed": 3, **options}
    gathered = list(bushel.Loader(ds, 5, threads=threads, **given))
    assert made
    assert all(made)
    plain = list(bushel.Loader(ds, 5, threads=0, **given, transforms={"tokens": same, "mask": same}))
    assert len(made) == len(gathered) == len(plain)
    for own, other in zip(gathered, plain, strict=True):
        assert list(own) == list(other)
        for name, value in own.items():
            if isinstance(value, np.ndarray):
                assert value.dtype == other[name].dtype
                assert np.array_equal(value, other[name])
            else:
                assert [np.asarray(row).tolist() for row in value] == [np.asarray(row).tolist() for row in other[name]]


def test_a_damaged_value_is_an_error_that_names_the_sample(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", {"tokens": "array(int32,-1)"}, container="tar") as writer:
        for length in (5, 3, 8, 2):
            writer.append({"tokens": np.arange(length, dtype=np.int32)}, key=str(length))
    status, data = (tmp_path / "a.tar").stat(), (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(data.replace(b"\x93NUMPY", b"\x93NUMPI", 1))
    os.utime(tmp_path / "a.tar", ns=(status.st_atime_ns, status.st_mtime_ns))
    ds = bushel.open(tmp_path / "a.tar")
    lengths: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": 8}
    with pytest.raises(bushel.errors.CodecError, match="sample '5'"):
        list(bushel.Loader(ds, 4, **lengths))
