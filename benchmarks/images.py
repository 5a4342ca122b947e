"""Benchmark of decoding random resized crops: the kernel on plain and tiled JPEGs, and other packages.

    python benchmarks/images.py --out images.json          the photos, and their enlargements to 1920 pixels
    python benchmarks/images.py --small                    fewer of them, fewer rounds

Each contestant decodes the same boxes of the same JPEGs, which are in memory, to 224 x 224 uint8 RGB. The photos are
--photos (any folder of JPEGs), by default the sample data or, without these, generated ones.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from bushel.jpeg import tile
from bushel.kernels import decode_jpeg, decode_jpegs, jpeg_header, splice_jpeg
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode
from measure import ROOT, Rate, Timing, in_turns, options_parser, save, show

SIDE, BATCH = 224, 128
SAMPLE_PHOTOS = ROOT.parent / "shared" / "data" / "photos"
AGAINST = ("Pillow", "simplejpeg + Pillow")


@dataclass(frozen=True, slots=True)
class Work:
    """JPEGs, and a crop of each.

    Attributes:
        plain: The original JPEGs.
        tiled: The same JPEGs, tiled.
        rows: The geometry of each crop, as the kernel expects it.
    """

    plain: list[bytes]
    tiled: list[bytes]
    rows: npt.NDArray[np.int32]

    @classmethod
    def of(cls, datas: list[bytes]) -> Work:
        """Draw a crop and a flip for each JPEG."""
        plan = plan_decode([RandomResizedCrop(SIDE), RandomHorizontalFlip()])
        rng = np.random.Generator(np.random.Philox(0))
        rows = [plan.geometry(*jpeg_header(data)[:2], rng).row for data in datas]
        return cls(datas, [tile(data) for data in datas], np.array(rows, np.int32))

    @property
    def boxes(self) -> list[tuple[int, int, int, int]]:
        """Return left, top, right and bottom of each crop."""
        return [tuple(row) for row in self.rows[:, :4].tolist()]


def photos(folder: Path | None, most: int) -> list[bytes]:
    """Return JPEGs from a folder, or generated ones."""
    paths = sorted((folder or SAMPLE_PHOTOS).rglob("*.jp*g"))[:most]
    if paths:
        return [path.read_bytes() for path in paths]
    rng = np.random.default_rng(0)
    small = [Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)) for _ in range(min(most, 64))]
    return [encoded(image.resize((500, 375), Image.Resampling.BICUBIC)) for image in small]


def encoded(image: Image.Image) -> bytes:
    """Return a JPEG with 4:2:0 chroma, as cameras write them."""
    stream = io.BytesIO()
    image.convert("RGB").save(stream, "JPEG", quality=90)
    return stream.getvalue()


def enlarged(data: bytes) -> bytes:
    """Return the photo, enlarged to 1920 pixels on its longer side."""
    with Image.open(io.BytesIO(data)) as image:
        scale = 1920 / max(image.size)
        size = round(image.width * scale), round(image.height * scale)
        return encoded(image.resize(size, Image.Resampling.BICUBIC))


def kernel(datas: list[bytes], rows: npt.NDArray[np.int32], gap: float | None = 2.0) -> Callable[[], None]:
    """Decode batches with the kernel."""
    out = np.zeros((BATCH, SIDE, SIDE, 3), np.uint8)

    def run() -> None:
        for first in range(0, len(datas), BATCH):
            part = datas[first : first + BATCH]
            errors = decode_jpegs(part, rows[first : first + BATCH], out[: len(part)], reducing_gap=gap)
            if errors:
                raise SystemExit(f"photo {first + errors[0][0]}: {errors[0][1]}")

    return run


def two_threads(datas: list[bytes], rows: npt.NDArray[np.int32]) -> Callable[[], None]:
    """Decode each half of a batch in its own thread."""
    parts = [kernel(datas[half::2], np.ascontiguousarray(rows[half::2])) for half in (0, 1)]

    def run() -> None:
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(part) for part in parts]:
                done.result()

    return run


def one_by_one(work: Work, decode: Callable[[bytes, tuple[int, int, int, int]], Any]) -> Callable[[], None]:
    """Measure a function of an image and a box."""

    def run() -> None:
        for data, box in zip(work.plain, work.boxes, strict=True):
            decode(data, box)

    return run


def by_pillow(data: bytes, box: tuple[int, int, int, int]) -> Any:
    """Decode, crop and resize with Pillow."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB").crop(box).resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def by_simplejpeg(data: bytes, box: tuple[int, int, int, int]) -> Any:
    """Decode with simplejpeg; crop and resize with Pillow."""
    import simplejpeg

    image = Image.fromarray(simplejpeg.decode_jpeg(data))
    return np.asarray(image.crop(box).resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def by_opencv(data: bytes, box: tuple[int, int, int, int]) -> Any:
    """Decode and resize with OpenCV, without antialiasing, in BGR."""
    import cv2

    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(image[box[1] : box[3], box[0] : box[2]], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)


def timed(images: int, run: Callable[[], None]) -> Callable[[int], Timing]:
    """Return a contestant for `in_turns`."""

    def measure(number: int) -> Timing:
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        return Timing(images, time.perf_counter() - wall, time.process_time() - cpu)

    return measure


def contest(work: Work, rounds: int, skipped: dict[str, str]) -> dict[str, Rate]:
    """Measure all functions in turns."""
    ways = {
        "bushel": kernel(work.plain, work.rows),
        "bushel, no DCT scaling": kernel(work.plain, work.rows, None),
        "bushel, tiled": kernel(work.tiled, work.rows),
        "bushel, 2 threads": two_threads(work.plain, work.rows),
        "bushel, tiled, 2 threads": two_threads(work.tiled, work.rows),
        "bushel, whole image": one_by_one(work, lambda data, box: decode_jpeg(data)),
        "Pillow": one_by_one(work, by_pillow),
    }
    for name, package, way in (("simplejpeg + Pillow", "simplejpeg", by_simplejpeg), ("OpenCV", "cv2", by_opencv)):
        if find_spec(package) is None:
            skipped[name] = f"{package} is not installed"
        else:
            ways[name] = one_by_one(work, way)
    if find_spec("cv2") is not None:
        import cv2

        cv2.setNumThreads(1)
    return in_turns({name: timed(len(work.plain), run) for name, run in ways.items()}, rounds)


def sizes(work: Work) -> dict[str, float]:
    """Return how tiling changes the size of the files, and the share of the bytes that a crop reads."""
    splices = [splice_jpeg(data, box) for data, box in zip(work.tiled, work.boxes, strict=True)]
    touched = sum(len(found[0] if found else data) for found, data in zip(splices, work.tiled, strict=True))
    tiled = sum(map(len, work.tiled))
    return {"tiled / plain": tiled / sum(map(len, work.plain)), "touched / tiled": touched / tiled}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Decoding of random resized crops.", "fewer photos, fewer rounds")
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.small else 7)
    datas = photos(options.photos, 60 if options.small else 2000)
    skipped: dict[str, str] = {}
    results: dict[str, Any] = {}
    for title, jpegs in (("photos", datas), ("1920 pixels", [enlarged(data) for data in datas[: len(datas) // 4]])):
        work = Work.of(jpegs)
        rates = contest(work, rounds, skipped)
        show(f"{title}: {len(jpegs)} JPEGs, random resized crop to {SIDE} and flip", "images", rates, AGAINST)
        results[title] = {"rates": rates, "bytes": sizes(work)}
        print({name: round(part, 3) for name, part in results[title]["bytes"].items()})
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
