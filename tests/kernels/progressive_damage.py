"""Damaged progressive JPEGs: changes of segments, scans and entropy-coded data, and what must be true of the result.

`python -m tests.kernels.progressive_damage --cases 100000` runs a campaign, `--case 4711` repeats one case of it.
A case is a pure function of its number.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from tests.kernels.jpeg_checks import assert_same, boxes, crop, noise, segment, whole
from tests.kernels.jpegs import picture, save
from tests.kernels.progressive_jpegs import Scan, progressive

from bushel.kernels import JpegError, baseline_jpeg, decode_jpeg, jpeg_coefficients, jpeg_header, tile_jpeg

DQT, DHT, DRI, SOS, SOF2, EOI = 0xDB, 0xC4, 0xDD, 0xDA, 0xC2, 0xD9
MOST_PIXELS = 1 << 18
"""Images that claim more are only expected to be refused, or decoded, in little time and memory."""

Part = tuple[int, bytes, bytes]
"""A marker, its payload, and the entropy-coded data after it."""


def parsed(data: bytes) -> list[Part]:
    """Return the segments of a valid JPEG, without SOI and EOI."""
    parts, at = list[Part](), 2
    while data[at + 1] != EOI:
        marker, end = data[at + 1], at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        at, after = at + 4, end
        while marker == SOS and not (data[after] == 0xFF and data[after + 1] not in (0, *range(0xD0, 0xD8))):
            after += 1
        parts.append((marker, data[at:end], data[end:after]))
        at = after
    return parts


def written(parts: list[Part], end: bytes = b"\xff\xd9") -> bytes:
    return b"\xff\xd8" + b"".join(segment(marker, payload) + coded for marker, payload, coded in parts) + end


def random_script(draw: random.Random, components: int) -> list[Scan]:
    """Return scans in an order that the standard allows, with bands and bits of any sizes."""
    each = [(at,) for at in range(components)]
    shift = draw.randrange(5)
    scans = [Scan(tuple(range(components)), shift=shift)]
    later = [[Scan(tuple(range(components)), before=bit + 1, shift=bit) for bit in reversed(range(shift))]]
    for component in each:
        cuts = sorted(draw.sample(range(2, 64), draw.randrange(4)))
        for first, last in zip([1, *cuts], [*(cut - 1 for cut in cuts), 63], strict=True):
            bits = draw.randrange(5)
            band = [Scan(component, first, last, shift=bits)]
            later.append(
                band + [Scan(component, first, last, before=bit + 1, shift=bit) for bit in reversed(range(bits))]
            )
    while later := [chain for chain in later if chain]:
        scans.append(draw.choice(later).pop(0))
    return [Scan(s.components, s.first, s.last, s.before, s.shift, draw.choice((0, 0, 1, 3, 7, 40))) for s in scans]


@cache
def originals() -> list[list[Part]]:
    """Return valid images: of Pillow with each sampling, and with scans at random."""
    images = [save(picture(75, 53), subsampling=number, progressive=True) for number in range(3)]
    images.append(save(picture(75, 53), "L", progressive=True))
    images.append(save(noise(41, 33), subsampling=0, quality=100, progressive=True))
    images.append(save(picture(75, 53), subsampling=2, progressive=True, restart_marker_blocks=2))
    draw = random.Random(0)
    for number in range(16):
        source = save(
            picture(9 + 3 * number, 40 - 2 * number), "L" if number % 5 == 4 else "RGB", subsampling=number % 3
        )
        script = random_script(draw, 1 if number % 5 == 4 else 3)
        images.append(progressive(source, script, draw.choice((8, 10, 12, 16))))
    return [parsed(data) for data in images]


# Changes of one image. Each gets its parts, and returns others or changes the list.


def _of(parts: list[Part], draw: random.Random, *markers: int) -> int | None:
    found = [at for at, part in enumerate(parts) if part[0] in markers]
    return draw.choice(found) if found else None


def _odd_byte(byte: int, draw: random.Random) -> int:
    return draw.choice((0, 1, 0x7F, 0xFF, byte ^ 1 << draw.randrange(8), byte + 1 & 0xFF, byte - 1 & 0xFF))


def change_payload(parts: list[Part], draw: random.Random) -> None:
    """Change one byte of a segment: counts and symbols of tables, sampling, numbers of components, Ss, Se, Ah, Al."""
    at = _of(parts, draw, draw.choice((DHT, SOS, SOS, SOF2, DRI, DQT)))
    if at is not None and parts[at][1]:
        marker, payload, coded = parts[at]
        place = draw.randrange(min(len(payload), 40))
        parts[at] = (marker, payload[:place] + bytes([_odd_byte(payload[place], draw)]) + payload[place + 1 :], coded)


def change_length(parts: list[Part], draw: random.Random) -> None:
    """Cut a payload, or add to it."""
    at = draw.randrange(len(parts))
    marker, payload, coded = parts[at]
    cut = draw.randrange(len(payload) + 1)
    parts[at] = (marker, payload[:cut] if draw.random() < 0.5 else payload + draw.randbytes(1 + cut % 5), coded)


def change_coded(parts: list[Part], draw: random.Random) -> None:
    """Change, delete or insert bytes of a scan: coefficients, runs, restart markers."""
    at = _of(parts, draw, SOS)
    if at is None or not parts[at][2]:
        return
    marker, payload, coded = parts[at]
    place, count = draw.randrange(len(coded)), draw.randint(1, 4)
    new = draw.choice((b"", b"\xff", b"\xff\xd0", b"\x00", draw.randbytes(count), b"\xff\x00" * count))
    if draw.random() < 0.5:
        new = bytes([coded[place] ^ 1 << draw.randrange(8)])
        count = 1
    parts[at] = (marker, payload, coded[:place] + new + coded[place + count * (draw.random() < 0.8) :])


def cut_scan(parts: list[Part], draw: random.Random) -> None:
    at = _of(parts, draw, SOS)
    if at is not None:
        marker, payload, coded = parts[at]
        parts[at] = (marker, payload, coded[: draw.randrange(len(coded) + 1)])


def move(parts: list[Part], draw: random.Random) -> None:
    """Bring scans and tables into another order."""
    part = parts.pop(draw.randrange(len(parts)))
    parts.insert(draw.randrange(len(parts) + 1), part)


def drop(parts: list[Part], draw: random.Random) -> None:
    del parts[draw.randrange(len(parts))]


def repeat(parts: list[Part], draw: random.Random) -> None:
    at = draw.randrange(len(parts))
    parts[at:at] = [parts[at]] * draw.choice((1, 1, 1, 2, 250))


def take_from_another(parts: list[Part], draw: random.Random) -> None:
    other = draw.choice(draw.choice(originals()))
    at = draw.randrange(len(parts))
    parts[at : at + draw.randrange(2)] = [other]


def restart(parts: list[Part], draw: random.Random) -> None:
    interval = draw.choice((0, 1, 2, 9, 1000, 65535))
    parts.insert(draw.randrange(len(parts) + 1), (DRI, interval.to_bytes(2, "big"), b""))


def resize(parts: list[Part], draw: random.Random) -> None:
    at = _of(parts, draw, SOF2)
    if at is not None and len(parts[at][1]) >= 5:
        marker, payload, coded = parts[at]
        size = [int.from_bytes(payload[place : place + 2], "big") for place in (1, 3)]
        axis = draw.randrange(2)
        size[axis] = max(0, draw.choice((size[axis] + draw.randint(-9, 9), 1, 8 * size[axis], 65535))) & 0xFFFF
        parts[at] = (marker, payload[:1] + b"".join(n.to_bytes(2, "big") for n in size) + payload[5:], coded)


CHANGES: tuple[Callable[[list[Part], random.Random], None], ...] = (
    change_payload,
    change_payload,
    change_payload,
    change_length,
    change_coded,
    change_coded,
    change_coded,
    cut_scan,
    move,
    drop,
    repeat,
    take_from_another,
    restart,
    resize,
)


def case(number: int) -> bytes:
    """Return a damaged image."""
    draw = random.Random(number)
    parts = list(draw.choice(originals()))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if parts:
            draw.choice(CHANGES)(parts, draw)
    return written(parts, draw.choice((b"\xff\xd9", b"\xff\xd9", b"\xff\xd9", b"", b"\xff\xd9" + draw.randbytes(9))))


def check_case(number: int) -> bool:
    """Compare the decoders, and run the functions that rewrite images. Return whether the image was decoded.

    Raises:
        AssertionError: Bushel's decoder and libjpeg-turbo give other levels of the whole image, or other messages; or
            only libjpeg-turbo decodes a crop, or the luma alone, or with other levels.
    """
    data = case(number)
    draw = random.Random(-number)
    try:
        header = jpeg_header(data)
    except JpegError:
        assert isinstance(whole(data), str), number
        return False
    for rewrite in (tile_jpeg, baseline_jpeg, jpeg_coefficients):
        with suppress(JpegError):
            rewrite(data, max_pixels=MOST_PIXELS)
    if header.width * header.height > MOST_PIXELS:
        with suppress(JpegError):
            decode_jpeg(data, max_pixels=MOST_PIXELS)
        return False
    found = whole(data)
    assert_same(found, whole(data, libjpeg=True), number)
    luma = whole(data, grey=True, libjpeg=True)
    if not isinstance(luma, str):  # the scans of chroma are not read
        assert_same(whole(data, grey=True), luma, number)
    for box in boxes(data, 2, number):
        part = draw.choice((1, 2, 4, 8))
        size = max((box[2] - box[0]) // part, 1), max((box[3] - box[1]) // part, 1)
        expected = crop(data, box, size, gap=1, libjpeg=True)
        own = crop(data, box, size, gap=1)
        if not isinstance(expected, str):
            assert_same(own, expected, (number, box, size))
    return not isinstance(found, str)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.progressive_damage", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="(default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: %(default)s)")
    parser.add_argument("--case", type=int, help="only repeat this case")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases) if options.case is None else [options.case]
    decoded = sum(check_case(number) for number in numbers)
    print(f"{len(numbers)} damaged progressive JPEGs: {decoded} decoded, each as libjpeg-turbo does it")


if __name__ == "__main__":
    main()
