"""Decoding of whole images and crops against Pillow."""

from __future__ import annotations

import io
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.kernels.jpegs import Pixels, all_kinds, by_pillow, picture, rgb, row, save, some

from bushel.kernels import JpegError, decode_jpeg, decode_jpegs, jpeg_header, tile_jpeg

KINDS = all_kinds()
COMPONENTS = {"grey": 1, "progressive grey": 1, "cmyk": 4, "cmyk 4:2:0": 4, "ycck": 4}


def crop(data: bytes, box: tuple[int, int, int, int], *, orient: bool = False) -> Pixels:
    out: Pixels = np.zeros((box[3] - box[1], box[2] - box[0], 3), np.uint8)
    assert decode_jpegs([data], row(box), out[None], reducing_gap=None, orient=orient) == []
    return out


def boxes(width: int, height: int, count: int, seed: int) -> list[tuple[int, int, int, int]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        left, top = draw.randrange(width), draw.randrange(height)
        found.append((left, top, draw.randint(left + 1, width), draw.randint(top + 1, height)))
    return [(0, 0, width, height), (width - 1, height - 1, width, height), *found]


@pytest.mark.parametrize("kind", KINDS)
def test_whole(kind: str) -> None:
    expected = by_pillow(KINDS[kind])
    found = decode_jpeg(KINDS[kind])
    assert found.flags.writeable
    np.testing.assert_array_equal(found, expected)
    components = COMPONENTS.get(kind, 3)
    assert jpeg_header(KINDS[kind]) == (expected.shape[1], expected.shape[0], components, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_crop_has_the_pixels_of_the_whole(kind: str) -> None:
    whole = rgb(by_pillow(KINDS[kind]))
    for left, top, right, bottom in boxes(whole.shape[1], whole.shape[0], 150, seed=1):
        found = crop(KINDS[kind], (left, top, right, bottom))
        np.testing.assert_array_equal(found, whole[top:bottom, left:right], f"{left, top, right, bottom}")


def test_crops_of_photos(photos: Path) -> None:
    for number, path in enumerate(some(photos.glob("*/*.jpg"))):
        data = path.read_bytes()
        whole = decode_jpeg(data)
        np.testing.assert_array_equal(whole, by_pillow(data))
        for left, top, right, bottom in boxes(whole.shape[1], whole.shape[0], 5, seed=number):
            found = crop(data, (left, top, right, bottom))
            np.testing.assert_array_equal(found, rgb(whole)[top:bottom, left:right], f"{path} {left, top}")


def test_grey_into_one_channel() -> None:
    out = np.zeros((2, 20, 30, 1), np.uint8)
    found = decode_jpegs([KINDS["grey"], KINDS["4:2:0"]], np.repeat(row((5, 6, 35, 26)), 2, axis=0), out)
    np.testing.assert_array_equal(out[0, :, :, 0], by_pillow(KINDS["grey"])[6:26, 5:35])
    assert found == [(1, "it has colours, but the array has one channel")]
    assert not out[1].any()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    for sampling, progressive in ((2, False), (0, True)):
        data = save(picture(61, 43), exif=exif, subsampling=sampling, progressive=progressive)
        assert jpeg_header(data) == (61, 43, 3, orientation)
        stored = Image.fromarray(by_pillow(data))
        stored.getexif()[0x0112] = orientation
        upright = np.array(ImageOps.exif_transpose(stored))
        np.testing.assert_array_equal(decode_jpeg(data, orient=True), upright)
        np.testing.assert_array_equal(decode_jpeg(data), np.array(stored))
        for left, top, right, bottom in boxes(upright.shape[1], upright.shape[0], 20, seed=2):
            found = crop(data, (left, top, right, bottom), orient=True)
            np.testing.assert_array_equal(found, upright[top:bottom, left:right])


def test_orientation_with_a_smaller_inverse_dct_agrees_with_turning_afterwards() -> None:
    exif = Image.Exif()
    for orientation in range(2, 9):
        exif[0x0112] = orientation
        data = save(picture(403, 299), exif=exif, quality=95)
        upright = decode_jpeg(data, orient=True)
        height, width = upright.shape[:2]
        box = (7, 5, width - 3, height - 10)
        out = np.zeros((1, 40, 50, 3), np.uint8)
        assert decode_jpegs([data], row(box, (50, 40)), out, orient=True) == []
        plain = Image.fromarray(upright).crop(box).resize((50, 40), Image.Resampling.BILINEAR)
        assert psnr(out[0], np.array(plain)) > 30


def psnr(one: Pixels, other: Pixels) -> float:
    error = np.mean((one.astype(float) - other.astype(float)) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))


def test_a_smaller_inverse_dct_is_close_on_all_photos(photos: Path) -> None:
    for path in sorted(photos.glob("*/*.jpg")):
        data = path.read_bytes()
        width, height, _, _ = jpeg_header(data)
        small = max(width // 5, 1), max(height // 5, 1)
        pair = np.zeros((2, 1, small[1], small[0], 3), np.uint8)
        assert decode_jpegs([data], row((0, 0, width, height), small), pair[0]) == []
        assert decode_jpegs([data], row((0, 0, width, height), small), pair[1], reducing_gap=None) == []
        assert psnr(pair[0], pair[1]) >= 35, path


@pytest.mark.parametrize("kind", KINDS)
def test_cut_anywhere(kind: str) -> None:
    data = KINDS[kind]
    whole = decode_jpeg(data)
    for end in [*range(0, len(data), max(len(data) // 60, 1)), len(data) - 3]:
        with pytest.raises(JpegError) as caught:
            decode_jpeg(data[:end])
        assert str(caught.value).strip()
    found = decode_jpeg(data[:-100] if len(data) > 1200 else data[:-3], tolerant=True)
    assert found.shape == whole.shape


def test_what_libjpeg_says() -> None:
    data = KINDS["4:2:0"]
    with pytest.raises(JpegError, match="Premature end"):
        decode_jpeg(data[:-200])
    marker = KINDS["restarts"].index(b"\xff\xd1")
    with pytest.raises(JpegError, match="(?i)corrupt"):
        decode_jpeg(KINDS["restarts"][:marker] + b"\xff\xd5" + KINDS["restarts"][marker + 2 :])
    for other in (b"", b"\xff", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"\xff\xd8" + bytes(100)):
        with pytest.raises(JpegError):
            decode_jpeg(other)


def test_errors_of_a_batch_name_the_rows_and_leave_their_slots() -> None:
    data = KINDS["4:4:4"]
    out = np.full((4, 107, 149, 3), 7, np.uint8)
    rows = np.repeat(row((0, 0, 149, 107)), 4, axis=0)
    rows[3, 2] = 150
    found = decode_jpegs([data, data[:2000], b"no JPEG", data], rows, out)
    assert [number for number, _ in found] == [1, 2, 3]
    assert "premature end" in found[0][1].lower()
    assert found[1][1] == "it does not begin with FF D8"
    assert found[2][1] == "the box from (0, 0) to (150, 107) is not inside the image, which is 149x107"
    np.testing.assert_array_equal(out[0], by_pillow(data))
    assert (out[1:] == 7).all()


def test_sizes_that_a_file_cannot_have_allocate_nothing() -> None:
    data = bytearray(KINDS["4:2:0"])
    at = data.index(b"\xff\xc0\x00\x11\x08") + 5
    data[at : at + 4] = b"\xff\xdc\xff\xdc"
    with pytest.raises(JpegError, match="65500x65500 pixels, more than the 89478485 allowed"):
        decode_jpeg(bytes(data))
    with pytest.raises(JpegError, match="bytes are too few for 65500x65500 pixels"):
        decode_jpeg(bytes(data), max_pixels=2**40)
    data[at : at + 4] = b"\x00\x00\x00\x10"
    with pytest.raises(JpegError, match="its size is 16x0"):
        decode_jpeg(bytes(data))


def test_threads_do_not_meet() -> None:
    datas = list(KINDS.values()) * 4
    expected = [decode_jpeg(data) for data in datas]

    def decode(number: int) -> Pixels:
        with pytest.raises(JpegError):
            decode_jpeg(datas[number][:-60])
        return decode_jpeg(datas[number])

    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(decode, range(len(datas))), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_nothing_leaks() -> None:
    whole, cut = KINDS["progressive 4:2:0"], KINDS["progressive 4:2:0"][:-500]

    def use(times: int) -> None:
        for _ in range(times):
            decode_jpeg(whole)
            tile_jpeg(whole)
            for call in (decode_jpeg, tile_jpeg):
                with pytest.raises(JpegError):
                    call(cut)

    use(50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    use(400)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 4096  # KiB: a leak of one decoded image each time would be 19 MiB


def test_arguments() -> None:
    data, rows, out = KINDS["4:4:4"], row((0, 0, 4, 4)), np.zeros((1, 4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="out has room for 1 images, expected 2"):
        decode_jpegs([data, data], rows, out)
    with pytest.raises(ValueError, match="geometry has 1 rows, expected 2"):
        decode_jpegs([data, data], rows, np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(TypeError, match="geometry"):
        decode_jpegs([data], rows.astype(np.int64), out)
    with pytest.raises(ValueError, match="layout"):
        decode_jpegs([data], rows, out, layout="WHC")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reducing_gap"):
        decode_jpegs([data], rows, out, reducing_gap=0.5)
    with pytest.raises(TypeError, match="uint8 without a table"):
        decode_jpegs([data], rows, np.zeros((1, 4, 4, 3), np.float32))
    with pytest.raises(TypeError):
        decode_jpegs([data], rows, out[:, :, ::2])
    out.flags.writeable = False
    with pytest.raises(TypeError, match="writable"):
        decode_jpegs([data], rows, out)
    with pytest.raises(TypeError):
        decode_jpegs(["text"], rows, np.zeros((1, 4, 4, 3), np.uint8))  # type: ignore[list-item]


@pytest.mark.parametrize("kind", KINDS)
def test_luma_alone(kind: str) -> None:
    data = KINDS[kind]
    if COMPONENTS.get(kind, 3) == 4:
        with pytest.raises(JpegError, match="CMYK"):
            decode_jpeg(data, grey=True)
        return
    with Image.open(io.BytesIO(data)) as image:
        image.draft("L", image.size)  # libjpeg leaves the colours out
        expected = np.asarray(image)
    np.testing.assert_array_equal(decode_jpeg(data, grey=True), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_fast_is_nearly_the_same(kind: str) -> None:
    exact, fast = decode_jpeg(KINDS[kind]).astype(int), decode_jpeg(KINDS[kind], fast=True)
    assert fast.shape == exact.shape
    np.testing.assert_array_equal(fast, decode_jpeg(KINDS[kind], fast=True, libjpeg=True))
    assert np.abs(fast - exact).mean() < 8  # edges where chroma is subsampled, and not smoothed
    np.testing.assert_array_equal(decode_jpeg(KINDS[kind]), exact)  # the decoder of this thread keeps no state


def test_images_that_live_do_not_share_memory() -> None:
    """Memory of deleted images is reused, and no other memory."""
    datas = [save(picture(200 + 3 * number, 150, seed=number)) for number in range(8)]
    expected = [by_pillow(data) for data in datas]

    def work(seed: int) -> None:
        draw, kept = random.Random(seed), dict[int, Pixels]()
        for _ in range(200):
            number = draw.randrange(8)
            kept[number] = decode_jpeg(datas[number])
            if draw.random() < 0.4:
                kept.pop(draw.choice(list(kept)))
        for number, image in kept.items():
            np.testing.assert_array_equal(image, expected[number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
