"""Video clips, through PyAV (`pip install 'bushel[video]'`)."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.base import Buffer, Codec, Factory, codec_error, describe, found_bytes
from bushel.errors import CodecError, SpecError

__all__ = ["FACTORIES", "MAX_DECODED"]

MAX_DECODED = 4 << 30
"""The most bytes of frames that one clip may decode to. More is taken for a decompression bomb."""

_ENCODERS = {"mp4": "libx264", "webm": "libvpx-vp9"}


def _pyav(codec: str) -> Any:
    try:
        import av
    except ImportError as error:
        raise SpecError(f"codec {codec!r} needs PyAV, which is not installed: pip install 'bushel[video]'") from error
    return av


def _encode(codec: str, container: str, rate: int, value: Any) -> bytes:
    av = _pyav(codec)
    clip = np.asarray(value)
    if clip.dtype != np.uint8 or clip.ndim != 4 or clip.shape[3] != 3 or 0 in clip.shape:
        raise codec_error(codec, "a uint8 array of shape TxHxWx3", describe(value))
    if clip.shape[1] % 2 or clip.shape[2] % 2:
        raise codec_error(codec, "an even height and width (chroma is stored at half size)", describe(value))
    stored = io.BytesIO()
    try:
        with av.open(stored, "w", format=container) as output:
            stream = output.add_stream(_ENCODERS[container], rate=rate)
            stream.height, stream.width, stream.pix_fmt = clip.shape[1], clip.shape[2], "yuv420p"
            for position, picture in enumerate(clip):
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
                frame.pts = position
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    except (av.FFmpegError, ValueError) as error:
        raise codec_error(codec, "a clip that the encoder takes", f"{describe(value)} ({error})") from error
    return stored.getvalue()


def _check_decoded(codec: str, total: int) -> None:
    if total > MAX_DECODED:
        raise codec_error(codec, f"at most {MAX_DECODED} bytes of frames", "more")


def _decode(codec: str, container: str, data: Buffer) -> npt.NDArray[np.uint8]:
    av = _pyav(codec)
    frames: list[npt.NDArray[np.uint8]] = []
    total = 0
    try:
        # The format is named because FFmpeg's guessing also finds playlists, which open other files.
        with av.open(io.BytesIO(data), format=container) as source:
            for frame in source.decode(video=0):
                total += frame.height * frame.width * 3
                _check_decoded(codec, total)
                frames.append(frame.to_ndarray(format="rgb24"))
        return np.stack(frames)
    except CodecError:
        raise
    # PyAV adds to FFmpeg's errors its own IndexError, ValueError, TypeError … for streams that make no sense.
    except Exception as error:
        raise codec_error(
            codec, f"a {container} clip with frames of one size", f"{found_bytes(data)} ({error})"
        ) from error


def _video(name: str, arguments: str) -> Codec:
    """Codec `mp4` (H.264) or `webm` (VP9) at 20 frames a second, `mp4(25)` at 25."""
    if arguments and not re.fullmatch("[1-9][0-9]{0,2}", arguments):
        raise SpecError(f"codec {name!r}: the parameter is a number of frames a second, as in 'mp4(25)'")
    container = name.partition("(")[0]
    rate = int(arguments or 20)
    return Codec(name, partial(_encode, name, container, rate), partial(_decode, name, container))


FACTORIES: Mapping[str, Factory] = {"mp4": _video, "webm": _video}
