"""Views of windows: every window of a sample is a sample."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.counted import counted
from tests.codecs.coded_clips import clip
from tests.storage.objects.range_server import serving

import bushel
from bushel import Dataset

CONTAINERS = ["bag", "tar", "ffrecord", "recordio"]
SPEC = {"steps": "int[]", "poses": "array(float32,-1,2)", "npy": "npy", "label": "int"}
COUNTS = (5, 9, 3, 12)


def write(path: Path, container: str = "bag", counts: tuple[int, ...] = COUNTS, **options: Any) -> Dataset:
    with bushel.Writer(path, SPEC, container=container, sync=False, **options) as writer:
        for number, count in enumerate(counts):
            poses = np.arange(count * 2, dtype=np.float32).reshape(count, 2) + 100 * number
            sample = {"steps": list(range(count)), "poses": poses, "npy": poses.astype(np.int16), "label": number}
            writer.append(sample, key=f"walk{number}")
    return bushel.open(path)


def check(views: Dataset, dataset: Dataset, offsets: list[int]) -> None:
    """Check every sample of a view of windows against the samples that they are of."""
    assert len(views) == len(views.keys) > 0
    for number, sample in enumerate(views):
        own, _, start = sample["__key__"].rpartition("@")
        whole: dict[str, Any] = dataset[own]
        wanted = [int(start) + offset for offset in offsets]
        rows = [min(max(row, 0), len(whole["steps"]) - 1) for row in wanted]
        assert sample["steps"] == [whole["steps"][row] for row in rows]
        np.testing.assert_array_equal(sample["poses"], whole["poses"][rows])
        np.testing.assert_array_equal(sample["npy"], whole["npy"][rows])
        assert sample["label"] == whole["label"]
        if "steps_is_pad" in sample:
            assert sample["steps_is_pad"].tolist() == [row != one for row, one in zip(rows, wanted, strict=True)]
        others: list[dict[str, Any]] = [views[number], views.read([number])[0], views[str(sample["__key__"])]]
        for other in others:
            assert other.keys() == sample.keys()
            np.testing.assert_array_equal(other["poses"], sample["poses"])
        assert views.position(sample["__key__"]) == number


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_window_is_a_sample(tmp_path: Path, container: str) -> None:
    ds = write(tmp_path / "x", container)
    views = ds.windows("steps", 3, hop=2, also=["poses", "npy"])
    assert list(views.keys)[:5] == ["walk0@0", "walk0@2", "walk1@0", "walk1@2", "walk1@4"]
    check(views, ds, [0, 1, 2])
    check(ds.windows("poses", 2, step=2, also=["steps", "npy"], pad=True), ds, [0, 2])
    delta = {"steps": [-1, 0], "poses": [-1, 0], "npy": [-1, 0]}
    check(ds.windows("steps", delta=delta), ds, [-1, 0])
    assert len(ds.windows("steps", delta=delta)) == sum(COUNTS)


@pytest.mark.parametrize("container", ["bag", "tar"])
def test_windows_of_arrays_of_one_length(tmp_path: Path, container: str) -> None:
    """A tar has them as .npy files, whose sizes do not say how many elements they have."""
    with bushel.Writer(tmp_path / "x", {"pose": "array(float32,4)"}, container=container, sync=False) as writer:
        writer.append({"pose": np.arange(4, dtype=np.float32)})
        writer.append({"pose": np.arange(4, 8, dtype=np.float32)})
    views = bushel.open(tmp_path / "x").windows("pose", 2)
    assert [sample["pose"].tolist() for sample in views] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_offsets_of_each_field(tmp_path: Path) -> None:
    views = write(tmp_path / "x").windows("steps", delta={"poses": [0, 1, 2], "npy": [-2]}, hop=4)
    assert views.spec == {
        "steps": "int[]",
        "poses": "array(float32,3,2)",
        "npy": "npy",
        "label": "int",
        "steps_is_pad": "array(bool,1)",
        "poses_is_pad": "array(bool,3)",
        "npy_is_pad": "array(bool,1)",
    }
    last = views["walk0@4"]
    assert last["steps"] == [4]
    assert last["poses_is_pad"].tolist() == [False, True, True]
    np.testing.assert_array_equal(last["poses"], [[8, 9]] * 3)
    assert last["npy"].tolist() == [[4, 5]]
    assert views["walk0@0", ["npy_is_pad"]]["npy_is_pad"].tolist() == [True]


def test_windows_do_what_datasets_do(tmp_path: Path) -> None:
    ds = write(tmp_path / "x")
    views = ds.windows("steps", 3, hop=2, also=["poses", "npy"])
    assert repr(views).startswith("<bushel.Dataset: 12 windows of 3 steps, poses, npy, one every 2, bag")
    assert repr(ds.windows("steps", 4)).split("; ")[-1] == "1 samples are too short for a window>"
    assert list(views.where("label == 1").keys) == ["walk1@0", "walk1@2", "walk1@4", "walk1@6"]
    assert views.column("label").tolist() == [0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3]
    assert views.column("steps.length").tolist() == [3] * 12
    assert list(views[[3, 1]].keys) == ["walk1@2", "walk0@2"]
    assert list(views[views.column("label") == 2].keys) == ["walk2@0"]
    assert list(views.select_keys(["walk3@2", "walk0@0"])[0:1].keys) == ["walk3@2"]
    assert not any(key in views for key in ("walk0@1", "walk0", "walk9@0", "walk0@", "walk0@00", "walk0@6"))
    assert "walk3@2" not in views[:3]
    assert views.available(0) == {"steps": range(3), "poses": range(3), "npy": range(3), "label": True}
    assert (
        views.lengths([0, 4], "steps").tolist()
        == ds[[0, 1]].windows("steps", 3, hop=2).lengths([0, 4], "steps").tolist()
    )
    assert views[2, {"steps": [-1, 0], "poses": slice(1, 2)}]["steps"] == [2, 0]
    assert views.select_fields(["poses"])[2].keys() == {"__key__", "poses"}
    assert [sample["__key__"] for sample in views.filter(lambda sample: sample["steps"][0] == 4)] == [
        "walk1@4",
        "walk3@4",
    ]
    copied = pickle.loads(pickle.dumps(views))
    assert copied.fingerprint == views.fingerprint
    assert copied.fingerprint not in {ds.fingerprint, ds.windows("steps", 3, hop=2).fingerprint, views[1:].fingerprint}
    np.testing.assert_array_equal(copied[4]["poses"], views[4]["poses"])
    parts = views.split(train=0.5, val=0.5, seed=1)
    assert sorted([*parts["train"].keys, *parts["val"].keys]) == sorted(views.keys)
    with pytest.raises(IndexError, match="a window of 3 elements has no elements"):
        views[0, {"steps": [3]}]
    refusing: list[Callable[[], object]] = [
        lambda: views.windows("steps", 2),
        lambda: bushel.join(ds, views, names={"label": "other"}),
        lambda: bushel.diff(views, views),
        views.to_arrow,
    ]
    for refused in refusing:
        with pytest.raises(bushel.errors.UnsupportedError, match="windows"):
            refused()
    with pytest.raises(TypeError, match="read in windows"):
        views.gather([0], "poses")


def test_windows_of_views_and_of_several_datasets(tmp_path: Path) -> None:
    ds, other = write(tmp_path / "x"), write(tmp_path / "y", "tar", (4, 1, 6))
    chosen = ds[[3, 1, 3]].windows("steps", 5, also=["poses", "npy"])
    assert list(chosen.keys) == ["walk3@0", "walk3@5", "walk1@0", "walk3@0", "walk3@5"]
    both = bushel.concat([ds.windows("steps", 3), other.windows("steps", 3)])
    whole = bushel.concat([ds, other]).windows("steps", 3)
    assert list(both.keys) == list(whole.keys)
    assert both.fingerprint == whole.fingerprint
    some = bushel.concat([ds.windows("steps", 3)[2:4], other.windows("steps", 3)[[1, 0]]])
    assert [sample["steps"] for sample in some] == [[3, 4, 5], [6, 7, 8], [0, 1, 2], [0, 1, 2]]
    assert [sample["label"] for sample in some] == [1, 1, 2, 0]
    for unlike in (other, other.windows("steps", 2), other.windows("steps", 3, pad=True)):
        with pytest.raises(bushel.errors.UnsupportedError, match="made in the same way"):
            bushel.concat([ds.windows("steps", 3), unlike])
    mixed = bushel.mix({"a": ds.windows("steps", 3), "b": other.windows("steps", 3)}, weights={"a": 1, "b": 1})
    assert all("@" in key for batch in bushel.Loader(mixed, 4) for key in batch["__key__"])


def test_windows_of_joined_datasets(tmp_path: Path) -> None:
    ds = write(tmp_path / "x")
    with bushel.Writer(tmp_path / "y", {"speed": "array(float32,-1)", "name": "utf8"}, container="bag") as writer:
        for number, count in reversed([*enumerate(COUNTS)][1:]):
            writer.append({"speed": np.arange(count, dtype=np.float32), "name": str(number)}, key=f"walk{number}")
    both = bushel.join(ds, bushel.open(tmp_path / "y"))
    views = both.windows("steps", 2, hop=3, also=["speed", "poses"])
    assert [(sample["__key__"], sample["name"]) for sample in views][:3] == [
        ("walk1@0", "1"),
        ("walk1@3", "1"),
        ("walk1@6", "1"),
    ]
    for sample in [*views, *(sample for batch in bushel.Loader(views, None) for sample in [batch])]:
        assert sample["speed"].tolist() == list(sample["steps"])
        assert (sample["poses"][:, 0] % 100).tolist() == [2 * step for step in sample["steps"]]
    assert views.column("name").tolist()[:2] == ["1", "1"]


def test_batches_resumed_and_shared(tmp_path: Path) -> None:
    ds = write(tmp_path / "x", shard_bytes="200B", counts=(20, 31, 4, 17))
    views = ds.windows("steps", 4, hop=1, also=["poses"])

    def batches(**options: Any) -> list[tuple[list[str], list[Any]]]:
        loader = bushel.Loader(views, 4, shuffle=True, seed=5, fields=["steps", "poses"], **options)
        return [(batch["__key__"], batch["poses"].tolist()) for batch in loader]

    whole = batches()
    assert len(ds.shards) > 1
    assert sorted(key for keys, _ in whole for key in keys) == sorted(views.keys)
    assert batches(threads=0) == batches(processes=2) == whole
    shares = [batches(rank=rank, world_size=2) for rank in range(2)]
    assert sum((keys for pair in zip(*shares, strict=False) for keys, _ in pair), [])[:8] == whole[0][0] + whole[1][0]
    loader = bushel.Loader(views, 4, shuffle=True, seed=5, fields=["steps", "poses"])
    first = [next(iter(loader))["__key__"]]
    resumed = bushel.Loader(pickle.loads(pickle.dumps(views)), 4, shuffle=True, fields=["steps", "poses"])
    resumed.load_state_dict(loader.state_dict())
    assert first + [batch["__key__"] for batch in resumed] == [keys for keys, _ in whole]
    assert loader.who(step=1) == whole[1][0]
    assert loader.when(whole[2][0][1]) == [(0, 2, 0)]
    with pytest.raises(bushel.errors.StateError):
        bushel.Loader(ds.windows("steps", 4, hop=2), 4, shuffle=True).load_state_dict(loader.state_dict())


def test_windows_are_converted(tmp_path: Path) -> None:
    ds = write(tmp_path / "x")
    views = ds.windows("steps", delta={"poses": [0, 1], "npy": [0], "steps": [-1, 0]}, hop=3)
    for container in CONTAINERS:
        bushel.convert(views, tmp_path / container, container=container)
        copied = bushel.open(tmp_path / container)
        assert list(copied.keys) == list(views.keys)
        for one, other in zip(copied, views, strict=True):
            assert one["steps"] == other["steps"]
            for name in ("poses", "npy", "poses_is_pad", "steps_is_pad"):
                np.testing.assert_array_equal(one[name], other[name])
    bushel.convert(views.select_fields(["label", "steps"]), tmp_path / "some", container="tar")
    assert bushel.open(tmp_path / "some")[1] == views.select_fields(["label", "steps"])[1]


def test_clips_and_images_in_windows(tmp_path: Path) -> None:
    _, data = clip("h264 with B-frames")
    frames = [np.full((16, 16, 3), number, np.uint8) for number in range(60)]
    with bushel.Writer(tmp_path / "x", {"video": "mp4", "frames": "png[]"}, container="bag", sync=False) as writer:
        writer.append({"video": data, "frames": frames}, key="a")
    ds = bushel.open(tmp_path / "x")
    whole = ds[0]["video"]
    views = ds.windows("video", 8, hop=7, step=2, also=["frames"])
    [batch] = bushel.Loader(views, len(views))
    assert batch["video"].shape == (len(views), 8, *whole.shape[1:])
    for number in range(len(views)):
        np.testing.assert_array_equal(batch["video"][number], whole[number * 7 : number * 7 + 16 : 2])
        assert [frame[0, 0, 0] for frame in batch["frames"][number]] == list(range(number * 7, number * 7 + 16, 2))
    assert ds.windows("frames", 60)[0].keys() == {"__key__", "video", "frames"}


def test_a_change_of_one_window_changes_no_other(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag") as writer:
        writer.append({"video": clip("h264 with B-frames")[1]})
    views = bushel.open(tmp_path / "x").windows("video", 4, hop=2)
    whole = bushel.open(tmp_path / "x")[0]["video"]
    for chosen in ([0, 4, 8], [1, 0, 2], [3, 3]):  # frames of their own, and frames that two windows share
        samples = views.read(chosen)
        for number, sample in zip(chosen, samples, strict=True):
            np.testing.assert_array_equal(sample["video"], whole[2 * number : 2 * number + 4])
            sample["video"][:] = 0


def test_only_the_windows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x", counts=(50, 40))
    asked = counted(monkeypatch)
    views = bushel.open(tmp_path / "x").windows("poses", 4, hop=3)
    assert asked == []
    views[20, ["poses"]]
    assert sum(length for _, length in asked) == 4 * 2 * 4


def test_windows_of_remote_datasets(tmp_path: Path) -> None:
    ds = write(tmp_path / "x", counts=(300, 40))
    with serving(tmp_path) as server:
        remote = bushel.open(f"{server.url}/x").windows("poses", 3, hop=5, also=["steps"])
        local = ds.windows("poses", 3, hop=5, also=["steps"])
        found = [batch["poses"] for batch in bushel.Loader(remote, 8, shuffle=True)]
        wanted = [batch["poses"] for batch in bushel.Loader(local, 8, shuffle=True)]
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(wanted))


def test_samples_without_keys_or_elements(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "int[]", "b": "int"}, container="tar") as writer:
        for count in (3, 0, 2):
            writer.append({"b": count} | ({"a": list(range(count))} if count else {}), key=str(len(writer)))
    views = bushel.open(tmp_path / "x").windows("a", 2)
    assert [sample["b"] for sample in views] == [3, 2]
    with bushel.Writer(tmp_path / "y", {"a": "int[]"}, container="bag") as writer:
        writer.append({"a": [1, 2, 3]})
    assert list(bushel.open(tmp_path / "y").windows("a", 2, hop=1).keys) == ["0@0", "0@1"]
    empty = bushel.open(tmp_path / "y").windows("a", 4)
    assert len(empty) == 0
    assert list(empty) == list(bushel.Loader(empty, 2)) == []
    bushel.Writer(tmp_path / "z", {"a": "int[]"}, container="bag").close()
    assert len(bushel.open(tmp_path / "z").windows("a", 4)) == 0


@pytest.mark.parametrize(
    ("error", "words", "arguments", "options"),
    [
        (KeyError, "unknown field 'no'", ("no", 2), {}),
        (KeyError, "unknown field 'no'", ("steps", 2), {"also": ["no"]}),
        (TypeError, "needs a sequence, a clip, a sound or an array", ("label", 2), {}),
        (TypeError, "give the length", ("steps",), {}),
        (TypeError, "also= as a list", ("steps", 2), {"also": "poses"}),
        (TypeError, "length='2'", ("steps", "2"), {}),
        (ValueError, "length=0", ("steps", 0), {}),
        (ValueError, "hop=0", ("steps", 2), {"hop": 0}),
        (ValueError, "step=-1", ("steps", 2), {"step": -1}),
        (ValueError, "leave out length", ("steps", 2), {"delta": {"steps": [0]}}),
        (ValueError, "leave out length", ("steps",), {"delta": {"steps": [0]}, "pad": True}),
        (TypeError, "whole numbers", ("steps",), {"delta": {"steps": [0.5]}}),
        (TypeError, "whole numbers", ("steps",), {"delta": {"steps": []}}),
        (TypeError, "fields and offsets", ("steps",), {"delta": [0, 1]}),
        (ValueError, "elements of 'steps' and 1 of 'odd'", ("steps", 2), {"also": ["odd"]}),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, error: type[Exception], words: str, arguments: Any, options: dict[str, Any]
) -> None:
    spec = {"steps": "int[]", "poses": "array(int32,-1)", "label": "int", "odd": "int[]"}
    with bushel.Writer(tmp_path / "x", spec, container="bag") as writer:
        writer.append({"steps": [1, 2], "poses": np.zeros(2, np.int32), "label": 1, "odd": [1]})
    with pytest.raises(error, match=words):
        bushel.open(tmp_path / "x").windows(*arguments, **options)


def test_names_that_are_taken_and_counts_that_are_unknown(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "npy", "a_is_pad": "int"}, container="tar", columns="none") as writer:
        writer.append({"a": np.arange(3), "a_is_pad": 1}, key="0")
    ds = bushel.open(tmp_path / "x")
    with pytest.raises(ValueError, match="a field 'a_is_pad' of their own"):
        ds.windows("a", 2, pad=True)
    with pytest.raises(KeyError, match=r"bushel index .*x --columns a\.length"):
        ds.windows("a", 2)
    subprocess.run([sys.executable, "-m", "bushel", "index", tmp_path / "x", "--columns", "a.length"], check=True)
    assert bushel.open(tmp_path / "x").windows("a", 2, hop=1)[1]["a"].tolist() == [1, 2]


def test_windows_of_sounds(tmp_path: Path) -> None:
    pytest.importorskip("av")
    sounds = [np.sin(np.arange(4000 * count) / 50).astype(np.float32) for count in (1, 2, 3)]
    with bushel.Writer(tmp_path / "sounds", {"audio": "wav(8000)"}, container="tar") as writer:
        for number, sound in enumerate(sounds):
            writer.append({"audio": sound}, key=f"s{number}")
    with pytest.raises(KeyError, match=r"`bushel index .* --columns audio\.length` records that"):
        len(bushel.open(tmp_path / "sounds").windows("audio", 1000))
    ds = bushel.index(tmp_path / "sounds", columns=["auto", "audio.length"])
    assert ds.column("audio.length").tolist() == [4000, 8000, 12000]
    parts = ds.windows("audio", 1000, hop=500)
    assert len(parts) == 7 + 15 + 23
    whole = ds["s2"]["audio"]
    np.testing.assert_array_equal(parts["s2@11000"]["audio"], whole[11000:12000])
    for batch in bushel.Loader(parts, 5, shuffle=True, seed=1):
        for key, values in zip(batch["__key__"], batch["audio"], strict=True):
            name, _, start = key.partition("@")
            np.testing.assert_array_equal(values, ds[name]["audio"][int(start) : int(start) + 1000])
        break
