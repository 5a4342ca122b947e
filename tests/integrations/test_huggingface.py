"""Hugging Face datasets, both ways, with the real package."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.codecs.sounds import encoded
from tests.integrations.samples import NAMES, write
from tests.sources.folders import jpeg

import bushel

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def test_to_hf_keeps_bytes_names_and_keys(tmp_path: Path) -> None:
    ds = write(tmp_path / "train")
    found = bushel.to_hf(ds)
    assert found.column_names == ["__key__", "image", "label", "caption", "meta", "box", "tags"]
    assert found.features["label"].names == list(NAMES["label"])
    assert found["__key__"][:] == [f"k{number}" for number in range(10)]
    assert (found[4]["label"], found[4]["caption"], found[4]["meta"]) == (1, "photo 4", '{"number": 4}')
    assert (found[4]["box"], found[4]["tags"]) == ([4.0] * 4, ["a"])
    assert isinstance(found[4]["image"], Image.Image)
    stored = found.cast_column("image", datasets.Image(decode=False))
    assert [row["image"]["bytes"] for row in stored] == [jpeg(number) for number in range(10)]


def test_the_second_call_reads_the_cache(tmp_path: Path) -> None:
    ds = write(tmp_path / "train")
    first = bushel.to_hf(ds)
    assert [file["filename"] for file in bushel.to_hf(ds).cache_files] == [
        each["filename"] for each in first.cache_files
    ]
    assert len(bushel.to_hf(ds[2:5])) == 3


@pytest.mark.parametrize("checksums", [True, False])
def test_other_values_of_the_same_sizes_are_not_taken_from_the_cache(tmp_path: Path, checksums: bool) -> None:
    for folder, first in (("a", 0), ("b", 500), ("a", 900)):
        path = tmp_path / folder
        with bushel.Writer(path, {"x": "i64"}, container="bag", mode="overwrite") as writer:
            for number in range(3):
                writer.append({"x": first + number}, key=str(number))
        if not checksums:
            for sidecars in path.rglob(".bushel"):
                shutil.rmtree(sidecars)
        ds = bushel.open(path) if checksums else bushel.open(path, index="memory")
        assert ds.info.checksums == checksums
        values = [sample["x"] for sample in ds]
        assert values == [first, first + 1, first + 2]
        assert bushel.to_hf(ds)["x"][:] == values


def test_a_stream_can_be_split_between_ranks_and_resumed(tmp_path: Path) -> None:
    ds = write(tmp_path / "train", 130).select_fields(["label"])
    stream = bushel.to_hf(ds, streaming=True)
    assert stream.num_shards == 2
    keys = [row["__key__"] for row in stream]
    assert keys == list(ds.keys)
    parts = [[row["__key__"] for row in stream.shard(2, rank)] for rank in range(2)]
    assert sorted(sum(parts, [])) == sorted(keys)
    rows = iter(stream)
    seen = [next(rows)["__key__"] for _ in range(70)]
    state = stream.state_dict()
    other = bushel.to_hf(ds, streaming=True)
    other.load_state_dict(state)
    assert seen + [row["__key__"] for row in other] == keys


@pytest.mark.parametrize("container", ["bag", "tar"])
def test_there_and_back(tmp_path: Path, container: str) -> None:
    ds = write(tmp_path / "train")
    bushel.to_hf(ds).to_parquet(tmp_path / "there.parquet")
    done = bushel.pack(tmp_path / "there.parquet", tmp_path / "again", container=container)
    assert done.samples == 10
    again = bushel.open(tmp_path / "again")
    assert again.labels["label"] == NAMES["label"]
    assert list(again.keys) == list(ds.keys)
    assert bytes(again.read([7], ["image"], decode=False)[0]["image"]) == jpeg(7)
    assert again[7]["caption"] == "photo 7"


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"thing": "msgpack"}, container="bag") as writer:
        writer.append({"thing": {"a": [1]}})
    with pytest.raises(bushel.errors.SpecError, match="field 'thing' has the type 'msgpack'"):
        bushel.to_hf(bushel.open(tmp_path / "x"))


def test_decoded_images_are_equal(tmp_path: Path) -> None:
    ds = write(tmp_path / "train", 2)
    for row, sample in zip(bushel.to_hf(ds, streaming=True), ds, strict=True):
        assert np.array_equal(
            np.array(row["image"].convert("RGB")), np.array(Image.open(io.BytesIO(jpeg(int(row["__key__"][1:])))))
        )
        assert sample["image"].shape == np.array(row["image"]).shape


def sounds(path: Path) -> bushel.Dataset:
    with bushel.Writer(path, {"audio": "mp3", "label": "int", "takes": "wav[]"}, container="bag") as writer:
        for number in range(4):
            takes = [encoded("wav")] * number
            writer.append({"audio": encoded("mp3"), "label": number, "takes": takes}, key=f"k{number}")
    return bushel.open(path)


def test_sounds_are_audio(tmp_path: Path) -> None:
    pytest.importorskip("av")
    ds = sounds(tmp_path / "sounds")
    found = bushel.to_hf(ds)
    assert found.features["audio"] == datasets.Audio()
    assert found.features["takes"] == datasets.List(datasets.Audio())
    stored = found.cast_column("audio", datasets.Audio(decode=False))
    stored = stored.cast_column("takes", datasets.List(datasets.Audio(decode=False)))
    for number, row in enumerate(stored):
        assert (row["label"], row["audio"]["bytes"]) == (number, encoded("mp3"))
        assert [take["bytes"] for take in row["takes"]] == [encoded("wav")] * number
    stream = bushel.to_hf(ds, streaming=True)
    assert stream.features == found.features


def test_sounds_come_back(tmp_path: Path) -> None:
    pytest.importorskip("av")
    found = bushel.to_hf(sounds(tmp_path / "sounds").select_fields(["audio", "label"]))
    found.to_parquet(tmp_path / "there.parquet")
    bushel.pack(tmp_path / "there.parquet", tmp_path / "back", container="tar")
    back = bushel.open(tmp_path / "back")
    assert [each["audio"] for each in back.read(range(4), decode=False)] == [encoded("mp3")] * 4


def test_lists_of_classes_keep_their_names(tmp_path: Path) -> None:
    names = ["cat", "dog"]
    features = datasets.Features({"kinds": datasets.List(datasets.ClassLabel(names=names))})
    datasets.Dataset.from_dict({"kinds": [[0, 1], [1]]}, features=features).to_parquet(tmp_path / "x.parquet")
    found = bushel.open(tmp_path / "x.parquet", index="memory")
    assert found.labels == {"kinds": tuple(names)}
    assert bushel.to_hf(found).features["kinds"] == features["kinds"]
