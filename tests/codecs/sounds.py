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
    """Encode a tone; MP3, Ogg (Opus) and M4A (AAC) with PyAV itself, since Bushel only stores them."""
    av = pytest.importorskip("av")
    if kind in ("wav", "flac"):
        return bytes(get_codec(f"{kind}({RATE})").encode(tone(channels=channels)))
    stored = io.BytesIO()
    with av.open(stored, "w", format="ipod" if kind == "m4a" else kind, options={"fflags": "+bitexact"}) as output:
        stream = output.add_stream({"mp3": "libmp3lame", "ogg": "libopus", "m4a": "aac"}[kind], rate=48000)
        layout = "stereo" if channels == 2 else "mono"
        stream.codec_context.layout = layout
        values = (tone(24000, channels).reshape(1, -1) * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(values, format="s16", layout=layout)
        frame.sample_rate = 48000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()


def compressed(encoder: str, rate: int, channels: int, bit_rate: int = 0, seconds: float = 6) -> bytes:
    """Encode noise and a tone in many packets, as FFmpeg's `libmp3lame`, `vorbis` or `libopus` does."""
    av = pytest.importorskip("av")
    stored = io.BytesIO()
    layout = {1: "mono", 2: "stereo"}[channels]
    frames = int(rate * seconds)
    values = np.random.default_rng(0).normal(0, 0.1, (channels, frames)) + np.sin(np.arange(frames) / 20) / 3
    with av.open(stored, "w", format="mp3" if encoder == "libmp3lame" else "ogg") as output:
        stream = output.add_stream(encoder, rate=rate, options={"strict": "experimental"})
        context = stream.codec_context
        context.layout = layout
        if bit_rate:
            context.bit_rate = bit_rate
        frame = av.AudioFrame.from_ndarray(values.astype(np.float32), format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate, 0
        fifo, at = av.AudioFifo(), 0
        for own in av.AudioResampler(format=context.format.name, layout=layout, rate=rate).resample(frame):
            fifo.write(own)
        while fifo.samples and (own := fifo.read(context.frame_size or 1024, partial=True)) is not None:
            own.pts, at = at, at + own.samples
            output.mux(stream.encode(own))
        output.mux(stream.encode(None))
    return stored.getvalue()
