"""Seek tables: states are those of the page, crops have the pixels of the whole image, and no table does harm."""

from __future__ import annotations

import random
import re
import resource
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.kernels.jpeg_states import check, every, older, parse, states_of
from tests.kernels.jpegs import all_kinds, picture, row, save, some
from tests.paths import ROOT, SAMPLE_DATA

from bushel.kernels import (
    JpegError,
    decode_jpeg,
    decode_jpeg_box,
    decode_jpegs,
    jpeg_header,
    jpeg_seek_ranges,
    jpeg_seek_table,
    jpeg_segment_offsets,
    tile_jpeg,
)

Table = npt.NDArray[np.uint64]
Box = tuple[int, int, int, int]

LARGE = picture(731, 397)
KINDS = {
    "4:4:4": save(LARGE, subsampling=0),
    "4:2:2": save(LARGE, subsampling=1),
    "4:2:0": save(LARGE, subsampling=2),
    "grey": save(LARGE, "L"),
    "optimised": save(LARGE, optimize=True, subsampling=2, quality=97),
    "fine": save(LARGE, subsampling=0, quality=100),
    "one row": save(picture(2000, 14), subsampling=2, quality=98),
    "one column": save(picture(14, 2000), subsampling=2, quality=98),
}
VECTORS = Path(__file__).with_name("seek_vectors")

pytestmark = pytest.mark.skipif(not len(jpeg_seek_table(KINDS["4:4:4"])), reason="this processor lacks AVX2")


def boxes(data: bytes, count: int, seed: int) -> list[Box]:
    draw = random.Random(seed)
    width, height, _, _ = jpeg_header(data)
    found = [(0, 0, width, height), (0, 0, 1, 1), (width - 1, height - 1, width, height)]
    for _ in range(count):
        left, top = draw.randrange(width), draw.randrange(height)
        found.append((left, top, draw.randint(left + 1, width), draw.randint(top + 1, height)))
    return found


def without_other_bytes(data: bytes, table: Table, box: Box) -> bytes:
    """Return the JPEG with ones in place of the bytes that decoding a box must not read."""
    head = int(table[0]) >> 32
    ranges = jpeg_seek_ranges(data[:head], len(data), table, box)
    assert ranges is not None
    kept = bytearray(b"\xff" * len(data))
    for offset, length in [(0, head), *ranges]:
        kept[offset : offset + length] = data[offset : offset + length]
    return bytes(kept)


def check_crops(data: bytes, table: Table, count: int, seed: int = 0) -> None:
    whole = decode_jpeg(data, libjpeg=True)
    refused: list[int] = []
    assert np.array_equal(decode_jpeg(data, table, refused=refused), whole)
    for box in boxes(data, count, seed):
        left, top, right, bottom = box
        pixels = decode_jpeg_box(without_other_bytes(data, table, box), table, box)
        assert pixels is not None
        assert np.array_equal(pixels, whole[top:bottom, left:right]), box
    assert refused == []


@pytest.mark.parametrize("kind", KINDS)
def test_crops_have_the_pixels_of_the_whole_image(kind: str) -> None:
    data = KINDS[kind]
    for pixels in (8, 128, 1000, 100_000):
        if len(table := jpeg_seek_table(data, pixels)):
            check_crops(data, table, 40)
    assert len(jpeg_seek_table(data)) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_a_second_implementation(kind: str) -> None:
    data = KINDS[kind]
    head, step, found = parse(jpeg_seek_table(data).tolist())
    start, states = states_of(data)
    assert head == start
    expected = every(step, states)
    assert found[: len(expected)] == expected


