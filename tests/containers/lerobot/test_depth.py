"""Depth cameras and annotations of LeRobot, which come out as LeRobot's own reader gives them."""

from __future__ import annotations

import io
import json
import logging
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.containers.lerobot.robots import Robot, write_robot

import bushel
from bushel._pictures.thumbnail import value_pixels
from bushel.codecs import get_codec
from bushel.codecs import video as video_codec
from bushel.codecs.depth import metres_of_codes
from bushel.errors import FormatError, SpecError
from bushel.loader import RandomWindow

CODES = np.random.default_rng(0).integers(0, 4096, (60, 64, 96)).astype(np.uint16)
INFO = {"is_depth_map": True, "video.depth_min": 0.2, "video.depth_max": 7.5, "video.shift": 0.0}


@lru_cache
def deep_video(pixel_format: str = "gray12le", suffix: str = "mp4") -> bytes:
    """A video without loss of `CODES`."""
    av: Any = pytest.importorskip("av")
    stored = io.BytesIO()
    with av.open(stored, "w", format=suffix) as output:
        options = {"x265-params": "lossless=1:keyint=4:log-level=none:pools=none"}
        stream = output.add_stream("libx265", rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = 64, 96, pixel_format
        for number, codes in enumerate(CODES):
            frame = av.VideoFrame.from_ndarray(codes, format="gray12le").reformat(format=pixel_format)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()


def write_deep_robot(root: Path, feature: dict[str, Any]) -> Path:
    """A dataset whose camera `depth` has `CODES`; `feature` is put into the description of the camera."""
    write_robot(root, Robot(videos=(("left", "h264"), ("depth", "h264"))))
    for number in range(2):
        (root / f"videos/depth/chunk-000/file-{number:03d}.mp4").write_bytes(deep_video())
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["depth"] |= feature
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def metres(codes: npt.NDArray[Any], least: float, greatest: float, shift: float, logarithmic: bool) -> Any:
    """What LeRobot computes, in float64."""
    share = codes / 4095
    if not logarithmic:
        return share * (greatest - least) + least
    low, high = math.log(least + shift), math.log(greatest + shift)
    return np.exp(share * (high - low) + low) - shift


@pytest.mark.parametrize(
    ("feature", "type_", "values"),
    [
        ({"info": INFO}, "depth,0.2,7.5,0.0,log", (0.2, 7.5, 0.0, True)),
        ({"info": INFO | {"video.use_log": False}}, "depth,0.2,7.5,0.0,linear", (0.2, 7.5, 0.0, False)),
        ({"info": {"video.is_depth_map": True}}, "depth,0.01,10.0,3.5,log", (0.01, 10.0, 3.5, True)),
        ({"video_info": {"video.is_depth_map": True}}, "depth,0.01,10.0,3.5,log", (0.01, 10.0, 3.5, True)),
    ],
)
def test_depths_are_metres(
    feature: dict[str, Any], type_: str, values: tuple[float, float, float, bool], tmp_path: Path
) -> None:
    root = write_deep_robot(tmp_path / "robot", feature)
    frames, episodes = bushel.open(root), bushel.open(root, episodes=True)
    assert (frames.spec["depth"], episodes.spec["depth"]) == (f"frame({type_})", f"frames({type_})")
    assert frames.spec["left"] == "frame"
    wanted = metres(CODES, *values)[..., None]

    def same(found: Any, numbers: slice | int) -> None:
        assert (found.dtype, found.shape) == (np.float32, wanted[numbers].shape)
        assert np.allclose(found, wanted[numbers], rtol=1e-6, atol=1e-6)

    same(frames[3]["depth"], 3)
    same(episodes[1]["depth"], slice(20, 35))
    same(episodes[1, {"depth": slice(2, 5)}]["depth"], slice(22, 25))
    assert episodes[1, {"depth": slice(2, 2)}]["depth"].shape == (0, 64, 96, 1)
    near = bushel.open(root, delta_timestamps={"depth": [-1 / 25, 0]})
    same(near[2]["depth"], slice(1, 3))
    [batch, *_] = bushel.Loader(frames, 4, fields=["depth", "left"])
    same(batch["depth"], slice(0, 4))
    [batch, *_] = bushel.Loader(episodes.windows("depth", 4), 3, fields=["depth"], shuffle=True, seed=1)
    assert (batch["depth"].dtype, batch["depth"].shape) == (np.float32, (3, 4, 64, 96, 1))
    [batch, *_] = bushel.Loader(episodes, 1, fields={"depth": RandomWindow(5)})
    assert (batch["depth"].dtype, batch["depth"].shape) == (np.float32, (1, 5, 64, 96, 1))
    bushel.convert(root, tmp_path / "out", container="tar")
    same(bushel.open(tmp_path / "out")[7]["depth"], 7)
    for dataset in (frames, episodes):
        [stored] = dataset.read([3], ["depth"], decode=False)
        drawn = value_pixels(dataset.spec["depth"], stored["depth"], 96)
        assert (drawn.shape, int(drawn.min()), int(drawn.max())) == ((64, 96, 3), 0, 255)


def test_each_bit_is_that_of_lerobot() -> None:
    """`dequantize_depth` of LeRobot 0.6, for arrays of NumPy."""
    for least, greatest, shift, logarithmic in ((0.01, 10.0, 3.5, True), (0.0, 5.0, 1.0, False)):
        low, high = (math.log(each + shift) if logarithmic else each for each in (least, greatest))
        buffer = np.empty(4096, np.float32)
        np.multiply(np.arange(4096, dtype=np.uint16), (high - low) / 4095, out=buffer)
        np.add(buffer, low, out=buffer)
        if logarithmic:
            np.subtract(np.exp(buffer, out=buffer), shift, out=buffer)
        np.clip(buffer, least, greatest, out=buffer)
        name = f"frame(depth,{least},{greatest},{shift},{'log' if logarithmic else 'linear'})"
        found = metres_of_codes(name)
        assert found is not None
        assert found.tobytes() == buffer.tobytes()


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (INFO | {"video.shift": -0.5}, "'depth'.*a least depth plus shift above 0"),
        (INFO | {"video.depth_max": 0.1}, "'depth'.*least and greatest depth"),
        (INFO | {"video.depth_min": "near"}, "not the metadata of a LeRobot dataset: Expected `float | null`"),
    ],
)
def test_depths_that_no_code_stands_for(info: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        bushel.open(write_deep_robot(tmp_path / "robot", {"info": info}))


@pytest.mark.parametrize("name", ["frame(depth)", "frames(depth,1,2,3,cubic)", "frame(rgb)", "frame(depth,1,x,3,log)"])
def test_parameters_that_are_no_depths(name: str) -> None:
    with pytest.raises(SpecError, match=r"depth camera"):
        get_codec(name)


def test_deeper_videos_say_once_that_bits_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video_codec, "_say_format_narrowed", lru_cache(video_codec._say_format_narrowed.__wrapped__))
    with bushel.Writer(tmp_path / "clips", {"clip": "mp4"}, container="tar") as writer:
        for pixel_format in ("gray12le", "yuv420p10le", "yuv444p"):
            writer.append({"clip": deep_video(pixel_format)}, key=pixel_format)
    with caplog.at_level(logging.WARNING, "bushel"):
        for _ in range(2):
            for sample in bushel.open(tmp_path / "clips"):
                assert sample["clip"].dtype == np.uint8
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"videos of pixel format {each} are decoded to RGB of 8 bits: other bits of them are lost"
        for each in ("gray12le", "yuv420p10le")
    ]


