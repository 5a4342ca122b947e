"""JPEGs with unusual headers, wrong restart markers or damage: Bushel's decoder against libjpeg, level by level.

Both decode a whole image to the same levels, or both refuse it, with and without tolerance.
"""

from __future__ import annotations

import platform
import random
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.jpeg_parts import damaged, restarts_of, taken_apart, ways_to_restart, ways_to_say_it
from tests.kernels.jpegs import Pixels, by_pillow, picture, resampled, row, save

from bushel.kernels import JpegError, decode_jpeg, decode_jpegs, jpeg_header, tile_jpeg

Box = tuple[int, int, int, int]


def noise(width: int, height: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def whole(data: bytes, *, libjpeg: bool = False, tolerant: bool = False) -> Pixels | None:
    try:
        return decode_jpeg(data, libjpeg=libjpeg, tolerant=tolerant)
    except JpegError:
        return None


def crop(data: bytes, box: Box, *, scale: int = 1, libjpeg: bool = False) -> Pixels | None:
    """Decode a crop at 1/scale of its size with the inverse DCT. Its sides are multiples of it: nothing is resized."""
    width, height = (box[2] - box[0]) // scale, (box[3] - box[1]) // scale
    out: Pixels = np.zeros((1, height, width, 3), np.uint8)
    faults = decode_jpegs([data], row(box, (width, height)), out, reducing_gap=1.0, libjpeg=libjpeg)
    return None if faults else out[0]


def same(one: Pixels | None, other: Pixels | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def drawn_box(width: int, height: int, scale: int, draw: random.Random) -> Box:
    across, down = draw.randint(1, width // scale) * scale, draw.randint(1, height // scale) * scale
    left, top = draw.randint(0, width - across), draw.randint(0, height - down)
    return left, top, left + across, top + down


def check_crops(data: bytes, draw: random.Random) -> None:
    """Compare crops at every scale: those that libjpeg decodes must be equal.

    Bushel's decoder may succeed where libjpeg fails: it does not read segments outside the crop, while libjpeg reads
    those above it, and in a file that is not tiled also those beside it.
    """
    try:
        width, height, _, _ = jpeg_header(data)
    except JpegError:
        return
    if width * height > 1 << 16:  # by damage
        return
    for scale in (1, 2, 4, 8):
        if min(width, height) < scale:
            continue
        box = drawn_box(width, height, scale, draw)
        expected = crop(data, box, scale=scale, libjpeg=True)
        if expected is not None:
            assert same(crop(data, box, scale=scale), expected), f"1/{scale} of {box}"


def check_whole(data: bytes) -> int:
    """Return how many of the two decoders fail."""
    failed = 0
    for tolerant in (False, True):
        expected = whole(data, libjpeg=True, tolerant=tolerant)
        assert same(whole(data, tolerant=tolerant), expected), f"tolerant={tolerant}"
        failed += expected is None
    return failed


HEADERS = {sampling: ways_to_say_it(save(picture(75, 53), subsampling=sampling)) for sampling in (0, 1, 2)}

REFUSED = {
    "Adobe, unknown transform": 1,
    "JFIF 2": 1,
    "no quantisers": 2,
    "a spectrum that is cut": 1,
    "no end marker": 1,
    "bytes before markers": 1,
}
"""How many decodings libjpeg refuses: the strict one, or the tolerant one too."""


@pytest.mark.parametrize("sampling", HEADERS)
@pytest.mark.parametrize("way", HEADERS[0])
def test_headers(way: str, sampling: int) -> None:
    data = HEADERS[sampling][way]
    assert check_whole(data) == REFUSED.get(way, 0)
    for seed in range(4):
        check_crops(data, random.Random(seed))


def test_tables_of_the_image_before_are_not_taken() -> None:
    """libjpeg keeps such tables; a file without Huffman tables has the tables of the standard's annex K."""
    before = save(noise(40, 30), quality=30, optimize=True)
    data = save(picture(75, 53))
    ways = ways_to_say_it(data)
    for libjpeg in (False, True):
        assert whole(before, libjpeg=libjpeg) is not None
        assert whole(ways["no quantisers"], libjpeg=libjpeg) is None
        assert same(whole(ways["no Huffman tables"], libjpeg=libjpeg), by_pillow(data))


RESTARTS = {
    "4:4:4": save(picture(75, 53), subsampling=0, restart_marker_blocks=4),
    "4:2:0": save(picture(75, 83), subsampling=2, restart_marker_blocks=2),
    "grey": save(picture(75, 53), "L", restart_marker_blocks=3),
    "rows": save(picture(75, 83), subsampling=2, restart_marker_rows=1),
    "tiled": tile_jpeg(save(picture(256, 60), subsampling=1)),
}


@pytest.mark.parametrize("kind", RESTARTS)
@pytest.mark.parametrize("way", ways_to_restart(RESTARTS["grey"]))
def test_restart_markers(kind: str, way: str) -> None:
    data = ways_to_restart(RESTARTS[kind])[way]
    check_whole(data)
    for seed in range(4):
        check_crops(data, random.Random(seed))


DAMAGED = {
    "4:4:4": save(picture(75, 53), subsampling=0),
    "4:2:2": save(picture(75, 53), subsampling=1),
    "4:2:0": save(picture(75, 53), subsampling=2),
    "grey": save(picture(75, 53), "L"),
    "noise": save(noise(41, 33), subsampling=0, quality=97),
    "optimised": save(picture(75, 53), subsampling=2, optimize=True),
    "quality 1": save(picture(75, 53), subsampling=1, quality=1),
    **{f"restarts, {kind}": data for kind, data in RESTARTS.items()},
    "4:4:0": resampled(save(picture(80, 48), subsampling=1), 37, 95, 0x12),
    "cmyk": save(picture(40, 30), "CMYK"),
    "progressive": save(picture(40, 30), progressive=True),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage(kind: str) -> None:
    draw = random.Random(kind)
    failed = 0
    for _ in range(250):
        data = damaged(DAMAGED[kind], draw)
        failed += check_whole(data)
        check_crops(data, draw)
    assert 25 < failed < 475  # some damage is not noticed, some is not fatal
    assert same(whole(DAMAGED[kind]), by_pillow(DAMAGED[kind]))  # the decoder of this thread keeps no state


def test_coefficients_that_no_image_has() -> None:
    """Products that overflow 16 bits, and levels far beyond 255, which versions of libjpeg treat differently."""
    for source in (picture(75, 53), noise(75, 53)):
        for sampling in (0, 1, 2):
            data = bytearray(save(source, quality=96, subsampling=sampling, restart_marker_blocks=3))
            for factor in (40, 120, 255):
                at = data.index(b"\xff\xdb") + 5
                data[at : at + 64] = bytes([factor]) * 64
                assert check_whole(bytes(data)) == 0
                for seed in range(8):
                    check_crops(bytes(data), random.Random(seed))


def has_own_decoder() -> bool:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return platform.machine() == "x86_64" and {"avx2", "bmi1", "bmi2"} <= set(flags)


@pytest.mark.skipif(not has_own_decoder(), reason="without AVX2 and BMI2 libjpeg decodes everything")
@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_the_own_decoder_is_the_one_that_decodes(sampling: int) -> None:
    """Damage above the crop is not noticed. libjpeg notices it, since the segments do not divide rows equally."""
    data = save(picture(150, 120), subsampling=sampling, restart_marker_blocks=3)
    scan = taken_apart(data).scan
    first, second = restarts_of(scan)[:2]
    broken = data.replace(scan[first + 2 : second], b"\x12\x34")
    box = (20, 80, 141, 117)
    assert whole(broken) is None
    assert crop(broken, box, libjpeg=True) is None
    assert same(crop(broken, box), by_pillow(data)[80:117, 20:141])
