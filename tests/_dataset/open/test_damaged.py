"""A dataset with a damaged structure opens: the damage is the error of the samples that it touches."""

from __future__ import annotations

import os
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.target import forget
from tests.formats import each_format
from tests.integrity.small import SPEC, key, sample, write
from tests.integrity.spots import COUNT, SPOTS, Generation, damage, undecidable

import bushel
from bushel._dataset.read.shards import OpenShard
from bushel.errors import DamagedWarning, FormatError

SEEDS = int(os.environ.get("DAMAGE_SEEDS", "6"))


def damaged_tar(folder: Path) -> Path:
    """Two shards of four samples; the header of the second member of sample 5 is damaged."""
    write(folder, "tar", count=8, shard_samples=4)
    forget(folder)
    path = folder / "shard-000001.tar"
    data = bytearray(path.read_bytes())
    at = data.index(key(5).encode() + b".label.cls")
    data[at] ^= 1
    path.write_bytes(data)
    return folder


def warned(path: Path, **options: Any) -> tuple[bushel.Dataset, str]:
    with pytest.warns(bushel.errors.DamagedWarning) as caught:
        dataset = bushel.open(path, spec=SPEC, index="memory", **options)
    assert caught[0].filename == __file__
    return dataset, str(caught[0].message)


def test_other_samples_keep_their_positions_and_can_be_read(tmp_path: Path) -> None:
    dataset, message = warned(damaged_tar(tmp_path / "in"))
    assert "shard-000001.tar@" in message
    assert "header checksum is wrong (1 of 4 samples cannot be read)" in message
    assert "bushel verify" in message
    assert "bushel repair" in message
    assert list(dataset.keys) == [key(number) for number in range(8)]
    for number in (0, 4, 6, 7):
        assert dataset[number]["label"] == sample(number)["label"]
        assert dataset[key(number)]["label"] == sample(number)["label"]


def test_every_way_to_read_a_damaged_sample_raises(tmp_path: Path) -> None:
    dataset, _ = warned(damaged_tar(tmp_path / "in"))
    for read in (
        lambda: dataset[5],
        lambda: dataset[key(5)],
        lambda: dataset[5, ["image"]],
        lambda: dataset.read([4, 5]),
        lambda: dataset.read([5], decode=False),
        lambda: dataset.available(5),
        lambda: dataset.read_crop(5, "image", (0, 0, 4, 4)),
        lambda: list(dataset),
    ):
        with pytest.raises(FormatError, match=r"sample 'class 1/005' cannot be read.*bushel repair"):
            read()
    assert [each["label"] for each in dataset.read([4, 6])] == [sample(4)["label"], sample(6)["label"]]


def test_a_copy_in_another_process_has_the_damage(tmp_path: Path) -> None:
    dataset, _ = warned(damaged_tar(tmp_path / "in"))
    copy = pickle.loads(pickle.dumps(dataset))
    with pytest.raises(FormatError, match="cannot be read"):
        copy[5]
    assert copy[6]["label"] == sample(6)["label"]


def test_the_loader_counts_them_as_bad_samples(tmp_path: Path) -> None:
    dataset, _ = warned(damaged_tar(tmp_path / "in"))
    loader = bushel.Loader(dataset.select_fields(["label"]), batch_size=4, on_error="skip", threads=1)
    assert sum(len(batch["label"]) for batch in loader) == 7


def test_damage_can_be_refused(tmp_path: Path) -> None:
    folder = damaged_tar(tmp_path / "in")
    with pytest.raises(FormatError, match="header checksum is wrong"):
        bushel.open(folder, index="memory", on_damage="raise")
    with pytest.raises(FormatError, match="header checksum is wrong"):
        bushel.convert(folder, tmp_path / "out", container="bag")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="on_damage must be"):
        bushel.open(folder, on_damage="skip")  # type: ignore[arg-type]


def test_an_index_of_a_damaged_shard_is_not_stored(tmp_path: Path) -> None:
    folder = damaged_tar(tmp_path / "in")
    with pytest.warns(bushel.errors.DamagedWarning):
        bushel.open(folder).close()
    assert not list(folder.rglob("shard-000001*.safetensors"))
    with pytest.raises(FormatError, match="header checksum is wrong"):
        bushel.index(folder)
    assert not bushel.verify(folder).ok