def test_annotations_are_lists_of_what_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    root = write_robot(tmp_path / "robot", Robot(videos=()))
    plain = pa.struct([("role", pa.string()), ("timestamp", pa.float32()), ("tool_calls", pa.list_(pa.string()))])
    parsed = pa.struct([("role", pa.string()), ("timestamp", pa.float32()), ("tool_calls", pa.list_(pa.json_()))])
    said = [[], [{"role": "user", "timestamp": 0.5, "tool_calls": ['{"name": "say"}', None]}], None]
    for path in root.glob("data/*/*.parquet"):
        table = parquet.read_table(path)
        for name, texts in (("language_persistent", said[:2]), ("language_events", said)):
            rows = [texts[number % len(texts)] for number in range(len(table))]
            table = table.append_column(name, pa.array(rows, pa.list_(plain)).cast(pa.list_(parsed)))
        parquet.write_table(table, path)
    ds = bushel.open(root)
    wanted = [{"role": "user", "timestamp": 0.5, "tool_calls": [{"name": "say"}, None]}]
    for name, third in (("language_persistent", []), ("language_events", None)):
        assert (ds[0][name], ds[1][name], ds[2].get(name)) == ([], wanted, third)
    episodes = bushel.open(root, episodes=True)
    assert episodes[0]["language_persistent"][:3] == [[], wanted, []]
    assert "language_events" not in episodes.spec
    assert "row 2 has no value in column 'language_events'" in caplog.text


def test_rows_in_lance_are_refused(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", Robot(videos=()))
    info = json.loads((root / "meta/info.json").read_text())
    for storage, refused in (("parquet", False), ("lance", True)):
        (root / "meta/info.json").write_text(json.dumps(info | {"storage_format": storage}))
        if refused:
            with pytest.raises(FormatError, match="rows are stored as 'lance', and Parquet is read"):
                bushel.open(root)
        else:
            assert len(bushel.open(root)) == 120
