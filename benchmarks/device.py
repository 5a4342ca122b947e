"""Benchmark of `decode="device"`: photos of 1920 x 1080, crops of 224 pixels, mirrored half of the time, normalised.

    python benchmarks/device.py --out device.json      4 processors and all of them, alone and with the GPU
    python benchmarks/device.py --small                shorter rounds

The photos, chosen as in images.py, are enlarged and encoded in quality 90, and repeated. Each contestant has its own
process, which may run on 4 or on all processors, and a Loader that gives float32 tensors of 128 photos on the GPU.
They take turns; a round counts the photos of some seconds, after some that are not counted, and ends the iteration, so
that no batches are made ahead in the turns of others. "share" is the part of the
photos that the GPU decodes, fixed or tuned. Pixels are compared with the CPU's as uint8, before Normalize.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW
from images import photos
from measure import SCRATCH, Serving, Timing, console, in_turns, machine, options_parser, save, show

SIDE, BATCH, PHOTOS = 224, 128, 240
REPEATED = 1 << 20
NORMALISE = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to load the photos.

    Attributes:
        processors: Number of processors that it may run on.
        share: Share that the GPU decodes: `"none"`, `"tuned"` or a number.
    """

    processors: int
    share: str

    @property
    def name(self) -> str:
        """Name in tables."""
        alone = self.share == "none"
        share = "tuned" if self.share == "tuned" else f"of {self.share}"
        return f"{self.processors} processors {'alone' if alone else f'and the GPU, share {share}'}"


def enlarged(data: bytes) -> bytes:
    """Return a photo in 1920 x 1080, with 4:2:0 chroma in quality 90."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        whole = image.convert("RGB").resize((1920, 1080), Image.Resampling.BICUBIC)
    whole.save(stream, "JPEG", quality=90)
    return stream.getvalue()


def fill(folder: Path | None) -> Path:
    """Write the photos, if they do not exist."""
    path = SCRATCH / f"device-{PHOTOS}"
    if not path.exists():
        console.print(f"writing {path.name}")
        given = list(itertools.islice(itertools.cycle(photos(folder, PHOTOS)), PHOTOS))
        with ProcessPoolExecutor() as pool, bushel.Writer(path, {"image": "jpg"}, container="bag") as writer:
            for number, data in enumerate(pool.map(enlarged, given)):
                writer.append({"image": data}, key=f"{number:06d}")
    return path


def loader_of(path: Path, share: str, transforms: list[Any], length: int = REPEATED, **options: Any) -> bushel.Loader:
    """Return a loader of the photos, as often as they make the length."""
    if share != "none":
        options |= {"decode": "device", "share": share if share == "tuned" else float(share)}
    dataset = bushel.open(path)
    repeated = dataset[np.arange(length) % len(dataset)]
    kind: dict[str, Any] = {"to": "torch", "device": "cuda", "pin_memory": True}
    return bushel.Loader(repeated, BATCH, shuffle=True, seed=0, transforms=transforms, **kind, **options)


def serve(path: Path, processors: int, share: str, seconds: float) -> None:
    """Measure some seconds for each line of standard input. This is the process of a contestant."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    transforms = [RandomResizedCrop(SIDE), RandomHorizontalFlip(), NORMALISE, ToCHW()]
    loader = loader_of(path, share, transforms)
    _round(loader, 3 * seconds, 0)  # the share is tuned, buffers are made
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(_round(loader, seconds / 2, seconds)), flush=True)


def _round(loader: bushel.Loader, before: float, seconds: float) -> dict[str, Any]:
    """Load for some seconds before those that are counted, and return the answer of a contestant."""
    with closing(iter(loader)) as batches:
        _load(batches, before)
        images = loader.stats().device_images
        cpu, wall = time.process_time(), time.perf_counter()
        items = _load(batches, seconds)
        done = asdict(Timing(items, time.perf_counter() - wall, time.process_time() - cpu))
        images = loader.stats().device_images - images
    return done | {"on_device": images / max(items, 1), "gpu_memory": torch.cuda.max_memory_reserved()}


def _load(batches: Iterator[Any], seconds: float) -> int:
    """Load batches for some seconds, and return the number of photos."""
    photos, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        photos += len(next(batches)["image"])
    torch.cuda.synchronize()
    return photos


def difference(path: Path) -> dict[str, float]:
    """Return the difference from the CPU's pixels in levels of 255: on average, and in the worst photo."""
    transforms = [RandomResizedCrop(SIDE), RandomHorizontalFlip()]
    found = []
    for gap in (2.0, None):
        pairs = (loader_of(path, share, transforms, 4 * BATCH, reducing_gap=gap) for share in ("none", "1"))
        for one, other in zip(*pairs, strict=True):
            found.append((one["image"].float() - other["image"].float()).abs().mean((1, 2, 3)))
    half = len(found) // 2
    parts = {"as the Loader does it": torch.cat(found[:half]), "with reducing_gap=None": torch.cat(found[half:])}
    return {f"{name}, {kind}": float(getattr(of, kind)()) for name, of in parts.items() for kind in ("mean", "max")}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Decoding on a GPU.", "shorter rounds")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files")
    parser.add_argument("--serve", nargs=4, help="only for the processes of contestants")
    options = parser.parse_args()
    if options.serve is not None:
        path, processors, share, seconds = options.serve
        serve(Path(path), int(processors), share, float(seconds))
        return
    if not torch.cuda.is_available():
        parser.error("torch has no GPU here")
    path, available = fill(options.photos), len(os.sched_getaffinity(0))
    seconds, rounds = (1.0, 2) if options.small else (2.0, 3)
    results: dict[str, Any] = {"pixels": difference(path)}
    for name, levels in results["pixels"].items():
        console.print(f"levels between the pixels, {name}: {levels:.3f}")
    for processors in sorted({min(4, available), available}):
        contestants = [Contestant(processors, share) for share in ("none", "tuned", "0.9", "1")]
        running = {
            one.name: Serving(
                [sys.executable, __file__, "--serve", str(path), str(processors), one.share, f"{seconds}"]
            )
            for one in contestants
        }
        try:
            rates = in_turns(running, rounds)
            last = {name: serving.answer for name, serving in running.items()}
        finally:
            for serving in running.values():
                serving.close()
        show("1920 x 1080", "photos", rates, [contestants[0].name])
        for name, answer in last.items():
            console.print(f"{name}: {answer['on_device']:.0%} on the GPU, {answer['gpu_memory'] / 1e6:,.0f} MB of it")
        results |= {name: asdict(rate) | last[name] for name, rate in rates.items()}
    save(options.out, {**results, "gpu": torch.cuda.get_device_name(), "processor": machine()["processor"]}, {})


if __name__ == "__main__":
    main()
