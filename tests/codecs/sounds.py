"""Small encoded sounds."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from bushel.codecs import get_codec

RATE = 16000


def tone(frames: int = 9000, channels: int = 2) -> npt.NDArray[np.float32]:
    """A tone in each channel."""
    time = np.arange(frames) / RATE
    return np.stack([0.6 * np.sin(2 * np.pi * (300 + 200 * each) * time) for each in range(channels)], 1).astype("f4")


@cache
def encoded(kind: str, channels: int = 2) -> bytes:
    """Encode a tone; MP3 and Ogg (Opus) with PyAV itself, since Bushel only stores them."""
    av = pytest.importorskip("av")
    if kind in ("wav", "flac"):
        return bytes(get_codec(f"{kind}({RATE})").encode(tone(channels=channels)))
    stored = io.BytesIO()
    with av.open(stored, "w", format=kind, options={"fflags": "+bitexact"}) as output:
        stream = output.add_stream({"mp3": "libmp3lame", "ogg": "libopus"}[kind], rate=48000)
        layout = "stereo" if channels == 2 else "mono"
        stream.codec_context.layout = layout
        values = (tone(24000, channels).reshape(1, -1) * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(values, format="s16", layout=layout)
        frame.sample_rate = 48000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()
