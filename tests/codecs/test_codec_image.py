from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from bushel.codecs import codec_names, get_codec, holds_image, image
from bushel.errors import CodecError
from bushel.transforms.fused import image_size

FAST = settings(max_examples=30, deadline=None)
SIDES = st.integers(1, 9)
ALL = [*(name for name in codec_names() if holds_image(name)), "webp(80)"]


def pixels(*channels: int, dtype: str = "u1") -> st.SearchStrategy[npt.NDArray[Any]]:
    shapes = st.one_of(
        [st.tuples(SIDES, SIDES) if count == 1 else st.tuples(SIDES, SIDES, st.just(count)) for count in channels]
    )
    return hnp.arrays(dtype, shapes)


def smooth(height: int = 32, width: int = 48) -> npt.NDArray[np.uint8]:
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows * 4, columns * 4, (rows + columns) * 2], axis=2).astype(np.uint8)


def saved(image: Image.Image, pillow: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, pillow, **options)
    return stream.getvalue()


def through(name: str, value: Any) -> npt.NDArray[Any]:
    codec = get_codec(name)
    found: npt.NDArray[Any] = codec.decode(memoryview(codec.encode(value)))
    assert found.flags.writeable
    return found


LOSSLESS = [
    ("png", pixels(1, 2, 3, 4)),
    ("png", pixels(1, dtype="u2")),
    ("image", pixels(1, 2, 3, 4)),
    ("webp", pixels(3, 4)),
    ("ppm", pixels(3)),
    ("pgm", pixels(1)),
    ("pgm", pixels(1, dtype="u2")),
    ("bmp", pixels(1, 3)),
    ("tif", pixels(1, 3, 4)),
    ("tiff", pixels(1, dtype="u2")),
]


@FAST
@given(st.data())
@pytest.mark.parametrize(("name", "values"), LOSSLESS)
def test_lossless(name: str, values: st.SearchStrategy[npt.NDArray[Any]], data: st.DataObject) -> None:
    value = data.draw(values)
    found = through(name, value)
    if name == "webp" and value.ndim == 3 and value.shape[2] == 4 and (value[..., 3] == 255).all():
        value = value[..., :3]  # libwebp drops an alpha channel that hides nothing
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


@FAST
@given(hnp.arrays(bool, st.tuples(SIDES, SIDES)))
def test_pbm(mask: npt.NDArray[np.bool_]) -> None:
    value = mask.astype(np.uint8) * 255
    np.testing.assert_array_equal(through("pbm", value), value)


@pytest.mark.parametrize("name", ["jpg", "jpeg", "jpg(100,444)", "webp(80)", "gif"])
def test_lossy_is_close(name: str) -> None:
    value = smooth()
    found = through(name, value)
    assert (found.shape, found.dtype) == (value.shape, value.dtype)
    assert np.abs(found.astype(int) - value).mean() < (3 if name != "gif" else 8)


@pytest.mark.parametrize("name", ["jpg", "png", "pgm", "bmp", "tif", "image"])
def test_grey_is_two_dimensional(name: str) -> None:
    grey = smooth()[:, :, 0]
    assert through(name, grey).shape == through(name, grey[:, :, None]).shape == (32, 48)


@pytest.mark.parametrize("name", ["webp", "gif"])
def test_formats_that_know_no_grey(name: str) -> None:
    grey = np.repeat(np.arange(0, 240, 8, dtype=np.uint8)[None], 9, axis=0)
    np.testing.assert_array_equal(through(name, grey), np.repeat(grey[:, :, None], 3, axis=2))


def test_jpeg_parameters() -> None:
    def layers(name: str) -> tuple[int, Any]:
        with Image.open(io.BytesIO(bytes(get_codec(name).encode(smooth())))) as image:
            assert image.format == "JPEG"
            return image.layer[0][1], image.quantization[0][0]  # type: ignore[attr-defined]

    with Image.open(io.BytesIO(saved(Image.fromarray(smooth()), "JPEG", quality=95))) as reference:
        expected = reference.quantization[0][0]  # type: ignore[attr-defined]
    assert layers("jpg") == (2, expected)
    assert layers("jpg(95,444)") == (1, expected)
    assert layers("jpg(10)")[1] > expected


def test_any_format_is_read_under_any_name() -> None:
    stored = get_codec("png").encode(smooth())
    for name in ALL:
        np.testing.assert_array_equal(get_codec(name).decode(stored), smooth())


@pytest.mark.parametrize(
    ("mode", "pillow", "shape", "dtype"),
    [
        ("1", "PNG", (32, 48), "u1"),
        ("L", "JPEG", (32, 48), "u1"),
        ("LA", "PNG", (32, 48, 2), "u1"),
        ("P", "PNG", (32, 48, 3), "u1"),
        ("P", "GIF", (32, 48, 3), "u1"),
        ("RGBA", "PNG", (32, 48, 4), "u1"),
        ("CMYK", "JPEG", (32, 48, 3), "u1"),
        ("CMYK", "TIFF", (32, 48, 3), "u1"),
        ("I;16", "PNG", (32, 48), "u2"),
        ("I", "TIFF", (32, 48), "i4"),
        ("F", "TIFF", (32, 48), "f4"),
    ],
)
def test_modes(mode: str, pillow: str, shape: tuple[int, ...], dtype: str) -> None:
    image = Image.fromarray(smooth())
    image = image.convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)
    found = get_codec("image").decode(saved(image, pillow))
    assert (found.shape, found.dtype) == (shape, np.dtype(dtype))


