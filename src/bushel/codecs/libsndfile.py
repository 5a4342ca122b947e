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

from .base import Buffer, choose, codec_error
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
            out = np.empty((frames, channels), np.float32)
            decoded: F32 = sound.read(out=out)
    except (RuntimeError, ValueError, TypeError) as error:
        raise DecodingError(getattr(error, "error_string", None) or str(error)) from error
    if len(decoded) < frames:
        raise DecodingError(f"{len(decoded)} of {frames} frames")
    return decoded


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
            numbers = wanted_frames(elements, sound.frames)
            if len(numbers) * sound.channels * 4 > MAX_DECODED:
                return None
            runs = near_runs(numbers, _NEAR)
            decoded = [_decode_run(sound, first, last + 1 - first) for first, last in runs]
            return take_frames(decoded, [first for first, _ in runs], numbers, sound.channels)
    except (RuntimeError, DecodingError) as error:
        if runs is None or any(first for first, _ in runs):
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


def wanted_frames(elements: slice | I64, count: int) -> range | I64:
    """Return the numbers of the requested frames of a sound of `count` frames; a range if they follow each other.

    Raises:
        IndexError: A frame is out of range.
    """
    if isinstance(elements, slice):
        start, stop, step = elements.indices(count)
        if step == 1:
            return range(start, max(start, stop))
    numbers = choose(elements, count, "a sound", "frames")
    if (
        len(numbers)
        and numbers[-1] - numbers[0] == len(numbers) - 1
        and (np.diff(numbers) == 1).all()
    ):
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


def near_runs(numbers: range | I64, near: int) -> list[tuple[int, int]]:
    """Return the first and last of the requested frames that are at most `near` frames apart, ascending."""
    if not len(numbers):
        return []
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    ascending = numbers if (np.diff(numbers) >= 0).all() else np.sort(numbers)
    runs = np.split(ascending, np.flatnonzero(np.diff(ascending) > near) + 1)
    return [(int(run[0]), int(run[-1])) for run in runs]


def take_frames(
    found: Sequence[F32], starts: Sequence[int], numbers: range | I64, channels: int
) -> F32:
    """Return the requested frames of a sound: float32[frames, channels].

    Args:
        found: Decoded runs, float32[frames, channels], which have all requested frames.
        starts: The number of the first frame of each run, ascending.
        numbers: The requested frames.
        channels: Number of channels.
    """
    if not len(numbers):
        return np.zeros((0, channels), np.float32)
    if isinstance(numbers, range):  # one run has them
        frames: F32 = found[0][numbers.start - starts[0] : numbers.stop - starts[0]]
        return frames
    begins = np.array(starts, np.int64)
    lengths = np.array([len(run_frames) for run_frames in found], np.int64)
    run = np.searchsorted(begins, numbers, side="right") - 1
    places = numbers - begins[run] + (np.cumsum(lengths) - lengths)[run]
    chosen: F32 = (found[0] if len(found) == 1 else np.concatenate(found))[places]
    return chosen
