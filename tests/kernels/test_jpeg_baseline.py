"""The decoder of baseline JPEGs against libjpeg-turbo, level by level: images of every kind, odd files, damage."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpeg_checks import (
    assert_same,
    check,
    check_damaged_crop,
    crop,
    damaged,
    noise,
    rebuilt,
    segment,
    segments,
    whole,
)
from tests.kernels.jpegs import all_kinds, by_pillow, picture, save

from bushel.kernels import decode_jpeg, jpeg_segment_offsets, tile_jpeg

KINDS = all_kinds()
OWN = ("4:4:4", "4:2:2", "4:2:0", "grey", "restarts", "row restarts", "narrow", "flat", "one pixel")
"""Kinds that the baseline decoder takes."""


# Images


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    check(KINDS[kind], count=25)
    if "cmyk" not in kind and kind != "ycck":
        np.testing.assert_array_equal(decode_jpeg(KINDS[kind]), by_pillow(KINDS[kind]))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("cmyk", "cmyk 4:2:0", "ycck")])
def test_tiled_kinds(kind: str) -> None:
    tiled = tile_jpeg(KINDS[kind])
    check(tiled, count=25)
    np.testing.assert_array_equal(decode_jpeg(tiled), decode_jpeg(KINDS[kind]))


@pytest.mark.parametrize("quality", [1, 2, 5, 10, 25, 50, 75, 90, 95, 99, 100])
@pytest.mark.parametrize("optimize", [False, True])
def test_qualities(quality: int, optimize: bool) -> None:
    for source in (picture(70, 53), noise(70, 53), np.tile(np.array([[0, 255]], np.uint8), (53, 35))):
        for sampling in (0, 1, 2):
            mode = "RGB" if source.ndim == 3 else "L"
            data = save(source, mode, quality=quality, subsampling=sampling, optimize=optimize)
            check(data, count=2, seed=quality)
            check(tile_jpeg(data), count=2, seed=quality)


def test_sizes() -> None:
    draw = random.Random(0)
    sizes = [(1, 1), (1, 130), (130, 1), (2, 2), (3, 5), (8, 8), (9, 7), (16, 16), (17, 15), (33, 31), (130, 130)]
    sizes += [(draw.randint(1, 130), draw.randint(1, 130)) for _ in range(25)]
    for number, (width, height) in enumerate(sizes):
        data = save(picture(width, height), subsampling=number % 3)
        np.testing.assert_array_equal(decode_jpeg(data), by_pillow(data))
        check(data, count=4, seed=number)
        check(tile_jpeg(data), count=4, seed=number)


@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_restart_markers(sampling: int) -> None:
    for blocks in (1, 2, 3, 5, 7, 100):
        check(save(picture(93, 61), subsampling=sampling, restart_marker_blocks=blocks), seed=blocks)
    for rows in (1, 2, 3):
        check(save(picture(93, 61), subsampling=sampling, restart_marker_rows=rows), seed=rows)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = save(picture(61, 43), exif=exif)
    own = decode_jpeg(data, orient=True)
    np.testing.assert_array_equal(own, decode_jpeg(data, orient=True, libjpeg=True))


# Files


def test_colour_spaces() -> None:
    """libjpeg decides by markers, or else by the ids of the components."""
    data = save(picture(50, 40), subsampling=0)
    bare = rebuilt(data, lambda part: b"" if part[1] == 0xE0 else part)
    check(bare)
    found = []
    for transform in (0, 1, 2, 3):
        adobe = segment(0xEE, b"Adobe\x00\x64\x00\x00\x00\x00" + bytes([transform]))
        for base in (data, bare):
            check(base[:2] + adobe + base[2:])
            found.append(whole(base[:2] + adobe + base[2:]))
    assert not np.array_equal(found[1], found[3])  # transform 0 and 1 without JFIF: RGB, YCbCr

    def named(names: bytes) -> Callable[[bytes], bytes]:
        def rename(part: bytes) -> bytes:
            changed = bytearray(part)
            if part[1] == 0xC0:
                changed[10], changed[13], changed[16] = names
            elif part[1] == 0xDA:
                changed[5], changed[7], changed[9] = names
            return bytes(changed)

        return rename

    for names in (b"RGB", b"rgb", b"\x01\x22\x23", b"\x00\x01\x02"):
        check(rebuilt(bare, named(names)))
        check(rebuilt(data, named(names)))
    assert not np.array_equal(whole(rebuilt(bare, named(b"RGB"))), whole(bare))


def test_fill_bytes_before_markers() -> None:
    for data in (KINDS["4:2:0"], KINDS["restarts"], tile_jpeg(KINDS["4:4:4"])):
        check(rebuilt(data, lambda part: b"\xff\xff\xff" + part))
        check(data[:-2] + b"\xff\xff\xff\xd9")
        header = len(b"".join(segments(data)))
        filled = data[header:]
        for number in range(8):
            filled = filled.replace(bytes([0xFF, 0xD0 + number]), bytes([0xFF, 0xFF, 0xFF, 0xD0 + number]))
        check(data[:header] + filled)


def test_tables_in_any_number_of_segments() -> None:
    for data in (KINDS["4:2:0"], KINDS["optimised"], KINDS["grey"]):
        tables = [part for part in segments(data) if part[1] in (0xDB, 0xC4)]
        joined = {marker: b"".join(part[4:] for part in tables if part[1] == marker) for marker in (0xDB, 0xC4)}
        bare = rebuilt(data, lambda part: b"" if part[1] in (0xDB, 0xC4) else part)
        once = segment(0xDB, joined[0xDB]) + segment(0xC4, joined[0xC4])
        check(bare[:2] + once + bare[2:])
        assert_same(whole(bare[:2] + once + bare[2:]), whole(data))
        other = once.replace(joined[0xDB], joined[0xDB][:1] + bytes([9]) * 64 + joined[0xDB][65:])
        check(bare[:2] + other + once + bare[2:])  # the later one counts
        assert_same(whole(bare[:2] + other + once + bare[2:]), whole(data))
        for missing in tables:
            check(data.replace(missing, b"", 1), count=1)
        check(data.replace(tables[0], segment(tables[0][1], tables[0][4:-1])), count=1)


def test_quantisers_of_16_bits() -> None:
    def widened(part: bytes) -> bytes:
        if part[1] != 0xDB:
            return part
        return segment(0xDB, bytes([0x10 | part[4]]) + b"".join(bytes([0, value]) for value in part[5:69]))

    data = rebuilt(KINDS["4:2:0"], widened)
    check(data)
    assert_same(whole(data), whole(KINDS["4:2:0"]))


class Codes:
    """Make a grey JPEG with given Huffman codes: symbols and their lengths, from short to long."""

    def __init__(self, lengths: list[int], symbols: list[int]) -> None:
        self.table = bytes(lengths.count(length) for length in range(1, 17)) + bytes(symbols)
        self.of: dict[int, str] = {}
        code, before = 0, lengths[0]
        for length, symbol in zip(lengths, symbols, strict=True):
            code <<= length - before
            self.of[symbol] = format(code, f"0{length}b")
            code, before = code + 1, length


def coded(codes: Codes, blocks: list[list[tuple[int, str]]], quantiser: int = 1) -> bytes:
    """Encode blocks, each given as symbols and the bits of their values. The DC code has one symbol, for 0."""
    bits = "".join("0" + "".join(codes.of[symbol] + value for symbol, value in block) for block in blocks)
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")
    frame = struct.pack(">BHHBBBB", 8, 8, 8 * len(blocks), 1, 1, 0x11, 0)
    tables = segment(0xC4, bytes([0, 1]) + bytes(15) + bytes(1)) + segment(0xC4, b"\x10" + codes.table)
    header = segment(0xDB, bytes(1) + bytes([quantiser]) * 64) + segment(0xC0, frame) + tables
    return b"\xff\xd8" + header + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + scan + b"\xff\xd9"


def test_codes_of_every_length() -> None:
    """Values of 1 to 15 bits after codes of 1 to 16: some fit a lookup of 11 bits, others do not."""
    symbols = [*range(1, 11), 0, 0xF0, 0x31, 0x52, 0xE3, 0x18]
    draw = random.Random(0)
    for _ in range(12):
        draw.shuffle(symbols)
        codes = Codes(list(range(1, 17)), symbols)
        blocks = []
        for _ in range(40):
            number, block = 1, []
            while number < 64:
                symbol = draw.choice(symbols)
                number += 64 if symbol == 0 else (symbol >> 4) + 1
                if number > 64 and symbol:
                    symbol, number = 0, 64
                block.append((symbol, "".join(draw.choice("01") for _ in range(symbol & 15))))
            blocks.append(block)
        data = coded(codes, blocks)
        check(data, count=6)
        assert not isinstance(whole(data), str)


def test_runs_beyond_the_last_coefficient() -> None:
    codes = Codes([2, 2, 3], [0xF1, 0xF0, 0])
    for runs in range(1, 5):
        check(coded(codes, [[(0xF1, "1")] * runs + ([(0, "")] if runs < 4 else [])] * 5), count=8)
        check(coded(codes, [[(0xF0, "")] * runs + ([(0, "")] if runs < 4 else [])] * 5), count=8)
    assert isinstance(whole(coded(codes, [[(0xF0, "")] * 5] * 5)), str)  # the fifth one is not a DC code


@pytest.mark.parametrize("size", [10, 11, 12, 13, 14, 15])
def test_values_that_no_picture_has(size: int) -> None:
    """If sums exceed 16 bits, libjpeg's levels depend on its code for the processor, so it has to decode."""
    codes = Codes([1, 2, 3], [size, 0, 0x70 | size])
    for quantiser in (1, 3, 17, 255):
        for symbols in ([size, 0], [size, 0x70 | size, 0], [0x70 | size] * 3 + [0], [size] * 63):
            for value in ("1" * size, "0" * size, "10" * (size // 2) + "1" * (size % 2)):
                data = coded(codes, [[(symbol, value if symbol else "") for symbol in symbols]] * 3, quantiser)
                check(data, count=1)


def test_stuffed_bytes_at_every_place() -> None:
    """FF 00 at any place in a window of 32 bytes, also several times."""
    codes = Codes([1, 2, 3, 8], [8, 0, 4, 0x16])
    draw = random.Random(1)
    for place in range(40):
        block = [(8, format(draw.randrange(256), "08b")) for _ in range(place % 20)]
        data = coded(codes, [[*block, (8, "1" * 8), (8, "1" * 8), (0, "")], *[[*block, (8, "1" * 8), (0, "")]] * 6])
        check(data, count=1)
    for seed in range(6):
        data = save(noise(64, 48, seed), quality=100, optimize=True)
        assert data.count(b"\xff\x00") >= 5
        check(data, count=3, seed=seed)


def test_odd_restarts() -> None:
    """Markers that are missing, surplus or out of order, and stray bytes."""
    for data in (KINDS["restarts"], tile_jpeg(KINDS["4:2:0"])):
        begins = jpeg_segment_offsets(data).tolist() or [data.index(bytes([0xFF, 0xD0 + n])) + 2 for n in range(8)]
        for at in begins[1:6]:
            marker = data[at - 2 : at]
            for change in (b"", marker * 2, marker + b"\xff\xd9", b"\xff\xd7", b"\xff\x00", b"\x00" + marker):
                changed = data[: at - 2] + change + data[at:]
                assert_same(whole(changed), whole(changed, libjpeg=True), (at, change))
        parts = segments(data)
        for interval in (0, 1, 2, 4, 65535):
            other = [part[:4] + struct.pack(">H", interval) if part[1] == 0xDD else part for part in parts]
            changed = b"".join(other) + data[len(b"".join(parts)) :]
            assert_same(whole(changed), whole(changed, libjpeg=True), interval)


def test_odd_segments() -> None:
    data = KINDS["4:2:0"]
    for extra in (
        segment(0xFE, b"a comment"),
        segment(0xE0, b"JFXX\x00\x10"),
        segment(0xE0, b"JFIF\x00\x02\x01\x00\x00\x01\x00\x01\x00\x00"),
        segment(0xE5, b""),
        segment(0xDC, b"\x00\x10"),
        segment(0xDD, b"\x00"),
        segment(0xF3, b"unknown"),
        b"\xff\x01",
        b"\xff\xd3",
        b"lost",
        b"\x00",
    ):
        check(data[:2] + extra + data[2:], count=2)
        header = len(b"".join(segments(data)[:-1]))
        check(data[:header] + extra + data[header:], count=2)
    for end in (
        b"",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\x00",
        b"\xff\xff\x00\xff\xd9",
        b"\x00\x00\xff\xd9",
        b"\xff\xdc\x00",
    ):
        assert_same(whole(data[:-2] + end), whole(data[:-2] + end, libjpeg=True), end)
    check(data + bytes(4000), count=2)


# Damage


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("tiled", [False, True])
def test_damage(kind: str, tiled: bool) -> None:
    """Both decoders refuse a file with the same message, or both decode it to the same levels.

    There is one exception: for a crop, the baseline decoder does not read segments above or beside it, nor data after
    the last block that it needs. It may therefore decode a crop that libjpeg refuses, but not the other way round.
    """
    data = tile_jpeg(KINDS[kind]) if tiled else KINDS[kind]
    draw = random.Random(f"{kind} {tiled}")
    taken = 0
    for number in range(400):
        changed = damaged(data, draw)
        own = whole(changed)
        assert_same(own, whole(changed, libjpeg=True), number)
        taken += not isinstance(own, str)
        if not isinstance(own, str) or own.startswith("Corrupt"):  # else mostly for its header
            check_damaged_crop(changed, draw, number)
    assert taken > 20


def test_damage_leaves_no_trace() -> None:
    """The same thread decodes a damaged image, refused in the middle of a block, and then a valid one."""
    draw = random.Random(5)
    expected = {kind: decode_jpeg(KINDS[kind], libjpeg=True) for kind in OWN}
    for _ in range(400):
        whole(damaged(KINDS[draw.choice(OWN)], draw))
        kind = draw.choice(OWN)
        np.testing.assert_array_equal(decode_jpeg(KINDS[kind]), expected[kind])


def test_what_a_crop_does_not_need_is_not_read() -> None:
    """Damage above the crop is not noticed. libjpeg, which reads all rows of such a file, reports it."""
    data = save(picture(149, 107), restart_marker_blocks=4)  # does not divide the number of MCUs in a row
    marker = data.index(b"\xff\xd0")
    spoiled = data[: marker - 40] + bytes(40) + data[marker:]
    box = (60, 70, 140, 100)
    assert isinstance(whole(spoiled), str)
    if isinstance(crop(spoiled, box), str):
        pytest.skip("this processor has no AVX2: libjpeg decodes all images")
    assert isinstance(crop(spoiled, box, libjpeg=True), str)
    assert_same(crop(spoiled, box), crop(data, box))
