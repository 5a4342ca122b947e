"""Benchmark of decoding random resized crops of progressive JPEGs, in one process, by turns.

    python benchmarks/progressive.py --photos FOLDER [--small] [--out results.json]

The photos are written as progressive JPEGs, and once more as baseline ones. Each contestant decodes the same boxes of
files in memory to 224 x 224 uint8 RGB, other boxes in every round. "libjpeg-turbo, cropping" is Bushel's kernel with
libjpeg-turbo as its decoder, which transforms and converts only the crop; "libjpeg-turbo, whole" decodes the whole
image with it and resizes the box. The pixels of both are compared with Bushel's first.
"""

from __future__ import annotations

import io
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from bushel.jpeg import baseline
from bushel.kernels import decode_jpeg, decode_jpegs, resize
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode
from measure import Timing, console, in_turns, options_parser, save, show

SIDE = 224

Geometry = npt.NDArray[np.int32]
Pixels = npt.NDArray[np.uint8]


def main() -> None:
    """Measure and print."""
    parser = options_parser(__doc__, "fewer photos and rounds")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEGs, also in folders")
    options = parser.parse_args()
    photos = sorted(options.photos.rglob("*.jpg"))[: 10 if options.small else 200]
    files = [_progressive(Image.open(path)) for path in photos]
    again = [bytes(baseline(data)) for data in files]
    boxes = [_boxes(files, seed) for seed in range(3 if options.small else 9)]
    for way in (_cropping_libjpeg, _whole_libjpeg):
        np.testing.assert_array_equal(_bushel(files, boxes[0]), way(files, boxes[0]))
    contestants = {
        "Bushel": partial(_timed, _bushel, files),
        "libjpeg-turbo, cropping": partial(_timed, _cropping_libjpeg, files),
        "libjpeg-turbo, whole": partial(_timed, _whole_libjpeg, files),
        "Pillow": partial(_timed, _pillow, files),
        "Bushel, the same photos as baseline JPEGs": partial(_timed, _bushel, again),
    }
    turns = {name: lambda number, run=run: run(boxes[number]) for name, run in contestants.items()}
    results = in_turns(turns, len(boxes))
    console.print(f"{len(files)} photos of {sum(map(len, files)) / len(files) / 1e3:.0f} KB, progressive")
    show("random resized crops", "images", results, ["libjpeg-turbo, whole", "Pillow"])
    save(options.out, {"crops": results}, {})


def _progressive(photo: Image.Image) -> bytes:
    stream = io.BytesIO()
    photo.convert("RGB").save(stream, "JPEG", quality=90, progressive=True)
    return stream.getvalue()


def _boxes(files: list[bytes], seed: int) -> Geometry:
    plan = plan_decode([RandomResizedCrop(SIDE), RandomHorizontalFlip()])
    random = np.random.default_rng(seed)
    sizes = [Image.open(io.BytesIO(data)).size for data in files]
    return np.array([plan.geometry(*size, random).row for size in sizes], np.int32)


def _timed(decode: Any, files: list[bytes], boxes: Geometry) -> Timing:
    cpu, wall = time.process_time(), time.perf_counter()
    decode(files, boxes)
    return Timing(len(files), time.perf_counter() - wall, time.process_time() - cpu)


def _bushel(files: list[bytes], boxes: Geometry, *, libjpeg: bool = False) -> Pixels:
    out = np.empty((len(files), SIDE, SIDE, 3), np.uint8)
    assert not decode_jpegs(files, boxes, out, reducing_gap=None, libjpeg=libjpeg)
    return out


def _cropping_libjpeg(files: list[bytes], boxes: Geometry) -> Pixels:
    return _bushel(files, boxes, libjpeg=True)


def _whole_libjpeg(files: list[bytes], boxes: Geometry) -> Pixels:
    out = np.empty((len(files), SIDE, SIDE, 3), np.uint8)
    for number, data in enumerate(files):
        resize(decode_jpeg(data, libjpeg=True), boxes[number : number + 1], out[number : number + 1])
    return out


def _pillow(files: list[bytes], boxes: Geometry) -> Pixels:
    out = np.empty((len(files), SIDE, SIDE, 3), np.uint8)
    for number, data in enumerate(files):
        left, top, right, bottom = map(int, boxes[number, :4])
        with Image.open(io.BytesIO(data)) as image:
            found = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, (left, top, right, bottom)))
        out[number] = found[:, ::-1] if boxes[number, 8] else found
    return out


if __name__ == "__main__":
    main()
