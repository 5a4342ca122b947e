"""Windows by time: clips of any rates, and streams of different rates beside each other."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.robot_streams import TIMES, write_robot
from tests._dataset.views.timed_clips import all_clips, numbers_of

import bushel
from bushel import Dataset
from bushel.errors import SpecError

EIGHT = {  # what a player shows at 0, 1/8 … 7/8 seconds, and at 1 … 15/8
    "clip24": [[0, 3, 6, 9, 12, 15, 18, 21], [24, 27, 30, 33, 36, 39, 42, 45]],
    "clip25": [[0, 3, 6, 9, 12, 15, 18, 21], [25, 28, 31, 34, 37, 40, 43, 46]],
    "clip29.97": [[0, 3, 7, 11, 14, 18, 22, 26], [29, 33, 37, 41, 44, 48, 52, 56]],
    "clip30": [[0, 3, 7, 11, 15, 18, 22, 26], [30, 33, 37, 41, 45, 48, 52, 56]],
    "uneven": [[0, 3, 6, 9, 13, 15, 19, 21], [26, 28, 32, 35, 39, 41, 45, 48]],
    "late": [[0, 3, 7, 11, 15, 18, 22, 26], [30, 33, 37, 41, 45, 48, 52, 56]],
    "rounded": [[0, 3, 6, 9, 12, 15, 18, 21], [24, 27, 30, 33, 36, 39, 42, 45]],
}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset of clips of many rates."""
    path = tmp_path_factory.mktemp("clips") / "clips"
    with bushel.Writer(path, {"video": "clip"}, container="bag", sync=False) as writer:
        for name, data in all_clips().items():
            writer.append({"video": data}, key=name)
    return bushel.open(path)


def test_frames_are_those_that_a_player_shows(clips: Dataset) -> None:
    windows = clips.windows("video", seconds=1, fps=8)
    assert [key for key in windows.keys if key.startswith("clip24")] == ["clip24@0s", "clip24@1s"]
    shown: dict[str, list[list[int]]] = {}
    for sample in windows:
        shown.setdefault(sample["__key__"].partition("@")[0], []).append(numbers_of(sample["video"]))
    assert {name: numbers[:2] for name, numbers in shown.items()} == EIGHT
    assert repr(windows).startswith("<bushel.Dataset: 14 windows of 8 video, one every 1 seconds, bag")
    [batch] = bushel.Loader(windows, len(windows))
    assert batch["video"].shape == (14, 8, 32, 48, 3)
    assert windows["clip30@1s"]["__key__"] == "clip30@1s"
    assert not any(f"clip30@{mark}" in windows for mark in ("1", "1.5s", "01s", "1.0s", "-1s", "9s", "nans", "1e0s"))


def test_hops_and_rates_above_the_clip(clips: Dataset) -> None:
    windows = clips.windows("video", 4, fps=60, hop=0.75)
    assert list(windows.keys)[:4] == ["clip24@0s", "clip24@0.75s", "clip24@1.5s", "clip24@2.25s"]
    assert numbers_of(windows["clip24@0.75s"]["video"]) == [18, 18, 18, 19]
    assert numbers_of(windows["clip30@0.75s"]["video"]) == [22, 23, 23, 24]
    whole = clips.windows("video", seconds=0.5)
    assert [numbers_of(whole[f"{name}@0.5s"]["video"]) for name in ("clip24", "clip30")] == [
        list(range(12, 24)),
        list(range(15, 30)),
    ]
    assert whole.spec == clips.spec
    assert whole.available("clip24@0.5s") == {"video": True}


def test_frames_equal_those_of_torchcodec(clips: Dataset) -> None:
    try:
        from torchcodec.decoders import VideoDecoder
        from torchcodec.samplers import clips_at_regular_timestamps
    except (ImportError, OSError, RuntimeError):
        pytest.skip("torchcodec is not installed, or finds no FFmpeg")
    compared = 0
    for count, fps, hop in ((8, 8, 1.0), (6, 11, 0.4), (5, 29.97, 0.5), (3, 3.7, 1 / 3)):
        windows = clips.windows("video", count, fps=fps, hop=hop)
        for name, data in all_clips().items():
            decoder = VideoDecoder(data)
            times = [decoder.get_frame_at(number).pts_seconds for number in range(len(decoder))]
            theirs = clips_at_regular_timestamps(
                decoder,
                seconds_between_clip_starts=hop,
                num_frames_per_clip=count,
                seconds_between_frames=1 / fps,
            ).data.permute(0, 1, 3, 4, 2)
            ours = [sample["video"] for sample in windows if sample["__key__"].startswith(f"{name}@")]
            assert len(ours) == len(theirs)
            unit = 0.0006 if name in ("uneven", "rounded") else 0.0001
            for number, (our, their) in enumerate(zip(ours, theirs.numpy(), strict=True)):
                instants = times[0] + number * hop + np.arange(count) / fps
                # at a time that is rounded to that of a frame, theirs may be the frame before
                clear = [all(not 0 < time - instant < unit for time in times) for instant in instants]
                assert np.array(numbers_of(our))[clear].tolist() == np.array(numbers_of(their))[clear].tolist()
                compared += sum(clear)
    assert compared > 300


