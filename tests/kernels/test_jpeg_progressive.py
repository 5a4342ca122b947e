"""The decoder of progressive JPEGs against libjpeg-turbo, level by level: scans of every kind, and damage."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.kernels.jpeg_checks import (
    assert_same,
    boxes,
    check,
    check_damaged_crop,
    crop,
    damaged,
    noise,
    segment,
    whole,
)
from tests.kernels.jpegs import Pixels, by_pillow, picture, save
from tests.kernels.progressive_jpegs import Scan, progressive

from bushel.kernels import decode_jpeg

EACH = range(3)

SCRIPTS: dict[str, list[Scan]] = {
    "as libjpeg": [
        Scan((0, 1, 2), shift=1),
        Scan((0,), 1, 5, shift=2),
        Scan((2,), 1, 63, shift=1),
        Scan((1,), 1, 63, shift=1),
        Scan((0,), 6, 63, shift=2),
        Scan((0,), 1, 63, before=2, shift=1),
        Scan((0, 1, 2), before=1),
        Scan((2,), 1, 63, before=1),
        Scan((1,), 1, 63, before=1),
        Scan((0,), 1, 63, before=1),
    ],
    "parts of the spectrum": [
        Scan((0, 1, 2)),
        *(Scan((at,), *band) for band in ((1, 1), (2, 9), (10, 63)) for at in EACH),
    ],
    "each component alone": [
        *(Scan((at,), shift=1) for at in EACH),
        *(Scan((at,), before=1) for at in EACH),
        *(Scan((at,), 1, 63) for at in EACH),
    ],
    "two components together": [Scan((0,)), Scan((1, 2)), *(Scan((at,), 1, 63) for at in EACH)],
    "a bit at a time": [
        Scan((0, 1, 2), shift=4),
        *(Scan((0, 1, 2), before=bit + 1, shift=bit) for bit in (3, 2, 1, 0)),
        *(Scan((at,), 1, 63, shift=4) for at in EACH),
        *(Scan((at,), 1, 63, before=bit + 1, shift=bit) for bit in (3, 2, 1, 0) for at in EACH),
    ],
    "coefficients one by one": [
        Scan((0, 1, 2)),
        *(Scan((1,), 1, 63) for _ in range(1)),
        *(Scan((2,), 1, 63) for _ in range(1)),
        *(Scan((0,), number, number, shift=1) for number in range(1, 64)),
        *(Scan((0,), number, number, before=1) for number in range(63, 0, -1)),
    ],
}
LIBJPEG = SCRIPTS["as libjpeg"]


def with_restarts(scans: list[Scan]) -> list[Scan]:
    """Return the scans with another interval each."""
    return [replace(scan, interval=(0, 1, 3, 7, 10, 500)[number % 6]) for number, scan in enumerate(scans)]


# Images


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("script", SCRIPTS)
def test_scans(script: str, sampling: int) -> None:
    source = save(picture(75, 53), subsampling=sampling)
    for scans in (SCRIPTS[script], with_restarts(SCRIPTS[script])):
        data = progressive(source, scans)
        np.testing.assert_array_equal(decode_jpeg(data), decode_jpeg(source))
        check(data, count=8, seed=sampling)


@pytest.mark.parametrize("code_bits", [8, 10, 11, 12, 16])
def test_codes_of_every_length(code_bits: int) -> None:
    """Codes that are in the lookup with their values, without them, and not at all."""
    source = save(picture(60, 45), quality=96, subsampling=2)
    data = progressive(source, with_restarts(LIBJPEG), code_bits)
    np.testing.assert_array_equal(decode_jpeg(data), decode_jpeg(source))
    check(data, count=4)


def test_long_runs_of_blocks_without_coefficients() -> None:
    """A run may end as many as 32,767 blocks at once."""
    flat = np.full((1600, 1500, 3), 130, np.uint8)
    flat[1590:, 1490:] = picture(10, 10)
    source = save(flat, "L")
    for scans in (
        [Scan((0,)), Scan((0,), 1, 63)],
        [replace(scan, components=(0,)) for scan in LIBJPEG if 0 in scan.components],
    ):
        data = progressive(source, scans)
        np.testing.assert_array_equal(decode_jpeg(data), decode_jpeg(source))
        check(data, count=2)


@pytest.mark.parametrize("quality", [1, 5, 25, 50, 75, 90, 96, 100])
def test_qualities(quality: int) -> None:
    for source in (picture(70, 53), noise(70, 53), np.tile(np.array([[0, 255]], np.uint8), (53, 35))):
        for sampling in (0, 1, 2):
            mode = "RGB" if source.ndim == 3 else "L"
            data = save(source, mode, quality=quality, subsampling=sampling, progressive=True)
            np.testing.assert_array_equal(decode_jpeg(data), by_pillow(data))
            check(data, count=2, seed=quality)


def test_sizes() -> None:
    draw = random.Random(0)
    sizes = [(1, 1), (1, 130), (130, 1), (2, 2), (3, 5), (8, 8), (9, 7), (16, 16), (17, 15), (33, 31), (300, 200)]
    sizes += [(draw.randint(1, 130), draw.randint(1, 130)) for _ in range(20)]
    for number, (width, height) in enumerate(sizes):
        options: dict[str, Any] = ({}, {"restart_marker_blocks": 5}, {"restart_marker_rows": 1})[number % 3]
        data = save(picture(width, height), subsampling=number % 4 % 3, progressive=True, **options)
        check(data, count=4, seed=number)


def test_other_scans_are_left_to_libjpeg() -> None:
    """Images of which libjpeg warns, or that it smooths since they lack bits: the same pixels, or the same error."""
    source = save(picture(75, 53), subsampling=2)
    lacking = LIBJPEG[:-1]
    twice = [*LIBJPEG, Scan((0,), 1, 63, before=1)]
    early = [LIBJPEG[1], LIBJPEG[0], *LIBJPEG[2:]]
    backwards = [replace(LIBJPEG[0], components=(1, 0, 2)), *LIBJPEG[1:]]
    many_bits = [Scan((0, 1, 2), shift=5), *(Scan((0, 1, 2), before=bit + 1, shift=bit) for bit in (4, 3, 2, 1, 0))]
    many_bits += [Scan((at,), 1, 63) for at in EACH]
    for scans in (lacking, LIBJPEG[:1], twice, early, backwards, many_bits):
        check(progressive(source, scans), count=4)
    for end in (b"", b"\xff", b"\xff\xff\xd9", b"\x00\xff\xd9", b"\xff\xd0\xff\xd9"):
        check(progressive(source, LIBJPEG, end=end), count=1)


def test_the_number_of_scans_is_limited() -> None:
    source = save(picture(30, 20))
    ones = [Scan((at,), number, number) for at in EACH for number in range(1, 64)]
    assert_same(whole(progressive(source, [Scan((0, 1, 2)), *ones])), whole(source))
    twice = [replace(scan, shift=1) for scan in ones[:20]] + [replace(scan, before=1) for scan in ones[:20]] + ones[20:]
    found = whole(progressive(source, [Scan((0, 1, 2)), *twice]))
    assert isinstance(found, str)
    assert "more than 200 scans" in found


def test_segments_between_scans() -> None:
    data = save(picture(75, 53), progressive=True)
    at = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    for extra in (
        segment(0xFE, b"a comment \xff\xda"),
        segment(0xE1, b"Exif\x00\x00"),
        segment(0xE0, b"JFIF\x00\x02\x01\x00\x00\x01\x00\x01\x00\x00"),
        segment(0xDB, bytes(1) + bytes([7]) * 64),
        segment(0xDD, b"\x00"),
        segment(0xDD, b"\x00\x00"),
        segment(0xDC, struct.pack(">H", 53)),
        segment(0xC4, b"\x10"),
        b"\xff\xff\xff",
        b"\x00",
        b"\xff\xd0",
        b"\xff\xd8",
        b"\xff\x01",
    ):
        changed = data[:at] + extra + data[at:]
        assert_same(whole(changed), whole(changed, libjpeg=True), extra)
        for box in boxes(changed, 3, 0):
            expected = crop(changed, box, libjpeg=True)
            if not isinstance(expected, str):
                assert_same(crop(changed, box), expected, (extra, box))


# Damage

DAMAGED = {
    **{f"libjpeg's {n}": save(picture(75, 53), subsampling=n, progressive=True) for n in (0, 1, 2)},
    "grey": save(picture(75, 53), "L", progressive=True),
    "restarts": save(picture(75, 53), subsampling=2, progressive=True, restart_marker_blocks=3),
    "noise": save(noise(41, 33), subsampling=0, quality=97, progressive=True),
    "a bit at a time": progressive(save(picture(60, 45)), with_restarts(SCRIPTS["a bit at a time"])),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage(kind: str) -> None:
    """Both decoders refuse a file with the same message, or both decode it to the same levels.

    There is one exception: for a crop, the progressive decoder does not read the parts of scans below it, nor scans on
    which the pixels do not depend. It may therefore decode a crop that libjpeg refuses, but not the other way round.
    """
    draw = random.Random(kind)
    taken = 0
    for number in range(400):
        changed = damaged(DAMAGED[kind], draw)
        own = whole(changed)
        assert_same(own, whole(changed, libjpeg=True), number)
        taken += not isinstance(own, str)
        check_damaged_crop(changed, draw, number)
    assert taken > 10


def test_damage_leaves_no_trace() -> None:
    """The same thread decodes a damaged image, refused in the middle of a block, and then a valid one."""
    draw = random.Random(5)
    expected: dict[str, Pixels] = {kind: decode_jpeg(data, libjpeg=True) for kind, data in DAMAGED.items()}
    for _ in range(300):
        whole(damaged(DAMAGED[draw.choice(list(DAMAGED))], draw))
        kind = draw.choice(list(DAMAGED))
        np.testing.assert_array_equal(decode_jpeg(DAMAGED[kind]), expected[kind])


def test_every_truncation_is_an_error() -> None:
    data = DAMAGED["restarts"]
    for size in range(len(data) - 2, 0, -37):
        assert_same(whole(data[:size]), whole(data[:size], libjpeg=True), size)
        assert isinstance(crop(data[:size], (10, 5, 40, 30)), str), size


def test_what_a_crop_does_not_need_is_not_read() -> None:
    """Damage below the crop is not noticed. libjpeg, which reads all scans of such a file whole, reports it."""
    data = save(picture(149, 107), progressive=True)
    spoiled = data[:-60] + bytes(58) + data[-2:]  # the last rows of the last scan
    box = (10, 5, 120, 40)
    assert isinstance(whole(spoiled), str)
    if isinstance(crop(spoiled, box), str):
        pytest.skip("this processor has no AVX2: libjpeg decodes all images")
    assert isinstance(crop(spoiled, box, libjpeg=True), str)
    assert_same(crop(spoiled, box), crop(data, box))
