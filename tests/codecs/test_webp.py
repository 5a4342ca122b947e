"""WebPs that libwebp decodes are decoded as Pillow decodes them; what it refuses is left to Pillow, with its errors."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from bushel.codecs import get_codec, image, webp
from bushel.codecs.image import ImageReading, decode_image
from bushel.codecs.webp import decode_webp, webp_header
from bushel.errors import CodecError
from bushel.transforms import CenterCrop
from bushel.transforms.fused import decode_into, image_size, plan_decode

EXIF = Image.Exif()
EXIF[0x0112] = 6
OPTIONS: dict[str, dict[str, Any]] = {
    "lossy": {"quality": 80},
    "lossless": {"lossless": True},
    "exact": {"lossless": True, "exact": True},
    "Exif": {"exif": EXIF},
    "XMP": {"xmp": b"<x/>"},
    "colours": {"icc_profile": b"profile"},
}


def picture(mode: str, width: int, height: int) -> Image.Image:
    rows, columns = np.mgrid[:height, :width]
    planes = np.stack([columns * 3, rows * 5, columns * rows // 7, columns + rows], axis=2)
    noise = np.random.default_rng(width).integers(0, 40, planes.shape)
    return Image.fromarray((planes + noise).astype(np.uint8)).convert(mode)


def stored(mode: str = "RGB", width: int = 97, height: int = 130, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture(mode, width, height).save(stream, "WEBP", **options)
    return stream.getvalue()


def by_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(data)) as opened:
        return np.array(opened)


def by_libwebp(data: bytes | memoryview, rows: int | None = None) -> npt.NDArray[np.uint8] | None:
    header = webp_header(data)
    return None if header is None else decode_webp(data, header, rows)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (64, 33), (97, 130)])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_pixels_are_those_of_pillow(mode: str, size: tuple[int, int], options: dict[str, Any]) -> None:
    data = stored(mode, *size, **options)
    expected = by_pillow(data)
    assert image_size(data) == size
    found = by_libwebp(memoryview(data))
    assert found is not None  # Pillow's library is found, and does it
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(get_codec("webp").decode(data), expected)
    for rows in range(0, size[1] + 3, 7):
        np.testing.assert_array_equal(decode_image(data, ImageReading(), rows=rows), expected[: max(1, rows)])


def test_a_crop_is_that_of_the_whole_image() -> None:
    plan = plan_decode([CenterCrop((40, 60))])
    for mode in ("RGB", "RGBA"):
        data, out = stored(mode, quality=60), np.zeros((1, 40, 60, 3), np.uint8)
        assert not decode_into(plan, [data], [plan.geometry(*image_size(data))], out)
        np.testing.assert_array_equal(out[0], by_pillow(data)[45:85, 18:78, :3])


def test_without_the_functions_of_libwebp_pillow_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored("RGBA", quality=60)
    expected = get_codec("webp").decode(data)
    monkeypatch.setattr(webp, "_libwebp", lambda: None)
    assert webp_header(data) is None
    assert image_size(data) == (97, 130)
    np.testing.assert_array_equal(get_codec("webp").decode(data), expected)


def test_the_orientation_is_pillows() -> None:
    data = stored(exif=EXIF)
    assert get_codec("webp").decode(data).shape == (130, 97, 3)
    assert get_codec("webp(exif_rotate)").decode(data).shape == (97, 130, 3)


def test_an_animation_is_its_first_frame() -> None:
    frames = [picture("RGB", 20, 10), picture("RGB", 20, 10).rotate(180)]
    stream = io.BytesIO()
    frames[0].save(stream, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    assert webp_header(stream.getvalue()) is None
    np.testing.assert_array_equal(get_codec("webp").decode(stream.getvalue()), np.array(frames[0]))


def test_a_file_that_ends_early_is_refused_wherever_it_ends() -> None:
    data = stored("RGBA", 30, 20, exif=EXIF)
    for length in range(12, len(data)):
        with pytest.raises(CodecError):
            get_codec("webp").decode(data[:length])


def test_the_number_of_pixels_is_checked_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 97 * 130 - 1)
    monkeypatch.setattr(webp, "decode_webp", None)
    with pytest.raises(CodecError, match="12609 pixels, found 12610 pixels"):
        image.decode_image(data, ImageReading())


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_damaged_bytes_give_what_pillow_gives_or_nothing(mode: str, options: dict[str, Any]) -> None:
    data, chance = stored(mode, 33, 21, **options), random.Random(1)
    alike = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(chance.choice((40, len(damaged))))] = chance.randrange(256)
        found = by_libwebp(bytes(damaged))
        if found is None:
            continue
        try:
            expected = by_pillow(bytes(damaged))
        except Exception:  # Pillow refuses damaged metadata, too
            continue
        np.testing.assert_array_equal(found, expected)
        alike += 1
    assert alike
