"""The loader over real datasets in files."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import concat
from bushel.errors import CodecError, CorruptError
from bushel.loader import Exact, Loader
from bushel.transforms import CenterCrop, EachFrame

SPEC = {"x": "array", "label": "int", "caption": "utf8"}


def write(path: Path, container: str, samples: int = 30) -> bushel.Dataset:
    with bushel.Writer(path, SPEC, container=container, shard_samples=8) as writer:
        for i in range(samples):
            writer.append({"x": np.full(4, i, np.float32), "label": i, "caption": f"no. {i}"}, key=f"k{i:03}")
    return bushel.open(path)


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
def test_every_container_gives_the_same_epochs(tmp_path: Path, container: str) -> None:
    dataset = write(tmp_path / "data", container)
    loader = Loader(dataset, 7, shuffle=True, seed=1, threads=2)
    for epoch in range(2):
        order = Exact(30, 1).take(epoch, np.arange(30)).tolist()
        batches = list(loader)
        assert sum((batch["__key__"] for batch in batches), []) == [f"k{i:03}" for i in order]
        assert np.concatenate([batch["label"] for batch in batches]).tolist() == order
        assert np.concatenate([batch["x"] for batch in batches])[:, 3].tolist() == order
        assert sum((batch["caption"] for batch in batches), []) == [f"no. {i}" for i in order]


def test_views_are_loaded_and_have_a_fingerprint_of_their_own(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", "tar")
    view = dataset[10:20].select_fields(["label"])
    loader = Loader(view, 4, threads=2)
    assert [batch["label"].tolist() for batch in loader] == [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    for other in (view, dataset[[3, 1, 2]], dataset[list(range(30))]):
        with pytest.raises(bushel.errors.StateError, match="another dataset"):
            Loader(other, 4).load_state_dict(Loader(dataset[:2], 4).state_dict())
    with pytest.raises(bushel.errors.StateError, match="another dataset"):
        loader.load_state_dict(Loader(dataset, 4).state_dict())


def test_damage_is_found_named_and_replaced(tmp_path: Path) -> None:
    write(tmp_path / "data", "tar").close()
    dataset = bushel.open(tmp_path / "data", verify=True)
    file, offset = dataset.location(12, "caption")
    times = os.stat(file)
    with Path(file).open("r+b") as damaged:
        damaged.seek(offset)
        damaged.write(b"N")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a disk that fails would leave them
    with pytest.raises(CorruptError) as caught:
        list(Loader(dataset, 5))
    assert caught.value.key == "k012"
    loader = Loader(dataset, 5, on_error="replace")
    labels = [batch["label"].tolist() for batch in loader]
    assert labels[2] == [10, 11, 13, 13, 14]
    [bad] = loader.errors
    assert (bad.sample, bad.key, bad.field, bad.file, bad.offset) == (12, "k012", "caption", file, offset)
    assert "CorruptError" in bad.cause


def test_gulp_sequences_are_loaded_and_fused(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"frames": "jpg[]"}, container="gulp", shard_samples=4) as writer:
        for i in range(10):
            writer.append({"frames": [np.full((32, 48, 3), 20 * i, np.uint8)] * (1 + i % 3)}, key=f"clip{i}")
    dataset = bushel.open(tmp_path / "data")
    steps = [EachFrame([CenterCrop(16)])]
    loader = Loader(dataset, 4, shuffle=True, seed=2, transforms={"frames": steps}, collate={"frames": "list"})
    order = Exact(10, 2).take(0, np.arange(10)).tolist()
    clips = [clip for batch in loader for clip in batch["frames"]]
    assert [len(clip) for clip in clips] == [1 + i % 3 for i in order]
    assert [clip[0].shape for clip in clips] == [(16, 16, 3)] * 10
    assert [abs(int(clip[-1][5, 5, 0]) - 20 * i) <= 2 for clip, i in zip(clips, order, strict=True)] == [True] * 10


def darker(frames: list[np.ndarray]) -> list[np.ndarray]:
    return [frame // 2 for frame in frames]


@pytest.mark.parametrize("threads", [0, 2])
def test_transforms_after_those_of_each_frame_are_in_stacked_batches(tmp_path: Path, threads: int) -> None:
    with bushel.Writer(tmp_path / "data", {"frames": "jpg[]"}, container="tar") as writer:
        for i in range(8):
            writer.append({"frames": [np.full((32, 48, 3), 20 * i, np.uint8)] * 2}, key=f"clip{i}")
    dataset = bushel.open(tmp_path / "data")
    batches = {}
    for rule in ("stack", "list"):
        steps: list[Any] = [EachFrame([CenterCrop(16)]), darker]
        loader = Loader(dataset, 4, threads=threads, transforms={"frames": steps}, collate={"frames": rule})
        batches[rule] = np.concatenate([np.array(batch["frames"]) for batch in loader])
    assert batches["stack"].max() <= 72
    assert np.array_equal(batches["stack"], batches["list"])


def test_samples_are_decoded_together_as_one_by_one(tmp_path: Path) -> None:
    dataset = concat([write(tmp_path / "one", "tar"), write(tmp_path / "two", "recordio")])[::3]
    stored = dataset.read(range(len(dataset)), decode=False)
    expected = [dataset[position] for position in range(len(dataset))]
    decoded = dataset.decode_samples(stored, range(len(dataset)))
    assert [sample["label"] for sample in decoded] == [sample["label"] for sample in expected]
    assert [sample["x"].tolist() for sample in decoded] == [sample["x"].tolist() for sample in expected]
    assert [dataset.decode_sample(one, p)["caption"] for p, one in enumerate(stored)] == [
        sample["caption"] for sample in expected
    ]
    with pytest.raises(CodecError, match="field 'label'"):
        dataset.decode_samples([{"__key__": "k", "label": b"x"}], [1])
    left = dataset.decode_samples([{"__key__": "k", "label": b"7", "picture": b"?"}], [1], encoded=["label", "picture"])
    assert left[0]["label"] == 7  # no image
    assert left[0]["picture"] == b"?"


def test_a_loader_asks_for_no_fingerprint_until_it_has_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = write(tmp_path / "data", "tar")[::2]  # of a view, it is a hash of all positions
    monkeypatch.setattr(bushel.Dataset, "fingerprint", property(lambda self: pytest.fail("it was made")))
    assert len(list(Loader(view, 5))) == 3
    with pytest.raises(pytest.fail.Exception):
        Loader(view, 5).state_dict()