def packed_check(words: Table) -> Table:
    """Return a packed table with the check that its words ask for."""
    if len(words) > 2:
        words[2] = np.uint64(int(words[2]) & (1 << 36) - 1 | check(words.tolist()) << 36)
    return words


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.jpg")), ids=lambda path: path.stem)
def test_the_vectors_of_the_page(path: Path) -> None:
    page = (ROOT / "docs" / "seek-tables.md").read_text()
    blocks = re.findall(rf"`{path.name}`.*?```text\n(.*?)```", page, re.DOTALL)
    packed, old = ([int(word, 16) for word in block.split()] for block in blocks)
    data = path.read_bytes()
    assert jpeg_seek_table(data).tolist() == packed
    start, states = states_of(data)
    for words in (packed, old):
        head, step, found = parse(words)
        expected = every(step, states)
        assert (head, found[: len(expected)]) == (start, expected)
        check_crops(data, np.array(words, np.uint64), 20)


@pytest.mark.parametrize("kind", KINDS)
def test_older_tables_have_a_word_per_state(kind: str) -> None:
    data = KINDS[kind]
    mcus = len(states_of(data)[1]) - 1
    table = np.array(older(jpeg_seek_table(data).tolist(), mcus), np.uint64)
    check_crops(data, table, 20)


def test_a_table_takes_at_most_one_percent() -> None:
    for quality in (10, 40, 70, 95):
        for side in (100, 200, 400, 900):
            data = save(picture(side, side), quality=quality)
            assert (jpeg_seek_table(data, 8).nbytes + 8) * 100 <= len(data) or not len(jpeg_seek_table(data, 8))


@pytest.mark.parametrize("kind", all_kinds())
def test_images_without_a_table(kind: str) -> None:
    data = all_kinds()[kind]
    seekable = kind in ("4:4:4", "4:2:2", "4:2:0", "grey", "optimised")
    table = jpeg_seek_table(data)
    assert seekable or not len(table)
    assert np.array_equal(decode_jpeg(data, table), decode_jpeg(data))
    tiled = tile_jpeg(data)
    if len(jpeg_segment_offsets(tiled)) > 2:
        assert not len(jpeg_seek_table(tiled))


