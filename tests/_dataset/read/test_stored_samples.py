"""Stored bytes of batches over several shards: the same samples as one by one, and errors that name the sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel._dataset.read.stored_reader import StoredReader
from bushel.errors import CorruptError

CONTAINERS = ("bag", "tar", "ffrecord", "recordio")
COUNT = 60


def made(folder: Path, container: str, *, keyed: bool) -> Path:
    spec = {"data": "bytes", "text": "utf8"} if container in ("bag", "tar") else {"data": "bytes"}
    with bushel.Writer(folder / "ds", spec, container=container, shard_samples=7, sync=False) as writer:
        for number in range(COUNT):
            sample: dict[str, Any] = {"data": bytes([number]) * (number * 37 % 200)}
            if "text" in spec and (container == "bag" or number % 5):  # samples of a tar may lack fields
                sample["text"] = f"é{number}"
            writer.append(sample, key=f"key-{number}" if keyed else None)
    return folder / "ds"


@pytest.mark.parametrize("verify", [None, True, False])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("container", CONTAINERS)
def test_batches_over_shards(
    tmp_path: Path, container: str, keyed: bool, verify: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, container, keyed=keyed and container != "ffrecord")
    ds = bushel.open(path, verify=verify)
    batches: list[int] = []
    read_by_kernel = StoredReader._by_kernel

    def counted(*arguments: Any, **options: Any) -> Any:
        found = read_by_kernel(*arguments, **options)
        batches.append(-1 if found is None else len(found))
        return found

    monkeypatch.setattr(StoredReader, "_by_kernel", counted)
    rng = np.random.default_rng(0)
    one_by_one = [ds.read([position], decode=False)[0] for position in range(COUNT)]
    assert batches == [1] * COUNT
    for count in (0, 1, 5, 200):
        positions = rng.integers(-COUNT, COUNT, count)
        assert ds.read(positions, decode=False) == [one_by_one[position] for position in positions]
        for fields in (["data"], list(ds.spec), []):
            names = {"__key__", *fields}
            expected = [
                {name: value for name, value in one_by_one[position].items() if name in names} for position in positions
            ]
            found = ds.read(positions, fields, decode=False)
            assert found == expected
            assert [list(sample) for sample in found] == [list(sample) for sample in expected]
    assert -1 not in batches
    texts = [sample.get("text") for sample in ds.read(range(COUNT))]
    assert texts == [None if "text" not in each else each["text"].decode() for each in one_by_one]


@pytest.mark.parametrize("container", CONTAINERS)
def test_damage_is_found_in_the_right_sample(tmp_path: Path, container: str) -> None:
    path = made(tmp_path, container, keyed=False)
    checked, unchecked = bushel.open(path, verify=True), bushel.open(path, verify=False)
    row = 30
    for ds in (checked, unchecked):
        ds.read(range(COUNT), decode=False)  # all files are open now
    name, offset = checked.location(row, "data")
    with open(name, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff")
    with pytest.raises(CorruptError) as caught:
        checked.read(range(COUNT), decode=False)
    assert (caught.value.key, caught.value.offset) == (str(row) if container != "tar" else f"{row:09d}", offset)
    damaged = unchecked.read(range(COUNT), decode=False)
    assert damaged[row]["data"] == b"\xff" + bytes([row]) * (row * 37 % 200 - 1)


def test_shards_with_and_without_checksums(tmp_path: Path) -> None:
    """Both are read, the ones with checksums compared."""
    path = made(tmp_path, "bag", keyed=True)
    expected = bushel.open(path).read(range(COUNT), decode=False)
    for number, sidecar in enumerate(sorted(path.rglob("*.safetensors"))):
        if number % 2:
            sidecar.unlink()
    ds = bushel.open(path, verify=True)
    assert ds.read(range(COUNT), decode=False) == expected
