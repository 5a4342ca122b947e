"""Benchmark of decoding whole JPEGs of 3 to 100 megapixels: CPU time, and memory beyond the pixels.

    python benchmarks/whole.py --out whole.json
    python benchmarks/whole.py --small                 3 and 12 megapixels, fewer rounds

An image is many photos side by side (from --photos, by default the sample data), with 4:2:0 chroma at quality 90.
Each measurement is a process that decodes one file several times. Memory is the peak of its resident pages, less what
it had before and the size of the pixels.
"""

from __future__ import annotations

import io
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bushel.kernels import decode_jpeg, jpeg_seek_table, tile_jpeg
from images import encoded, photos
from measure import SCRATCH, Rate, Timing, in_turns, options_parser, save, show

SIZES = {3: (2048, 1536), 12: (4000, 3000), 24: (6000, 4000), 100: (11648, 8736)}
"""Megapixels to width and height."""

ROW = 375
"""Height of the photos in an image, in pixels."""

AGAINST = ("Pillow", "simplejpeg")
PACKAGES = {"simplejpeg": "simplejpeg", "OpenCV": "cv2"}
TABLE = "bushel, two runs at once with a seek table"
WAYS = ("bushel", "bushel, libjpeg", TABLE, "bushel, tiled", "Pillow", *PACKAGES)

MOST = 1 << 31
"""Pixels that are allowed."""

Decode = Callable[[bytes], Any]


def decoder(way: str, data: bytes) -> Decode:
    """Return a function that decodes an image."""
    if way == TABLE:
        table = jpeg_seek_table(data)
        return lambda data: decode_jpeg(data, table, max_pixels=MOST)
    if way.startswith("bushel"):
        return lambda data: decode_jpeg(data, libjpeg=way.endswith("libjpeg"), max_pixels=MOST)
    if way == "Pillow":
        Image.MAX_IMAGE_PIXELS = None
        return lambda data: np.asarray(Image.open(io.BytesIO(data)))
    if way == "simplejpeg":
        import simplejpeg

        return lambda data: simplejpeg.decode_jpeg(data)
    import cv2

    cv2.setNumThreads(1)
    return lambda data: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def peak() -> int:
    """Return the most memory that this process had, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def decode_one(way: str, path: Path, repeats: int) -> None:
    """Decode a file several times, and print the seconds of CPU time and the bytes of memory."""
    data = path.read_bytes()
    decode = decoder(way, data)
    decoder("bushel" if way.startswith("bushel") else way, b"")(encoded(Image.new("RGB", (64, 64))))
    before, seconds, size = peak(), [], 0
    for _ in range(repeats):
        start = time.process_time()
        pixels = decode(data)
        seconds.append(time.process_time() - start)
        size = pixels.nbytes
        del pixels
    print(json.dumps({"cpu": statistics.median(seconds), "beyond": peak() - before - size}))


def mosaic(datas: list[bytes], width: int, height: int) -> bytes:
    """Return a JPEG of many photos."""
    whole = Image.new("RGB", (width, height))
    endless = itertools.cycle(datas)
    for top in range(0, height, ROW):
        left = 0
        while left < width:
            with Image.open(io.BytesIO(next(endless))) as photo:
                part = photo.convert("RGB").resize((max(photo.width * ROW // photo.height, 1), ROW))
            whole.paste(part, (left, top))
            left += part.width
    return encoded(whole)


def contest(
    plain: Path, tiled: Path, repeats: int, rounds: int, ways: list[str]
) -> tuple[dict[str, Rate], dict[str, int]]:
    """Measure all ways in turns. Return rates, and bytes of memory beyond the pixels."""
    beyond: dict[str, int] = {}

    def contestant(way: str) -> Callable[[int], Timing]:
        path = tiled if way.endswith("tiled") else plain
        command = [sys.executable, __file__, "--one", way, str(path), str(repeats)]

        def measure(_: int) -> Timing:
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            beyond[way] = max(beyond.get(way, 0), found["beyond"])
            return Timing(1, found["cpu"], found["cpu"])

        return measure

    return in_turns({way: contestant(way) for way in ways}, rounds), beyond


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Decoding of whole JPEGs of 3 to 100 megapixels.", "fewer sizes, fewer rounds")
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.small else 7)
    datas = photos(options.photos, 2000)
    skipped = {name: f"{package} is not installed" for name, package in PACKAGES.items() if find_spec(package) is None}
    ways = [way for way in WAYS if way not in skipped]
    results: dict[str, Any] = {}
    folder = SCRATCH / "whole"
    folder.mkdir(parents=True, exist_ok=True)
    for megapixels in (3, 12) if options.small else SIZES:
        plain, tiled = folder / f"{megapixels}.jpg", folder / f"{megapixels}-tiled.jpg"
        plain.write_bytes(mosaic(datas, *SIZES[megapixels]))
        tiled.write_bytes(tile_jpeg(plain.read_bytes(), max_pixels=MOST))
        rates, beyond = contest(plain, tiled, max(60 // megapixels, 3), rounds, ways)
        show(
            f"{megapixels} megapixels, {plain.stat().st_size:,} bytes; rates are of CPU time", "images", rates, AGAINST
        )
        print({way: f"{size / 2**20:.1f} MiB" for way, size in beyond.items()})
        results[f"{megapixels} megapixels"] = {"rates": rates, "bytes beyond the pixels": beyond}
    save(options.out, results, skipped)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        decode_one(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
