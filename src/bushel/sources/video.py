"""The frames of a video file, through PyAV (`pip install 'bushel[video]'`), without temporary files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.video import reason, say_narrowed
from bushel.errors import FormatError, needed_by

Pick = Callable[[Iterator[Any], Any], Iterator[tuple[Any, int]]]
"""Selects frames of a stream: yields those to keep, each with the number of times it is used."""

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
"""FFmpeg's demuxers by suffix; `mov` reads all of the mp4 family. FFmpeg's own detection also accepts playlists, which
open other files."""


def decode_video(
    data: bytes, path: str, pick: Pick, size: Callable[[int, int], tuple[int, int]] | None = None
) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
    """Decode frames of a video, upright.

    Args:
        data: The video file.
        path: Its name, whose suffix gives the format.
        pick: Called with PyAV's frames and the stream.
        size: Maps the stored width and height to those to scale to (bilinear).

    Yields:
        A frame, uint8 of shape HxWx3 (RGB), and the number of times it is used.

    Raises:
        FormatError: The file is damaged, or holds no video.
        SpecError: PyAV is not installed.

    Examples:
        >>> from bushel.sources import decode_video
        >>> def every_fourth(frames, stream):
        ...     return ((frame, 1) for number, frame in enumerate(frames) if number % 4 == 0)
        >>> [image.shape for image, _ in decode_video(Path("clips/red/a.mp4").read_bytes(), "a.mp4", every_fourth)]
        [(48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3)]
    """
    av = pyav()
    try:
        with av.open(
            io.BytesIO(data), format=_DEMUXERS.get(os.path.splitext(path)[1].lower(), "mov")
        ) as video:
            if not video.streams.video:
                raise FormatError("the file holds no video", file=path)  # noqa: TRY301
            stream = video.streams.video[0]
            # decoding many videos at once uses processors better
            stream.codec_context.thread_count = 1
            scaler = av.video.reformatter.VideoReformatter()  # its tables serve all frames
            for frame, times in pick(video.decode(stream), stream):
                say_narrowed(frame)
                width, height = (
                    (frame.width, frame.height) if size is None else size(frame.width, frame.height)
                )
                picture = scaler.reformat(
                    frame, width, height, "rgb24", interpolation="BILINEAR"
                ).to_ndarray()
                yield np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90))), times
    except (FormatError, OSError):
        raise
    except Exception as error:
        # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid streams.
        raise FormatError(f"the video cannot be decoded: {reason(error)}", file=path) from error


def pyav() -> Any:
    """Return the package `av`. Raise MissingPackageError if it is not installed."""
    with needed_by("reading frames of videos", "bushel[video]"):
        import av
        import av.video.reformatter
    return av
