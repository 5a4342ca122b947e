"""What a value is, by its first bytes: images, sounds and clips.

The one place that knows these bytes. File names are not reliable: every large collection holds a
PNG that is called .jpg.
"""

from __future__ import annotations

HEAD = 256
"""Number of first bytes that are looked at, at most; the kinds without many brands need 16."""

JPEG = b"\xff\xd8\xff"
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"  # its first and last marker
PNG = b"\x89PNG\r\n\x1a\n"
JXL_CODESTREAM = b"\xff\x0a"
WEBP_FORM = b"WEBP"  # after the word RIFF and a size

IMAGES = ("jpg", "png", "webp", "bmp", "gif", "tif", "ppm", "pgm", "pbm", "avif", "heic", "jxl")
"""The kinds that are still images."""

SOUNDS = ("wav", "flac", "mp3", "ogg", "m4a")
"""The kinds that are sounds."""

WEAK = ("bmp", "ppm", "pgm", "pbm", "tif", "jxl")
"""Kinds whose first bytes are so few that text or numbers may begin with them."""

BEGINNINGS = {
    "jpg": (JPEG,),
    "png": (PNG,),
    "gif": (b"GIF87a", b"GIF89a"),
    "bmp": (b"BM",),
    "tif": (b"II*\0", b"MM\0*"),
    "ppm": (b"P6", b"P3"),
    "pgm": (b"P5", b"P2"),
    "pbm": (b"P4", b"P1"),
    "jxl": (JXL_CODESTREAM, b"\x00\x00\x00\x0cJXL \x0d\x0a\x87\x0a"),
    "flac": (b"fLaC",),
    "ogg": (b"OggS",),
    "mp3": (b"ID3",),
    "webm": (b"\x1a\x45\xdf\xa3",),
}
"""The beginnings of each kind; WebP, WAV and the families of MP4 begin with other bytes first."""

_RIFF = {WEBP_FORM: "webp", b"WAVE": "wav"}
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "heic"),
    **dict.fromkeys((b"M4A ", b"M4B "), "m4a"),
}
"""Brands in the first box of a file, `ftyp` (ISO/IEC 14496-12, section 4.3), that name the coding of its contents."""

_ANY_CODING = {b"mif1": "heic", b"msf1": "heic"}
"""Brands of images with any coding. Without another brand, it nearly always means HEIC."""

_BY_BYTE: dict[bytes, list[tuple[bytes, str]]] = {}
for _kind, _magics in BEGINNINGS.items():
    for _magic in _magics:
        _BY_BYTE.setdefault(_magic[:1], []).append((_magic, _kind))


def kind_of(data: bytes | bytearray | memoryview, *, sound: bool = False) -> str | None:
    """Return the kind of a value: the name of a codec, or `m4a`; None for bytes of no known kind.

    Args:
        data: The value, or at least its first 16 bytes.
        sound: Whether it is known to be a sound. Then MP3 is recognised by the first marker of any
            frame, and MP4 holds a sound.

    Examples:
        >>> from bushel._kinds import kind_of
        >>> kind_of(b"RIFF....WAVEfmt "), kind_of(b"straw")
        ('wav', None)
    """
    head = bytes(memoryview(data)[:HEAD])
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "m4a" if sound else _brand(head)
    kind = next(
        (kind for magic, kind in _BY_BYTE.get(head[:1], ()) if head.startswith(magic)), None
    )
    if kind is not None and not (sound and kind in IMAGES):
        return kind
    # numbers may begin with these two bytes, too
    return "mp3" if sound and len(head) >= 2 and head[0] == 0xFF and head[1] >= 0xE0 else None


def _brand(head: bytes) -> str:
    box = head[: int.from_bytes(head[:4], "big")]
    brands = [box[8:12], *(box[at : at + 4] for at in range(16, len(box), 4))]
    return next(
        (
            kinds_by_brand[brand]
            for kinds_by_brand in (_BRANDS, _ANY_CODING)
            for brand in brands
            if brand in kinds_by_brand
        ),
        "mp4",
    )