def test_a_remote_shard_that_is_too_large_to_look_through_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bushel._dataset.open import damage

    upath = pytest.importorskip("upath")
    folder = damaged_tar(tmp_path / "in")
    path = upath.UPath(f"memory://{tmp_path.name}")
    for file in folder.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    dataset, _ = warned(path)
    assert dataset[6]["label"] == sample(6)["label"]
    monkeypatch.setattr(damage, "_REMOTE", 100)
    with pytest.raises(FormatError, match="header checksum is wrong"):
        bushel.open(path, index="memory")


@pytest.mark.parametrize("seed", range(SEEDS))
@each_format
def test_one_wrong_entry(tmp_path: Path, container: str, generation: Generation, seed: int) -> None:
    rng = random.Random(f"open {container} {generation} {seed}")
    source = write(tmp_path / "in", container, generation, COUNT, None)
    with bushel.open(source) as whole:
        spec = dict(whole.spec)
        original = {each.pop("__key__"): each for each in whole.read(range(COUNT), decode=False)}
    spot = rng.choice(SPOTS[container](source))
    before = spot.file.read_bytes()
    data = bytearray(before)
    damage(data, spot, rng)
    spot.file.write_bytes(data)
    forget(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bushel.errors.DamagedWarning)
        dataset = bushel.open(source, index="memory", spec=spec)
    touched = set(spot.samples) | undecidable(spot, before, bytes(data))
    found = []
    for position in range(len(dataset)):
        try:
            [each] = dataset.read([position], decode=False)
        except FormatError:
            continue
        each.pop("__key__")
        found.append(each)
    missing = [number for number in range(COUNT) if number not in touched and original[key(number)] not in found]
    assert missing == [], f"{spot}: {before[spot.start : spot.stop]!r} is now {bytes(data[spot.start : spot.stop])!r}"


def test_a_shard_in_memory_reports_its_damage(tmp_path: Path) -> None:
    dataset, _ = warned(damaged_tar(tmp_path / "in"))
    first, second = dataset.shards
    assert isinstance(second, OpenShard)
    assert first.damage is None
    assert second.damage is not None
    assert (second.damage.unreadable, second.damage.lost) == (1, 0)


@pytest.mark.parametrize("generation", ["B", "C"])
def test_a_shard_whose_spec_names_another_field(tmp_path: Path, generation: Generation) -> None:
    write(tmp_path / "in", "bag", generation, count=6, shard_samples=3)
    forget(tmp_path / "in")
    spec = tmp_path / "in" / "000001" / "spec.json"
    spec.write_text(spec.read_text().replace("label", "lapel"))
    with pytest.raises(FormatError):
        bushel.open(tmp_path / "in", index="memory")
    assert bushel.repair(tmp_path / "in", tmp_path / "out").samples == 3


def test_a_damaged_text_file_has_the_types_of_its_values(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    bushel.index(tmp_path)
    for table in (tmp_path / ".bushel").glob("*.safetensors"):
        table.unlink()
    (tmp_path / "x.jsonl").write_text('{"a": 1.5}\n{"a": 2}\n{"a": 3')
    with pytest.warns(DamagedWarning):
        dataset = bushel.open(tmp_path)
    assert [dataset[position]["a"] for position in range(2)] == [1.5, 2.0]


def test_a_damaged_file_is_read_with_another_name_of_its_field(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.rec", {"data": "bytes"}, sync=False) as writer:
        for number in range(5):
            writer.append({"data": b"abcd%d" % number})
    whole = (tmp_path / "x.rec").read_bytes()
    (tmp_path / "x.rec").write_bytes(whole[:-5])
    with pytest.warns(DamagedWarning):
        dataset = bushel.open(tmp_path / "x.rec", spec={"text": "utf8"})
    assert [dataset[position]["text"] for position in range(4)] == ["abcd0", "abcd1", "abcd2", "abcd3"]