def test_windows_that_reach_beyond_the_end(clips: Dataset) -> None:
    windows = clips.select_keys(["clip30"])
    assert len(windows.windows("video", seconds=3, fps=8)) == 0
    padded = windows.windows("video", seconds=1.5, fps=8, pad=True)
    assert list(padded.keys) == ["clip30@0s", "clip30@1.5s"]
    assert padded[1]["video_is_pad"].tolist() == [False] * 4 + [True] * 8
    assert numbers_of(padded[1]["video"]) == [45, 48, 52, 56] + [59] * 8


def test_streams_of_different_rates(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x")
    near = ds.windows("rgb", 5, fps=10, hop=0.5, times=TIMES)
    assert list(near.keys)[:4] == ["ep0@0s", "ep0@0.5s", "ep0@1s", "ep0@1.5s"]
    one = near["ep0@0.5s"]
    assert one["rgb"] == [15, 18, 21, 24, 27]
    assert one["depth"] == [7, 9, 10, 12, 13]  # of 0.5 0.6 … s; at 0.01 + k / 15 s
    assert one["joints"][:, 0].tolist() == [50, 60, 70, 80, 90]
    assert near.spec["joints"] == "array(float32,5,2)"
    # all that begin in the interval of half a second
    whole = ds.windows("rgb", seconds=0.5, times=TIMES, take="all")
    two = whole["ep1@1s"]
    assert two["rgb"] == list(range(30, 45))
    assert two["depth"] == list(range(15, 23))
    assert two["joints"][:, 0].tolist() == list(range(100, 150))
    assert whole.spec["joints"] == "array(float32,50,2)"
    mixed = ds.windows("rgb", 5, fps=10, times=TIMES, take={"joints": "all"})
    assert mixed["ep0@0.5s"]["joints"].shape == (50, 2)
    assert mixed["ep0@0.5s"]["depth"] == [7, 9, 10, 12, 13]
    assert mixed.column("joints.length").tolist() == [50] * len(mixed)
    assert whole.column("rgb.length").tolist() == [15] * len(whole)


def test_elements_with_streams_at_their_times(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x")
    views = ds.windows("rgb", 4, step=3, hop=10, times=TIMES)
    assert list(views.keys)[:3] == ["ep0@0", "ep0@10", "ep0@20"]
    sample = views["ep0@10"]
    assert sample["rgb"] == [10, 13, 16, 19]
    assert sample["joints"][:, 0].tolist() == [33, 43, 53, 63]
    assert sample["depth"] == [5, 6, 8, 9]
    assert views.position("ep1@20") == [*views.keys].index("ep1@20")


def test_neighbours_at_distances_in_seconds(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x")
    views = ds.windows("rgb", delta={"rgb": [-0.1, 0], "joints": [0, 0.01, 0.02]}, times=TIMES)
    assert list(views.keys)[:2] == ["ep0@0", "ep0@1"]
    sample = views["ep0@30"]
    assert sample["rgb"] == [27, 30]
    assert sample["joints"][:, 0].tolist() == [100, 101, 102]
    assert not sample["joints_is_pad"].any()
    first = views[0]
    assert first["rgb"] == [0, 0]
    assert first["rgb_is_pad"].tolist() == [True, False]
    with pytest.raises(ValueError, match=r"'joints' asks for 0\.005 seconds, but frames are 0\.01 seconds apart"):
        ds.windows("joints", delta={"joints": [0.005]}, times=100)
    assert ds.windows("joints", delta={"joints": [-0.01, 0]}, times=100)[5]["joints"][:, 0].tolist() == [4, 5]


def test_windows_are_where_all_streams_are(tmp_path: Path) -> None:
    late = {"depth": [0, 1, 2, 3], "depth.time": np.array([0.5, 0.7, 0.9, 1.1], np.float32)}
    ds = write_robot(tmp_path / "x", (60,), **late)
    views = ds.windows("rgb", seconds=0.2, fps=10, times=TIMES)
    assert len(views) == 5  # from 0.4 s on, half a distance before the first depth, until 1.4
    assert views[0]["depth"] == [0, 0]
    assert views[0]["rgb"] == [12, 15]
    padded = ds.windows("rgb", seconds=0.5, fps=10, times=TIMES, pad=True)
    assert padded[0]["depth_is_pad"].tolist() == [True] * 4 + [False]
    unlike = write_robot(tmp_path / "y", (60,), **{"depth.time": np.arange(30, dtype=np.float32) + 1e4})
    for pad in (False, True):
        with pytest.raises(
            SpecError, match=r"sample 'ep0' has no time that all fields have: 'rgb' 0 to 2 s, 'depth' 10000"
        ):
            unlike.windows("rgb", seconds=1, fps=10, times=TIMES, pad=pad)


@pytest.mark.parametrize(
    ("words", "stamps"),
    [
        ("has 2 time stamps in 'rgb.time' and 60 elements of 'rgb'", [0.0, 0.1]),
        ("has no time stamps in 'rgb.time'", []),
        ("that is negative or not a number", [-0.5, *np.arange(59.0).tolist()]),
        ("that is negative or not a number", [*np.arange(59.0).tolist(), float("nan")]),
        ("do not ascend: number 30 is not later", [*np.arange(30.0).tolist(), *np.arange(30.0).tolist()]),
    ],
)
def test_wrong_time_stamps(tmp_path: Path, words: str, stamps: list[float]) -> None:
    ds = write_robot(tmp_path / "x", (60,), **{"rgb.time": stamps})
    with pytest.raises(SpecError, match=f"sample 'ep0' .*{words}"):
        ds.windows("rgb", seconds=1, fps=5, times=TIMES)


def test_missing_streams_and_empty_ones(tmp_path: Path) -> None:
    spec = {"rgb": "int[]", "joints": "array(float32,-1)", "stamps": "array(float64,-1)"}
    with bushel.Writer(tmp_path / "x", spec, container="tar", sync=False) as writer:
        writer.append({"rgb": list(range(20)), "joints": np.arange(100, dtype=np.float32)}, key="a")
        writer.append({"rgb": [], "joints": np.zeros(0, np.float32)}, key="empty")
        writer.append({"rgb": list(range(20))}, key="lacking")
    ds = bushel.open(tmp_path / "x")
    assert list(ds.windows("rgb", seconds=1, times={"rgb": 10, "joints": 50}).keys) == ["a@0s", "a@1s"]
    with pytest.raises(SpecError, match="sample 'a' has no time stamps in 'stamps'"):
        ds.windows("rgb", seconds=1, times={"rgb": "stamps"})
    assert len(ds[:0].windows("rgb", seconds=1, times=10)) == 0


def test_dates_as_time_stamps(tmp_path: Path) -> None:
    spec = {"value": "int[]", "when": "datetime64(ms)[]", "whole": "array(int64,-1)"}
    with bushel.Writer(tmp_path / "x", spec, container="bag", sync=False) as writer:
        when = np.datetime64("2026-11-28T12:00:00.000") + np.arange(30) * np.timedelta64(100, "ms")
        writer.append({"value": list(range(30)), "when": [*when], "whole": np.arange(30)}, key="a")
    ds = bushel.open(tmp_path / "x")
    assert ds.windows("value", 4, fps=5, times={"value": "when"})["a@0.8s"]["value"] == [8, 10, 12, 14]
    with pytest.raises(SpecError, match="seconds as real numbers, or datetime64"):
        ds.windows("value", 4, fps=5, times={"value": "whole"})


def test_loaded_resumed_shared_and_joined(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x", (60, 90, 75))
    views = ds.windows("rgb", 5, fps=10, hop=0.2, times=TIMES)

    def batches(**options: Any) -> list[tuple[list[str], list[Any]]]:
        loader = bushel.Loader(views, 4, shuffle=True, seed=5, fields=["rgb", "joints"], **options)
        return [(batch["__key__"], batch["joints"].tolist()) for batch in loader]

    whole = batches()
    assert sorted(key for keys, _ in whole for key in keys) == sorted(views.keys)
    assert batches(threads=0) == batches(processes=2) == whole
    loader = bushel.Loader(views, 4, shuffle=True, seed=5, fields=["rgb", "joints"])
    first = [next(iter(loader))["__key__"]]
    resumed = bushel.Loader(pickle.loads(pickle.dumps(views)), 4, shuffle=True, fields=["rgb", "joints"])
    resumed.load_state_dict(loader.state_dict())
    assert first + [batch["__key__"] for batch in resumed] == [keys for keys, _ in whole]
    others = {ds.windows("rgb", 5, fps=10, hop=0.2, times=TIMES, take=take).fingerprint for take in (None, "all")}
    assert len({views.fingerprint, *others}) == 2
    other = write_robot(tmp_path / "y", (60,))
    both = bushel.concat([views, other.windows("rgb", 5, fps=10, hop=0.2, times=TIMES)])
    assert both[len(views)]["joints"][:, 0].tolist() == views[0]["joints"][:, 0].tolist()
    with pytest.raises(bushel.errors.UnsupportedError, match="made in the same way"):
        bushel.concat([views, other.windows("rgb", 5, fps=9, hop=0.2, times=TIMES)])
    joined = bushel.join(ds.select_fields(["rgb", "rgb.time"]), ds.select_fields(["joints"]))
    sample = joined.windows("rgb", 5, fps=10, times={"rgb": "rgb.time", "joints": 100})["ep1@0.5s"]
    assert sample["joints"][:, 0].tolist() == [50, 60, 70, 80, 90]
    assert list(views.where("label == 1").keys)[0] == "ep1@0s"
    bushel.convert(views, tmp_path / "copy", container="bag")
    np.testing.assert_array_equal(bushel.open(tmp_path / "copy")["ep1@0.4s"]["joints"], views["ep1@0.4s"]["joints"])


@pytest.mark.parametrize(
    ("error", "words", "arguments", "options"),
    [
        (SpecError, "nothing says when the elements of 'rgb' are", ("rgb",), {"seconds": 1}),
        (KeyError, "unknown field 'clock'", ("rgb",), {"seconds": 1, "times": {"rgb": "clock"}}),
        (KeyError, "unknown field 'no'", ("rgb",), {"seconds": 1, "times": {"rgb": 3, "no": 1}}),
        (TypeError, "needs a sequence", ("rgb",), {"seconds": 1, "times": {"rgb": "label"}}),
        (ValueError, "times of 'rgb'=0", ("rgb",), {"seconds": 1, "times": {"rgb": 0}}),
        (ValueError, "fps=-1", ("rgb", 3), {"fps": -1, "times": TIMES}),
        (ValueError, "seconds=inf", ("rgb",), {"seconds": float("inf"), "times": TIMES}),
        (ValueError, "no window would have one", ("joints",), {"seconds": 0.001, "times": TIMES}),
        (TypeError, "seconds=True", ("rgb",), {"seconds": True, "times": TIMES}),
        (ValueError, "hop=0", ("rgb",), {"seconds": 1, "hop": 0, "times": TIMES}),
        (TypeError, "either the length of windows or seconds=", ("rgb", 3), {"seconds": 1, "fps": 3, "times": TIMES}),
        (TypeError, "either the length of windows or seconds=", ("rgb",), {"fps": 3, "times": TIMES}),
        (TypeError, "give either the length of windows", ("rgb",), {"times": TIMES}),
        (KeyError, "take= names 'joint'", ("rgb", 3), {"fps": 3, "times": TIMES, "take": {"joint": "all"}}),
        (TypeError, "also= as a list", ("rgb", 3), {"fps": 3, "times": TIMES, "also": "depth"}),
        (ValueError, "leave out step=", ("rgb", 3), {"fps": 3, "times": TIMES, "step": 2}),
        (ValueError, "length=0", ("rgb",), {"seconds": 0.1, "fps": 3, "times": TIMES}),
        (ValueError, "take='some'", ("rgb", 3), {"fps": 3, "times": TIMES, "take": "some"}),
        (ValueError, "leave out length, seconds=", ("rgb",), {"delta": {"rgb": [0]}, "seconds": 1, "times": TIMES}),
        (TypeError, "expected seconds", ("rgb",), {"delta": {"rgb": ["now"]}, "times": TIMES}),
        (TypeError, "expected seconds", ("rgb",), {"delta": {"rgb": [10**400]}, "times": TIMES}),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, error: type[Exception], words: str, arguments: Any, options: dict[str, Any]
) -> None:
    ds = write_robot(tmp_path / "x", (30,))
    with pytest.raises(error, match=words):
        ds.windows(*arguments, **options)
