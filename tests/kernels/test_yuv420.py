"""Frames of videos become RGB by integers of 16 bits, as swscale makes it on x86."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bushel.codecs.video import _matrix, _Pixels
from bushel.kernels import yuv420_to_rgb

Bytes = npt.NDArray[np.uint8]
SIZES = [(2, 2), (6, 4), (31, 2), (32, 2), (33, 6), (64, 8), (95, 4), (130, 10), (176, 144)]
FACTORS = {601: (13075, -3209, -6660, 16525), 709: (14686, -1747, -4366, 17305)}


def planes(width: int, height: int, seed: int = 0) -> Any:
    """Return random planes with rows that are longer than the frame."""
    rng = np.random.default_rng(seed)
    chroma = height // 2, (width + 1) // 2 + 3
    return [rng.integers(0, 256, shape, np.uint8) for shape in ((height, width + 5), chroma, chroma)]


def expected(luma: Bytes, cb: Bytes, cr: Bytes, width: int, matrix: int) -> Bytes:
    red_cr, green_cb, green_cr, blue_cb = FACTORS[matrix]

    def product(samples: Any, zero: int, factor: int) -> Any:
        return ((samples.astype(np.int64) * 8 - zero * 8) * factor) >> 16

    y = product(luma[:, :width], 16, 9539)
    blue, red = (one.repeat(2, 0).repeat(2, 1)[:, :width] for one in (cb, cr))
    green = product(blue, 128, green_cb) + product(red, 128, green_cr)
    levels = np.stack([y + product(red, 128, red_cr), y + green, y + product(blue, 128, blue_cb)], 2)
    return levels.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("matrix", FACTORS)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_values(width: int, height: int, matrix: int) -> None:
    luma, cb, cr = planes(width, height)
    out = np.empty((height, width, 3), np.uint8)
    yuv420_to_rgb(luma, cb, cr, luma.shape[1], cb.shape[1], matrix, out)
    np.testing.assert_array_equal(out, expected(luma, cb, cr, width, matrix))


def test_every_pair_of_luma_and_chroma() -> None:
    luma: Any = np.arange(256, dtype=np.uint8).repeat(512).reshape(512, 256).T.copy()
    levels: Any = np.arange(256, dtype=np.uint8)[None].repeat(128, 0)
    for cb, cr in ((levels, levels), (levels, np.full_like(levels, 90)), (np.full_like(levels, 200), levels)):
        out = np.empty((256, 512, 3), np.uint8)
        yuv420_to_rgb(luma, cb, cr, 512, 256, 601, out)
        np.testing.assert_array_equal(out, expected(luma, cb, cr, 512, 601))


def test_the_last_row_may_end_with_the_frame() -> None:
    luma, cb, cr = planes(64, 4)
    short: Any = luma.reshape(-1)[: luma.shape[1] * 3 + 64]
    first, last = (plane.reshape(-1)[: plane.shape[1] + 32] for plane in (cb, cr))
    out = np.empty((4, 64, 3), np.uint8)
    yuv420_to_rgb(short, first, last, luma.shape[1], cb.shape[1], 709, out)
    np.testing.assert_array_equal(out, expected(luma, cb, cr, 64, 709))


def test_an_empty_frame() -> None:
    yuv420_to_rgb(b"", b"", b"", 0, 0, 601, np.empty((0, 8, 3), np.uint8))
    yuv420_to_rgb(b"", b"", b"", 0, 0, 601, np.empty((8, 0, 3), np.uint8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"luma": bytes(4 * 8 - 1)}, "a plane is smaller"),
        ({"cb": bytes(7)}, "a plane is smaller"),
        ({"cr": b""}, "a plane is smaller"),
        ({"luma_stride": 7}, "a plane is smaller"),
        ({"luma_stride": 1 << 62}, "a plane is smaller"),
        ({"chroma_stride": (1 << 64) - 1}, "a plane is smaller"),
        ({"matrix": 2020}, "expected 601 or 709"),
        ({"out": np.empty((3, 8, 3), np.uint8)}, "an even number of rows"),
    ],
)
def test_wrong_planes(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "luma": bytes(32),
        "cb": bytes(8),
        "cr": bytes(8),
        "luma_stride": 8,
        "chroma_stride": 4,
        "matrix": 601,
        "out": np.empty((4, 8, 3), np.uint8),
    }
    yuv420_to_rgb(**given)
    with pytest.raises(ValueError, match=message):
        yuv420_to_rgb(**given | change)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((4, 8, 4), np.uint8),
        np.empty((4, 8, 3), np.int8),
        np.empty((4, 16, 3), np.uint8)[:, ::2],
        bytes(4 * 8 * 3),
    ],
    ids=["four channels", "signed", "with gaps", "not writable"],
)
def test_wrong_arrays(out: Any) -> None:
    with pytest.raises(TypeError, match="out: expected"):
        yuv420_to_rgb(bytes(32), bytes(8), bytes(8), 8, 4, 601, out)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="swscale rounds differently on other processors")
@pytest.mark.parametrize("space", [1, 2, 5, 6])
@pytest.mark.parametrize("limited", [0, 1, 2])
def test_swscale_gives_the_same(space: int, limited: int) -> None:
    av = pytest.importorskip("av")
    if int(av.__version__.partition(".")[0]) < 17:
        pytest.skip("older versions of PyAV ignore the color space")
    for width, height in [*SIZES, (64, 47)]:
        frame = av.VideoFrame(width, height, "yuv420p")
        for number, plane in enumerate(frame.planes):
            rng = np.random.default_rng(number)
            plane.update(rng.integers(0, 256, plane.line_size * plane.height, np.uint8).tobytes())
        frame.colorspace, frame.color_range = space, limited
        assert (_matrix(frame) is None) == (limited == 2 or height % 2 == 1)
        np.testing.assert_array_equal(_Pixels("mp4")(frame), frame.to_ndarray(format="rgb24"))