def test_damaged_images_have_no_table_and_other_data_are_an_error() -> None:
    data = KINDS["4:2:0"]
    assert not len(jpeg_seek_table(data[:-2]))
    assert not len(jpeg_seek_table(data[: len(data) // 2]))
    with pytest.raises(JpegError):
        jpeg_seek_table(b"\x89PNG")
    with pytest.raises(ValueError, match="at least 1"):
        jpeg_seek_table(data, 0)


def forged(table: Table, draw: random.Random) -> Table:
    """Return a table that differs in a few bits, states or words."""
    words = table.copy()
    at = draw.randrange(len(words))
    match draw.randrange(7):
        case 0:
            words[at] ^= np.uint64(1 << draw.randrange(64))
        case 1:
            words[at] = draw.getrandbits(64)
        case 2:
            words = words[: at + 1]
        case 3:
            words[1:] = np.sort(words[1:] & np.uint64((1 << 28) - 1))
        case 4:
            words[0] += np.uint64(draw.choice([1, 1 << 32]))
        case 5:
            words[1:] = np.roll(words[1:], 1)
        case _:
            words[1:] = np.cumsum([draw.randrange(1, 3000) for _ in words[1:]], dtype=np.uint64)
    return words


@pytest.mark.parametrize("age", ["packed", "older"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_table_never_changes_a_pixel(kind: str, age: str) -> None:
    data, draw = KINDS[kind], random.Random(0)
    table, whole = jpeg_seek_table(data), decode_jpeg(data)
    if age == "older":
        table = np.array(older(table.tolist(), len(states_of(data)[1]) - 1), np.uint64)
    for number, (left, top, right, bottom) in enumerate(boxes(data, 60, 1)):
        words = forged(table, draw)
        out = np.zeros((1, bottom - top, right - left, 3), np.uint8)
        box = row((left, top, right, bottom))
        refused: list[int] = []
        assert decode_jpegs([data], box, out, seek_tables=[words], refused=refused) == []
        expected = whole[top:bottom, left:right]
        assert np.array_equal(out[0], expected if whole.ndim == 3 else np.repeat(expected[:, :, None], 3, 2)), number
        assert np.array_equal(decode_jpeg(data, words), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_table_with_the_right_check_does_no_harm(kind: str) -> None:
    data, draw = KINDS[kind], random.Random(0)
    table, whole = jpeg_seek_table(data), decode_jpeg(data)
    for left, top, right, bottom in boxes(data, 60, 1):
        words = packed_check(forged(table, draw))
        out = np.zeros((1, bottom - top, right - left, 3), np.uint8)
        geometry = row((left, top, right, bottom))
        assert decode_jpegs([data], geometry, out, seek_tables=[words]) == []  # other levels, but nothing worse
        assert np.array_equal(decode_jpeg(data, words), whole)  # begins at the first MCU, which no table can change
        jpeg_seek_ranges(data, len(data), words, (left, top, right, bottom))


def test_a_forged_size_and_table_take_no_memory() -> None:
    data = bytearray(KINDS["4:2:0"])
    frame = data.index(b"\xff\xc0") + 5
    data[frame : frame + 4] = b"\xff" * 4  # 65535 x 65535 pixels, 16.8 million MCUs
    words = jpeg_seek_table(KINDS["4:2:0"])[:3].copy()
    words[0] = (int(words[0]) >> 32 << 32) | 1 << 31 | 1  # a state before each MCU
    words[1], words[2] = 1, 0  # each a bit after the last, without any bits in the table
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), hard))
    try:
        assert jpeg_seek_ranges(bytes(data), len(data), packed_check(words), (0, 0, 9, 9)) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_changed_bit_of_a_packed_table_is_found() -> None:
    data, refused = KINDS["4:2:0"], list[int]()
    table, out = jpeg_seek_table(data), np.zeros((1, 100, 100, 3), np.uint8)
    bits = random.Random(0).sample(range(len(table) * 64), 200)
    for bit in bits:
        words = table.copy()
        words[bit // 64] ^= np.uint64(1 << bit % 64)
        assert decode_jpegs([data], row((300, 200, 400, 300)), out, seek_tables=[words], refused=refused) == []
        assert jpeg_seek_ranges(data, len(data), words, (300, 200, 400, 300)) is None
    assert refused == [0] * len(bits)


def test_a_table_of_another_image_is_refused() -> None:
    other = save(picture(731, 397, seed=1), subsampling=2)
    data, refused, out = KINDS["4:2:0"], list[int](), np.zeros((3, 100, 100, 3), np.uint8)
    tables = [jpeg_seek_table(data), jpeg_seek_table(other), None]
    geometry = np.repeat(row((300, 200, 400, 300)), 3, axis=0)
    assert decode_jpegs([data] * 3, geometry, out, seek_tables=tables, refused=refused) == []
    assert refused == [1]
    assert np.array_equal(out[0], out[1])
    assert np.array_equal(out[0], out[2])
    assert jpeg_seek_ranges(data, len(data), jpeg_seek_table(KINDS["4:4:4"]), (0, 0, 9, 9)) is None
    assert decode_jpeg_box(data, jpeg_seek_table(other), (0, 0, 9, 9)) is None


def test_an_image_that_is_damaged_later_fails_as_without_a_table() -> None:
    data = KINDS["4:4:4"]
    table, refused = jpeg_seek_table(data), list[int]()
    for end in (len(data) - 2, len(data) // 2, 700):
        with pytest.raises(JpegError) as without:
            decode_jpeg(data[:end])
        with pytest.raises(JpegError) as found:
            decode_jpeg(data[:end], table, refused=refused)
        assert str(found.value) == str(without.value)
    assert refused == []


@pytest.mark.skipif(not (SAMPLE_DATA / "photos").is_dir(), reason="needs the sample photos")
def test_crops_of_photos_have_the_pixels_of_libjpeg() -> None:
    paths, tables = some((SAMPLE_DATA / "photos").rglob("*.jpg")), 0
    for number, path in enumerate(paths):
        data = path.read_bytes()
        if data[:2] == b"\xff\xd8" and len(table := jpeg_seek_table(data)):
            check_crops(data, table, 12, seed=number)
            assert (table.nbytes + 8) * 100 <= len(data)
            tables += 1
    assert tables * 6 > len(paths) * 5
