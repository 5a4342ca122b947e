"""Clips whose frames tell their numbers: the frame k has the brightness 4 k."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

av = pytest.importorskip("av")

RATES = {"24": Fraction(24), "25": Fraction(25), "29.97": Fraction(30000, 1001), "30": Fraction(30)}
FRAMES = 60
UNEVEN = np.cumsum([0, *[20, 33, 40, 100, 7, 33] * 10])[:FRAMES].tolist()


def timed_clip(times: Sequence[int], unit: Fraction, container: str = "mp4") -> bytes:
    """Return a clip with a frame at each time, in units of seconds."""
    stored = io.BytesIO()
    with av.open(stored, "w", format=container) as output:
        stream = output.add_stream("libvpx-vp9" if container == "webm" else "libx264", rate=30)
        stream.height, stream.width, stream.pix_fmt = 32, 48, "yuv420p"
        stream.codec_context.time_base, stream.codec_context.gop_size = unit, 12
        for number, time in enumerate(times):
            picture = np.full((32, 48, 3), 4 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = time, unit
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()


def all_clips() -> dict[str, bytes]:
    """Return clips of many rates, one with uneven times, one that starts late, and one whose times are rounded."""
    clips = {f"clip{name}": timed_clip(range(FRAMES), 1 / rate) for name, rate in RATES.items()}
    clips["uneven"] = timed_clip(UNEVEN, Fraction(1, 1000))
    clips["late"] = timed_clip(range(90, 90 + FRAMES), Fraction(1, 30))
    rounded = [round(number * 1000 / 24) for number in range(FRAMES)]
    return clips | {"rounded": timed_clip(rounded, Fraction(1, 1000), "webm")}


def numbers_of(frames: Any) -> list[int]:
    """Return the numbers of decoded frames."""
    return [round(float(frame.mean()) / 4) for frame in frames]
