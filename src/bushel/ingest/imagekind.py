"""What an image file is, by its first bytes: names lie, and every large collection holds a PNG that is called .jpg."""

from __future__ import annotations

from collections.abc import Mapping

from bushel.codecs.base import Buffer

__all__ = ["KINDS", "codec_kind", "image_kind"]

KINDS: Mapping[str, tuple[bytes, ...]] = {
    "jpg": (b"\xff\xd8\xff",),
    "png": (b"\x89PNG\r\n\x1a\n",),
    "webp": (b"RIFF",),
    "bmp": (b"BM",),
    "gif": (b"GIF87a", b"GIF89a"),
    "tif": (b"II*\0", b"MM\0*"),
    "ppm": (b"P6", b"P3"),
    "pgm": (b"P5", b"P2"),
    "pbm": (b"P4", b"P1"),
}
"""How the files of each image codec begin."""

_ALIASES = {"jpeg": "jpg", "tiff": "tif"}
_HEAD = 8


def codec_kind(codec: str) -> str:
    """The name of a codec without parameters, and the same for all its spellings."""
    base = codec.partition("(")[0]
    return _ALIASES.get(base, base)


def image_kind(data: Buffer) -> str | None:
    """The kind of an image file, a name in `KINDS`, or None for what is none."""
    head = bytes(memoryview(data)[:_HEAD])
    return next((kind for kind, beginnings in KINDS.items() if head.startswith(beginnings)), None)
