"""What a value is, by its first bytes: one table for images, sounds and clips."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bushel
from bushel._kinds import kind_of

HEADS = {
    b"\xff\xd8\xff\xe0": "jpg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"GIF89a": "gif",
    b"RIFF\0\0\0\0WEBPVP8 ": "webp",
    b"RIFF\0\0\0\0WAVEfmt ": "wav",
    b"RIFF\0\0\0\0AVI LIST": None,
    b"BM....": "bmp",
    b"II*\0": "tif",
    b"P6 1 1": "ppm",
    b"\xff\x0a": "jxl",
    b"fLaC": "flac",
    b"OggS": "ogg",
    b"ID3\4": "mp3",
    b"\x1a\x45\xdf\xa3": "webm",
    b"\0\0\0\x20ftypisom": "mp4",
    b"\0\0\0\x20ftypM4A ": "m4a",
    b"\0\0\0\x20ftypavif": "avif",
    b"\0\0\0\x14ftypmif1\0\0\0\0avif": "avif",
    b"\0\0\0\x14ftypmif1\0\0\0\0miaf": "heic",
    b"straw": None,
    b"": None,
}


@pytest.mark.parametrize("head", HEADS)
def test_kinds(head: bytes) -> None:
    assert kind_of(head) == kind_of(memoryview(head)) == HEADS[head]


def test_what_is_known_to_be_a_sound() -> None:
    assert kind_of(b"\0\0\0\x20ftypisom", sound=True) == "m4a"
    assert kind_of(b"\xff\xe3\x90", sound=True) == "mp3"
    assert kind_of(b"RIFF\0\0\0\0WEBPVP8 ", sound=True) == "webp"  # certainly none
    assert kind_of(b"\xff\xe3\x90") is kind_of(b"\xff\xfb\x90") is None


def test_no_other_file_knows_the_beginnings_of_images() -> None:
    house = Path(bushel.__file__).parent
    magic = re.compile(r"xff.xd8.xff|x89PNG|GIF8[79]|b\"RIFF\", b\"WEBP")
    found = {str(path.relative_to(house)) for path in house.rglob("*.py") if magic.search(path.read_text("utf-8"))}
    assert {name for name in found if not name.startswith("compat/")} == {"_kinds.py"}
