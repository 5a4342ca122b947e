"""Kernels of columns: headers of images, and the numbers of texts."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bushel.codecs.headers import image_header as header_by_pillow
from bushel.kernels import (
    ExtentError,
    MappedFile,
    NumberForms,
    decode_numbers,
    image_header,
    image_headers,
    number_texts,
)

FORMATS = {1: "jpeg", 2: "png"}


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def images() -> list[bytes]:
    rng = np.random.default_rng(0)
    colour = Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "x" * 5000
    found = [encoded(colour.convert(mode), "PNG") for mode in ("1", "L", "LA", "RGB", "RGBA", "P", "I;16")]
    found += [encoded(colour.convert(mode), "JPEG") for mode in ("L", "RGB", "CMYK")]
    found += [encoded(colour, "JPEG", progressive=True), encoded(colour, "JPEG", exif=exif)]
    return [
        *found,
        encoded(colour, "PNG", exif=exif),
        encoded(colour, "WEBP"),
        encoded(colour, "GIF"),
        b"",
        b"\xff\xd8",
    ]


def test_headers_agree_with_pillow(tmp_path: Path) -> None:
    datas = images()
    (tmp_path / "all").write_bytes(b"".join(datas))
    ends = np.cumsum([len(data) for data in datas])
    length = np.array([len(data) for data in datas], np.int64)
    headers = image_headers(MappedFile(str(tmp_path / "all")), ends - length, length)
    known = 0
    for data, header in zip(datas, headers.tolist(), strict=True):
        expected = header_by_pillow(data)
        if header[0]:
            assert expected is not None
            own = (FORMATS[header[0]], *header[1:])
            assert own == (expected.format, expected.width, expected.height, expected.channels, expected.orientation)
            known += 1
    assert [np.frombuffer(image_header(data), np.int32).tolist() for data in datas] == headers.tolist()
    assert known == 11  # not the palette, PNG with Exif, WebP, GIF, and bytes that are not an image
    assert headers[11].tolist() == [1, 30, 20, 3, 6]


@given(st.data())
def test_damaged_headers(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from(images())))
    for _ in range(data.draw(st.integers(0, 4))):
        if whole:
            whole[data.draw(st.integers(0, min(len(whole), 700) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"bushel-header-{os.getpid()}"
    path.write_bytes(whole[:cut])
    try:
        [header] = image_headers(MappedFile(str(path)), np.zeros(1, np.int64), np.array([cut], np.int64)).tolist()
    finally:
        path.unlink()
    assert header[0] in (0, 1, 2)
    assert (header[1] > 0) == (header[0] > 0)


def test_extents_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    file = MappedFile(str(tmp_path / "a"))
    with pytest.raises(ExtentError):
        image_headers(file, np.array([2], np.int64), np.array([4], np.int64))
    assert image_headers(file, np.array([0], np.int64), np.array([-1], np.int64)).tolist() == [[0] * 5]


@given(st.lists(st.binary(max_size=3), max_size=60), st.integers(0, 40))
def test_texts_are_numbered_as_they_appear(texts: list[bytes], most: int) -> None:
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    found = number_texts(np.frombuffer(b"".join(texts), np.uint8), offsets, most)
    distinct = list(dict.fromkeys(texts))
    if len(distinct) > most:
        assert found is None
        return
    assert found is not None
    numbers, rows = found
    assert [texts[row] for row in rows.tolist()] == distinct
    assert [distinct[number] for number in numbers.tolist()] == texts


def test_offsets_of_texts_are_checked() -> None:
    with pytest.raises(ValueError, match="of 3"):
        number_texts(np.zeros(3, np.uint8), np.array([0, 4], np.int64), 9)


@given(st.lists(st.none() | st.binary(max_size=10), max_size=20), st.sampled_from(["signed", "unsigned", "decimal"]))
def test_numbers_in_memory(values: list[bytes | None], kind: str) -> None:
    length = np.array([-1 if value is None else len(value) for value in values], np.int64)
    out = np.empty(len(values), np.int64)
    bad = decode_numbers(b"".join(value or b"" for value in values), length, kind, None, out)
    wrong = set() if bad is None else set(bad.tolist())
    for row, value in enumerate(values):
        if value is None:
            assert row in wrong
        elif kind == "decimal":
            try:
                number = int(value) if value.strip().removeprefix(b"-").removeprefix(b"+").isdigit() else None
            except ValueError:
                number = None
            assert (row in wrong) == (number is None)
            assert row in wrong or out[row] == number
        else:
            number = int.from_bytes(value, "little", signed=kind == "signed")
            fits = len(value) <= 8 and number < 1 << 63
            assert (row in wrong) == (not fits)
            assert not fits or out[row] == number


def test_headers_of_numbers_in_memory() -> None:
    out = np.empty(3, np.float64)
    stored = b"H" + np.float32(1.5).tobytes() + b"X" + np.float32(2).tobytes() + b"abc"
    bad = decode_numbers(stored, np.array([5, 5, 3], np.int64), "real", NumberForms({5: b"H"}), out)
    assert bad is not None
    assert bad.tolist() == [1, 2]
    assert out[0] == 1.5


@pytest.mark.parametrize(("length", "rows"), [([4], 1), ([-2], 1), ([1 << 62], 1), ([1], 2)])
def test_arguments_of_numbers_in_memory_are_checked(length: list[int], rows: int) -> None:
    with pytest.raises(ValueError, match="expected|fit"):
        decode_numbers(b"123", np.array(length, np.int64), "signed", None, np.empty(rows, np.int64))
