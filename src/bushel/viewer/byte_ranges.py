"""HTTP ranges and content types. Nothing here does I/O."""

from __future__ import annotations

import re

from bushel._kinds import kind_of

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class UnsatisfiableRange(ValueError):
    """A range that begins after the end of the value (status 416)."""


def requested_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and stop of the range in a Range header; None to send everything.

    Headers that name several ranges, another unit or nonsense are ignored, as RFC 9110 (14.2)
    allows.

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

    The type is detected from the first bytes, never taken from the dataset. SVG and HTML are never
    returned: they are shown as text. `head` has at least the first 16 bytes.
    """
    return _TYPES.get(kind_of(head) or "")


_TYPES = {
    **{kind: f"image/{kind}" for kind in ("png", "gif", "bmp", "webp", "avif", "heic")},
    **{kind: f"audio/{kind}" for kind in ("wav", "flac", "ogg")},
    **{kind: f"video/{kind}" for kind in ("mp4", "webm")},
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
}
