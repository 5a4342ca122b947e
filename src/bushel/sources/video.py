"""The frames of a video file, through PyAV (`pip install 'bushel[video]'`), without temporary files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.video import reason
from bushel.errors import FormatError, SpecError

__all__ = ["Pick", "decode_video"]

Pick = Callable[[Iterator[Any], Any], Iterator[tuple[Any, int]]]
"""Chooses among the frames of a stream: those to keep, each with how often it is wanted."""

_DEMUXERS = {
    ".webm": "matroska",
    ".mkv": "matroska",
    ".avi": "avi",
    ".mpg": "mpeg",
    ".mpeg": "mpeg",
    ".ogv": "ogg",
    ".flv": "flv",
    ".wmv": "asf",
}
"""FFmpeg's demuxers by suffix; `mov` reads all of the mp4 family. Its own guessing also finds playlists, which open
other files."""


def decode_video(
    data: bytes, path: str, pick: Pick, size: Callable[[int, int], tuple[int, int]] | None = None
) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
    """Decode frames of a video, upright.

    Args:
        data: The video file.
        path: Its name, whose suffix says what it is.
        pick: Given PyAV's frames and the stream.
        size: Width and height to scale to (bilinear), from those that are stored.

    Yields:
        A frame, uint8 of shape HxWx3 (RGB), and how often it is wanted.

    Raises:
        FormatError: It is damaged, or there is no video in it.
        SpecError: PyAV is not installed.
    """
    av = _pyav()
    try:
        with av.open(io.BytesIO(data), format=_DEMUXERS.get(os.path.splitext(path)[1].lower(), "mov")) as video:
            if not video.streams.video:
                raise FormatError("there is no video in it", file=path)  # noqa: TRY301
            stream = video.streams.video[0]
            stream.codec_context.thread_count = 1  # many videos at once are the better use of the processors
            scaler = av.video.reformatter.VideoReformatter()  # its tables serve all frames
            for frame, times in pick(video.decode(stream), stream):
                width, height = (frame.width, frame.height) if size is None else size(frame.width, frame.height)
                picture = scaler.reformat(frame, width, height, "rgb24", interpolation="BILINEAR").to_ndarray()
                yield np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90))), times
    except (FormatError, OSError):
        raise
    except Exception as error:
        # PyAV adds to FFmpeg's errors its own IndexError, ValueError … for streams that make no sense.
        raise FormatError(f"this video cannot be decoded: {reason(error)}", file=path) from error


def _pyav() -> Any:
    try:
        import av
        import av.video.reformatter
    except ImportError as error:
        raise SpecError("reading videos needs PyAV, which is not installed: pip install 'bushel[video]'") from error
    return av
