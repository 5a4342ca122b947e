"""Sounds at another sample rate, by PyAV: FFmpeg's swresample, which TorchCodec uses, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel._runtime.arrays import F32, I64

_MARGIN = 64
"""Frames before and after a part, at the lower one of both rates, that its frames may depend on."""
_AT_ONCE = 1 << 20  # frames that FFmpeg is given together


def resampled_count(count: int, source: int, rate: int) -> int:
    """Return the number of frames of a sound of `count` frames at rate `source`, at another rate."""
    return -(-count * rate // source)


def resampled_part(
    av: Any, decode: Callable[[slice], F32], source: int, rate: int, numbers: I64
) -> F32:
    """Return frames of a sound at another rate: float32[frames, channels], as of the whole sound.

    Args:
        av: PyAV.
        decode: Decodes a range of the frames at the sound's own rate.
        source: That rate.
        rate: The other rate.
        numbers: int64[n], the frames at that rate, at least 0.

    Raises:
        IndexError: A frame is out of range.
    """
    # both grids meet at every `up`-th frame, so parts that begin there have the phase of the whole
    up, down = rate // math.gcd(rate, source), source // math.gcd(rate, source)
    margin = _MARGIN * -(-max(rate, source) // source)
    if len(numbers):
        first, stop = int(numbers.min()), int(numbers.max()) + 1
    else:
        first, stop = 0, 0
    begin = max(first - margin, 0) // up * up
    frames = decode(slice(begin // up * down, -(-(stop + margin) * down // up)))
    part = resampled(av, frames, source, rate)
    if begin + len(part) < stop:
        raise IndexError(f"a sound of {begin + len(part)} frames has no frames {numbers.tolist()}")
    return part[numbers - begin]


def resampled(av: Any, sound: F32, source: int, rate: int) -> F32:
    """Return a sound of float32[frames, channels] at another rate."""
    if source == rate or not len(sound):
        return sound
    # silence after the end, so that FFmpeg makes all frames
    silence = np.zeros((sound.shape[1], _MARGIN * -(-max(rate, source) // rate)), np.float32)
    channels = []
    for channel in np.concatenate([sound.T, silence], axis=1):
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=rate)
        parts = []
        for begin in range(0, len(channel), _AT_ONCE):
            frame = av.AudioFrame.from_ndarray(
                channel[None, begin : begin + _AT_ONCE], format="fltp", layout="mono"
            )
            frame.sample_rate, frame.pts = source, begin
            parts += resampler.resample(frame)
        parts += resampler.resample(None)
        channels.append(np.concatenate([part.to_ndarray()[0] for part in parts]))
    return np.stack(channels, axis=1)[: resampled_count(len(sound), source, rate)]
