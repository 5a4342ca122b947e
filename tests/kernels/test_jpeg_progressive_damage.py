"""Some cases of the campaign of damaged progressive JPEGs, and files that ask for much time or memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from tests.kernels.jpeg_checks import assert_same, check, crop, whole
from tests.kernels.jpegs import picture, save
from tests.kernels.progressive_damage import SOF2, SOS, Part, case, check_case, originals, parsed, written

from bushel.kernels import JpegError, decode_jpeg

CASES = 20 * settings().max_examples
"""1,000; in `make nightly` and `make fuzz`, 20,000."""

RESIDENT = """
import sys
from pathlib import Path
from bushel.kernels import decode_jpeg

def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024

small, large = [Path(path).read_bytes() for path in sys.argv[1:]]
decode_jpeg(small)
before = resident()
decode_jpeg(large)
print(resident() - before)
"""


def test_damaged_segments_and_scans() -> None:
    assert case(5) == case(5)
    decoded = sum(check_case(number) for number in range(CASES))
    assert CASES // 20 < decoded < CASES // 2


def test_the_undamaged_images_are_decoded() -> None:
    for number, parts in enumerate(originals()):
        data = written(parts)
        assert not isinstance(whole(data), str)
        check(data, count=2, seed=number)


def test_scans_of_one_image_in_any_order() -> None:
    """Bushel's decoder takes an order that the standard allows; libjpeg-turbo takes any, or warns."""
    draw = random.Random(1)
    for parts in originals()[:8]:
        scans = [part for part in parts if part[0] == SOS]
        header = parts[: next(at for at, part in enumerate(parts) if part[0] == SOS)]
        for _ in range(10):
            data = written(header + draw.sample(scans, len(scans)))
            assert_same(whole(data), whole(data, libjpeg=True))


def claiming(width: int, height: int) -> list[Part]:
    """Return a small image whose header names another size."""
    parts = parsed(save(picture(16, 16), progressive=True))
    at = next(at for at, part in enumerate(parts) if part[0] == SOF2)
    marker, payload, coded = parts[at]
    parts[at] = (marker, payload[:1] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + payload[5:], coded)
    return parts


def test_sizes_that_a_small_file_claims() -> None:
    """They are compared with the limit, and with the file's bytes, before memory is taken."""
    for tolerant in (False, True):
        with pytest.raises(JpegError, match="it has 65535x65535 pixels, more than the 89478485 allowed"):
            decode_jpeg(written(claiming(65535, 65535)), tolerant=tolerant)
    for width, height in ((65535, 1365), (9459, 9459)):
        data = written(claiming(width, height))
        with pytest.raises(JpegError, match=f"bytes are too few for {width}x{height} pixels"):
            decode_jpeg(data)
        found = crop(data, (width - 20, height - 20, width, height))
        assert isinstance(found, str)
        assert "bytes are too few" in found


@pytest.mark.parametrize("repeated", ["empty", "whole"])
def test_thousands_of_scans(repeated: str) -> None:
    """Only 200 are read, by either decoder."""
    parts = parsed(save(picture(75, 53), progressive=True))
    marker, payload, coded = parts[-1]
    data = written(parts + [(marker, payload, coded if repeated == "whole" else b"")] * 5000)
    found = whole(data)
    assert isinstance(found, str)
    assert_same(found, whole(data, libjpeg=True))
    with pytest.raises(JpegError, match="it has more than 200 scans"):
        decode_jpeg(data, tolerant=True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the size of the process from Linux")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps freed memory")
def test_the_memory_of_a_large_image_is_freed(tmp_path: Path) -> None:
    """The coefficients of these 36 megapixels take 72 MiB, which the thread does not keep."""
    files = {"small.jpg": picture(75, 53)[..., 0], "large.jpg": np.full((6000, 6000), 90, np.uint8)}
    for name, image in files.items():
        (tmp_path / name).write_bytes(save(image, "L", progressive=True))
    command = [sys.executable, "-c", RESIDENT, *(str(tmp_path / name) for name in files)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 24 << 20
