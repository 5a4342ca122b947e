"""PNGs that the kernel decodes are decoded as Pillow decodes them; what it does not decode is left to Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bushel.codecs import get_codec
from bushel.codecs.image import ImageReading, decode_image, header_size
from bushel.codecs.png import decode_png, may_be_turned, png_header
from bushel.errors import CodecError
from bushel.kernels import colour_png, unfilter_png

MAGIC = b"\x89PNG\r\n\x1a\n"
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def saved(image: Image.Image, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", **options)
    return stream.getvalue()


def by_pillow(data: bytes) -> npt.NDArray[Any]:
    """Decode without the kernel: with an orientation to apply, Pillow decodes."""
    found: npt.NDArray[Any] = get_codec("png(exif_rotate)").decode(data)
    return found


def by_kernel(data: bytes) -> npt.NDArray[Any] | None:
    header = png_header(data)
    return None if header is None else decode_png(data, header)


def same(found: npt.NDArray[Any] | None, data: bytes) -> bool:
    expected = by_pillow(data)
    assert found is not None
    assert found.flags.writeable
    return found.dtype == expected.dtype and np.array_equal(found, expected)


def picture(mode: str, width: int, height: int, seed: int, noise: int) -> Image.Image:
    """Smooth areas and noise, so that an encoder chooses each of the filters somewhere."""
    rows, columns = np.mgrid[:height, :width]
    rng = np.random.default_rng(seed)
    planes = [rows * 3 + columns * seed % 7, columns * 5, (rows + columns) * 2, rows * columns // 9]
    pixels = (np.stack(planes, axis=2) + rng.integers(0, noise + 1, (height, width, 4))).astype(np.uint8)
    if mode == "I;16":
        return Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257 + pixels[:, :, 1])
    if mode == "P":
        return Image.fromarray(pixels[:, :, :3]).quantize(int(rng.integers(2, 257)))
    return Image.fromarray(pixels).convert(mode)


@settings(deadline=None)
@given(st.sampled_from(MODES), st.integers(1, 70), st.integers(1, 40), st.integers(0, 99), st.sampled_from([0, 3, 255]))
def test_all_modes(mode: str, width: int, height: int, seed: int, noise: int) -> None:
    data = saved(picture(mode, width, height, seed, noise))
    assert same(by_kernel(data), data)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("alpha", [None, b"\x80\x00", 1])
def test_palettes(bits: int, alpha: Any) -> None:
    image = picture("P", 21, 9, 3, 200).quantize(1 << bits)
    data = saved(image, bits=bits, **({} if alpha is None else {"transparency": alpha}))
    assert same(by_kernel(data), data)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_palette_of_few_bits_and_one_column(bits: int) -> None:
    image = Image.fromarray(np.array([[1], [0], [1]], np.uint8)).convert("P")
    image.putpalette([9, 8, 7, 30, 20, 10])
    stream = io.BytesIO()
    image.save(stream, "PNG", bits=bits)
    assert same(by_kernel(stream.getvalue()), stream.getvalue())


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_grey_of_few_bits(bits: int) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (7, 5 * bits), dtype=np.uint8)
    data = made(40, 7, bits, 0, rows)
    assert same(by_kernel(data), data)


@settings(deadline=None)
@given(st.sampled_from(MODES), st.integers(1, 40), st.integers(2, 40), st.data())
def test_the_first_rows_are_those_of_the_whole(mode: str, width: int, height: int, data: st.DataObject) -> None:
    stored = saved(picture(mode, width, height, 5, 60))
    rows = data.draw(st.integers(1, height))
    top = decode_image(stored, ImageReading(), rows=rows)
    np.testing.assert_array_equal(top, by_pillow(stored)[:rows])
    assert len(top) == rows
    assert len(decode_image(stored, ImageReading(), rows=0)) == 1


def test_what_is_below_the_first_rows_is_not_inflated() -> None:
    stored = bytearray(saved(picture("RGB", 64, 64, 1, 255)))
    stored[len(stored) - 200 : len(stored) - 100] = bytes(100)
    with pytest.raises(CodecError):
        get_codec("png").decode(bytes(stored))
    assert decode_image(bytes(stored), ImageReading(), rows=40).shape == (40, 64, 3)
    with pytest.raises(CodecError):  # the last row is needed, so everything is checked
        decode_image(bytes(stored), ImageReading(), rows=64)


def test_only_some_chunks_can_turn_an_image() -> None:
    rows = np.zeros((2, 6), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    assert may_be_turned(saved(picture("RGB", 8, 8, 0, 0), exif=exif))
    assert may_be_turned(made(2, 2, 8, 2, rows, before=chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>")))
    assert may_be_turned(made(2, 2, 8, 2, rows, before=chunk(b"zTXt", b"Raw profile type exif\0\0x")))
    assert may_be_turned(made(2, 2, 8, 2, rows)[:-12])  # it does not end
    assert not may_be_turned(made(2, 2, 8, 2, rows, before=chunk(b"tEXt", b"Software\0x")))


def test_the_size_is_in_the_header() -> None:
    assert header_size(made(3, 5, 8, 0, np.zeros((5, 3), np.uint8))) == (3, 5)
    for data in (b"", MAGIC, made(3, 5, 8, 0, np.zeros((5, 3), np.uint8)).replace(b"\0\0\0\x05", b"\0\0\0\x06")):
        assert header_size(data) is None


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def made(width: int, height: int, depth: int, colour: int, rows: npt.NDArray[np.uint8], **changes: Any) -> bytes:
    """Return a PNG of unfiltered rows."""
    filters = changes.get("filters", np.zeros(len(rows), np.uint8))
    filtered = np.hstack([filters[:, None], rows]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, changes.get("interlaced", 0))
    packed = zlib.compress(filtered)
    cut = changes.get("cut", len(packed))
    parts = [chunk(b"IDAT", part) for part in (packed[:cut], packed[cut:]) if part]
    before: bytes = changes.get("before", b"")
    return MAGIC + chunk(b"IHDR", head) + before + b"".join(parts) + chunk(b"IEND", b"")


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("number", range(5))
def test_each_filter(channels: int, number: int) -> None:
    rows = np.random.default_rng(number).integers(0, 256, (6, 11 * channels), dtype=np.uint8)
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    data = made(11, 6, 8, colour, rows, filters=np.full(6, number, np.uint8), cut=9)
    assert same(by_kernel(data), data)


def test_rows_of_another_size_or_filter() -> None:
    rows = np.zeros((2, 6), np.uint8)
    for filters in (np.array([0, 5], np.uint8), np.array([0, 255], np.uint8)):
        assert by_kernel(made(2, 2, 8, 2, rows, filters=filters)) is None
    assert by_kernel(made(2, 3, 8, 2, rows)) is None
    assert by_kernel(made(2, 1, 8, 2, rows)) is None
    with pytest.raises(ValueError, match="row 1 has an unknown filter"):
        unfilter_png(bytes([0, 1, 9, 1]), 2, 1, 1)
    for filtered, rows_of, row, pixel in (
        (bytes(4), 2, 2, 1),
        (bytes(4), 1, 3, 2),
        (bytes(4), 1, 3, 5),
        (b"", 1, 0, 1),
    ):
        with pytest.raises(ValueError, match="expected|another size"):
            unfilter_png(filtered, rows_of, row, pixel)


def test_indices_beyond_the_palette() -> None:
    palette = np.arange(8, dtype=np.uint8)
    assert colour_png(np.array([1, 0, 1], np.uint8), palette, 3).tolist() == [4, 5, 6, 0, 1, 2, 4, 5, 6]
    assert colour_png(np.zeros(0, np.uint8), palette, 4).tolist() == []
    with pytest.raises(ValueError, match="not in the palette"):
        colour_png(np.array([2], np.uint8), palette, 4)
    with pytest.raises(ValueError, match="3 or 4"):
        colour_png(np.array([0], np.uint8), palette, 2)
    rows = np.array([[0, 3]], np.uint8)
    data = made(2, 1, 8, 3, rows, before=chunk(b"PLTE", bytes(range(6))))
    assert by_kernel(data) is None
    assert get_codec("png").decode(data).shape == (1, 2, 3)


def test_what_is_left_to_pillow() -> None:
    animated = io.BytesIO()
    frames = [picture("RGB", 8, 8, seed, 9) for seed in range(2)]
    frames[0].save(animated, "PNG", save_all=True, append_images=frames[1:])
    rows = np.zeros((1, 2), np.uint8)
    for data in (
        animated.getvalue(),
        made(2, 1, 8, 0, rows, before=chunk(b"CgBI", b"")),
        made(1, 1, 16, 0, rows, interlaced=1),
        made(1, 1, 16, 2, np.zeros((1, 6), np.uint8)),
    ):
        assert by_kernel(data) is None
    assert get_codec("png").decode(animated.getvalue()).shape == (8, 8, 3)


def test_too_many_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(60_000, 60_000, 8, 0, np.zeros((60_000, 0), np.uint8))
    with pytest.raises(CodecError, match="3600000000 pixels"):
        get_codec("png").decode(data)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(CodecError, match="at most .* 10 pixels"):
        get_codec("png").decode(saved(picture("L", 4, 4, 0, 0)))


@given(st.sampled_from(MODES), st.data())
def test_damage(mode: str, data: st.DataObject) -> None:
    stored = bytearray(saved(picture(mode, 9, 7, 1, 20)))
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(8, len(stored) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(stored[: data.draw(st.integers(0, len(stored)))] if data.draw(st.booleans()) else stored)
    found = by_kernel(damaged)
    try:
        expected = by_pillow(damaged)
    except CodecError:
        return  # Pillow also checks what is not needed for the pixels
    if found is not None:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(get_codec("png").decode(damaged), expected)
