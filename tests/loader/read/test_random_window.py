"""Random windows: one of each sample and epoch, whatever loads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from tests.codecs.coded_clips import FRAMES, clip

import bushel
from bushel import Dataset
from bushel._runtime.order import derive
from bushel.loader import MapView, RandomWindow
from bushel.loader.read.random_window import draw_starts

ORDER = Path(__file__).parents[3] / "docs" / "order.md"
COUNTS = (20, 9, 31, 8, 14, 25)
FIELDS: dict[str, Any] = {"steps": RandomWindow(4, step=2), "poses": RandomWindow(7, like="steps"), "label": True}


def write(path: Path, container: str = "bag", counts: tuple[int, ...] = COUNTS) -> Dataset:
    spec = {"steps": "int[]", "poses": "array(int32,-1,2)", "label": "int"}
    with bushel.Writer(path, spec, container=container, sync=False) as writer:
        for number, count in enumerate(counts):
            poses = np.arange(count, dtype=np.int32)[:, None].repeat(2, 1)
            writer.append({"steps": list(range(count)), "poses": poses, "label": number}, key=str(number))
    return bushel.open(path)


def epochs(dataset: Dataset, fields: Any = FIELDS, **options: Any) -> list[tuple[list[str], list[list[int]]]]:
    loader = bushel.Loader(dataset, 2, fields=fields, **{"shuffle": True, "seed": 3} | options)
    return [(batch["__key__"], batch["poses"][:, :, 0].tolist()) for _ in range(2) for batch in loader]


def test_the_published_starts() -> None:
    vectors = [json.loads(line) for line in ORDER.read_text("utf-8").splitlines() if line.startswith('{"window"')]
    assert len(vectors) == 4
    for vector in vectors:
        samples, choices = (np.array(vector[name], np.int64) for name in ("samples", "choices"))
        found = draw_starts(vector["seed"], vector["epoch"], samples, vector["window"], choices)
        assert found.tolist() == vector["starts"]
        key = derive(1, 10, vector["seed"], vector["epoch"], crc32(vector["window"].encode()))
        for sample, many, start in zip(vector["samples"], vector["choices"], vector["starts"], strict=True):
            word = (key + (sample + 1) * 0x9E3779B97F4A7C15) % 2**64
            word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
            assert ((word ^ (word >> 31)) >> 32) * many >> 32 == start


def test_starts_are_equally_likely() -> None:
    found = draw_starts(1, 2, np.arange(100_000), "frames", np.full(100_000, 10))
    assert (abs(np.bincount(found, minlength=10) - 10_000) < 500).all()
    other = draw_starts(1, 3, np.arange(100_000), "frames", np.full(100_000, 10))
    assert abs((found == other).mean() - 0.1) < 0.01


@pytest.mark.parametrize("container", ["bag", "tar", "recordio"])
def test_windows_do_not_depend_on_who_loads_them(tmp_path: Path, container: str) -> None:
    ds = write(tmp_path / "x", container)
    whole = epochs(ds)
    assert epochs(ds, threads=0) == epochs(ds, processes=2) == whole
    starts = {key: rows[0] for keys, windows in whole[:3] for key, rows in zip(keys, windows, strict=True)}
    later = {key: rows[0] for keys, windows in whole[3:] for key, rows in zip(keys, windows, strict=True)}
    assert starts.keys() == later.keys() == {str(number) for number in range(6)}
    assert starts != later
    assert all(rows == list(range(rows[0], rows[0] + 7)) for _, windows in whole for rows in windows)
    wanted = draw_starts(3, 0, np.arange(6), "steps", np.array(COUNTS) - 6).tolist()
    assert starts == {str(number): start for number, start in enumerate(wanted)}
    for batch in bushel.Loader(ds, 2, fields=FIELDS):
        assert [rows[0] for rows in batch["steps"]] == batch["poses"][:, 0, 0].tolist()
        assert [len(rows) for rows in batch["steps"]] == [4, 4]


def test_ranks_and_resuming(tmp_path: Path) -> None:
    ds = write(tmp_path / "x")
    whole = epochs(ds)
    shares = [epochs(ds, rank=rank, world_size=2) for rank in range(2)]
    found = {tuple(keys[:1] + windows[0]) for share in shares for keys, windows in share}  # type: ignore[operator]
    assert found <= {(key, *rows) for keys, windows in whole for key, rows in zip(keys, windows, strict=True)}
    loader = bushel.Loader(ds, 2, fields=FIELDS, shuffle=True, seed=3)
    next(iter(loader))
    resumed = bushel.Loader(ds, 2, fields=FIELDS, shuffle=True, seed=9)
    resumed.load_state_dict(loader.state_dict())
    rest = [(batch["__key__"], batch["poses"][:, :, 0].tolist()) for batch in resumed]
    assert rest == whole[1:3]


def test_samples_that_repeat_get_other_windows(tmp_path: Path) -> None:
    ds = write(tmp_path / "x", counts=(40,) * 6)
    batches = epochs(ds, shuffle=None, weights=[1.0, 0, 0, 0, 0, 0])
    assert {key for keys, _ in batches for key in keys} == {"0"}
    assert len({rows[0] for _, windows in batches for rows in windows}) > 3


def test_samples_that_are_too_short(tmp_path: Path) -> None:
    ds = write(tmp_path / "x")
    fields = {"steps": RandomWindow(10), "poses": RandomWindow(10, like="steps")}
    with pytest.raises(bushel.BushelError, match="'1' has 9 elements of 'steps', and the window takes 10"):
        list(bushel.Loader(ds, 2, fields=fields))
    loader = bushel.Loader(ds, 2, fields=fields, on_error="replace")
    assert [batch["poses"].shape for batch in loader] == [(2, 10, 2)] * 3
    assert {bad.key for bad in loader.errors} == {"1", "3"}
    padded = {"poses": RandomWindow(10, pad=True)}
    [batch] = bushel.Loader(ds, 6, fields=padded)
    assert batch["poses_is_pad"].sum(1).tolist() == [0, 1, 0, 2, 0, 0]
    assert batch["poses"][3, -3:, 0].tolist() == [7, 7, 7]


def test_clips_views_and_map_style(tmp_path: Path) -> None:
    _, data = clip("h264")
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag", sync=False) as writer:
        for number in range(3):
            writer.append({"video": data}, key=str(number))
    ds = bushel.open(tmp_path / "x")
    whole, fields = ds[0]["video"], {"video": RandomWindow(5, step=3)}
    [batch] = bushel.Loader(ds[[2, 1]], 2, fields=fields, seed=4)
    starts = draw_starts(4, 0, np.arange(2), "video", np.full(2, FRAMES - 12)).tolist()
    for frames, start in zip(batch["video"], starts, strict=True):
        np.testing.assert_array_equal(frames, whole[start : start + 13 : 3])
    view = MapView(ds[[2, 1]], fields=fields, seed=4)
    np.testing.assert_array_equal([view[0]["video"], view[1]["video"]], batch["video"])


@pytest.mark.parametrize(
    ("error", "words", "fields"),
    [
        (TypeError, "needs a sequence", {"label": RandomWindow(2)}),
        (ValueError, "no field with a RandomWindow", {"poses": RandomWindow(2, like="steps"), "steps": True}),
        (ValueError, "draw the longer one", {"poses": RandomWindow(3, like="steps"), "steps": RandomWindow(2)}),
    ],
)
def test_wrong_windows(tmp_path: Path, error: type[Exception], words: str, fields: Any) -> None:
    ds = write(tmp_path / "x")
    with pytest.raises(error, match=words):
        bushel.Loader(ds, 2, fields=fields)


def test_wrong_arguments(tmp_path: Path) -> None:
    for length, step in ((0, 1), (2, 0)):
        with pytest.raises(ValueError, match="expected a whole number from 1"):
            RandomWindow(length, step)
    ds = write(tmp_path / "x")
    with pytest.raises(TypeError, match="read in windows already"):
        bushel.Loader(ds.windows("steps", 4), 2, fields={"steps": RandomWindow(2)})
    with pytest.raises(ValueError, match="whole documents"):
        bushel.Loader(ds, 2, fields={"steps": RandomWindow(2)}, pack_by="steps.length", pack_tokens=64)
