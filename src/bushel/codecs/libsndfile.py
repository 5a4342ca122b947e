"""Decoding of FLAC and MP3 by libsndfile, through soundfile (`pip install 'bushel[audio]'`).

It takes half of the time that PyAV takes for these formats, which hands over a sound in pieces of
some thousand frames.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from bushel._runtime.arrays import F32


class DecodingError(Exception):
    """libsndfile does not decode a sound."""


@cache
def has_libsndfile() -> bool:
    """Return whether soundfile is installed, with a libsndfile that reads FLAC and MP3."""
    return _forward_reader() is not None


@cache
def _forward_reader() -> Any:
    """Return the class of readers that never seek; None without soundfile.

    soundfile seeks before and after each read if the file allows it, which takes as long as
    decoding, and fails in a file that does not begin with the first frame of its sound.
    """
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: libsndfile is missing
        return None
    if not {"FLAC", "MP3"} <= set(soundfile.available_formats()):
        return None

    class ForwardReader(soundfile.SoundFile):  # type: ignore[misc]  # soundfile may be missing
        def seekable(self) -> bool:
            return False

    return ForwardReader


@contextmanager
def _readable(data: bytes) -> Iterator[int | io.BytesIO]:
    """Yield a file with some bytes, for libsndfile: on Linux a descriptor, which it reads without calling Python.

    Otherwise it would take the interpreter's lock for every few kilobytes, and a Ctrl-C in the
    meantime would be lost.
    """
    if not hasattr(os, "memfd_create"):
        yield io.BytesIO(data)
        return
    descriptor = os.memfd_create("bushel-sound")
    try:
        with open(descriptor, "wb", buffering=0, closefd=False) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
            file.seek(0)
        yield descriptor
    finally:
        os.close(descriptor)


def decode_frames(data: bytes, frames: int, channels: int) -> F32:
    """Decode the first frames of a sound: float32[frames, channels].

    The caller has compared `frames` with the number of bytes, as memory for them is allocated.

    Raises:
        DecodingError: libsndfile finds an error, other channels, or fewer frames.
    """
    try:
        with _readable(data) as file, _forward_reader()(file, closefd=False) as sound:
            if sound.channels != channels:
                raise DecodingError(f"{sound.channels} channels instead of {channels}")
            out = np.empty((frames, channels), np.float32)
            decoded: F32 = sound.read(out=out)
    except (RuntimeError, ValueError, TypeError) as error:
        raise DecodingError(getattr(error, "error_string", None) or str(error)) from error
    if len(decoded) < frames:
        raise DecodingError(f"{len(decoded)} of {frames} frames")
    return decoded
