"""Benchmark of decoding whole PNGs: codec `png` against Pillow, in one process, by turns.

    python benchmarks/png.py --photos FOLDER [--small] [--out results.json]

The photos become PNGs of RGB, RGB and alpha, grey, and 64 colours of a palette; grey pixels with 16 bits stand for
depth, and areas of 22 even values for masks. Pixels of both are compared first. Whether `isal` is installed is printed.
"""

from __future__ import annotations

import importlib.util
import io
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bushel.codecs import get_codec
from measure import Timing, console, in_turns, options_parser, save, show

KINDS = ("RGB", "RGB and alpha", "grey", "palette", "16 bits", "mask", "mask with a palette")


def main() -> None:
    """Measure and print."""
    parser = options_parser(__doc__, "fewer photos and rounds")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEGs, also in folders")
    options = parser.parse_args()
    photos = sorted(options.photos.rglob("*.jpg"))[: 8 if options.small else 40]
    isal = importlib.util.find_spec("isal") is not None
    console.print(f"{len(photos)} photos; isal is {'' if isal else 'not '}installed")
    results = {}
    for kind in KINDS:
        files = [_saved(_as(kind, Image.open(path).convert("RGB"))) for path in photos]
        contestants = {"Bushel": get_codec("png").decode, "Pillow": _by_pillow}
        for data in files:
            np.testing.assert_array_equal(*(decode(data) for decode in contestants.values()))
        turns = {name: partial(_decode, decode, files) for name, decode in contestants.items()}
        results[kind] = in_turns(turns, 3 if options.small else 9)
        show(f"PNG, {kind}", "images", results[kind], ["Pillow"])
    save(options.out, {**results, "isal": isal}, {})


def _as(kind: str, photo: Image.Image) -> Image.Image:
    grey = photo.convert("L")
    match kind:
        case "RGB":
            return photo
        case "RGB and alpha":
            return photo.convert("RGBA")
        case "palette":
            return photo.quantize(64)
        case "16 bits":
            return Image.fromarray(np.asarray(grey).astype(np.uint16) * 201)
        case "grey":
            return grey
    areas = grey.resize((40, 30)).point(lambda value: value // 12).resize(photo.size, Image.Resampling.NEAREST)
    if kind == "mask with a palette":
        areas.putpalette(list(range(256)) * 3)
    return areas


def _saved(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _by_pillow(data: bytes) -> Any:
    with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
        image.load()
        if image.mode == "P":
            return np.array(image.convert("RGB"))
        return np.array(image).astype(np.uint16) if image.mode.startswith("I") else np.array(image)


def _decode(decode: Callable[[bytes], Any], files: list[bytes], number: int) -> Timing:
    cpu, wall = time.process_time(), time.perf_counter()
    for data in files:
        decode(data)
    return Timing(len(files), time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main()
