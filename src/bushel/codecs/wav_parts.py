"""Partial reading of WAV files: the header gives the places of the frames, so only the needed bytes are read.

Numbers become float32 as FFmpeg converts them. Files in other encodings than PCM and IEEE float,
and files whose size the header does not know, are read whole.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bushel._runtime.arrays import F32, I32, I64, Array

from .base import Buffer
from .parts import Part, RowForm, Runs, in_one_piece

_HEAD = 4096  # bytes in which the next chunks are looked for
_MOST_LOOKS = 16
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# what follows the tag in a GUID of Microsoft's formats
_SUBFORMAT = bytes.fromhex("000000001000800000aa00389b71")
_UNKNOWN = 0xFFFFFFFF  # the size of the data of a stream


def _of_24_bits(raw: Buffer) -> I32:
    wide = np.zeros((len(raw) // 3, 4), np.uint8)
    wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
    return wide.view("<i4").reshape(-1)


_SCALES: Mapping[tuple[int, int], tuple[str, float]] = {
    (_PCM, 8): ("u1", 2**-7),
    (_PCM, 16): ("<i2", 2**-15),
    (_PCM, 24): ("<i4", 2**-31),
    (_PCM, 32): ("<i4", 2**-31),
    (_FLOAT, 32): ("<f4", 1.0),
    (_FLOAT, 64): ("<f8", 1.0),
}
"""The dtype of numbers and the factor that makes levels of them, by tag of the format and bits of a number."""


class _Format(NamedTuple):
    """The format of the frames."""

    tag: int
    bits: int
    channels: int
    rate: int


class WavOutline:
    """Where the frames of a WAV file are, as far as its first bytes were seen. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size, self._at, self._looks = size, 12, 0
        self._format: _Format | None = None
        self._found: tuple[_Format, RowForm, int] | None = None
        self._failed = False

    def probe(self, elements: slice | I64) -> tuple[int, int] | None:
        """Return offset and length of bytes to look at before some frames can be planned; None if no look is needed."""
        if self._failed or self._found is not None:
            return None
        start = self._at if self._looks else 0
        return start, min(_HEAD, self._size - start)

    def learn(self, offset: int, data: bytes) -> None:
        """Look at bytes that `probe` asked for."""
        if self._failed or self._found is not None:
            return
        self._looks += 1
        at = self._at
        if offset == 0 and (data[:4], data[8:12]) != (b"RIFF", b"WAVE"):
            self._failed = True
            return
        while offset <= at <= offset + len(data) - 8:
            name, size = struct.unpack_from("<4sI", data, at - offset)
            if name == b"data":
                self._end(at + 8, size)
                return
            if name == b"fmt ":
                chunk = data[at + 8 - offset :][:size]
                if len(chunk) < min(size, 40):
                    break  # its end is in the next bytes
                self._format = _format(chunk)
            at += 8 + size + size % 2
        self._failed = (
            at <= self._at and offset > 0 or self._looks >= _MOST_LOOKS or at + 8 > self._size
        )
        self._at = at

    def _end(self, start: int, size: int) -> None:
        """Note where the frames are."""
        stored_format = self._format
        if stored_format is None or size in (0, _UNKNOWN) or start + size > self._size:
            self._failed = True
            return
        form = RowForm(start, stored_format.channels * stored_format.bits // 8)
        self._found = stored_format, form, size // form.row

    @property
    def count(self) -> int | None:
        """Number of frames; None if it is not known."""
        if self._found is None:
            return None
        return self._found[2]

    @property
    def rate(self) -> int:
        """Frames per second; 0 if that is not known."""
        return 0 if self._found is None else self._found[0].rate

    def part(self, elements: slice | I64) -> Part | None:
        """Return the part with some frames; None if the file has to be read whole.

        Raises:
            IndexError: A frame is out of range.
        """
        if self._found is None:
            return None
        stored_format, form, count = self._found
        runs = Runs.of(elements, count, 1, "a sound", "frames")
        return Part(*form.extents(runs), partial(_frames, stored_format, runs))


def _format(chunk: bytes) -> _Format | None:
    """Return the format that a chunk describes; None if its frames are not plain numbers."""
    if len(chunk) < 16:
        return None
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] != _SUBFORMAT:
            return None
        valid, _, tag = struct.unpack_from("<HIH", chunk, 18)
        if valid not in (0, bits):
            return None
    if (tag, bits) not in _SCALES or not channels or block != channels * bits // 8:
        return None
    return _Format(tag, bits, channels, rate)


def _frames(stored_format: _Format, runs: Runs, codec: str, data: Sequence[Buffer]) -> F32:
    """Return the requested frames: float32[frames, channels]."""
    raw, bits = in_one_piece(data), stored_format.bits
    dtype, factor = _SCALES[stored_format.tag, bits]
    numbers: Array = _of_24_bits(raw) if bits == 24 else np.frombuffer(raw, dtype)
    if bits == 8:  # without a sign: silence is 128
        numbers = numbers.astype(np.int16) - 128
    if stored_format.tag == _FLOAT:  # also infinite ones, and NaN
        levels = numbers.astype(np.float32)
    else:
        levels = np.multiply(numbers, np.float32(factor), dtype=np.float32)
    return runs.chosen(levels.reshape(-1, stored_format.channels))
