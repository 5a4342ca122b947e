"""Clips as several encoders make them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.codecs.moving_frames import moving

from bushel.codecs import Codec, get_codec

FRAMES, GROUP = 60, 12

OPTIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "h264": ("mp4", "libx264", {"g": str(GROUP), "bf": "0"}),
    "h264 with B-frames": ("mp4", "libx264", {"g": str(GROUP), "bf": "3", "sc_threshold": "0"}),
    "h264 with open groups": (
        "mp4",
        "libx264",
        {"bf": "3", "x264-params": f"open-gop=1:keyint={GROUP}:min-keyint={GROUP}:scenecut=0:b-pyramid=normal"},
    ),
    "h264 refreshed bit by bit": (
        "mp4",
        "libx264",
        {"x264-params": f"intra-refresh=1:keyint={GROUP}:scenecut=0:bframes=0"},
    ),
    "h264 in fragments": ("mp4", "libx264", {"g": str(GROUP), "bf": "3", "movflags": "frag_keyframe+empty_moov"}),
    "hevc": ("mp4", "libx265", {"x265-params": f"keyint={GROUP}:open-gop=1:log-level=none:pools=none"}),
    "hevc with temporal layers": (
        "mp4",
        "libx265",
        {"x265-params": f"keyint={GROUP}:bframes=7:temporal-layers=3:log-level=none:pools=none"},
    ),
    "av1": ("mp4", "libsvtav1", {"g": str(GROUP), "preset": "10", "svtav1-params": "lp=1"}),
    "av1 in one direction": (
        "mp4",
        "libsvtav1",
        {"g": str(GROUP), "preset": "10", "svtav1-params": "lp=1:pred-struct=1"},
    ),
    "vp9": ("webm", "libvpx-vp9", {"g": str(GROUP), "deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    "vp9 with hidden frames": (
        "webm",
        "libvpx-vp9",
        {"g": str(GROUP), "cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "16", "b": "60k"},
    ),
    "vp8 with hidden frames": (
        "webm",
        "libvpx",
        {"g": str(GROUP), "cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k"},
    ),
}


_made: dict[str, bytes] = {}


def _muxing(options: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name == "movflags"}


def clip(name: str) -> tuple[Codec, bytes]:
    """A clip as `OPTIONS` says, and its codec."""
    av: Any = pytest.importorskip("av")
    container, encoder, options = OPTIONS[name]
    if name not in _made:
        stored = io.BytesIO()
        try:
            with av.open(stored, "w", format=container, container_options=_muxing(options)) as output:
                stream = output.add_stream(encoder, rate=25, options=options)
                stream.height, stream.width, stream.pix_fmt = 64, 96, "yuv420p"
                stream.codec_context.thread_count = 1
                for picture in moving():
                    output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
                output.mux(stream.encode(None))
        except av.codec.codec.UnknownCodecError:
            pytest.skip(f"this PyAV has no encoder {encoder}")
        _made[name] = stored.getvalue()
    return get_codec(container), _made[name]


def uneven_clip(times: Sequence[int], begin: int = 0) -> bytes:
    """An H.264 clip in mp4, a frame at each time (ms); those before `begin` are cut by its edit list."""
    av: Any = pytest.importorskip("av")
    stored = io.BytesIO()
    with av.open(stored, "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=25, options={"g": "8", "bf": "2", "sc_threshold": "0"})
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = Fraction(1, 1000)
        for time, picture in zip(times, moving(len(times)), strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = time - begin, Fraction(1, 1000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()
