"""Partial reading of FLAC files: only the FLAC frames that contain the requested samples are read.

FLAC stores a sound in frames of some thousand samples of each channel, which are decoded
independently. Each begins with a code and a checksum of 8 bits (RFC 9639, 9.1), and says which
samples it has. So the frame with a sample is found by a search: from the seek table if it exists,
and by reading a few kilobytes where the frame is likely.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import F32, I64
from bushel._runtime.structs import Struct
from bushel.codecs.base import Buffer, codec_error
from bushel.codecs.libsndfile import DecodingError, decode_frames, has_libsndfile
from bushel.codecs.parts import OutlinedPart
from bushel.codecs.sound_runs import near_runs, take_frames, wanted_frames
from bushel.codecs.video import MAX_DECODED
from bushel.errors import CodecError

_HEAD = 8192  # bytes in which the next blocks of metadata are looked for
_NEAR = 48 << 10  # bytes between two known frames that are read rather than looked at
_LEAST_LOOK, _MOST_LOOK = 16 << 10, 128 << 10
_MOST_LOOKS = 64  # at metadata
_MOST_MISSES = 4  # looks one after another that found no frame
_STREAMINFO, _SEEKTABLE, _INVALID = 0, 3, 127
_POINT = np.dtype([("sample", ">u8"), ("offset", ">u8"), ("count", ">u2")])
_PLACEHOLDER = (1 << 64) - 1
_SYNC = re.compile(rb"\xff[\xf8\xf9]")

_MOST_SAMPLES = 65536  # of a frame; a frame has more bytes than one
_LIBSNDFILE_BITS = (8, 16, 24)
"""Bits of the numbers that libsndfile decodes."""

Decode = Callable[[str, str, Buffer], F32]


class _Header(NamedTuple):
    """The header of a frame: its place in the bytes, and its samples."""

    at: int
    first: int
    length: int


class _Info(NamedTuple):
    """The contents of the block STREAMINFO."""

    raw: bytes
    channels: int
    bits: int  # of a number
    block: int  # samples of each frame; 0 if frames differ
    longest: int  # bytes of the longest frame; 0 if unknown
    total: int


class FlacOutline:
    """The known positions of the frames of a FLAC file. Threads may share it.

    `decode` decodes a whole sound, given the codec's name for errors, `"flac"` and the bytes.
    """

    def __init__(self, decode: Decode, size: int) -> None:
        self._decode, self._size, self._at, self._looks, self._misses = decode, size, 0, 0, 0
        self._info: _Info | None = None
        self._seek: list[tuple[int, int]] = []
        # samples and offsets, ascending, with both ends
        self._points: tuple[list[int], list[int]] | None = None
        self._failed = False

    def probe(self, elements: slice | I64) -> tuple[int, int] | None:
        """Return offset and length of bytes to look at before some frames can be planned; None if no look is needed.

        Raises:
            IndexError: A frame is out of range.
        """
        if self._failed:
            return None
        if self._points is None or self._info is None:
            return self._at, min(_HEAD, self._size - self._at)
        for first, last in self._runs(wanted_frames(elements, self._info.total)):
            for sample in (first, last):
                if (extent := self._look_for(sample)) is not None:
                    return extent
        return None

    def _look_for(self, sample: int) -> tuple[int, int] | None:
        """Return bytes that probably have the frame with a sample; None if its place is known well enough."""
        assert self._points is not None
        assert self._info is not None
        samples, offsets = self._points
        point = bisect_right(samples, sample) - 1
        low, high = offsets[point], offsets[min(point + 1, len(offsets) - 1)]
        if high - low <= _NEAR:
            return None
        look = min(max(3 * self._info.longest, _LEAST_LOOK), _MOST_LOOK)
        part = (sample - samples[point]) / (samples[point + 1] - samples[point])
        if self._misses:  # the frames are not where their number lets expect
            part = 0.5
        at = low + int(part * (high - low)) - look // 2
        at = max(low, min(at, high - look))
        return at, min(look, self._size - at)

    def learn(self, offset: int, data: bytes) -> None:
        """Look at bytes that `probe` asked for."""
        if self._failed:
            return
        if self._points is None:
            self._looks += 1
            self._learn_metadata(offset, data)
        else:
            self._learn_frames(offset, data)
        self._failed = self._failed or self._looks > _MOST_LOOKS or self._misses > _MOST_MISSES

    def _learn_metadata(self, offset: int, data: bytes) -> None:
        at = self._at
        if at == 0:
            if data[:4] != b"fLaC":
                self._failed = True
                return
            at = 4
        while offset + len(data) >= at + 4:
            kind, size = data[at - offset], int.from_bytes(data[at - offset + 1 : at - offset + 4])
            block = data[at - offset + 4 :][:size]
            if kind & _INVALID in (_STREAMINFO, _SEEKTABLE):
                if len(block) < size and at > offset:
                    break  # its end is in the next bytes
                if kind & _INVALID == _STREAMINFO:
                    self._info = _info(block)
                else:  # the rest of a longer one is not needed
                    self._seek = _seek_points(
                        block[: len(block) // _POINT.itemsize * _POINT.itemsize]
                    )
            at += 4 + size
            if kind & ~_INVALID:
                self._end_of_metadata(at)
                return
        self._failed = at <= self._at or at + 4 > self._size
        self._at = at

    def _end_of_metadata(self, start: int) -> None:
        """Note where the frames begin, and those in the seek table."""
        if (
            self._info is None
            or not 0 < self._info.total <= self._size * _MOST_SAMPLES
            or start >= self._size
        ):
            self._failed = True
            return
        samples, offsets = [0], [start]
        for sample, at in self._seek:
            if samples[-1] < sample < self._info.total and offsets[-1] < start + at < self._size:
                samples.append(sample)
                offsets.append(start + at)
        self._points = [*samples, self._info.total], [*offsets, self._size]

    def _learn_frames(self, offset: int, data: bytes) -> None:
        """Note the frames in some bytes whose next frame is also found: then both are valid."""
        assert self._points is not None
        assert self._info is not None
        headers = list(_headers(data, self._info))
        after = {header.first: header for header in headers}
        chained = {
            chained_header.first: offset + chained_header.at
            for header in headers
            for chained_header in (header, after.get(header.first + header.length))
            if header.first + header.length in after
            and after[header.first + header.length].at > header.at
            if chained_header is not None
        }
        samples, offsets = self._points
        # only the points around these bytes may change
        low = max(0, bisect_right(offsets, offset) - 1)
        high = bisect_right(offsets, offset + len(data)) + 1
        known_points = dict(zip(samples[low:high], offsets[low:high], strict=True))
        merged = sorted({**chained, **known_points}.items())
        merged_offsets = [at for _, at in merged]
        if len(merged) == len(known_points) or any(
            before >= after
            for before, after in zip(merged_offsets, merged_offsets[1:], strict=False)
        ):
            self._misses += 1
            return
        self._misses = 0
        added = [sample for sample, _ in merged]
        self._points = (
            samples[:low] + added + samples[high:],
            offsets[:low] + merged_offsets + offsets[high:],
        )

    def _runs(self, numbers: range | I64) -> list[tuple[int, int]]:
        """Return the first and last of frames that are near each other."""
        assert self._info is not None
        return near_runs(numbers, max(1, _NEAR * self._info.total // self._size))

    @property
    def count(self) -> int | None:
        """Number of frames; None if it is not known."""
        if self._failed or self._points is None or self._info is None:
            return None
        return self._info.total

    def part(self, elements: slice | I64) -> FlacPart | None:
        """Return the part with some frames; None if the file has to be read whole.

        Raises:
            IndexError: A frame is out of range.
        """
        if self._failed or self._points is None or self._info is None:
            return None
        numbers = wanted_frames(elements, self._info.total)
        samples, offsets = self._points
        spans: list[tuple[int, int, int, int]] = []
        for first, last in self._runs(numbers):
            low, high = bisect_right(samples, first) - 1, bisect_right(samples, last)
            span = samples[low], samples[high], offsets[low], offsets[high]
            if spans and span[0] < spans[-1][1]:
                span = spans[-1][0], span[1], spans[-1][2], span[3]
                spans.pop()
            spans.append(span)
        table = np.array(spans, np.int64).reshape(-1, 4)
        lengths = table[:, 3] - table[:, 2]
        decoded = int((table[:, 1] - table[:, 0]).sum()) * self._info.channels * 4
        if int(lengths.sum()) >= self._size or decoded > MAX_DECODED:
            return None
        return FlacPart(self._decode, self._info, numbers, table[:, :2], table[:, 2], lengths)


def is_empty_flac(data: Buffer) -> bool:
    """Return whether a file ends with its metadata: it is a sound without frames, and not a damaged one."""
    view, at, last = memoryview(data), 4, False
    while not last and at + 4 <= len(view):
        last = view[at] > _INVALID
        at += 4 + int.from_bytes(view[at + 1 : at + 4])
    return last and at == len(view)


def _info(block: bytes) -> _Info | None:
    """Return the content of the block STREAMINFO; None if it is too short."""
    if len(block) < 34:
        return None
    least, most, longest = (
        int.from_bytes(block[at : at + size]) for at, size in ((0, 2), (2, 2), (7, 3))
    )
    form = int.from_bytes(block[10:18])
    channels, bits, total = (form >> 41 & 7) + 1, (form >> 36 & 31) + 1, form & (1 << 36) - 1
    return _Info(bytes(block[:34]), channels, bits, most if least == most else 0, longest, total)


def _seek_points(block: bytes) -> list[tuple[int, int]]:
    """Return the points of a seek table: samples, and offsets from the first frame."""
    table = np.frombuffer(block, _POINT)
    table = table[table["sample"] != _PLACEHOLDER]
    return list(zip(table["sample"].tolist(), table["offset"].tolist(), strict=True))


def _headers(data: bytes, info: _Info) -> Iterator[_Header]:
    """Yield possible headers of frames."""
    for match in _SYNC.finditer(data, 0, max(0, len(data) - 5)):
        if (header := _header(data, match.start(), info)) is not None:
            yield header


def _header(data: bytes, at: int, info: _Info) -> _Header | None:
    """Return the header of a frame that begins at a place, if its checksum is right and it fits the file."""
    size, rate, channels, bits = (
        data[at + 2] >> 4,
        data[at + 2] & 15,
        data[at + 3] >> 4,
        data[at + 3] >> 1 & 7,
    )
    if not size or rate == 15 or channels > 10 or bits == 3 or data[at + 3] & 1:
        return None
    lead = data[at + 4]
    if 0x80 <= lead < 0xC0 or lead == 0xFF:  # not the first byte of a coded number
        return None
    # bytes of the number after the first one
    more = 0 if lead < 0x80 else 7 - (lead ^ 0xFF).bit_length()
    number = lead if not more else lead & (1 << (6 - more)) - 1
    end = at + 5 + more
    if end + 5 > len(data):
        return None
    for byte in data[at + 5 : end]:
        if byte >> 6 != 2:
            return None
        number = number << 6 | byte & 63
    count, end = _block_size(size, data, end)
    end += {12: 1, 13: 2, 14: 2}.get(rate, 0)
    if end >= len(data) or _crc8(data[at:end]) != data[end]:
        return None
    if data[at + 1] & 1 == 0:
        if not info.block:
            return None
        number *= info.block
    if number + count <= info.total:
        return _Header(at, number, count)
    return None


def _block_size(code: int, data: bytes, at: int) -> tuple[int, int]:
    """Return the samples of a frame by their code, and where the header continues."""
    if code == 6:
        return data[at] + 1, at + 1
    if code == 7:
        return int.from_bytes(data[at : at + 2]) + 1, at + 2
    if code == 1:
        return 192, at
    if code < 6:
        return 576 << (code - 2), at
    return 256 << (code - 8), at


@cache
def _crc8_table() -> bytes:
    table = bytearray(256)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = (crc << 1 ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
        table[value] = crc
    return bytes(table)


def _crc8(data: bytes) -> int:
    table, value = _crc8_table(), 0
    for byte in data:
        value = table[value ^ byte]
    return value


class FlacPart(OutlinedPart, Struct, frozen=True, eq=False):
    """Frames of sound of a FLAC file, and the frames of FLAC that have them."""

    decoder: Decode  # decodes a whole sound, as `FlacOutline` has it
    info: _Info
    numbers: range | I64  # the frames of sound that are requested
    # int64[m, 2], the first frame of sound in each run of bytes, and the one after the last
    spans: I64
    offsets: I64  # int64[m], where the runs are, in bytes from the start of the file
    lengths: I64  # int64[m], bytes
    data: tuple[Buffer, ...] = ()  # their bytes; empty before they are read

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part with its bytes."""
        return replace(self, data=tuple(data))

    def decode(self, codec: str) -> F32 | None:
        """Return the requested frames, float32[frames, channels]; None if the bytes are not the expected frames.

        Raises:
            CodecError: The part has all frames of the file, and libsndfile finds damage.
        """
        info, frames_of_spans = self.info, list[F32]()
        for span, data in zip(self.spans.tolist(), self.data, strict=True):
            try:
                frames_of_spans.append(self._decode_run(codec, span, data))
            except DecodingError as error:
                if self.has_libsndfile and span == [0, info.total]:
                    raise codec_error(
                        codec, "a complete sound (flac)", f"damaged frames ({error})"
                    ) from error
                return None
        return take_frames(frames_of_spans, self.spans[:, 0].tolist(), self.numbers, info.channels)

    @property
    def has_libsndfile(self) -> bool:
        """Whether libsndfile decodes the frames. Unlike PyAV, it compares their checksums."""
        return has_libsndfile() and self.info.bits in _LIBSNDFILE_BITS

    def _decode_run(self, codec: str, span: Sequence[int], data: Buffer) -> F32:
        (first, stop), info = span, self.info
        header = _header(bytes(data[:32]) + bytes(32), 0, info) if data[:1] == b"\xff" else None
        if header is None or header.first != first:
            raise DecodingError(f"the bytes do not begin with frame {first}")
        file = b"".join(
            (b"fLaC", bytes([_STREAMINFO | 0x80]), len(info.raw).to_bytes(3), info.raw, data)
        )
        if self.has_libsndfile:
            last = (
                self.numbers.stop if isinstance(self.numbers, range) and len(self.numbers) else stop
            )
            return decode_frames(file, min(stop, last) - first, info.channels)
        try:
            frames = self.decoder(codec, "flac", file)
        except CodecError as error:  # decoding the whole file raises it again
            raise DecodingError(str(error)) from error
        if frames.shape != (stop - first, info.channels):
            raise DecodingError(f"{len(frames)} of {stop - first} frames")
        return frames
