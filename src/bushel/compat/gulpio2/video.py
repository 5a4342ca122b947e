"""Videos to frames: PyAV decodes, and the frames are those that GulpIO2 gets from the program `ffmpeg`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bushel.compat.gulpio2.images import Image
from bushel.sources.video import Pick, decode_video

__all__ = ["pick_like_ffmpeg", "read_video"]

_LATE = 1.1
"""By how many frames ffmpeg lets a video run ahead or behind before it drops or repeats one."""

_MOST_REPEATS = 3600 * 30 * 30
"""What would be repeated more often has a damaged time, and is left out."""

_FINE = 1 << 16
"""Parts of a frame to which ffmpeg rounds times. Half a part more keeps ties from falling either way."""


def read_video(
    path: str, frame_rate: float | None = None, change: Callable[[Image], Image] | None = None
) -> list[Image]:
    """All frames of a video, or so many a second. One that is shown longer is several times the same array.

    Args:
        path: The video.
        frame_rate: Frames a second; None: the video's own.
        change: What to do with each frame as it is decoded, so that not all must be in memory as they were.

    Raises:
        FormatError: It is damaged.
        SpecError: PyAV is not installed.
    """
    frames: list[Image] = []
    for picture, times in decode_video(Path(path).read_bytes(), path, pick_like_ffmpeg(frame_rate)):
        frames += [picture if change is None else change(picture)] * times
    return frames


def pick_like_ffmpeg(rate: float | None) -> Pick:
    """The frames that `ffmpeg -i VIDEO -r RATE %d.jpg` writes: its constant frame rate, with its tolerance.

    It writes a frame as soon as that is not more than 1.1 frames ahead, so that a video reduced from 25 to 8 frames a
    second begins with its first three frames, and has two more than its seconds times 8.
    """

    def pick(frames: Iterator[Any], stream: Any) -> Iterator[tuple[Any, int]]:
        usual = float(stream.guessed_rate or stream.average_rate or 25)
        target = float(rate or usual)
        start, time, written, before = _start(stream), 0.0, 0, None
        repeats = deque([0, 0, 0], maxlen=3)
        for frame in frames:
            if frame.pts is not None:
                start = frame.time if start is None else start
                time = frame.time - start
            now = round(time * target * _FINE) / _FINE
            ahead = now + (math.copysign(0.5, now) / _FINE if now else 0) - written
            end = ahead + (round(target / usual) or target / usual)
            if ahead < 0 < end:
                ahead = 0.0
            count = 0 if end < -_LATE else round(end) if end > _LATE else 1
            if count > _MOST_REPEATS:
                continue
            old = min(round(ahead - 0.6), count) if end > _LATE and ahead > _LATE and before is not None else 0
            repeats.append(old)
            if old > 0:
                yield before, old
            if count > old:
                yield frame, count - old
            written += count
            time += 1 / usual  # where the next one belongs if it does not say it
            before = frame
        if (last := sorted(repeats)[1]) > 0:
            yield before, last

    return pick


def _start(stream: Any) -> float | None:
    """When the file begins, in seconds: times are counted from there."""
    begin = stream.container.start_time
    return None if begin is None else begin / 1e6
