"""HTTP ranges and content types. Nothing here does I/O."""

from __future__ import annotations

import re

from bushel.codecs.newer_images import newer_format

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class UnsatisfiableRange(ValueError):
    """A range that begins after the end of the value (status 416)."""


def requested_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and stop of the range in a Range header; None to send everything.

    Headers that name several ranges, another unit or nonsense are ignored, as RFC 9110 (14.2) allows.

    Raises:
        UnsatisfiableRange: The range has no bytes of the value.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or not (match[1] or match[2]):
        return None
    if len(match[1]) > 18 or len(match[2]) > 18:
        raise UnsatisfiableRange(header)
    if not match[1]:
        length = int(match[2])
        if not length or not size:
            raise UnsatisfiableRange(header)
        return max(0, size - length), size
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < start:
        return None
    if start >= size:
        raise UnsatisfiableRange(header)
    return start, stop


def media_type(head: bytes) -> str | None:
    """Return the media type of bytes that a browser shows without running anything in them; None for all others.

    The type is detected from the first bytes, never taken from the dataset. SVG and HTML are never returned: they are
    shown as text. `head` has at least the first 16 bytes.
    """
    for magic, kind in (
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"BM", "image/bmp"),
        (b"\x1a\x45\xdf\xa3", "video/webm"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"ID3", "audio/mpeg"),
        (b"\xff\xfb", "audio/mpeg"),
        (b"\xff\xf3", "audio/mpeg"),
        (b"\xff\xf2", "audio/mpeg"),
    ):
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[4:8] == b"ftyp":
        return {"AVIF": "image/avif", "HEIF": "image/heic"}.get(newer_format(head) or "", "video/mp4")
    return None
