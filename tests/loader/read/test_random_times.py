"""Random windows by time: clips of any rates, and streams of different rates drawn together."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.robot_streams import write_robot
from tests._dataset.views.timed_clips import FRAMES, RATES, UNEVEN, all_clips, numbers_of

import bushel
from bushel import Dataset
from bushel.errors import SpecError
from bushel.loader import MapView, RandomWindow
from bushel.loader.read.random_window import draw_starts

FIELDS: dict[str, Any] = {
    "rgb": RandomWindow(5, fps=10, times="rgb.time"),
    "depth": RandomWindow(like="rgb", times="depth.time"),
    "joints": RandomWindow(50, like="rgb", times=100.0),
    "label": True,
}


def epochs(dataset: Dataset, fields: Any = FIELDS, **options: Any) -> list[tuple[Any, ...]]:
    loader = bushel.Loader(dataset, 2, fields=fields, **{"shuffle": True, "seed": 3} | options)
    return [
        (batch["__key__"], batch["rgb"], batch["depth"], batch["joints"][:, :, 0].tolist())
        for _ in range(2)
        for batch in loader
    ]


def test_clips_of_many_rates(tmp_path: Path) -> None:
    clips = all_clips()
    with bushel.Writer(tmp_path / "x", {"video": "clip"}, container="bag", sync=False) as writer:
        for name, data in clips.items():
            writer.append({"video": data}, key=name)
    ds = bushel.open(tmp_path / "x")
    times = {f"clip{name}": np.arange(FRAMES) / float(rate) for name, rate in RATES.items()}
    times |= {"uneven": np.array(UNEVEN) / 1000, "late": np.arange(FRAMES) / 30 + 3}
    times["rounded"] = np.rint(np.arange(FRAMES) / 24 * 1000) / 1000
    starts = set()
    for _ in range(3):
        [batch] = bushel.Loader(ds, len(ds), seed=8, fields={"video": RandomWindow(7, fps=5.3)})
        for key, frames in zip(batch["__key__"], batch["video"], strict=True):
            first, *rest = numbers_of(frames)
            own = times[key]
            wanted = own[first] + np.arange(1, 7) / 5.3
            assert rest == [int((own <= instant).sum()) - 1 for instant in wanted]
            last = 2 * own[-1] - own[-2]  # the last frame lasts as long as the one before it
            assert wanted[-1] < last
            starts.add((key, first))
    assert len(starts) == len(ds)  # a new loader begins with the first epoch again
    choices = [int((own + 6 / 5.3 < 2 * own[-1] - own[-2]).sum()) for own in (times[key] for key in ds.keys)]
    drawn = draw_starts(8, 0, np.arange(len(ds)), "video", np.array(choices))
    assert starts == set(zip(ds.keys, drawn.tolist(), strict=True))


def test_streams_are_drawn_together_whoever_loads_them(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x", (60, 90, 75, 45, 60, 84))
    whole = epochs(ds)
    assert epochs(ds, threads=0) == epochs(ds, processes=2) == whole
    for _, rgb, depth, joints in whole:
        for own in zip(rgb, depth, joints, strict=True):
            frames, depths, angles = own
            assert frames == [frames[0] + 3 * number for number in range(5)]
            assert depths == [round((frame / 30 - 0.01) * 15 - 1e-9) for frame in frames]
            first = round(frames[0] / 30 * 100)
            assert angles == list(range(first, first + 50))
    firsts = [
        {key: rgb[0] for keys, batch, *_ in part for key, rgb in zip(keys, batch, strict=True)}
        for part in (whole[:3], whole[3:])
    ]
    assert firsts[0].keys() == firsts[1].keys() == set(ds.keys)
    assert firsts[0] != firsts[1]
    loader = bushel.Loader(ds, 2, fields=FIELDS, shuffle=True, seed=3)
    next(iter(loader))
    resumed = bushel.Loader(ds, 2, fields=FIELDS, shuffle=True, seed=9)
    resumed.load_state_dict(loader.state_dict())
    assert [batch["rgb"] for batch in resumed] == [rgb for _, rgb, *_ in whole[1:3]]
    view = MapView(ds, fields=FIELDS, seed=3)
    assert {view[number]["rgb"][0] for number in range(6)} == set(firsts[0].values())


def test_all_within_one_interval(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x")
    fields = {
        "rgb": RandomWindow(seconds=0.5, times="rgb.time"),
        "depth": RandomWindow(like="rgb", times="depth.time", take="all"),
        "joints": RandomWindow(like="rgb", times=100.0, take="all"),
    }
    for batch in bushel.Loader(ds, 1, fields=fields, seed=2):
        [rgb], [depth], [joints] = batch["rgb"], batch["depth"], batch["joints"]
        begin = rgb[0] / 30
        assert rgb == list(range(rgb[0], rgb[0] + 15))
        assert depth == [number for number in range(100) if begin <= number / 15 + 0.01 < begin + 0.5]
        assert joints.shape == (50, 2)
        assert 0 <= joints[0, 0] / 100 - begin < 0.01
    paired = {"rgb": RandomWindow(8, step=2, times=30), "joints": RandomWindow(like="rgb", times=100)}
    for batch in bushel.Loader(ds, 2, fields=paired):
        for rgb, joints in zip(batch["rgb"], batch["joints"][:, :, 0], strict=True):
            assert joints.tolist() == [round(number / 30 * 100 - 1e-9) for number in rgb]


def test_short_samples(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x", (60, 12))
    fields = {"rgb": RandomWindow(8, fps=8, times=30), "joints": RandomWindow(like="rgb", times=100)}
    with pytest.raises(SpecError, match=r"'ep1' has 12 elements of 'rgb' in 0\.4 seconds.*pad=True"):
        list(bushel.Loader(ds, 2, fields=fields))
    loader = bushel.Loader(ds, 1, fields=fields, on_error="skip")
    assert [batch["__key__"] for batch in loader] == [["ep0"]]
    padded = {name: RandomWindow(8, fps=8, times=rate, pad=True) for name, rate in (("rgb", 30),)}
    [batch] = bushel.Loader(ds[1:], 1, fields=padded)
    assert batch["rgb_is_pad"].tolist() == [[False] * 4 + [True] * 4]
    assert batch["rgb"][0] == [0, 4, 7, 11, 11, 11, 11, 11]


def test_windows_that_are_drawn_apart_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ds = write_robot(tmp_path / "x")
    with caplog.at_level(logging.WARNING, "bushel"):
        bushel.Loader(ds, 1, fields=FIELDS)
        assert not caplog.messages
        bushel.Loader(ds, 1, fields={"rgb": RandomWindow(4), "joints": RandomWindow(4)})
    assert caplog.messages == [
        "the windows of 'rgb' and 'joints' start at random apart from each other: like='rgb' draws them together"
    ]


@pytest.mark.parametrize(
    ("error", "words", "window"),
    [
        (SpecError, "nothing says when", lambda: RandomWindow(seconds=1)),
        (TypeError, "give either the length", lambda: RandomWindow()),
        (TypeError, "either the length", lambda: RandomWindow(4, seconds=1, fps=2)),
        (ValueError, "take='some'", lambda: RandomWindow(4, fps=2, take="some")),
        (ValueError, "fps=0", lambda: RandomWindow(4, fps=0)),
        (KeyError, "unknown field 'clock'", lambda: RandomWindow(4, fps=2, times="clock")),
    ],
)
def test_wrong_windows(tmp_path: Path, error: type[Exception], words: str, window: Any) -> None:
    ds = write_robot(tmp_path / "x")
    with pytest.raises(error, match=words):
        bushel.Loader(ds, 1, fields={"rgb": window()})


def test_followers_with_lengths_of_their_own(tmp_path: Path) -> None:
    ds = write_robot(tmp_path / "x", (60,))
    fields = {"rgb": RandomWindow(4, fps=8, times=30), "depth": RandomWindow(6, like="rgb", times="depth.time")}
    starts = set()
    for seed in range(40):
        [batch] = bushel.Loader(ds, 1, fields=fields, seed=seed)
        [rgb], [depth] = batch["rgb"], batch["depth"]
        near = round((rgb[0] / 30 - 0.01) * 15 - 1e-9)
        assert depth == list(range(near, near + 6))
        starts.add(rgb[0])
    assert max(starts) in (47, 48, 49)  # depth has 30 elements, and the last start is the one at 1.61 s
    with pytest.raises(ValueError, match="'depth' starts with 'rgb': give fps= with seconds="):
        bushel.Loader(ds, 1, fields=fields | {"depth": RandomWindow(seconds=1, like="rgb", times="depth.time")})
