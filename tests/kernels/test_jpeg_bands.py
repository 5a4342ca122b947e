"""Images that are decoded in many bands and windows of bytes, and the memory that takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpegs import Pixels, picture, save

from bushel.kernels import JpegError, decode_jpeg, decode_jpeg_box, jpeg_seek_table, tile_jpeg

MEMORY = """
import sys
from pathlib import Path
from bushel.kernels import decode_jpeg, jpeg_seek_table

def peak() -> int:  # not ru_maxrss, which a process takes over from the one that started it
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

first, *files = [Path(path).read_bytes() for path in sys.argv[1:]]
table = jpeg_seek_table(files[0])
decode_jpeg(first)
before = peak()
size = decode_jpeg(files[0]).nbytes
for data in files:
    decode_jpeg(data, orient=True)
decode_jpeg(files[0], table)
print(len(table), size, peak() - before - size)
"""

LARGEST = picture(700, 600)
"""A picture of 44 rows of MCUs (4:2:0), whose JPEG takes several windows of bytes."""


def noise(width: int, height: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"restart_marker_blocks": 37}, {"restart_marker_rows": 5}], ids=str)
def test_large_scans(sampling: int, options: dict[str, Any]) -> None:
    for image in (LARGEST, noise(400, 300)):
        data = save(image, subsampling=sampling, quality=98, **options)
        assert len(data) > 150_000
        whole = decode_jpeg(data, libjpeg=True)
        height, width = whole.shape[:2]
        tiled, table = tile_jpeg(data), jpeg_seek_table(data)
        np.testing.assert_array_equal(decode_jpeg(data), whole)
        np.testing.assert_array_equal(decode_jpeg(tiled), whole)
        np.testing.assert_array_equal(decode_jpeg(data, table), whole)
        for left, top, right, bottom in ((0, 0, width, height), (3, 9, width, height - 5), (50, 16, 51, height)):
            found = decode_jpeg_box(data, table, (left, top, right, bottom))
            assert (found is not None) == (len(table) > 0)
            if found is not None:
                np.testing.assert_array_equal(found, whole[top:bottom, left:right])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    for mode in ("RGB", "L"):
        data = save(LARGEST, mode, exif=exif)
        stored = decode_jpeg(data, libjpeg=True)
        upright = stored.swapaxes(0, 1) if orientation >= 5 else stored
        across = orientation in (2, 3, 6, 7)
        down = orientation in (3, 4, 7, 8)
        expected = upright[:: -1 if down else 1, :: -1 if across else 1]
        np.testing.assert_array_equal(decode_jpeg(data, orient=True), expected)
        np.testing.assert_array_equal(decode_jpeg(data, orient=True, libjpeg=True), expected)


def test_damage_after_many_bands() -> None:
    """The baseline decoder has written most rows before it finds the damage; then libjpeg decides."""
    data = save(LARGEST, subsampling=2, quality=98)
    table = jpeg_seek_table(data)
    for at in (len(data) // 2, len(data) - 3000, len(data) - 40):
        for changed in (data[:at], data[:at] + b"\xff\xd9", data[:at] + b"\x00" * 30 + data[at + 30 :]):
            for options in ({}, {"tolerant": True}):
                found = [outcome(changed, **options), outcome(changed, table, **options)]
                expected = outcome(changed, libjpeg=True, **options)
                for other in found:
                    np.testing.assert_array_equal(other, expected)


def outcome(data: bytes, *tables: Any, **options: Any) -> Pixels | str:
    try:
        return decode_jpeg(data, *tables, **options)
    except JpegError as error:
        return str(error)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from Linux")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps freed memory")
@pytest.mark.skipif(not len(jpeg_seek_table(save(LARGEST))), reason="this processor lacks AVX2: libjpeg decodes")
def test_memory_beyond_the_pixels_is_small(tmp_path: Path) -> None:
    """All components of these 25 megapixels would take 36 MiB, and their bytes again as much as the file."""
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(noise(125, 125)).resize((5000, 5000), Image.Resampling.NEAREST)
    files = {
        "first.jpg": save(LARGEST),
        "plain.jpg": save(np.asarray(image), quality=95, subsampling=2),
        "turned.jpg": save(np.asarray(image), quality=95, subsampling=2, exif=exif),
        "restarts.jpg": save(np.asarray(image), quality=95, subsampling=2, restart_marker_rows=3),
    }
    files["tiled.jpg"] = tile_jpeg(files["plain.jpg"])
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in files]
    run = subprocess.run([sys.executable, "-c", MEMORY, *paths], capture_output=True, text=True, check=True)
    states, size, beyond = map(int, run.stdout.split())
    assert states > 0
    assert size == 75_000_000
    assert beyond < 8 << 20
