"""Decoding of FLAC and MP3 by libsndfile, through soundfile (`pip install 'bushel[audio]'`).

It finds samples of FLAC by seeking in the file, so that only the bytes around them are read.

It takes half of the time that PyAV takes for these formats, which hands over a sound in pieces of
some thousand frames.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from bushel._runtime.arrays import F32, I64

from .base import Buffer, codec_error
from .parts import Runs
from .video import MAX_DECODED

_FLAC_BITS = ("PCM_S8", "PCM_16", "PCM_24")
"""Types of the numbers of FLAC that libsndfile decodes."""
_MOST_SAMPLES = 65536  # of a frame of FLAC, which has more bytes than one
_NEAR = 1 << 15  # samples between two that are decoded rather than sought


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
def _readable(data: Buffer) -> Iterator[int | io.BytesIO]:
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
            return _decode_run(sound, 0, frames)
    except (RuntimeError, ValueError, TypeError) as error:
        raise DecodingError(getattr(error, "error_string", None) or str(error)) from error


class _ReadByCalls(io.RawIOBase):
    """A file that libsndfile reads by calls from C, where exceptions are lost: they are kept.

    Attributes:
        error: The first exception, or None.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.error: BaseException | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes; none after an error."""
        if self.error is None:
            try:
                return self._file.readinto(buffer)
            except BaseException as error:  # `flac_frames` raises it again
                self.error = error
        return 0


def flac_frames(codec: str, file: io.BufferedReader, elements: slice | I64) -> F32 | None:
    """Decode frames of a FLAC file: float32[frames, channels]; None if the file has to be decoded whole.

    Only the bytes around the frames are read. A file whose numbers libsndfile does not decode, or in
    which it finds an error after a seek, has to be decoded whole.

    Raises:
        CodecError: The frames are damaged.
        IndexError: A frame is out of range.
        OSError: The file cannot be read.
    """
    calls, size = _ReadByCalls(file), file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        return _flac_frames(codec, calls, size, elements)
    finally:
        if calls.error is not None:
            raise calls.error


def flac_frames_of(codec: str, data: Buffer, elements: slice | I64) -> F32 | None:
    """Decode frames of a FLAC file in memory: see `flac_frames`."""
    with _readable(data) as file:
        return _flac_frames(codec, file, len(data), elements)


def _flac_frames(codec: str, file: Any, size: int, elements: slice | I64) -> F32 | None:
    if not has_libsndfile():
        return None
    runs = None
    try:
        with _forward_reader()(file, closefd=False) as sound:
            if sound.subtype not in _FLAC_BITS or not 0 < sound.frames <= size * _MOST_SAMPLES:
                return None
            runs = runs_of_sound(elements, sound.frames, _NEAR)
            frames = int(runs.counts.sum()) if runs.places is None else len(runs.places)
            if frames * sound.channels * 4 > MAX_DECODED:
                return None
            decoded = [
                _decode_run(sound, first, count)
                for first, count in zip(runs.first.tolist(), runs.counts.tolist(), strict=True)
            ]
            return requested_frames(runs, decoded, sound.channels)
    except (RuntimeError, DecodingError) as error:
        if runs is None or runs.first.any():
            return None
        description = getattr(error, "error_string", None) or str(error)
        raise codec_error(
            codec, "a complete sound (flac)", f"damaged frames ({description})"
        ) from error


def _decode_run(sound: Any, first: int, count: int) -> F32:
    out = np.empty((count, sound.channels), np.float32)
    if first:
        sound.seek(first)
    decoded: F32 = sound.read(out=out)
    if len(decoded) < count:
        raise DecodingError(f"{len(decoded)} of {count} frames")
    return decoded


def runs_of_sound(elements: slice | I64, count: int, near: int) -> Runs:
    """Return the runs to decode of a sound of `count` frames; requested frames at most `near` apart are in one.

    Raises:
        IndexError: A frame is out of range.
    """
    return Runs.of(elements, count, near, "a sound", "frames")


def requested_frames(runs: Runs, decoded: Sequence[F32], channels: int) -> F32:
    """Return the requested frames of decoded runs: float32[frames, channels]."""
    if len(decoded) == 1:
        return runs.chosen(decoded[0])
    return runs.chosen(np.concatenate([np.zeros((0, channels), np.float32), *decoded]))