def test_two_levels_and_a_palette_with_transparency() -> None:
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert get_codec("png").decode(saved(image, "PNG")).tolist() == [[0, 255]]
    image = Image.new("P", (1, 1), 0)
    image.putpalette([10, 20, 30])
    assert get_codec("png").decode(saved(image, "PNG")).tolist() == [[[10, 20, 30]]]
    assert get_codec("png").decode(saved(image, "PNG", transparency=0)).tolist() == [[[10, 20, 30, 0]]]


def test_pillow_images_encode() -> None:
    image = Image.fromarray(smooth())
    assert get_codec("png").encode(image) == get_codec("png").encode(smooth())
    for mode in ("P", "1", "CMYK"):
        other = image.convert(mode)
        expected = np.asarray(other.convert("L" if mode == "1" else "RGB"))
        np.testing.assert_array_equal(get_codec("png").decode(get_codec("png").encode(other)), expected)
    with pytest.raises(CodecError, match="uint8"):
        get_codec("png").encode(image.convert("F"))
    with pytest.raises(CodecError, match="HxW or HxWx3"):
        get_codec("jpg").encode(image.convert("RGBA"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jpg", np.zeros((4, 4, 3))),
        ("jpg", np.zeros((4, 4), bool)),
        ("jpg", np.zeros((4, 4), np.uint16)),
        ("jpg", np.zeros((4, 4, 4), np.uint8)),
        ("jpg", np.zeros((0, 4), np.uint8)),
        ("jpg", np.zeros(4, np.uint8)),
        ("jpg", np.zeros((1, 65536), np.uint8)),
        ("png", np.zeros((4, 4, 3), np.uint16)),
        ("png", np.zeros((4, 4, 5), np.uint8)),
        ("webp", np.zeros((1, 16384, 3), np.uint8)),
        ("ppm", np.zeros((4, 4), np.uint8)),
        ("pgm", np.zeros((4, 4, 3), np.uint8)),
        ("pbm", np.full((4, 4), 3, np.uint8)),
        ("gif", "text"),
    ],
)
def test_values_that_do_not_encode(name: str, value: Any) -> None:
    with pytest.raises(CodecError, match=f"^codec '{name}' expected "):
        get_codec(name).encode(value)


@pytest.mark.parametrize("name", ["jpg", "png", "webp", "bmp", "tif", "ppm"])
def test_a_cut_image_is_an_error_not_a_grey_one(name: str) -> None:
    stored = bytes(get_codec(name).encode(smooth()))
    for length in (0, 1, 10, len(stored) // 2, len(stored) - 30):
        with pytest.raises(CodecError, match=f"codec '{name}' expected a complete image"):
            get_codec(name).decode(stored[:length])


def test_rarer_parsers_of_pillow_are_out_of_reach() -> None:
    found = r"found \d+ bytes starting with [0-9a-f ]+$"
    with pytest.raises(CodecError, match=rf"a complete image \(.*\), {found}"):
        get_codec("image").decode(saved(Image.fromarray(smooth()), "PCX"))


PNG = bytes(get_codec("png").encode(np.zeros((20, 30, 3), np.uint8)))


@pytest.mark.parametrize("stored", [b"", PNG[:40], b"GIF89a", b"RIFF\0\0\0\0WEBP", PNG[:16] + b"\xff" + PNG[17:]])
def test_what_pillow_says_about_a_damaged_header_is_an_address_and_left_out(stored: bytes) -> None:
    for read in (get_codec("png").decode, image_size):
        if read is image_size and stored == PNG[:40]:
            continue  # whose size is in its header
        with pytest.raises(CodecError, match=rf"found {len(stored)} bytes( starting with [0-9a-f ]+)?$"):
            read(stored)
    with pytest.raises(CodecError, match="Truncated File Read"):
        get_codec("png").decode(PNG[:20])


def test_pixel_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = get_codec("png").encode(smooth())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 32 * 48)
    assert get_codec("png").decode(stored).shape == (32, 48, 3)
    for limit in (32 * 48 - 1, 10):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(CodecError, match="pixels"):
            get_codec("png").decode(stored)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert get_codec("png").decode(stored).shape == (32, 48, 3)


def test_jpegs_have_pillows_limit_without_pillow() -> None:
    assert image._MAX_IMAGE_PIXELS == Image.MAX_IMAGE_PIXELS
    program = (
        "import sys, numpy; from bushel.codecs import get_codec;"
        "codec = get_codec('jpg'); codec.decode(codec.encode(numpy.zeros((8, 8, 3), numpy.uint8)));"
        "assert 'PIL' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
