"""Benchmark of random crops and whole images of six formats, against Pillow and TorchCodec, in one process, by turns.

    python benchmarks/formats.py --photos FOLDER [--small] [--out results.json]

Photos and masks of 22 values become images of each format, and these become crops of 224 x 224 uint8: by the size in
the header and the decoder that a Loader calls, and by Pillow with its plugins, which decodes whole images and resizes
the box with the same filter. TorchCodec (0.16 and later) decodes whole images, too, and torch resizes the box with a
filter against aliasing. Other boxes in every round. Whole images are decoded, too; what TorchCodec decodes is decoded
by one thread and by two. Packages that are not installed are skipped.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from bushel.codecs import get_codec
from bushel.errors import MissingPackageError
from bushel.transforms import RandomResizedCrop
from bushel.transforms.fused import decode_into, image_size, plan_decode
from measure import Timing, in_turns, options_parser, save, show

SIDE = 224
KINDS = {
    "JPEG": "jpg",
    "PNG": "png",
    "PNG masks": "png",
    "WebP": "webp(80)",
    "AVIF": "avif(80)",
    "HEIC": "heic(80)",
    "JPEG XL": "jxl(80)",
}
PLAN = plan_decode([RandomResizedCrop(SIDE)])

Pixels = npt.NDArray[np.uint8]


def main() -> None:
    """Measure and print."""
    parser = options_parser(__doc__, "fewer photos and rounds")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEGs, also in folders")
    options = parser.parse_args()
    photos = sorted(options.photos.rglob("*.jpg"))[: 8 if options.small else 40]
    results: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    for kind, codec in KINDS.items():
        try:
            files = [_stored(kind, codec, path) for path in photos]
        except MissingPackageError as error:
            skipped[kind] = str(error)
            continue
        by_torchcodec = _torchcodec(codec.split("(")[0], skipped)
        for what, ours, pillow in (("crops", _crop, _crop_by_pillow), ("whole", _whole, _whole_by_pillow)):
            turns = {"Bushel": partial(_timed, ours, files), "Pillow": partial(_timed, pillow, files)}
            if by_torchcodec:
                torchcodec = by_torchcodec[what]
                turns["TorchCodec"] = partial(_timed, torchcodec, files)
                turns["Bushel, 2 threads"] = partial(_timed_in_two_threads, ours, files)
                turns["TorchCodec, 2 threads"] = partial(_timed_in_two_threads, torchcodec, files)
            results[f"{kind}, {what}"] = in_turns(turns, 3 if options.small else 9)
            show(f"{kind}, {what}", "images", results[f"{kind}, {what}"], ["Pillow", "TorchCodec"])
    save(options.out, results, skipped)


def _stored(kind: str, codec: str, path: Path) -> bytes:
    photo = Image.open(path).convert("RGB")
    if kind == "PNG masks":
        areas = photo.convert("L").resize((40, 30)).point(lambda value: value // 12)
        return bytes(get_codec(codec).encode(areas.resize(photo.size, Image.Resampling.NEAREST)))
    return bytes(get_codec(codec).encode(photo))


def _crop(data: bytes, rng: np.random.Generator) -> Pixels:
    out = np.empty((1, SIDE, SIDE, 3), np.uint8)
    errors = decode_into(PLAN, [data], [PLAN.geometry(*image_size(data), rng)], out)
    if errors:
        raise errors[0]
    pixels: Pixels = out[0]
    return pixels


def _crop_by_pillow(data: bytes, rng: np.random.Generator) -> Pixels:
    with Image.open(io.BytesIO(data)) as image:
        box = PLAN.geometry(*image.size, rng).box
        small = image.convert("RGB").crop(box).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        return np.asarray(small)


def _whole(data: bytes, rng: np.random.Generator) -> Pixels:
    pixels: Pixels = get_codec("image").decode(data)
    return pixels


def _whole_by_pillow(data: bytes, rng: np.random.Generator) -> Pixels:
    with Image.open(io.BytesIO(data)) as image:
        return np.array(image)


def _torchcodec(form: str, skipped: dict[str, str]) -> dict[str, Callable[[bytes, np.random.Generator], Any]] | None:
    """Return TorchCodec's functions for crops and whole images of a format, or None if it has none."""
    if find_spec("torchcodec") is None:
        skipped["TorchCodec"] = "torchcodec is not installed"
        return None
    import torch
    from torchcodec import decoders

    torch.set_num_threads(1)
    decode = getattr(decoders, {"jpg": "decode_jpeg"}.get(form, f"decode_{form}"), None)
    if decode is None or form == "heic":
        skipped[f"TorchCodec, {form}"] = "TorchCodec does not decode it from bytes"
        return None

    def crop(data: bytes, rng: np.random.Generator) -> Any:
        image = decode(data)
        left, top, right, bottom = PLAN.geometry(image.shape[2], image.shape[1], rng).box
        box = image[None, :, top:bottom, left:right]
        return torch.nn.functional.interpolate(box, (SIDE, SIDE), mode="bilinear", antialias=True)

    return {"crops": crop, "whole": lambda data, rng: decode(data)}


def _timed_in_two_threads(
    decode: Callable[[bytes, np.random.Generator], Any], files: list[bytes], number: int
) -> Timing:
    cpu, wall = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        halves = [pool.submit(_timed, decode, files[half::2], number) for half in (0, 1)]
        for half in halves:
            half.result()
    return Timing(len(files), time.perf_counter() - wall, time.process_time() - cpu)


def _timed(decode: Callable[[bytes, np.random.Generator], Any], files: list[bytes], number: int) -> Timing:
    rng = np.random.default_rng(number)
    cpu, wall = time.process_time(), time.perf_counter()
    for data in files:
        decode(data, rng)
    return Timing(len(files), time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main()
