"""A damaged record of packed maps is the error of its sample; the dataset opens."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.errors import CorruptError, FormatError

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
    damage(path, bad)
    return damage(path, range(COUNT), 0)


def damage(path: Path, records: Iterable[int], change: int = 1) -> list[int]:
    """Damage records of a file. Return their offsets."""
    data = bytearray(path.read_bytes())
    count = int.from_bytes(data[4:12], "little")
    offsets = np.frombuffer(bytes(data), "<i8", count, 12 + 4 * count).tolist()
    for number in records:
        data[offsets[number] + 20] ^= change
    path.write_bytes(data)
    return [offsets[number] for number in records]


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


@pytest.mark.parametrize("bad", [{1: [0, 2]}, {1: [3], 2: [1]}], ids=str)
def test_errors_of_shards_without_keys_name_their_own_records(tmp_path: Path, bad: dict[int, list[int]]) -> None:
    with bushel.Writer(tmp_path, SPEC, container="ffrecord", sync=False, shard_samples=4) as writer:
        for number in range(12):
            writer.append(sample(number))
    shutil.rmtree(tmp_path / ".bushel")
    places: dict[int, tuple[str, int]] = {}
    for shard, records in bad.items():
        path = sorted(tmp_path.glob("*.ffr"))[shard]
        places |= {
            4 * shard + record: (str(path), at) for record, at in zip(records, damage(path, records), strict=True)
        }
    with pytest.warns(bushel.errors.DamagedWarning):
        dataset = bushel.open(tmp_path, spec=SPEC)
    for position, place in places.items():
        with pytest.raises(CorruptError) as caught:
            dataset[position]
        assert (caught.value.file, caught.value.offset) == place
        assert caught.value.key == str(position)
        record = position % 4
        assert f"sample '{position}' cannot be read: record {record} is damaged: it does not" in str(caught.value)
    loader = bushel.Loader(dataset.select_fields(["text"]), 2, shuffle=False, on_error="skip")
    assert sum(len(batch["text"]) for batch in loader) == 12 - len(places)
    assert {each.sample: each.offset for each in loader.errors} == {at: offset for at, (_, offset) in places.items()}


@pytest.mark.parametrize("declared", [None, {"text": "bytes"}], ids=str)
@pytest.mark.parametrize("index", ["manifest", "stale", "stale alone"])
def test_a_damaged_shard_has_the_recorded_types_and_names_of_classes(
    tmp_path: Path, index: str, declared: dict[str, str] | None
) -> None:
    spec = {"text": "utf8", "label": "int"}
    with bushel.Writer(
        tmp_path, spec, container="ffrecord", sync=False, shard_samples=3, labels={"label": ["cat", "dog"]}
    ) as writer:
        for number in range(6):
            writer.append({"text": f"text {number}", "label": number % 2}, key=f"k{number}")
    path = sorted(tmp_path.glob("*.ffr"))[1]
    damage(path, [1], 3)
    if index == "manifest":
        for sidecar in (tmp_path / ".bushel").glob("*.safetensors"):
            sidecar.unlink()
    if index == "stale alone":
        (tmp_path / ".bushel" / "manifest.json").unlink()
    with pytest.warns(bushel.errors.DamagedWarning):
        dataset = bushel.open(tmp_path, spec=declared)
    assert dict(dataset.spec) == {**spec, **(declared or {})}
    assert dict(dataset.labels) == {"label": ("cat", "dog")}
    for number in (0, 3, 5):
        text: str | bytes = f"text {number}"
        if declared:
            text = f"text {number}".encode()
        assert dataset[number] == {"__key__": f"k{number}", "text": text, "label": number % 2}
    with pytest.warns(bushel.errors.DamagedWarning):
        alone = bushel.open(path)
    if index != "manifest":  # which describes the folder
        assert (dict(alone.spec), dict(alone.labels)) == (spec, dict(dataset.labels))


def test_a_declared_type_that_does_not_fit_is_named_beside_damage(tmp_path: Path) -> None:
    written(tmp_path / "x.ffr", [2], keyed=True)
    with pytest.raises(FormatError, match="field 'numbers' should be one value, but is a list"):
        bushel.open(tmp_path / "x.ffr", spec={"numbers": "int"})
    written(tmp_path / "y.ffr", list(range(COUNT)), keyed=True)
    with pytest.raises(CorruptError, match="record 0"):
        bushel.open(tmp_path / "y.ffr", spec=SPEC)


def test_a_whole_header_is_not_searched_for(tmp_path: Path) -> None:
    path, size = tmp_path / "x.ffr", 1 << 24
    with bushel.Writer(path, SPEC, container="ffrecord", sync=False) as writer:
        for _ in range(4):
            writer.append({"text": "", "numbers": [], "rare": bytes(size // 4)})
    shutil.rmtree(tmp_path / ".bushel")
    damage(path, [3])
    tracemalloc.start()
    with pytest.warns(bushel.errors.DamagedWarning):
        bushel.open(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * size


def test_a_remote_file_with_a_whole_header_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel._dataset.open import damage as damage_of_shards

    upath = pytest.importorskip("upath")
    monkeypatch.setattr(damage_of_shards, "_REMOTE", 100)
    written(tmp_path / "x.ffr", [2], keyed=True)
    remote = upath.UPath(f"memory://{tmp_path.name}-large")
    (remote / "x.ffr").write_bytes((tmp_path / "x.ffr").read_bytes())
    with pytest.warns(bushel.errors.DamagedWarning):
        assert bushel.open(remote, spec=SPEC)["k3"] == {"__key__": "k3", **sample(3)}


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
