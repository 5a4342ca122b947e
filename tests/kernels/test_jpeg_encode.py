from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from bushel import kernels


def noisy(height: int, width: int) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(height * 1000 + width)
    down, across = np.mgrid[:height, :width]
    levels = np.stack([down * 3, across * 2, down + across], axis=2) + rng.integers(0, 40, (height, width, 3))
    return levels.astype(np.uint8)


def by_pillow(image: npt.NDArray[np.uint8], quality: int, subsampling: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality, subsampling=subsampling)
    return stream.getvalue()


def pixels(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize("size", [(1, 1), (1, 17), (16, 16), (33, 7), (37, 53), (240, 319)])
@pytest.mark.parametrize("quality", [1, 50, 95, 100])
@pytest.mark.parametrize(("sampling", "name"), [((2, 2), "4:2:0"), ((2, 1), "4:2:2"), ((1, 1), "4:4:4")])
def test_images_are_those_that_pillow_writes(
    size: tuple[int, int], quality: int, sampling: tuple[int, int], name: str
) -> None:
    image = noisy(*size)
    found, expected = kernels.encode_jpeg(image, quality, sampling), by_pillow(image, quality, name)
    with Image.open(io.BytesIO(found)) as ours, Image.open(io.BytesIO(expected)) as theirs:
        assert ours.size == (size[1], size[0])
        assert ours.quantization == theirs.quantization  # type: ignore[attr-defined]
        assert ours.layer == theirs.layer  # type: ignore[attr-defined]  # components with their sampling
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_grey() -> None:
    image = noisy(37, 53)[:, :, 0].copy()
    found = kernels.encode_jpeg(image, 90)
    np.testing.assert_array_equal(pixels(found), pixels(by_pillow(image, 90, "4:2:0")))
    assert kernels.jpeg_header(found)[:3] == (53, 37, 1)


def test_many_threads() -> None:
    images = [noisy(40 + number, 50) for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(kernels.encode_jpeg, images)) == [kernels.encode_jpeg(image) for image in images]


def test_what_is_too_large() -> None:
    with pytest.raises(kernels.JpegError, match="65500"):
        kernels.encode_jpeg(np.zeros((1, 65501), np.uint8))
    with pytest.raises(ValueError, match="at most 65535"):
        kernels.encode_jpeg(np.zeros((65536, 1), np.uint8))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.uint16),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((2, 4, 4, 3), np.uint8),
        np.zeros((4, 8, 3), np.uint8)[:, ::2],
        b"1234",
    ],
)
def test_not_an_image(image: Any) -> None:
    with pytest.raises(TypeError):
        kernels.encode_jpeg(image)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0, 3)])
def test_what_is_empty(shape: tuple[int, ...]) -> None:
    with pytest.raises(kernels.JpegError, match="Empty"):
        kernels.encode_jpeg(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("options", [{"quality": 0}, {"quality": 101}, {"sampling": (3, 1)}, {"sampling": (1, 0)}])
def test_wrong_parameters(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        kernels.encode_jpeg(np.zeros((4, 4), np.uint8), **options)


def test_fast_is_nearly_the_same() -> None:
    image = noisy(41, 67)
    exact, fast = kernels.encode_jpeg(image, 90, (1, 1)), kernels.encode_jpeg(image, 90, (1, 1), fast=True)
    assert fast != exact
    assert fast[:20] == exact[:20]
    assert np.abs(pixels(fast).astype(int) - pixels(exact)).mean() < 4
    assert kernels.encode_jpeg(image, 90, (1, 1)) == exact
