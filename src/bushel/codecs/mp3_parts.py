"""Partial decoding of MP3 files: only the frames of MP3 that contain the requested samples, and a few before them.

Each frame of MP3 begins with a header that says how long the frame is, so one scan of the headers
finds all frames. A frame is decoded from its own bytes, up to 511 bytes of the frames before it,
and the decoder's memory of the last one (ISO/IEC 11172-3, 2.4.2.7). libsndfile decodes a short file
that is made of these frames. The samples are the same, bit by bit, as if it decoded all frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bushel._runtime.arrays import F32, I64
from bushel.kernels import mp3_frames

from .base import Buffer
from .libsndfile import (
    DecodingError,
    decode_frames,
    has_libsndfile,
    requested_frames,
    runs_of_sound,
)
from .parts import Part, Runs
from .video import MAX_DECODED

_HEAD = 6  # bytes of the header and its checksum
_DECODER_DELAY = 529  # samples by which a decoder is late, which encoders do not count (528 and 1)
# samples that libsndfile leaves out at the start of a file with the number of its frames
_SKIPPED = 529
_NEAR = 64  # frames of MP3 between two requested samples that are decoded rather than left out
_MPEG1, _MONO = 3, 3
_BIT_RATE = 8  # of silent frames, an index from 1 to 14
_MEMORY = 1152  # samples before a frame that must be decoded for it
_LONGEST = 1441  # bytes of a frame
_TAGS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN")
_ENCODERS = (b"LAME", b"Lavf", b"Lavc")
"""Encoders that write, at the end of their information, how many samples they added."""


class _Form(NamedTuple):
    """What all frames of a file have in common."""

    header: bytes  # of the first frame, four bytes
    channels: int
    side: int  # bytes of side information after the header
    samples: int  # of each channel in a frame
    bits: int  # of the number with which the side information begins: see `main_data_begin`
    period: int  # frames after which libsndfile repeats its rounding: decoding starts at a multiple

    @classmethod
    def of(cls, header: bytes) -> _Form:
        mpeg1, mono = header[1] >> 3 & 3 == _MPEG1, header[3] >> 6 == _MONO
        side = ((17, 9), (32, 17))[mpeg1][mono]
        return cls(header, 2 - mono, side, *((576, 8, 8), (1152, 9, 4))[mpeg1])

    @property
    def reservoir(self) -> int:
        """Bytes before a frame that it may refer to: the largest `main_data_begin`."""
        return (1 << self.bits) - 1

    def frame(self, content: bytes = b"") -> bytes:
        """Return a silent frame, with some bytes after the side information."""
        first, second, third, last = self.header
        header = bytes([first, second | 1, third & 0x0C | _BIT_RATE << 4, last])
        offsets, _ = mp3_frames(header + bytes(_LONGEST), 0, 1, 1)
        return (header + bytes(self.side) + content).ljust(int(offsets[-1]), b"\0")

    def information(self, frames: int) -> bytes:
        """Return the frame that says how many frames follow."""
        return self.frame(b"Xing" + (1).to_bytes(4) + frames.to_bytes(4))

    def begins_whole(self, data: bytes) -> bool:
        """Return whether the first frames need no bytes before them. In a part of a stream they do."""
        available, (offsets, _) = 0, mp3_frames(data, 0, 1, 1)
        for begin, end in pairwise(offsets.tolist()):
            side = begin + (4 if data[begin + 1] & 1 else _HEAD)
            if int.from_bytes(data[side : side + 2]) >> 16 - self.bits > available:
                return False
            available += max(0, end - side - self.side)
        return True

    def without_reservoir(self, data: Buffer) -> bytearray:
        """Silence the first frames of some, which may need bytes of frames before them, but keep their bytes.

        Decoders report errors of frames that lack bytes, and leave such frames out.
        """
        frames, (offsets, _), available = bytearray(data), mp3_frames(data, 0, 1, 1), 0
        for begin, end in pairwise(offsets.tolist()):
            if available >= self.reservoir:
                break
            side = begin + 4
            # a decoder keeps only those bytes that a frame refers to, by 9 or 8 bits
            silent = (available << 16 - self.bits).to_bytes(2).ljust(self.side, b"\0")
            if not frames[begin + 1] & 1:  # a checksum of the header and the side information
                frames[side : side + 2] = _crc16(bytes(frames[begin + 2 : side]) + silent).to_bytes(
                    2
                )
                side += 2
            frames[side : side + self.side] = silent
            available += max(0, end - side - self.side)
        return frames


def _crc16(data: bytes) -> int:
    value = 0xFFFF
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ 0x8005 if value & 0x8000 else value << 1) & 0xFFFF
    return value


class _Frames(NamedTuple):
    """The frames of a file."""

    form: _Form
    points: I64  # offsets of frame 0, of frames a period apart, and the end of the last frame
    frames: int
    begin: int  # samples that the encoder added at the start, and the decoder's delay
    end: int  # after the last sample that is part of the sound

    def point_at(self, frame: int) -> int:
        """Return the number of the last point at or before a frame."""
        return min(frame // self.form.period, len(self.points) - 2)

    def frame_at(self, point: int) -> int:
        """Return the number of the frame at a point."""
        if point == len(self.points) - 1:
            return self.frames
        return point * self.form.period

    def start_for(self, frame: int) -> int:
        """Return the number of the point to decode from, so that the samples of a frame are right."""
        last = start = self.point_at(max(0, frame - _MEMORY // self.form.samples))
        while start > 0:
            between = self.frame_at(last) - self.frame_at(start)
            if (
                int(self.points[last] - self.points[start]) - between * (_HEAD + self.form.side)
                >= self.form.reservoir
            ):
                break
            start -= 1
        return start


class Mp3Outline:
    """The known positions of the frames of an MP3 file, after it was read whole once. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size, self._failed = size, not has_libsndfile()
        self._frames: _Frames | None = None

    def probe(self, elements: slice | I64) -> tuple[int, int] | None:
        """Return the extent of the whole file if it was not read yet, else None."""
        if self._failed or self._frames is not None:
            return None
        return (0, self._size)

    def learn(self, offset: int, data: bytes) -> None:
        """Find the frames of the file."""
        self._frames = _find_frames(data)
        self._failed = self._frames is None

    @property
    def count(self) -> int | None:
        """Number of samples of each channel; None if they are not known."""
        if self._frames is None:
            return None
        return self._frames.end - self._frames.begin

    def part(self, elements: slice | I64) -> Part | None:
        """Return the part with some samples; None if the file has to be decoded whole.

        Raises:
            IndexError: A sample is out of range.
        """
        if (table := self._frames) is None:
            return None
        form, samples = table.form, table.form.samples
        runs = runs_of_sound(elements, table.end - table.begin, _NEAR * samples)
        frames_of_runs, extents = list[_Run](), list[tuple[int, int]]()
        for first, count in zip(
            (runs.first + table.begin).tolist(), runs.counts.tolist(), strict=True
        ):
            start = table.start_for(first // samples)
            stop = table.point_at((first + count - 1) // samples) + 1
            frames = table.frame_at(stop) - table.frame_at(start)
            skipped = first - table.frame_at(start) * samples
            frames_of_runs.append(_Run(count, frames, skipped, start == 0))
            extents.append((int(table.points[start]), int(table.points[stop])))
        offsets, ends = np.array(extents, np.int64).reshape(-1, 2).T
        decoded = sum(run.frame_count for run in frames_of_runs) * samples * form.channels * 4
        if int((ends - offsets).sum()) > self._size or decoded > MAX_DECODED:
            return None
        return Part(offsets, ends - offsets, partial(_decode_runs, form, runs, frames_of_runs))


class _Run(NamedTuple):
    """The frames of MP3 that are decoded for a run of samples."""

    samples: int
    frame_count: int
    skipped: int  # decoded samples before the first one
    at_start: bool  # whether the frames are the first ones of the file


def size_of_tag(data: Buffer) -> int:
    """Return the bytes of the tag ID3 with which a sound of any format may begin."""
    if data[:3] != b"ID3" or len(data) <= 10:
        return 0
    digits = zip(data[6:10], (21, 14, 7, 0), strict=True)
    return 10 + sum((byte & 0x7F) << shift for byte, shift in digits)


def _find_frames(data: bytes) -> _Frames | None:
    """Return the frames of a file; None if it is not a plain sequence of frames, perhaps with tags around it."""
    start = size_of_tag(data)
    head = data[start : start + _LONGEST + 4]
    offsets, frames = mp3_frames(head, 0, 1, 1)
    if not frames:
        return None
    form = _Form.of(head[:4])
    information = _information(head[: int(offsets[1])], form)
    if information is not None:
        start += int(offsets[1])
    points, frames = mp3_frames(data, start, form.period, form.period)
    end = int(points[-1])
    if (
        not frames
        or not form.begins_whole(data[start : start + _LONGEST * 8])
        or (end < len(data) and not data[end : end + 16].startswith(_TAGS))
    ):
        return None
    total = frames * form.samples
    begin, stop = 0, total
    if information is not None and (added := information.added) is not None:
        if information.frames not in (0, frames):
            return None
        begin = added[0] + _DECODER_DELAY
        if information.frames:
            stop = min(total, total - added[1] + _DECODER_DELAY)
    if begin < stop:
        return _Frames(form, points, frames, begin, stop)
    return None


class _Information(NamedTuple):
    """The contents of a frame without sound that some encoders put before the others."""

    frames: int  # 0 if unknown
    # samples that the encoder added at the start and at the end
    added: tuple[int, int] | None = None


def _information(frame: bytes, form: _Form) -> _Information | None:
    """Read the information about the file in its first frame. Return None if that has sound."""
    if frame[36:40] == b"VBRI":
        return _Information(0)
    at = 4 + form.side
    if frame[at : at + 4] not in (b"Xing", b"Info"):
        return None
    flags = int.from_bytes(frame[at + 4 : at + 8])
    frames = int.from_bytes(frame[at + 8 : at + 12]) if flags & 1 else 0
    at += 8 + sum(size for bit, size in ((1, 4), (2, 4), (4, 100), (8, 4)) if flags & bit)
    encoder = frame[at : at + 24]
    if len(encoder) < 24 or not encoder.startswith(_ENCODERS):
        return _Information(frames)
    added = int.from_bytes(encoder[21:24])
    return _Information(frames, (added >> 12, added & 0xFFF))


def _decode_runs(
    form: _Form, runs: Runs, frames_of_runs: Sequence[_Run], codec: str, data: Sequence[Buffer]
) -> F32 | None:
    """Return the requested samples, float32[samples, channels]; None if libsndfile does not decode them."""
    decoded = list[F32]()
    for run, stored in zip(frames_of_runs, data, strict=True):
        silent = form.period if run.at_start else 0  # for the samples that libsndfile leaves out
        frames = stored if run.at_start else form.without_reservoir(stored)
        # one frame more, as libsndfile counts the samples that it leaves out
        information = form.information(silent + run.frame_count + 1)
        before = silent * form.samples - _SKIPPED + run.skipped
        file = b"".join((information, form.frame() * silent, frames))
        try:
            decoded.append(decode_frames(file, before + run.samples, form.channels)[before:])
        except DecodingError:
            return None
    return requested_frames(runs, decoded, form.channels)
